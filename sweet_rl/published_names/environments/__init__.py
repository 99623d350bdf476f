"""`sweet_rl.environments`: forwarders to `sweet_rl.worlds` (docs/published_names.md)."""
