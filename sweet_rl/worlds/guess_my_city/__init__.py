"""Guess My City: find out the city by questions that are answered freely."""

from sweet_rl.worlds.guess_my_city.world import WORLD

__all__ = ["WORLD"]
