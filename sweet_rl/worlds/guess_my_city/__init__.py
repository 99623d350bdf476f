"""Guess My City: find out the city by questions that are answered freely."""
