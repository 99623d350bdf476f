"""Trajectories to preference pairs."""
