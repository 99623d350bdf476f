"""Stages that make AutoExplore's training data, one a file: `sweet-rl reflect NAME`."""
