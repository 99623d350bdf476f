"""Any world, open for episodes whose turns come from elsewhere: its tasks, its human, its grader.

What every door shares. It plays by the parts of our own loop (`sweet_rl.rollout.LiveEpisode`), so that an
agent earns the same through any door. What an agent is shown is what a policy may see; hidden information
stays with the human and the grader.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from sweet_rl import interface
from sweet_rl.batching import MicroBatcher
from sweet_rl.chat import as_json, with_system
from sweet_rl.commands.humans import Human, HumanFlags, make_user
from sweet_rl.contracts import Env, User
from sweet_rl.errors import EpisodeError, UsageError, no_such
from sweet_rl.interface.parts import options_for, tasks_for
from sweet_rl.rollout import Episode, LiveEpisode
from sweet_rl.types import (
    AgentTurn,
    Completion,
    Failure,
    FinishReason,
    Generation,
    Json,
    Message,
    Observation,
    StopReason,
    Task,
    Trajectory,
    derive_seed,
)
from sweet_rl.version import __version__
from sweet_rl.worlds import Options, World, world_of

_GRADED_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldChoice:
    """Which world is opened, for whom; all of it can stand in another tool's configuration.

    Args:
        world: a world's name, or `module:ATTRIBUTE`.
        tasks: the name of a list or a file; default: those that the world measures on.
        limit: how many of them at most, from the first on.
        human: who answers: "auto" (without a server the human that needs no model, else the first model that
            it offers), "scripted", a server's name for a model, a name that an installed package gives one,
            or `module:ATTRIBUTE`.
        human_url: base URL of the human's server, like https://host/v1.
        seed: every episode's seed is derived from it, as in our own loop.
        options: of the world, by name.
        grading: settings of `sweet_rl.grade`, by name.
    """

    world: str = "code"
    tasks: str | None = None
    limit: int | None = None
    human: str = "auto"
    human_url: str | None = None
    seed: int = 0
    options: Mapping[str, Json] = field(default_factory=dict)
    grading: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn of the agent led to.

    `text` is what it is told next, at the end perhaps the world's last words; "" for nothing. `reward` is the
    turn's own; of the last one in worlds whose answers are graded, the grade; 0 where there is none.
    """

    text: str
    reward: float
    over: bool


def tasks_of(choice: WorldChoice) -> tuple[World, list[Task]]:
    """The world, and the tasks that will be played.

    Raises:
        UsageError: a name is unknown, or names no task.
        DataError: a task is wrong.
    """
    world = world_of(choice.world)
    return world, tasks_for(world, choice.tasks, choice.limit)


@asynccontextmanager
async def open_world(choice: WorldChoice, *, user: User | None = None) -> AsyncIterator[OpenWorld]:
    """Open a world; what its episodes share is freed with the block.

    Args:
        choice: which one.
        user: who answers, as an object; its owner closes it.

    Raises:
        UsageError: a name is unknown, or no option, or names no task.
        DataError: a task is wrong.
        ServiceError: the human's server does not answer.
    """
    world, tasks = tasks_of(choice)
    options = options_for(world, choice.options)
    async with AsyncExitStack() as stack:
        if user is None:
            user = await make_user(_human(choice, world, options), concurrency=100)
            stack.push_async_callback(user.close)
        opened = world.open(world.beside(options, None, {}), user)
        make_env = await stack.enter_async_context(opened)
        batcher: MicroBatcher[Trajectory, Trajectory] = MicroBatcher(
            _grader(choice.grading), max_batch=_GRADED_AT_ONCE
        )
        stack.push_async_callback(batcher.close)
        settings = world.settings(options) | {"seed": choice.seed, "env_model": user.name}
        provenance = {"sweet_rl": __version__, "env_model": user.name, "settings": settings}
        yield OpenWorld(world, tasks, make_env, batcher, provenance, choice.seed, options)


class SharedWorld:
    """A world that is open while anyone plays in it, for tools that do not say when they begin and end.

    Args:
        choice: which one.
    """

    def __init__(self, choice: WorldChoice) -> None:
        self._choice = choice
        self._players = 0
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._world: OpenWorld | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenWorld]:
        """The world; the first player opens it, the last one closes it."""
        async with self._lock:
            self._players += 1
            if self._world is None:
                self._world = await self._stack.enter_async_context(open_world(self._choice))
            world = self._world
        try:
            yield world
        finally:
            async with self._lock:
                self._players -= 1
                if self._players == 0:
                    self._world = None
                    await self._stack.aclose()


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
    ) -> None:
        self.world, self._options = world, options
        self.tasks = {task.task_id: task for task in tasks}
        self._make_env, self._grader, self._provenance, self._seed = make_env, grader, provenance, seed
        self._begun: Counter[str] = Counter()

    async def begin(self, task_id: str | None = None, sample_index: int | None = None) -> SteppedEpisode:
        """Begin an episode.

        Args:
            task_id: whose; default: the first task.
            sample_index: which repeat of the task it is; default: the next one.

        Raises:
            UsageError: there is no such task.
            EpisodeError: the world cannot offer it.
        """
        name = next(iter(self.tasks)) if task_id is None else task_id
        if name not in self.tasks:
            raise no_such(f"task of {self.world.name}", name, list(self.tasks)[:20])
        if sample_index is None:
            sample_index = self._begun[name]
        self._begun[name] = max(self._begun[name], sample_index + 1)
        planned = Episode(self.tasks[name], sample_index, derive_seed(self._seed, name, sample_index))
        env = self._make_env()
        episode = SteppedEpisode(self, env, LiveEpisode(planned, env, self._provenance))
        await episode.begin()
        return episode

    def succeeded(self, trajectory: Trajectory) -> bool | None:
        """Whether an episode reached its goal; None where grades only say how near it came."""
        if trajectory.reward is None:
            return None
        return self.world.succeeded(trajectory.reward, trajectory.extra, self._options)

    async def graded(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with its reward; one that has it, or failed, as it is."""
        if trajectory.reward is not None or trajectory.failed:
            return trajectory
        return await self._grader.submit(trajectory)


class SteppedEpisode:
    """An episode that is played one turn at a time; `OpenWorld.begin` makes it.

    Attributes:
        trajectory: what our own loop would record; graded once it is over.
    """

    def __init__(self, world: OpenWorld, env: Env, live: LiveEpisode) -> None:
        self._world, self._env, self._live = world, env, live
        self._seen: Observation | None = None
        self.trajectory = live.trajectory

    @property
    def observation(self) -> Observation:
        """What a policy may see, as it was before the last turn where that was the end."""
        if self._seen is None:
            raise UsageError("The episode has not begun.")
        return self._seen

    @property
    def prompt(self) -> list[Message]:
        """What a chat model is given for its next turn: the world's instructions, and the dialogue."""
        return with_system(self._world.world.system_prompt(), self.observation.messages)

    async def begin(self) -> None:
        """Let the world begin.

        Raises:
            EpisodeError: it cannot.
        """
        self._seen = await self._live.begin()
        if self._seen is None:
            await self._end()

    async def step(self, said: str | Generation) -> Turn:
        """The agent's turn: its text, or a generation with tokens and log-probabilities.

        Raises:
            EpisodeError: the human or the world failed; such an episode has no reward.
            UsageError: the episode is over.
        """
        if self.trajectory.stop_reason is not None:
            raise UsageError("The episode is over: begin another one.")
        if isinstance(said, str):
            said = Generation(as_json(self.prompt), Completion(said, finish_reason=FinishReason.STOP))
        seen = await self._live.take(said)
        if seen is None:
            await self._end()
        else:
            self._seen, self.trajectory = seen, self._live.trajectory
        return self._turn(over=seen is None)

    async def close(self) -> None:
        """Free what the episode holds; may be called at any time."""
        await self._env.close()

    def _turn(self, *, over: bool) -> Turn:
        """The last turn; one without a reward ends with that of the episode, or counts as 0."""
        history = self.trajectory.dialogue_history
        said = next(one for one in reversed(history) if isinstance(one, AgentTurn))
        reward = self.trajectory.reward if over and said.reward is None else said.reward
        return Turn("" if history[-1] is said else history[-1].content, reward or 0.0, over)

    async def _end(self) -> None:
        await self._env.close()
        self.trajectory = await self._world.graded(self._live.trajectory)
        if self.trajectory.reward is None:
            unknown = Failure("no_reward", "the episode has no reward, and nothing says why")
            raise EpisodeError(
                self.trajectory.stop_reason or StopReason.WORLD_FAILED, self.trajectory.error or unknown
            )


def _human(choice: WorldChoice, world: World, options: Options) -> Human:
    """Who answers, before it is made; without a server nobody is asked for one."""
    name = "scripted" if choice.human == "auto" and choice.human_url is None else choice.human
    human = Human(HumanFlags(env_model=name, env_base_url=choice.human_url), world, options)
    human.check()
    return human


def _grader(
    settings: Mapping[str, Json],
) -> Callable[[Sequence[Trajectory]], Generator[Sequence[tuple[int, Trajectory]], None, None]]:
    """Episodes that end while others are graded wait for each other, and are graded together."""

    def engine(batch: Sequence[Trajectory]) -> Generator[Sequence[tuple[int, Trajectory]], None, None]:
        yield list(enumerate(interface.grade(list(batch), **settings)))

    return engine
