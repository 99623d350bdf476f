"""The options of a world, and requests for its agents, levels and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from sweet_rl.flags import REQUIRED, Settings, flag, no_flag
from sweet_rl.flags.models import NoSandbox, Skill
from sweet_rl.flags.shared import Compatible
from sweet_rl.types import Task


@dataclass(frozen=True, kw_only=True)
class Options(Compatible):
    """Rules of the world."""

    max_turns: int | None = flag(
        None, "agent turns at most; default the world's own number.", at_least=1, aliases=("max_steps",)
    )


COMMON = frozenset(option.name for option in fields(Options))
"""The names of the options that every world has."""


class Level(NamedTuple):
    """One level of a curriculum: tasks that are learned together."""

    name: str
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRequest:
    """How an algorithm asks for levels.

    Args:
        tasks: the file or list that was named; None for the world's own.
        measures: they are to be measured on, not learned from.
        entries: of a level whose tasks are drawn when they are played.
    """

    tasks: str | None = None
    measures: bool = False
    entries: int = 1


class Measured(NamedTuple):
    """What a model is measured on as it is, without having been trained.

    Attributes:
        name: in results.
        tasks: some of them are played.
        options: of the games.
        published_return: as published, an episode is a success whose rewards sum to more.
    """

    name: str
    tasks: Sequence[Task]
    options: Options
    published_return: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ScriptedFlags(Skill, NoSandbox):
    """Scripted agents."""

    num_questions: int = flag(3, "how often an agent asks before it answers.", at_least=0, shown="all")


@dataclass(frozen=True, kw_only=True)
class AgentRequest(ScriptedFlags):
    """A scripted agent that is asked for, with the flags of those that take some.

    Args:
        name: one of the world's `agents`.
        tasks: what it will play; agents that know the solution take it from here.
        system_prompt: recorded as what it was given.
        options: of the world it plays in.
        seed: of its draws.
    """

    name: str = no_flag(REQUIRED)
    tasks: Sequence[Task] = no_flag(REQUIRED)
    system_prompt: str = no_flag("")
    options: Options = no_flag(Options())
    seed: int = no_flag(0)


@dataclass(frozen=True, kw_only=True)
class NoFlags(Settings):
    """Of a world that has none of its own."""
