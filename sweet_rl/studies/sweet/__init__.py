"""SWEET-RL, its ablations and its rivals in the mini benchmark: `sweet-rl demo`."""
