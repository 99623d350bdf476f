"""Detective by Matt Barringer, the real game file: 360 points, 10 of them from the start.

Repaired by default: resetting begins the game anew, observations keep their parts apart, the turn limit
truncates. `compat="published"` gives the published observations.

The interpreter is a C library that blocks and could crash, so it runs in processes of its own, which many episodes share:
an episode hands its saved position to whichever is free and gets the next one back.

Published behaviour: docs/published/archer.md#detective.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat, Task
from sweet_rl.workers import WorkerPool
from sweet_rl.worlds.adventures.env import AdventureEnv, AdventureStep
from sweet_rl.worlds.adventures.scenes import Scene
from sweet_rl.worlds.detective.interpreter import Position

TIMEOUT_S = 60.0
"""For one command, which takes milliseconds: a worker that needs longer hangs."""


class Interpreters(WorkerPool):
    """A pool of worker processes for one game file.

    Args:
        workers: processes; None for one for each core, four at most.
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


VARIABLE = "SWEET_RL_DETECTIVE"
"""The environment variable that names the file."""

MD5 = "822655c9be83e292e06d3d3b1d6a9734"
"""Of detective.z5, release 1, serial number 000715: what jericho knows the game by."""

_HOW_TO_GET = (
    "Get detective.z5 from jericho's collection of games (github.com/BYU-PCCL/z-machine-games, folder "
    f"jericho-game-suite) and name it, or set {VARIABLE} to its path."
)


def find_story(path: str | Path | None = None) -> Path:
    """The game file, checked."""
    named = path or os.environ.get(VARIABLE)
    if not named:
        raise UsageError(f"No Detective game file is named. {_HOW_TO_GET}")
    story = Path(named).expanduser()
    try:
        found = hashlib.md5(story.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(
            f"Cannot read the Detective game file {str(story)!r} ({reason}). {_HOW_TO_GET}"
        ) from None
    if found != MD5:
        raise UsageError(
            f"{str(story)!r} is not the Detective game file: its MD5 is {found}, expected {MD5}. "
            f"{_HOW_TO_GET}"
        )
    return story


MAX_TURNS = 50
"""The published limit."""


def open_detective(path: str | Path | None = None, *, workers: int | None = None) -> Interpreters:
    """What all episodes of a run share: interpreters of the checked game file. Close it after the run."""
    return Interpreters(find_story(path), workers=workers)


class DetectiveEnv(AdventureEnv):
    """One episode of Detective. The game is the same for every task and seed: nothing in it is random.

    Args:
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
