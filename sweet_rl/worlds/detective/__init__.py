"""Detective by Matt Barringer, the text adventure of ArCHer: 360 points, 10 of them from the start.

By default resetting begins the game anew, observations keep their parts apart, the turn limit truncates.
Published behaviour: docs/published/archer.md#detective.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.contracts import Env, User
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.types import Task
from sweet_rl.worlds.adventures import Adventure, AdventureEnv, Scene
from sweet_rl.worlds.base import Rows, rules_of
from sweet_rl.worlds.options import AgentRequest, Archer, Options, TaskLists

if TYPE_CHECKING:
    from sweet_rl.worlds.detective.interpreter import Interpreters, Position

VARIABLE = "SWEET_RL_DETECTIVE"  # the environment variable that names the game file

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
            f"{str(story)!r} is not the Detective game file: its MD5 is {found}, expected {MD5}. {_HOW_TO_GET}"
        )
    return story


def open_detective(path: str | Path | None = None, *, workers: int | None = None) -> Interpreters:
    """What all episodes of a run share: interpreters of the checked game file. Close it after the run."""
    from sweet_rl.worlds.detective.interpreter import Interpreters  # with asyncio, which --help does not load

    return Interpreters(find_story(path), workers=workers)


@group("Options of Detective")
class DetectiveOptions(Options):
    place: str | None = flag(
        None, "game file; default: the one that SWEET_RL_DETECTIVE names.", aliases=("game_place",)
    )


class DetectiveEnv(AdventureEnv):
    """One episode of Detective. The game is the same for every task and seed: nothing in it is random."""

    max_score = 360

    def __init__(self, interpreters: Interpreters, **rules: Any) -> None:
        super().__init__(**rules)
        self._interpreters = interpreters

    async def _begin(self, task: Task) -> Scene:
        return self._take(await self._interpreters.begin())

    async def _play(self, command: str) -> Scene:
        return self._take(await self._interpreters.play(self._state, command))

    def _take(self, position: Position) -> Scene:
        self._state = position.state
        return position


class Detective(Adventure):
    """Detective: the text adventure of ArCHer, played from its game file."""

    name = "detective"
    options = DetectiveOptions
    tasks = TaskLists("detective", "detective")
    archer = Archer(config="archer_detective")
    player_rules = (
        "Type what you want to do; some of what you can do stands in the list. You have {turns} commands."
    )

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        if where:
            raise UsageError(
                f"'detective:{where}' is no split of detective: it is one task. Use 'detective'."
            )
        asked = "You are a detective in a text adventure. Who murdered the Mayor?"
        return [{"task_id": "detective/0", "problem_description": asked, "ground_truth": "360 points"}]

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        with open_detective(getattr(options, "place", None)) as interpreters:
            yield lambda: DetectiveEnv(interpreters, **rules_of(self, options))

    async def routes(self, wanted: AgentRequest) -> Mapping[str, Sequence[str]]:
        with open_detective(getattr(wanted.options, "place", None)) as interpreters:
            route = await interpreters.walkthrough()
        return {task.task_id: route for task in wanted.tasks}


WORLD = Detective()
