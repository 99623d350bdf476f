"""Any `TextGame` as a world: one user message a step has the whole text of the state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from sweet_rl.text_game import GameStep, TextGame
from sweet_rl.types import Json, Message, Observation, StepResult, StopReason, Task

T = TypeVar("T")


class TextGameEnv:
    """One episode of a text game.

    The published games set "terminated" and "truncated" as they like; here an
    episode that was won or lost is terminated, and only one that ran out of steps is truncated. The row's
    field `game` is the last step's `info`, with `cost`, the sum of the costs.

    Args:
        threaded: the game waits for files or processes: it works in a thread, other episodes continue.
    """

    def __init__(self, make_game: Callable[[], TextGame], *, threaded: bool = False) -> None:
        self._make_game = make_game
        self._threaded = threaded
        self._game: TextGame | None = None
        self._done = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the task's game."""
        await self.close()
        self._game = game = await self._do(self._make_game)
        self._task_id, self._seed, self._cost = task.task_id, seed, 0.0
        text = await self._do(lambda: game.reset(task, seed=seed))
        self._messages: tuple[Message, ...] = (Message("user", text),)
        self._done = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """Take the agent's text as a label; others see its first line."""
        content = action.strip().partition("\n")[0].encode("utf-8", "replace").decode()
        game = self._game
        if self._done or game is None:
            return StepResult(content, action, None, terminated=True)
        self._done = True  # should the game break
        moved = await self._do(lambda: game.step(action))
        self._done = moved.over
        self._cost += moved.cost
        self._messages = (*self._messages, Message("assistant", content), Message("user", moved.text))
        ended = moved.over and _ended(moved)
        cut = moved.over and not ended
        return StepResult(
            content,
            action,
            self._observe(),
            reward=moved.reward,
            terminated=ended,
            truncated=cut,
            stop_reason=StopReason.ENDED if ended else StopReason.TURN_LIMIT if cut else None,
            info={"game": self._told(moved.info)},
        )

    async def close(self) -> None:
        """End the episode and close the game, if one was started."""
        self._done = True
        game, self._game = self._game, None
        if game is not None:
            await self._do(game.close)

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work) if self._threaded else work()

    def _told(self, info: Mapping[str, Json]) -> dict[str, Json]:
        return dict(info) | {"cost": round(self._cost, 6)}

    def _observe(self) -> Observation:
        return Observation(self._task_id, self._messages, self._seed)


def _ended(moved: GameStep) -> bool:
    """Won counts as an end even where it is published as a truncation.

    Running out of steps does not, even where it is published as an end.
    """
    if moved.info.get("won") is True:
        return True
    return moved.terminated and not moved.info.get("out_of_steps")
