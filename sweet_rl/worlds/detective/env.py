"""Detective by Matt Barringer, the real game file: 360 points, 10 of them from the start.

Repaired by default: resetting begins the game anew, observations keep their parts apart, the turn limit
truncates. `compat="published"` gives the published observations.

Published behaviour: docs/published/archer.md#detective.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweet_rl.types import Compat, Task
from sweet_rl.worlds.adventures.env import AdventureEnv, AdventureStep
from sweet_rl.worlds.adventures.scenes import Scene
from sweet_rl.worlds.detective.interpreter import Position
from sweet_rl.worlds.detective.story import find_story
from sweet_rl.worlds.detective.workers import Interpreters

MAX_TURNS = 50
"""The published limit."""


def open_detective(path: str | Path | None = None, *, workers: int | None = None) -> Interpreters:
    """What all episodes of a run share: interpreters of the checked game file. Close it after the run."""
    return Interpreters(find_story(path), workers=workers)


class DetectiveEnv(AdventureEnv):
    """One episode of Detective. The game is the same for every task and seed: nothing in it is random.

    Args:
        interpreters: shared by many episodes, see `open_detective`.
        max_turns: agent turns at most.
        compat: "fixed" or "published", see `AdventureEnv`.
        valid_actions: listed instead of the commands that change something (as in the recorded episodes).
    """

    def __init__(
        self,
        interpreters: Interpreters,
        *,
        max_turns: int = MAX_TURNS,
        compat: Compat = "fixed",
        valid_actions: Sequence[str] | None = None,
    ) -> None:
        super().__init__(_DetectiveGame(interpreters, valid_actions), max_turns=max_turns, compat=compat)


class _DetectiveGame:
    """A game of Detective: its saved position, and the pool that continues from it."""

    max_score = 360

    def __init__(self, interpreters: Interpreters, valid_actions: Sequence[str] | None) -> None:
        self._interpreters = interpreters
        self._stub = None if valid_actions is None else tuple(valid_actions)
        self._state = b""

    async def begin(self, _task: Task, _seed: int) -> AdventureStep:
        return self._take(await self._interpreters.begin(with_actions=self._stub is None))

    async def play(self, command: str) -> AdventureStep:
        return self._take(
            await self._interpreters.play(self._state, command, with_actions=self._stub is None)
        )

    def _take(self, position: Position) -> AdventureStep:
        self._state = position.state
        actions = position.actions if self._stub is None else self._stub
        scene = Scene(position.look, position.inventory, position.narrative, actions)
        return AdventureStep(scene, position.score, over=position.over, won=position.won)
