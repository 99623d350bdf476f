"""The contract of a world: its tasks, its rules as options, its players, its text for a model.

A `World` describes and makes; it keeps no state of an episode (`sweet_rl.contracts.Env` does). It is cheap to
import: what it needs to be played is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sweet_rl.chat.formats import ChatFormat, WholeTranscript
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import flags_of as settings_flags
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Json, Message, Observation, StepResult, StopReason, Task
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
    """A world by its name. Subclasses set `name` and write `rows` and `open`; everything else has a default.

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
        agent_prompt: the packaged instructions of a model that plays; empty where there are none.
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
    agent_prompt: ClassVar[str] = ""
    player_rules: ClassVar[str] = "You have {turns} turns."
    stages: ClassVar[Mapping[str, StageEntry]] = {}

    @property
    def tasks(self) -> TaskLists:
        return TaskLists(f"{self.name}:train", f"{self.name}:test")

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Tasks of a list: all of them where `where` is empty.

        Args:
            source: the list's name, one of `tasks.sources`.
            where: what stands behind the colon: a split, mostly.
            limit: how many at most; for lists that have no end.
            seed: draws tasks that are generated.

        Raises:
            UsageError: there is no such split, or its data are missing.
        """
        raise NotImplementedError

    def open(self, options: Options, user: User | None) -> AbstractAsyncContextManager[Callable[[], Env]]:
        """What makes a fresh `Env` for each episode; what they share is freed with the block.

        Args:
            options: of this world.
            user: who answers, where that is not the world itself; its owner closes it.

        Raises:
            UsageError: a package or a file is missing.
        """
        raise NotImplementedError

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """A scripted agent; a UsageError where there is none of this name, or a package or a file is missing."""
        raise no_agent(self, wanted.name)

    def system_prompt(self) -> str:
        """The instructions of a model that plays, before everything else; empty where there are none."""
        return load_prompt(self.agent_prompt) if self.agent_prompt else ""

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


class Episode:
    """What every episode of ours keeps: its task and messages, how many turns there were, and whether it is over.

    Worlds write `_turn`, which adds the messages of a turn, and `_opening`, the first one. After the end, and after a
    world broke, nothing happens any more.
    """

    _task: Task
    _seed: int
    _messages: list[Message]
    _steps = 0
    _done = True
    _answer: str | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin; whatever was played before is forgotten."""
        self._done, self._steps, self._task, self._seed = True, 0, task, seed
        self._messages = [Message("user", await self._opening())]
        self._done = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """One turn of the agent."""
        if self._done:
            return StepResult(action, action, None, terminated=True, answer=self._answer, info=self._info())
        self._done = True  # should the world break
        self._steps += 1
        result = await self._turn(action)
        self._done = result.over
        return result

    async def close(self) -> None:
        """Nothing to free: whoever answers outlives the episode."""
        self._done = True

    async def _opening(self) -> str:
        """Make ready what the task needs; what the agent sees first."""
        return self._task.problem_description

    async def _turn(self, action: str) -> StepResult:
        raise NotImplementedError

    def _info(self) -> Mapping[str, Json]:
        """Fields of the episode's row that belong to this world alone."""
        return {}

    def _observe(self) -> Observation:
        return Observation(self._task.task_id, tuple(self._messages), self._seed)

    def _moved(self, content: str, action: str, *, ended: bool, cut: bool, **more: Any) -> StepResult:
        """A turn that ended the episode, or after which no turns are left, or neither."""
        reason = StopReason.ENDED if ended else StopReason.TURN_LIMIT if cut else None
        more |= {"terminated": ended, "truncated": cut and not ended, "stop_reason": reason}
        return StepResult(content, action, self._observe(), **more)


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
    rows, place = world.rows(name, where, limit=limit, seed=seed), f"{source} of the world {world.name}"
    return [task_from_row(row, path=place, line=number) for number, row in enumerate(rows, 1)][:limit]


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
