"""`sweet_rl.models`: a forwarder to `sweet_rl.policies` (docs/published_names.md)."""
