"""The contract of a world: its tasks, its rules as options, its players, its text for a model.

A `World` describes and makes; it keeps no state of an episode (`sweet_rl.contracts.Env` does). It is cheap to
import: what it needs to be played is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from inspect import isawaitable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sweet_rl.chat.formats import ChatFormat, WholeTranscript
from sweet_rl.contracts import Env, Policy, User, check_async
from sweet_rl.errors import EpisodeError, UsageError, no_such, own_code
from sweet_rl.flags import flags_of as settings_flags
from sweet_rl.types import Json, Message, Observation, StepResult, StopReason, Task, UserContext
from sweet_rl.worlds.options import (
    COMMON,
    AgentRequest,
    Answers,
    Archer,
    Learning,
    Level,
    LevelRequest,
    Options,
    Scores,
    TaskLists,
)

if TYPE_CHECKING:
    from sweet_rl.cli.stage import StageEntry

Rows = list[dict[str, Json]]  # tasks as they stand in a file


class World:
    """A world by its name. Subclasses set `name` and write `rows` and `make_env`; everything else has a default.

    Attributes:
        name: in flags and rows; also what its tasks' names begin with, in worlds that reward turns.
        max_turns: agent turns at most, as published.
        options: the dataclass of its options.
        tasks: its lists of tasks; default `NAME:train` and `NAME:test`.
        agents: scripted agents, the default first: which `ScriptedFlags` each of them takes, with the value that it
            plays by where none is given.
        user: who answers the agent: the world itself, an oracle, or a simulated human.
        scores: what the reward of an episode says, and who gives it.
        learning: how agents learn in it by choosing labels.
        archer: how a policy learns in it online.
        system_prompt: the instructions of a model that plays, before everything else.
        player_rules: instructions for a person who plays; `{turns}` is the limit.
        stages: stages of its own, by what is typed behind `sweet-rl`.
    """

    name: ClassVar[str]
    max_turns: ClassVar[int] = 10
    options: ClassVar[type[Options]] = Options
    agents: ClassVar[Mapping[str, Mapping[str, Json]]] = {}
    user: ClassVar[Answers] = Answers()
    scores: ClassVar[Scores] = Scores()
    learning: ClassVar[Learning] = Learning()
    archer: ClassVar[Archer] = Archer()
    system_prompt: ClassVar[str] = ""
    player_rules: ClassVar[str] = "You have {turns} turns."
    stages: ClassVar[Mapping[str, StageEntry]] = {}

    def __init__(self) -> None:
        if not hasattr(self, "name"):
            raise UsageError(f'{type(self).__name__} has no name: write `name = "..."` into the class.')
        check_async(type(self), World, "open", "make_agent")
        for own in sorted(set(dir(self)) - set(dir(World))):
            if not own.startswith("_") and (meant := get_close_matches(own, dir(World), 1, 0.9)):
                raise UsageError(f"{type(self).__name__} has `{own}`, and no World has: write `{meant[0]}`.")

    @property
    def tasks(self) -> TaskLists:
        return TaskLists(f"{self.name}:train", f"{self.name}:test")

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Iterable[dict[str, Json]]:
        """Tasks of a list, as rows of a task file; a generator will do.

        Args:
            source: the list's name, one of `tasks.sources`.
            where: what stands behind the colon: a split, mostly; empty where nothing does.
            limit: how many at most; for lists that have no end.
            seed: draws tasks that are generated.

        Raises:
            UsageError: there is no such split, or its data are missing.
        """
        raise UsageError(f"{self.name} has no tasks: write `def rows(self, source, where, *, limit, seed)`.")

    def make_env(self, options: Options, user: User | None) -> Env:
        """A fresh `Env`, for one episode.

        Args:
            options: of this world.
            user: who answers, where that is not the world itself; its owner closes it.
        """
        raise UsageError(
            f"{self.name} has no Env: write `def make_env(self, options, user)` (sweet_rl.BaseEnv)."
        )

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """What makes an `Env` for each episode: override it where episodes share what is freed with the block.

        Raises:
            UsageError: a package or a file is missing.
        """
        yield partial(self.make_env, options, user)

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """A scripted agent; a UsageError where there is none of this name, or a package or a file is missing."""
        raise no_agent(self, wanted.name)

    def transcript(self) -> ChatFormat:
        """How an episode looks to a model that reads plain text: all messages, a line each."""
        return WholeTranscript()

    def turns(self, options: Options) -> int:
        """Agent turns at most: the option's, else the world's own limit."""
        return self.max_turns if options.max_turns is None else options.max_turns

    def settings(self, options: Options) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        own = [one.name for one in settings_flags(self.options) if one.name not in COMMON]
        common = {"task_type": self.name, "max_steps": self.turns(options), "compat": options.compat}
        return common | {name: getattr(options, name) for name in own}

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        """Whether an episode reached its goal; None where the world does not say what that is.

        It does where the row's `game` tells `won`, or the row `solved`, by `scores.success_return`, or here.
        """
        game = row.get("game")
        told = game.get("won") if isinstance(game, Mapping) else row.get("solved")
        if isinstance(told, bool):
            return told
        least = self.scores.success_return
        return None if least is None else reward > least


class BaseEnv:
    """An `Env` to inherit from: it keeps the dialogue, counts turns, and ends the episode at the limit. Write `turn`.

    After the end, and after a turn raised something, nothing happens any more.

    Attributes:
        max_turns: agent turns at most; None: no limit.
        user: who answers, where that is not the world itself.
        task: what is played.
        seed: of the episode; draw at random by this seed alone, so that the episode can be replayed.
        messages: the dialogue so far, with the agent's last turn.
        turns: agent turns so far, with the last one.
        answer: what the agent handed in, in worlds that grade answers afterwards.
    """

    task: Task
    seed: int
    messages: list[Message]
    turns = 0
    answer: str | None = None
    _output = _content = ""  # of the last turn, as in `StepResult`
    _over = True

    def __init_subclass__(cls) -> None:
        if "step" in vars(cls) and cls.turn is BaseEnv.turn:
            raise UsageError(
                f"{cls.__name__} writes `step`, which BaseEnv has: write `async def turn(self, action)`."
            )
        check_async(cls, BaseEnv)

    def __init__(self, max_turns: int | None = None, user: User | None = None) -> None:
        self.max_turns, self.user = max_turns, user

    async def opening(self) -> str:
        """What the agent sees first. Override it to prepare the episode."""
        return self.task.problem_description

    async def turn(self, action: str) -> StepResult:
        """One turn of the agent: return `self.respond(...)`."""
        raise UsageError(
            f"{type(self).__name__} has no turns: write `async def turn(self, action)`, which returns `self.respond(...)`."
        )

    def visible(self, action: str) -> str:
        """What others see of the agent's text."""
        return action

    def info(self) -> Mapping[str, Json]:
        """Further fields of the episode's row."""
        return {}

    @property
    def last_turn(self) -> bool:
        """Whether this turn is the last that the limit allows."""
        return self.max_turns is not None and self.turns >= self.max_turns

    def respond(
        self, text: str | None = None, reward: float | None = None, *, terminated: bool = False, **more: Any
    ) -> StepResult:
        """What a turn came to; the limit of turns truncates an episode that is not terminated.

        Args:
            text: what the agent sees next; the turn that ends the episode may go without.
            reward: of this turn; None where episodes are graded afterwards.
            terminated: the episode came to its own end.
            more: further fields of `StepResult`.
        """
        if text is not None:
            self._hear(text, "respond")
        cut_off = more.pop("truncated", False) or self.last_turn
        truncated = cut_off and not terminated
        fields: dict[str, Any] = {
            "content": self._content,
            "output": self._output,
            "observation": None if text is None else self._observe(),
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "stop_reason": StopReason.ENDED if terminated else StopReason.TURN_LIMIT if truncated else None,
            "answer": self.answer if terminated or truncated else None,
            "info": self.info(),
        }
        return StepResult(**fields | more)

    def context(self) -> UserContext:
        """What `user` may know."""
        return UserContext(self.task.problem_description, self.task.hidden_information, tuple(self.messages))

    async def ask(self) -> str:
        """What `user` replies to the dialogue so far.

        Raises:
            EpisodeError: the user could not be asked; the episode has failed.
        """
        if self.user is None:
            raise UsageError(
                'This world asks `user`, and there is none: write `user = Answers(by="human", scripted=CLASS)` into the '
                "World, and hand `user` on in `make_env`."
            )
        reply = await self.user.reply(self.context())
        if reply.failure is not None:
            raise EpisodeError(StopReason.USER_FAILED, replace(reply.failure, turn=self.turns - 1))
        return reply.content

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin; whatever was played before is forgotten."""
        self._over, self.turns, self.task, self.seed = True, 0, task, seed
        self.messages = []
        self._hear(await self.opening(), "opening")
        self._over = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """Add the agent's turn to the dialogue, and take it."""
        if self._over:
            return StepResult(action, action, None, terminated=True, answer=self.answer, info=self.info())
        self._over = True  # should the turn raise something
        self.turns, self._output, self._content = self.turns + 1, action, self.visible(action)
        self.messages.append(Message("assistant", self._content))
        result = await self.turn(action)
        if not isinstance(result, StepResult):
            raise UsageError(
                f"`turn` of {type(self).__name__} must return `self.respond(...)`; got {result!r:.80}."
            )
        self._over = result.over
        return result

    async def close(self) -> None:
        """Nothing to free: who answers outlives the episode."""
        self._over = True

    def _hear(self, text: Any, method: str) -> None:
        lost = "<coroutine object "  # in an f-string, unless the task speaks of such things
        shown = lost in str(text) and lost not in f"{self.task}{self.messages}"
        if shown or not isinstance(text, str):
            hint = ": write `await` in front of it" if shown or isawaitable(text) else ""
            raise UsageError(
                f"`{method}` of {type(self).__name__} must have a str as its text; got {text!r:.80}{hint}."
            )
        self.messages.append(Message("user", text))

    def _observe(self) -> Observation:
        return Observation(self.task.task_id, tuple(self.messages), self.seed)


def rules_of(world: World, options: Options, *own: str) -> dict[str, Any]:
    """What an episode is made with: agent turns at most, `compat`, and these options where they have them."""
    rules = {name: getattr(options, name) for name in own if hasattr(options, name)}
    return {"max_turns": world.turns(options), "compat": options.compat} | rules


def tasks_in(world: World, source: str, *, limit: int | None = None, seed: int = 0) -> list[Task]:
    """Tasks of one of the world's lists, or of a file."""
    from sweet_rl.records import load_tasks_file, task_from_row

    name, _, where = source.partition(":")
    if name not in world.tasks.sources:
        return load_tasks_file(Path(source).expanduser())[:limit]
    with own_code(f"`rows` of the world {world.name}", hint=""):
        rows = list(islice(world.rows(name, where, limit=limit, seed=seed), limit))
    place = f"{source} of the world {world.name}"
    tasks = [task_from_row(row, path=place, line=number) for number, row in enumerate(rows, 1)]
    known = set[str]()
    for row, task in zip(rows, tasks, strict=True):
        if task.task_id in known or not (world.tasks.refuses or task.task_id.startswith(f"{world.name}/")):
            given = f"the `task_id` {row.get('task_id')!r}{' twice' if task.task_id in known else ''}"
            raise UsageError(
                f"`rows` of the world {world.name} gives {given} for {source}: every task needs one of its own that begins with "
                f"'{world.name}/'."
            )
        known.add(task.task_id)
    return tasks


def one_level(world: World, options: Options, request: LevelRequest) -> list[Level]:
    """The tasks that are named, or the world's own, as they are learned without a curriculum."""
    source = request.tasks or world.tasks.of(options)[request.measures]
    tasks = tasks_in(world, source)
    if why := world.tasks.refusal(tasks, world.name):
        raise UsageError(f"{source!r} {why}")
    return [Level(source, tasks)]


def no_agent(world: World, name: str) -> UsageError:
    """The error for a scripted agent that there is not."""
    if name in world.agents:
        return UsageError(
            f"{world.name} names a player {name!r}, and does not write `make_agent`, which makes it."
        )
    return no_such(f"player of {world.name}", name, list(world.agents))
