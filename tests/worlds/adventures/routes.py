"""The way through each text game, for those who are allowed to know it: the ceiling, and tests."""

from __future__ import annotations

from sweet_rl.types import Task
from sweet_rl.worlds.lantern.solver import solve

DETECTIVE = (
    *("take paper", "west", "take pistol", "east", "north", "west", "east", "east", "take wood"),
    *("west", "west", "take note", "east", "north", "north", "west", "north", "north", "west"),
    *("east", "north", "east", "east", "east", "south", "take hamburger", "north", "north", "east"),
    *("north", "north", "north", "north", "east", "west", "west", "east", "north", "north"),
    *("west", "north", "west", "north", "north", "up"),
)
"""45 commands for 350 points and the end of the game: jericho's 51 without those that do nothing."""


def route_of(task: Task) -> tuple[str, ...]:
    """The commands that win a task of Lantern (it has a `variant`) or of Detective."""
    variant = task.extra.get("variant")
    return DETECTIVE if variant is None else solve(int(variant))
