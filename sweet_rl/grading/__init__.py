"""Trajectories to scores. Knows nothing of rollouts, so that old runs can be graded again."""
