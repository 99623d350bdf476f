"""Interpreters in processes of their own, shared by many episodes.

The interpreter is a C library that blocks and could crash, so it never runs in the process that trains. An
episode hands its saved position to whichever worker is free and gets the next one back.
"""

from __future__ import annotations

from pathlib import Path

from sweet_rl.workers import WorkerPool
from sweet_rl.worlds.detective.interpreter import Position

TIMEOUT_S = 60.0
"""For one command, which takes milliseconds: a worker that needs longer hangs."""


class Interpreters(WorkerPool):
    """A pool of worker processes for one game file.

    Args:
        story: the game file; checked by the caller.
        workers: processes; None for one for each core, four at most.
        timeout_s: seconds until a command counts as hanging.
    """

    def __init__(self, story: Path, *, workers: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(
            "sweet_rl.worlds.detective.worker",
            [str(story.resolve())],
            workers=workers,
            timeout_s=timeout_s,
            called="interpreter",
        )
        self.story = story
        self._first: dict[bool, Position] = {}

    async def begin(self, *, with_actions: bool = True) -> Position:
        """The game's first moment."""
        if with_actions not in self._first:  # it is always the same
            self._first[with_actions] = await self.ask("begin", with_actions)
        return self._first[with_actions]

    async def play(self, state: bytes, command: str, *, with_actions: bool = True) -> Position:
        """What `command` leads to from a saved moment."""
        position: Position = await self.ask("play", state, command, with_actions, label=command)
        return position

    async def walkthrough(self) -> tuple[str, ...]:
        """The commands that reach the highest score, as jericho ships them."""
        commands: tuple[str, ...] = await self.ask("walkthrough")
        return commands
