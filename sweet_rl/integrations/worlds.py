"""Any world, open for episodes whose turns come from elsewhere: what all integrations share.

`SteppedEpisode` is played one turn at a time, by the parts of our own loop (`sweet_rl.rollout.LiveEpisode`):
an agent earns the same in any tool, and is shown what a policy may see.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from sweet_rl.chat import as_json, with_system
from sweet_rl.contracts import Env, User
from sweet_rl.errors import EpisodeError, UsageError, no_such
from sweet_rl.flags import flag, group, no_flag
from sweet_rl.flags.shared import NumTasks, Seeded, Tasks, WorldName
from sweet_rl.players import PLACE_FLAGS, HumanFlags
from sweet_rl.players.cast import Cast
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
from sweet_rl.worlds import Options, World, first_for, world_of

if TYPE_CHECKING:
    from sweet_rl.batching import MicroBatcher

Made = TypeVar("Made")


@group("The world and its human; `grading` takes the options of `sweet_rl.grade`")
class WorldChoice(WorldName, Tasks, NumTasks, Seeded):
    human: str = flag(
        "auto",
        "who plays the human: auto (without --human_url the world's human that needs no model), a model's "
        "name on the server, or module:ATTRIBUTE.",
    )
    human_url: str | None = flag(None, "base URL of the human's server.")
    options: dict[str, Json] = no_flag(factory=dict)
    grading: dict[str, Json] = no_flag(factory=dict)


def choice_fields() -> dict[str, tuple[Any, Any]]:
    """Type and default of every field, by its name."""
    hints = typing.get_type_hints(WorldChoice)
    usual = {"world": first_for("dialogue"), "options": {}, "grading": {}}
    return {one.name: (hints[one.name], usual.get(one.name, one.default)) for one in fields(WorldChoice)}


def choice_of(settings: Mapping[str, Any]) -> WorldChoice:
    """A choice from another tool's configuration; what that leaves out is as usual."""
    usual = {name: default for name, (_, default) in choice_fields().items()}
    for name in settings:
        if name not in usual:
            raise no_such("setting of a world", name, usual)
    choice = WorldChoice(**usual | dict(settings))
    for name in ("options", "grading"):
        if not isinstance(value := getattr(choice, name), Mapping):
            raise UsageError(f"{name} of a world must be names with values, like {{'a': 1}}, got {value!r}.")
    return choice


def by_fields(function: Callable[[WorldChoice], Made]) -> Callable[..., Made]:
    """A function of a choice as one of the choice's fields, for tools that read signatures."""

    @functools.wraps(function)
    def call(**named: Any) -> Made:
        return function(choice_of(named))

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in choice_fields().items()
        ]
    )
    return call


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn led to: what the agent is told next ("" for nothing), its own reward, whether it is over."""

    text: str
    reward: float
    over: bool


@dataclass(eq=False)
class SteppedEpisode:
    """An episode of `OpenWorld.begin`; `trajectory` is what our own loop would record, `rewards` the turns' so far."""

    _live: LiveEpisode
    _env: Env
    _opened: OpenWorld
    _seen: Observation | None = None
    _awaits_turn: bool = False
    rewards: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trajectory = self._live.trajectory

    @property
    def observation(self) -> Observation:
        """What a policy may see, as it was before the last turn where that was the end."""
        if self._seen is None:
            raise UsageError("The episode has not begun.")
        return self._seen

    @property
    def told(self) -> str:
        """What the agent was told last."""
        return self.observation.messages[-1].content

    @property
    def prompt(self) -> list[Message]:
        """What a chat model is given for its next turn: the world's instructions, and the dialogue."""
        return with_system(self._opened.world.system_prompt, self.observation.messages)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The same as servers of chat models take it."""
        return [{"role": one.role, "content": one.content} for one in self.prompt]

    @property
    def succeeded(self) -> bool | None:
        """Whether it reached its goal; None where grades only say how near it came, and before the end."""
        one = self.trajectory
        if one.reward is None:
            return None
        return self._opened.world.succeeded(one.reward, one.extra, self._opened.options)

    async def begin(self) -> None:
        self._seen = await self._live.begin()
        if self._seen is None:
            await self._end()
        self._awaits_turn = True

    async def step(self, said: str | Generation) -> Turn:
        """The agent's turn: its text, or a generation with tokens and log-probabilities."""
        if self.trajectory.stop_reason is not None:
            raise UsageError("The episode is over: begin another one.")
        if not self._awaits_turn:
            problem = "The episode takes no turn: one is under way or was broken off, or it was closed."
            raise UsageError(f"{problem} Wait for that turn, or begin another episode.")
        if not isinstance(said, str | Generation):
            raise UsageError(f"A turn of the agent is a text, got {said!r}.")
        self._awaits_turn = False
        if isinstance(said, str):
            said = Generation(as_json(self.prompt), Completion(said, finish_reason=FinishReason.STOP))
        seen = await self._live.take(said)
        if seen is None:
            await self._end()
        else:
            self._seen, self.trajectory = seen, self._live.trajectory
        history, over = self.trajectory.dialogue_history, seen is None
        own = next(one for one in reversed(history) if isinstance(one, AgentTurn))
        reward = self.trajectory.reward if over and own.reward is None else own.reward
        self.rewards.append(reward or 0.0)
        self._awaits_turn = not over
        return Turn("" if history[-1] is own else history[-1].content, reward or 0.0, over)

    async def close(self) -> None:
        """Free what the episode holds; may be called at any time."""
        self._awaits_turn = False
        await self._env.close()

    async def _end(self) -> None:
        await self._env.close()
        self.trajectory = self._live.trajectory
        if self.trajectory.reward is None and not self.trajectory.failed:
            self.trajectory = await self._opened.grader.submit(self.trajectory)
        if self.trajectory.reward is None:
            unknown = Failure("no_reward", "the episode has no reward, and nothing says why")
            why = self.trajectory.stop_reason or StopReason.WORLD_FAILED
            raise EpisodeError(why, self.trajectory.error or unknown)


def tasks_of(choice: WorldChoice) -> tuple[World, list[Task]]:
    """The world, and the tasks that will be played."""
    from sweet_rl.interface.parts import tasks_for  # loads what help does without

    world = world_of(choice.world)
    return world, tasks_for(world, choice.tasks, choice.num_tasks)


@asynccontextmanager
async def open_world(
    choice: WorldChoice, *, user: User | None = None, begun: Counter[str] | None = None
) -> AsyncIterator[OpenWorld]:
    """Open a world for a block; `user`, who answers, is closed by its owner; `begun` counts each task's repeats so far."""
    from sweet_rl.interface.grades import grading_as_they_end, grading_of
    from sweet_rl.interface.parts import options_for

    world, tasks = tasks_of(choice)
    options = options_for(world, choice.options)
    human = HumanFlags(env_model=choice.human, env_base_url=choice.human_url).or_scripted(world)
    called = {PLACE_FLAGS: "human_url", "--env_model": "human"}
    cast = Cast(world=world, options=options, human=human, called=called)
    if user is None:
        cast.check_human()
    async with AsyncExitStack() as stack:
        playing = await stack.enter_async_context(cast.opened(None, concurrency=100, user=user))
        batcher = grading_as_they_end(grading_of(options, choice.grading))
        stack.push_async_callback(batcher.close)
        settings = world.settings(options) | {"seed": choice.seed, "env_model": playing.who_answers}
        provenance = playing.provenance(settings)
        begun = Counter() if begun is None else begun
        by_id = {task.task_id: task for task in tasks}
        yield OpenWorld(world, by_id, playing.make_env, batcher, provenance, choice.seed, options, begun)


@dataclass(eq=False)
class OpenWorld:
    """A world that is open; `open_world` makes it."""

    world: World
    tasks: Mapping[str, Task]
    make_env: Callable[[], Env]
    grader: MicroBatcher[Trajectory, Trajectory]
    provenance: Mapping[str, Json]
    seed: int
    options: Options
    begun: Counter[str]

    async def begin(self, task_id: str | None = None, sample_index: int | None = None) -> SteppedEpisode:
        """Begin an episode, which whoever holds it closes; by default the next repeat of the first task."""
        name = next(iter(self.tasks)) if task_id is None else task_id
        if not isinstance(name, str) or name not in self.tasks:
            raise no_such(f"task of {self.world.name}", name, list(self.tasks)[:20])
        index: Any = self.begun[name] if sample_index is None else sample_index
        if not isinstance(index, Integral) or index < 0:
            raise UsageError(f"sample_index must be a whole number from 0, got {index!r}.")
        index = int(index)
        self.begun[name] = max(self.begun[name], index + 1)
        planned, env = Episode(self.tasks[name], index, derive_seed(self.seed, name, index)), self.make_env()
        episode = SteppedEpisode(LiveEpisode(planned, env, self.provenance), env, self)
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


class SharedWorld:
    """A world that is open while anyone plays in it; a task's repeats are counted on when it opens again."""

    def __init__(self, choice: WorldChoice) -> None:
        import asyncio  # which help does without

        self._choice, self._begun, self._players = choice, Counter[str](), 0
        self._lock, self._stack = asyncio.Lock(), AsyncExitStack()
        self._world: OpenWorld | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenWorld]:
        """The world; the first player opens it, the last one closes it."""
        async with self._lock:
            if self._world is None:
                opening = open_world(self._choice, begun=self._begun)
                self._world = await self._stack.enter_async_context(opening)
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


NAME = "sweet_rl"
"""What skyrl-gym's environment and verl's agent loop are called."""


def skyrl_rows(choice: WorldChoice) -> list[dict[str, Json]]:
    """Rows for SkyRL: `prompt`, `env_class` and `task_id`; what is asked the world says when it is played."""
    _, tasks = tasks_of(choice)
    return [{"prompt": _asked(task), "env_class": NAME, "task_id": task.task_id} for task in tasks]


def verl_rows(choice: WorldChoice) -> list[dict[str, Json]]:
    """Rows for verl, whose loop takes the name of the task; the solution is there for critics alone."""
    return [
        {"data_source": NAME, "agent_name": NAME, "prompt": _asked(task)}
        | {"reward_model": {"style": "rule", "ground_truth": task.ground_truth}}
        | {"extra_info": {"task_id": task.task_id, "index": place}}
        for place, task in enumerate(tasks_of(choice)[1])
    ]


def _asked(task: Task) -> list[dict[str, str]]:
    return [{"role": "user", "content": task.problem_description}]
