"""Generators of tasks: the mini benchmarks, the games' lists."""
