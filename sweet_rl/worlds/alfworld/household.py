"""The real engine in processes of its own, shared by many episodes.

It is a C library under much Python: it blocks, and a planner may search for ever. Whichever worker is free
takes the next question; one that dies or hangs spoils that question alone.

A state of a game is given by the commands that led to it, so that an engine keeps no episode's state.

Published behaviour: docs/published/reflect_rl.md#alfworld.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from sweet_rl.errors import EpisodeError
from sweet_rl.workers import WorkerPool


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


STEP_TIMEOUT_S: Final = 100.0
"""The published limit of one step."""


class Household(WorkerPool):
    """A pool of engines: an `Engine` that may be asked from many threads. Close it after the run.

    Args:
        workers: processes; None for one for each core, four at most.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        timeout_s: float = STEP_TIMEOUT_S,
        plan_timeout_s: float = STEP_TIMEOUT_S,
    ) -> None:
        super().__init__(
            "sweet_rl.worlds.alfworld.worker", workers=workers, timeout_s=timeout_s, called="household engine"
        )
        self._plan_timeout_s = plan_timeout_s
        self._first: dict[str, EngineState] = {}

    def begin(self, source: str) -> EngineState:
        """A game's first state."""
        if source not in self._first:  # it is always the same
            self._first[source] = self.ask_now("begin", source, label=source)
        return self._first[source]

    def play(self, source: str, before: Sequence[str], command: str) -> EngineState:
        """What `command` leads to."""
        state: EngineState = self.ask_now("play", source, tuple(before), command, label=command)
        return state

    def plan(self, source: str, before: Sequence[str]) -> tuple[str, ...]:
        """The planner's commands; empty where it finds none."""
        try:
            plan: tuple[str, ...] = self.ask_now(
                "plan", source, tuple(before), label="planning", timeout_s=self._plan_timeout_s
            )
        except EpisodeError as error:
            if error.failure.kind == "bad_game":
                raise
            failure = replace(error.failure, kind="planner_failed")
            raise EpisodeError(error.stop_reason, failure) from None
        return plan
