"""`sweet_rl.models`: a forwarder to `sweet_rl.policies` (docs/export_and_credit.md)."""
