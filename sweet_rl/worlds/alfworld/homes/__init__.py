"""Household games: a generator of our own in ALFWorld's format, and the games of a user's ALFWorld folder.

Knows neither the engine nor worlds: what it makes are names, texts and paths.
"""

from sweet_rl.worlds.alfworld.homes.games import (
    BLACKLIST,
    TOMATO,
    VARIABLE,
    data_folder,
    data_games,
    embedded_games,
)
from sweet_rl.worlds.alfworld.homes.homes import FAMILIES, Game, game
from sweet_rl.worlds.alfworld.homes.pddl import problem, trajectory_data, write_game

__all__ = [
    "BLACKLIST",
    "FAMILIES",
    "TOMATO",
    "VARIABLE",
    "Game",
    "data_folder",
    "data_games",
    "embedded_games",
    "game",
    "problem",
    "trajectory_data",
    "write_game",
]
