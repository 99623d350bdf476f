"""Guess My City without a model: who answers, and who asks."""
