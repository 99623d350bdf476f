"""Several processes that compute one update: who does what, sums over all, models sharded by FSDP2."""
