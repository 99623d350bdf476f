"""Several processes that compute one update: roles, reductions, models sharded by FSDP2."""
