"""Lantern: a small text game of our own, observed and rewarded like ArCHer's, with no files or packages.

For tests and quick trials: tens of thousands of steps a second, twelve rooms, 100 points, several variants.
The variant stands in the task's row (`"variant"`); the episode's seed changes nothing.
"""

from __future__ import annotations

from sweet_rl.errors import EpisodeError
from sweet_rl.types import Compat, Failure, StopReason, Task
from sweet_rl.worlds.adventures.env import AdventureEnv, AdventureStep
from sweet_rl.worlds.lantern.game import LanternGame
from sweet_rl.worlds.lantern.map import MAX_SCORE

MAX_TURNS = 50
"""As in ArCHer's; `lantern_solver.solve` needs at most 45 in the first 100 variants."""


class LanternEnv(AdventureEnv):
    """One episode of Lantern.

    Args:
        max_turns: agent turns at most.
        compat: "fixed" or "published", how observations are joined (see `AdventureEnv`).
    """

    def __init__(self, *, max_turns: int = MAX_TURNS, compat: Compat = "fixed") -> None:
        super().__init__(_Lantern(), max_turns=max_turns, compat=compat)


class _Lantern:
    max_score = MAX_SCORE

    async def begin(self, task: Task, _seed: int) -> AdventureStep:
        variant = task.extra.get("variant", 0)
        if not isinstance(variant, int) or isinstance(variant, bool):
            detail = f"task {task.task_id!r}: 'variant' must be a whole number, got {variant!r}"
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad_task", detail))
        self._game = LanternGame(variant)
        return self._now()

    async def play(self, command: str) -> AdventureStep:
        self._game.do(command)
        return self._now()

    def _now(self) -> AdventureStep:
        game = self._game
        return AdventureStep(game.scene(), game.score, over=game.over, won=game.won)
