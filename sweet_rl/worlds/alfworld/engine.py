"""The contract of an engine for household games.

A state of a game is given by the commands that led to it, so that an engine keeps no episode's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class EngineState(NamedTuple):
    """What the engine says of a state of a game.

    `feedback` is its answer to the last command (the introduction, at first). `commands` are those it accepts
    now. `score` is 1 when the task is done, `done` that the game is over.
    """

    feedback: str
    commands: tuple[str, ...]
    score: float = 0
    done: bool = False


class Engine(Protocol):
    """Plays games that it knows by where they come from: an embedded game's name, or a problem's folder.

    Everything raises EpisodeError where the game cannot be read, or the engine breaks or hangs.
    """

    def begin(self, source: str) -> EngineState:
        """The state a game starts in: its text and the commands on offer."""
        ...

    def play(self, source: str, before: Sequence[str], command: str) -> EngineState:
        """What `command` leads to from the state that the commands `before` led to."""
        ...

    def plan(self, source: str, before: Sequence[str]) -> tuple[str, ...]:
        """Commands that solve the game from there; empty where the planner finds none."""
        ...
