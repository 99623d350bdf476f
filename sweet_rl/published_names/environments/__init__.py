"""`sweet_rl.environments`: forwarders to `sweet_rl.worlds` (docs/export_and_credit.md)."""
