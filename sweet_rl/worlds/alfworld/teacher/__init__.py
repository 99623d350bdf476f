"""Texts to learn household games from."""
