"""Stages that make ALFWorld's training data, one a file: `sweet-rl reflect NAME`."""
