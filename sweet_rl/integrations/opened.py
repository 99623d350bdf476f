"""Any world, open for episodes whose turns come from elsewhere: its tasks, its human, its grader.

What every integration shares. It plays by the parts of our own loop (`sweet_rl.rollout.LiveEpisode`), so that an
agent earns the same in any tool. What an agent is shown is what a policy may see; hidden information
stays with the human and the grader.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from numbers import Integral
from typing import Any

from sweet_rl.batching import MicroBatcher
from sweet_rl.commands.humans import PLACE_FLAGS, Human, HumanFlags, make_user
from sweet_rl.contracts import Env, User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.integrations.choice import WorldChoice
from sweet_rl.integrations.stepped import SteppedEpisode
from sweet_rl.interface.grades import grading_as_they_end, grading_of
from sweet_rl.interface.parts import options_for, tasks_for
from sweet_rl.rollout import Episode, LiveEpisode
from sweet_rl.types import Json, Task, Trajectory, derive_seed
from sweet_rl.version import __version__
from sweet_rl.worlds import Options, World, world_of


def tasks_of(choice: WorldChoice) -> tuple[World, list[Task]]:
    """The world, and the tasks that will be played."""
    world = world_of(choice.world)
    return world, tasks_for(world, choice.tasks, choice.num_tasks)


@asynccontextmanager
async def open_world(
    choice: WorldChoice, *, user: User | None = None, begun: Counter[str] | None = None
) -> AsyncIterator[OpenWorld]:
    """Open a world; what its episodes share is freed with the block.

    Args:
        user: who answers, as an object; its owner closes it.
        begun: how many repeats of each task there have been, where it was open before; counted up.
    """
    world, tasks = tasks_of(choice)
    options = options_for(world, choice.options)
    async with AsyncExitStack() as stack:
        if user is None:
            user = await make_user(_human(choice, world, options), concurrency=100)
            stack.push_async_callback(user.close)
        opened = world.open(world.beside(options, None, {}), user)
        make_env = await stack.enter_async_context(opened)
        batcher = grading_as_they_end(grading_of(options, choice.grading))
        stack.push_async_callback(batcher.close)
        settings = world.settings(options) | {"seed": choice.seed, "env_model": user.name}
        provenance = {"sweet_rl": __version__, "env_model": user.name, "settings": settings}
        begun = Counter() if begun is None else begun
        yield OpenWorld(world, tasks, make_env, batcher, provenance, choice.seed, options, begun)


class OpenWorld:
    """A world that is open; `open_world` makes it."""

    def __init__(
        self,
        world: World,
        tasks: Sequence[Task],
        make_env: Callable[[], Env],
        grader: MicroBatcher[Trajectory, Trajectory],
        provenance: Mapping[str, Json],
        seed: int,
        options: Options,
        begun: Counter[str],
    ) -> None:
        self.world, self._options = world, options
        self.tasks = {task.task_id: task for task in tasks}
        self._make_env, self._grader, self._provenance, self._seed = make_env, grader, provenance, seed
        self._begun = begun

    async def begin(self, task_id: str | None = None, sample_index: int | None = None) -> SteppedEpisode:
        """Begin an episode, which whoever holds it closes.

        Args:
            task_id: whose; default: the first task.
            sample_index: which repeat of the task it is; default: the next one.
        """
        name = next(iter(self.tasks)) if task_id is None else task_id
        if not isinstance(name, str) or name not in self.tasks:
            raise no_such(f"task of {self.world.name}", name, list(self.tasks)[:20])
        index: Any = self._begun[name] if sample_index is None else sample_index
        if not isinstance(index, Integral) or index < 0:
            raise UsageError(f"sample_index must be a whole number from 0, got {index!r}.")
        index = int(index)
        self._begun[name] = max(self._begun[name], index + 1)
        planned = Episode(self.tasks[name], index, derive_seed(self._seed, name, index))
        env = self._make_env()
        live = LiveEpisode(planned, env, self._provenance)
        episode = SteppedEpisode(live, env, self.world, self._options, self._grader.submit)
        await episode.begin()
        return episode

    @asynccontextmanager
    async def episode(
        self, task_id: str | None = None, sample_index: int | None = None
    ) -> AsyncIterator[SteppedEpisode]:
        """An episode for a block; see `begin`."""
        episode = await self.begin(task_id, sample_index)
        try:
            yield episode
        finally:
            await episode.close()


def _human(choice: WorldChoice, world: World, options: Options) -> Human:
    """Who answers, before it is made; without a server nobody is asked for one."""
    name = "scripted" if choice.human == "auto" and choice.human_url is None else choice.human
    flags = HumanFlags(env_model=name, env_base_url=choice.human_url)
    human = Human(flags, world, options, {PLACE_FLAGS: "human_url", "--env_model": "human"})
    human.check()
    return human


class SharedWorld:
    """A world that is open while anyone plays in it; a task's repeats are counted on when it opens again."""

    def __init__(self, choice: WorldChoice) -> None:
        self._choice = choice
        self._begun: Counter[str] = Counter()
        self._players = 0
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._world: OpenWorld | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenWorld]:
        """The world; the first player opens it, the last one closes it."""
        async with self._lock:
            if self._world is None:
                self._world = await self._stack.enter_async_context(
                    open_world(self._choice, begun=self._begun)
                )
            world = self._world
            self._players += 1
        try:
            yield world
        finally:
            async with self._lock:
                self._players -= 1
                if self._players == 0:
                    self._world = None
                    await self._stack.aclose()


_shared: dict[str, SharedWorld] = {}


def shared_world(choice: WorldChoice) -> SharedWorld:
    """The world of this choice that all callers share, for tools that make an object for every episode."""
    return _shared.setdefault(repr(choice), SharedWorld(choice))
