"""Stages that make taxi's training data, one a file: `sweet-rl reflect NAME`."""
