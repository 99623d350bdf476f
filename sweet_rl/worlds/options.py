"""What describes a world: its options, its task lists, who answers, how it scores, how it is learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from sweet_rl.chat.reflect_format import CHOICES
from sweet_rl.contracts import User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import REQUIRED, Settings, flag, group, no_flag
from sweet_rl.flags.models import NoSandbox, Skill
from sweet_rl.flags.shared import Compatible
from sweet_rl.types import Compat, Json, Message, Task

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient
    from sweet_rl.reflect_data.teachers import Expert
    from sweet_rl.text_game import TextGame
    from sweet_rl.users.protocol import Speaker


@group("Rules of the world")
class Options(Compatible):
    max_turns: int | None = flag(
        None, "most turns of the agent; default: the world's limit.", at_least=1, aliases=("max_steps",)
    )

    def beside(self, output: Path | None, samples: Mapping[tuple[str, int], int]) -> Self:
        """Options of a run whose rows go to `output` (None: to memory), for worlds that keep files beside them.

        `samples` has the number of an episode's repeat, by its task's identity and its seed.
        """
        return self

    def check_place(self) -> None:
        """Raise a UsageError if a new run would overwrite something that the world keeps."""

    def at_once(self, wanted: int) -> int:
        """How many of so many episodes may run at a time."""
        return wanted


@group("Of a world without options of its own")
class NoFlags(Settings):
    pass


COMMON = frozenset(option.name for option in fields(Options))
"""The names of the options that every world has."""


@dataclass(frozen=True, slots=True)
class TaskLists:
    """A world's lists of tasks, each a name, and a split behind a colon."""

    train: str  # what is played to learn from
    test: str  # what is measured on
    sources: tuple[str, ...] = ()  # the names of lists, before the colon; default those of the two
    drawn: Callable[[Any], tuple[str, str]] | None = None  # the two where options decide about them
    # why tasks are not of this world, as the rest of a sentence about their source, "" if they are; by default
    # tasks have to be named after the world
    refuses: Callable[[Sequence[Task]], str] | None = None
    lacks: Callable[[Task], str] = lambda task: ""  # what a task needs and has not
    how_to_get: Callable[[Path], str] | None = None  # what to do about a file of tasks that is not there

    def __post_init__(self) -> None:
        own = dict.fromkeys(one.partition(":")[0] for one in (self.train, self.test))
        object.__setattr__(self, "sources", self.sources or tuple(own))

    def of(self, options: Options) -> tuple[str, str]:
        """The lists to learn from and to measure on."""
        return (self.train, self.test) if self.drawn is None else self.drawn(options)

    def refusal(self, tasks: Sequence[Task], world: str) -> str:
        """Why tasks are not of the world of this name; empty if they are."""
        if self.refuses is not None:
            return self.refuses(tasks)
        other = next((task.task_id for task in tasks if not task.task_id.startswith(f"{world}/")), None)
        if other is None:
            return ""
        named = f"its `task_id` is {other!r}, and theirs begin with '{world}/'"
        return f"holds no tasks of {world} ({named}); use {self.train!r}, say."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Who answers the agent: the world itself, an oracle who knows the solution, or a simulated human."""

    by: Literal["world", "oracle", "human"] = "world"
    scripted: str | Callable[[], User] | None = None  # needs no model; or `module:ATTRIBUTE` of its maker
    # makes an oracle that a model plays, of what runs it, its folder or its server's address, and what else was
    # given for it: its name, a key, how patiently it is asked
    oracle: Callable[..., User] | None = None
    # `module:CLASS` of the human that a model plays, with a `check_prompt`, which `--env_model auto` then means; None:
    # `OpenAIUser`, and only where a server is named
    model: str | None = None
    asked_with: tuple[str, ...] = ()  # the options that decide how that one is asked
    prompt: str = ""  # the packaged prompt of a model that plays the human
    # `module:FUNCTION` that answers behind a server without a model, and knows of an episode what a prompt says;
    # without one no server plays the human
    speaker: str | None = None
    hint: str = "see docs/world_code.md."  # what a person may do who has no server for the human
    server: str = "start a server"  # the line that starts one, where a model plays the human

    def __post_init__(self) -> None:
        if self.by not in ("world", "oracle", "human"):
            raise no_such("Answers.by", self.by, ("world", "oracle", "human"))

    def make(self, world: str = "This world") -> User:
        """Who answers without a model, in the world of this name."""
        user: User = self._named("scripted", "human or oracle that works without a model", world)()
        return user

    def make_oracle(self, kind: str, path: str, *, world: str = "This world", **how: Any) -> User:
        """An oracle that a model plays."""
        user: User = self._named("oracle", "oracle that a model plays", world)(kind, path, **how)
        return user

    def make_human(
        self, client: OpenAIClient, model: str, *, prompt: str, options: Options, **said: Any
    ) -> User:
        """The simulated human, played by a model behind a server, whose client is closed with it; `said` are
        `max_tokens` of a reply and a `system_prompt`, where they are not the usual ones."""
        user: User = self._kind()(client, model, prompt_template=prompt, **said, **self.settings(options))
        return user

    def check_prompt(self, template: str, path: str) -> None:
        """Raise a UsageError if a prompt of the human does not take what it is shown."""
        self._kind().check_prompt(template, path)

    def settings(self, options: Options) -> dict[str, Json]:
        """What decides about a model that plays the human, besides its name and its prompt."""
        return {name: getattr(options, name) for name in self.asked_with}

    def served(self, world: str) -> Speaker:
        """Who answers without a model behind a server."""
        speaker: Speaker = self._named("speaker", "human that reads what it knows from a prompt", world)
        return speaker

    def _kind(self) -> Any:
        """The class of a human that a model plays."""
        return resolve_name(self.model or "sweet_rl.users.model:OpenAIUser")

    def _named(self, field: str, what: str, world: str) -> Any:
        """What a field says, imported where it is a place; a UsageError where it says nothing."""
        found = getattr(self, field)
        if found is None:
            raise UsageError(f"{world} has no {what} (`user=Answers({field}=...)`).")
        return resolve_name(found) if isinstance(found, str) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What the reward of an episode says, and who gives it."""

    name: str = "return"  # what it is called in tables; a share of 1 where it is not a "return"
    stage: str = "evaluate_games"  # the stage that grades episodes
    lowest: float | None = None  # the lowest reward of an episode, if there is one: intervals end there
    highest: float | None = None
    worst_turn: float | None = None  # of a turn, where the lowest of an episode is that of all turns
    success_return: float | None = None  # the rewards of a success sum to more; None: they do not say
    ceiling_and_floor: tuple[str, ...] = ()  # scripted agents; default the first and the last of the world's
    told: tuple[str, ...] = ()  # scripted agents that are told the solution: no policy can imitate them
    # whether a turn was worth taking, of the hidden solution (`Task.ground_truth`), the dialogue before it and what the
    # agent says, by an oracle that only measures; None where there is none for this task
    good_turn: Callable[[str, Sequence[Message], str], bool | None] = lambda solution, messages, turn: None

    def range(self, turns: int) -> tuple[float | None, float | None]:
        """The lowest and the highest reward of an episode of so many turns, as far as there are such."""
        return (self.lowest if self.worst_turn is None else self.worst_turn * turns), self.highest


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How agents learn in a world by choosing labels, level by level (Reflect-RL)."""

    head: str | None = None  # begins the list of actions in worlds whose agents choose labels
    labels: Sequence[str] = CHOICES  # every label that can be on offer
    options: type[Options] | None = None  # the options where an agent learns; None: those of the world
    # the curriculum: named lists of tasks; default one level, the training tasks
    levels: Callable[[Options, LevelRequest], Sequence[Level]] | None = None
    # the options with which games of these levels are played
    prepared: Callable[[Options, LevelRequest], Options] = lambda options, request: options
    equal_levels: bool = False  # levels get as many iterations each; else by their numbers of tasks
    ignores_files: bool = False  # as published, a file of tasks that is named is not read
    # who knows the way in a game, with explanations; None: nobody does
    expert: Callable[[TextGame], Expert | None] = lambda game: None
    flags: type[Settings] = NoFlags  # those of its own where a model is measured as it is
    # what a model is measured on, of those flags, the tasks that were named (None for the world's own) and agent turns
    # at most; default the tasks of `TaskLists.test`
    measured: Callable[[Any, str | None, int], Measured] | None = None

    def ignored(self, source: str, sources: Sequence[str], compat: Compat) -> bool:
        """Whether tasks that are named count for nothing."""
        return self.ignores_files and compat == "published" and source.partition(":")[0] not in sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Archer:
    """How a policy learns in a world online (ArCHer)."""

    config: str | None = None  # the packaged configuration of `run_archer` that plays it as published
    games_shown: int = 1  # a scripted agent's episodes for each task, for a policy to begin with by imitation
    # the instruction around the transcript for a chat model, of what is played; `{obs}` is its place, the default the
    # system prompt
    template: Callable[[Sequence[Task]], str] | None = None
    # an action of a scripted agent as a policy is to write it that imitates it
    shown_action: Callable[[str, Options], str] = lambda action, options: action


class Level(NamedTuple):
    """One level of a curriculum: tasks that are learned together."""

    name: str
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRequest:
    """How an algorithm asks for levels: of the file or list that was named (None: the world's own), to learn
    from or to measure on; `entries` of a level whose tasks are drawn when they are played."""

    tasks: str | None = None
    measures: bool = False
    entries: int = 1


class Measured(NamedTuple):
    """What a model is measured on without having been trained: some of the tasks, with these options.

    As published, an episode is a success whose rewards sum to more than `published_return`.
    """

    name: str
    tasks: Sequence[Task]
    options: Options
    published_return: float = 0.0


@group("Scripted agents")
class ScriptedFlags(Skill, NoSandbox):
    num_questions: int = flag(3, "questions that an agent asks before it answers.", at_least=0, shown="all")


@dataclass(frozen=True, kw_only=True)
class AgentRequest(ScriptedFlags):
    """A scripted agent that is asked for, with the flags of those that take some."""

    name: str = no_flag(REQUIRED)  # one of the world's `agents`
    tasks: Sequence[Task] = no_flag(
        REQUIRED
    )  # what it will play; agents that know the solution take it from here
    system_prompt: str = no_flag("")  # recorded as what it was given
    options: Options = no_flag(Options())  # of the world it plays in
    seed: int = no_flag(0)
