"""The contract of a world: its tasks, its rules as options, its players, its text for a model.

A `World` describes and makes; it keeps no state of an episode (`sweet_rl.contracts.Env` does). It is cheap to
import: what it needs to be played is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sweet_rl.chat.formats import ChatFormat, WholeTranscript
from sweet_rl.chat.reflect_format import CHOICES
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import UsageError, no_such
from sweet_rl.flags import flags_of as settings_flags
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Compat, Json, Message, Task
from sweet_rl.worlds.options import COMMON, AgentRequest, Level, LevelRequest, Measured, NoFlags, Options

if TYPE_CHECKING:
    from sweet_rl.cli.stage import StageEntry
    from sweet_rl.openai_client import OpenAIClient
    from sweet_rl.reflect_data.teachers import Expert
    from sweet_rl.text_game import TextGame
    from sweet_rl.users.protocol import Speaker

Rows = list[dict[str, Json]]
"""Tasks as they stand in a file."""

Answerer = Literal["world", "oracle", "human"]
"""Who answers the agent: the world itself, an oracle who knows the solution, a simulated human."""


class World:
    """A world by its name. Subclasses set the class attributes and write `rows`, `open` and `make_agent`.

    Attributes:
        name: in flags and rows; also what its tasks' names begin with, in worlds that reward turns.
        max_turns: agent turns at most, as published.
        options: the dataclass of its options.
        train_tasks: what is played to learn from.
        test_tasks: what is measured on.
        sources: the names of task lists, which stand before the colon.
        answered_by: who answers the agent: the world itself, an oracle, or a simulated human.
        agents: names of scripted agents, the default first.
        takes: which `ScriptedFlags` each of them takes, with the value that it plays by where none is given.
        agent_prompt: the packaged prompt of a model that plays (`system_prompt`).
        user_prompt: the packaged prompt of a model that plays the simulated human.
        human_is_served: whether a server can play the human that needs no model.
        human_hint: what a person may do who has no server for the human.
        human_server: the line that starts a server for the human, where a model plays it.
        published_names: what else it is called, as in published command lines.
        first_for: the commands that play it where no world is named (dialogue, archer, reflect, as_it_is).
        evaluation: the stage that grades its episodes.
        reward_is: what the reward of an episode is called in tables; a share of 1 where it is not a "return".
        bounds: the scripted agents that are ceiling and floor; default the first and the last of `agents`.
        action_head: begins the list of actions in worlds whose agents choose labels.
        labels: every label that can be on offer.
        learning: the options where an agent learns in it level by level; None: those of `options`.
        as_it_is: flags of its own where a model is measured as it is, as a dataclass of `sweet_rl.flags`.
        equal_levels: levels get as many iterations each; else by their numbers of tasks.
        ignores_files: as published, a file of tasks that is named is not read.
        archer_config: the packaged configuration of `run_archer` that plays it as published.
        games_shown: episodes of a scripted agent for each task, for a policy to begin with by imitation.
        player_rules: instructions for a person who plays; `{turns}` is the limit.
        stages: stages of its own, by what is typed behind `sweet-rl`.
    """

    name: ClassVar[str]
    max_turns: ClassVar[int]
    options: ClassVar[type[Options]] = Options
    train_tasks: ClassVar[str]
    test_tasks: ClassVar[str]
    sources: ClassVar[tuple[str, ...]]
    answered_by: ClassVar[Answerer] = "world"
    agents: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[Mapping[str, Mapping[str, Json]]] = {}
    agent_prompt: ClassVar[str | None] = None
    user_prompt: ClassVar[str | None] = None
    human_is_served: ClassVar[bool] = False
    human_hint: ClassVar[str] = "see docs/backend.md."
    human_server: ClassVar[str] = "start a server"
    published_names: ClassVar[tuple[str, ...]] = ()
    first_for: ClassVar[str | None] = None
    evaluation: ClassVar[str] = "evaluate_games"
    reward_is: ClassVar[str] = "return"
    bounds: ClassVar[tuple[str, ...] | None] = None
    action_head: ClassVar[str | None] = None
    labels: ClassVar[Sequence[str]] = CHOICES
    learning: ClassVar[type[Options] | None] = None
    as_it_is: ClassVar[type] = NoFlags
    equal_levels: ClassVar[bool] = False
    ignores_files: ClassVar[bool] = False
    archer_config: ClassVar[str | None] = None
    games_shown: ClassVar[int] = 1
    player_rules: ClassVar[str] = "You have {turns} turns."
    stages: ClassVar[Mapping[str, StageEntry]] = {}

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Tasks of a list: all of them where `where` is empty.

        Args:
            source: one of `sources`.
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
        """A scripted agent.

        Raises:
            UsageError: there is none of this name; a package or a file is missing.
        """
        raise self.no_agent(wanted.name)

    def make_user(self) -> User:
        """Who answers without a model, where that is not the world itself.

        Raises:
            UsageError: no such human or oracle is packaged.
        """
        raise UsageError(f"{self.name} has no human or oracle that works without a model.")

    def make_oracle(self, kind: str, path: str, **how: Any) -> User:
        """The oracle, played by a model.

        Args:
            kind: what runs it.
            path: its folder, or its server's address.
            how: what else was given for it: its name, a key, how patiently it is asked.

        Raises:
            UsageError: models answer no questions here, or not of this kind.
        """
        raise UsageError(f"{self.name} has no oracle that a model plays.")

    def make_model_user(
        self, client: OpenAIClient, model: str, *, prompt: str, options: Options, **said: Any
    ) -> User:
        """The simulated human, played by a model behind a server.

        Args:
            client: of the server; closed with the human.
            model: the server's name for it.
            prompt: its instructions, checked by `check_user_prompt`.
            options: of this world.
            said: `max_tokens` of a reply, and a `system_prompt`, where they are not the world's own.

        Raises:
            UsageError: this world has no simulated human.
        """
        raise UsageError(f"{self.name} has no simulated human.")

    def good_turn(self, solution: str, messages: Sequence[Message], turn: str) -> bool | None:
        """Whether a turn was worth taking, by an oracle that only measures; None: there is none for this task.

        Args:
            solution: the hidden solution (`Task.ground_truth`).
            messages: the dialogue before the turn, from the request on.
            turn: what the agent says.
        """
        return None

    def served_human(self) -> Speaker:
        """Who answers without a model behind a server, and knows of an episode what a prompt says.

        Raises:
            UsageError: this world has none.
        """
        raise UsageError(f"{self.name} has no human that reads what it knows from a prompt.")

    def model_user_settings(self, options: Options) -> dict[str, Json]:
        """What decides about a model that plays the human, besides its name and its prompt."""
        return {}

    def check_user_prompt(self, template: str, path: str) -> None:
        """Make sure that a prompt of the simulated human takes what this world shows.

        Raises:
            UsageError: its placeholders are others.
        """

    @property
    def summary(self) -> str:
        """What it is, in a line: the first one of its class's docstring; empty without one."""
        return (type(self).__doc__ or "").strip().partition("\n")[0]

    @property
    def learns_with(self) -> type[Options]:
        """The dataclass of its options where an agent learns in it level by level."""
        return self.learning or self.options

    def system_prompt(self) -> str:
        """The instructions of a model that plays, before everything else; empty where there are none."""
        return "" if self.agent_prompt is None else load_prompt(self.agent_prompt)

    def transcript(self) -> ChatFormat:
        """How an episode looks to a model that reads plain text: all messages, a line each."""
        return WholeTranscript()

    def template(self, tasks: Sequence[Task]) -> str | None:
        """The instruction around the transcript for a chat model; `{obs}` is its place.

        Args:
            tasks: what is played, for worlds that name the possible answers.
        """
        return f"{self.system_prompt()}\n\n{{obs}}"

    def training_tasks(self, options: Options) -> tuple[str, str]:
        """The task lists to learn from and to measure on."""
        return self.train_tasks, self.test_tasks

    def levels(self, options: Options, request: LevelRequest) -> Sequence[Level]:
        """Tasks in the order in which they are learned: one level, unless the world has a curriculum.

        Args:
            options: of `learning`.
            request: what is asked for.

        Raises:
            UsageError: there are no such tasks, or they are another world's.
            DataError: a task is wrong.
        """
        source = request.tasks or self.training_tasks(options)[request.measures]
        tasks = self.tasks_of(source)
        if why := self.refuses(tasks):
            raise UsageError(f"{source!r} {why}")
        return [Level(source, tasks)]

    def tasks_of(self, source: str) -> list[Task]:
        """Tasks of one of the world's lists, or of a file.

        Raises:
            UsageError: there are none.
            DataError: a row is wrong.
        """
        from sweet_rl.records import load_tasks_file, task_from_row

        name, _, where = source.partition(":")
        if name in self.sources:
            return [task_from_row(row) for row in self.rows(name, where, limit=None, seed=0)]
        return load_tasks_file(Path(source).expanduser())

    def ignored(self, source: str, compat: Compat) -> bool:
        """Whether tasks that are named count for nothing."""
        return self.ignores_files and compat == "published" and source.partition(":")[0] not in self.sources

    def success_return(self, options: Options) -> float | None:
        """An episode is a success whose rewards sum to more; None: their sum does not say whether it is."""
        return None

    def reward_range(self, options: Options) -> tuple[float | None, float | None]:
        """The lowest and the highest reward of an episode, as far as there are such: intervals end there."""
        return (None, None) if self.reward_is == "return" else (0.0, 1.0)

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        """Whether an episode reached its goal; None where the world does not say what that is.

        It does where a game tells `won` or `solved`, by `success_return`, or here.

        Args:
            reward: of the episode.
            row: `game` and `solved` of it, where it has them.
            options: that it was played with.
        """
        game = row.get("game")
        told = game.get("won") if isinstance(game, Mapping) else row.get("solved")
        if isinstance(told, bool):
            return told
        least = self.success_return(options)
        return None if least is None else reward > least

    def family(self, task: Mapping[str, Json]) -> str:
        """The kind of task that this is, where the world knows kinds; tables then have a line for each.

        Args:
            task: as it stands in its file.
        """
        named = task.get("family") or task.get("category")
        return named if isinstance(named, str) else ""

    def games(self, options: Options) -> AbstractContextManager[Callable[[], TextGame]]:
        """What makes a fresh game, for algorithms that choose labels; what games share is freed at the end.

        Args:
            options: of `options` or `learning`.

        Raises:
            UsageError: a package or a file is missing, or no turn is rewarded here.
        """
        from sweet_rl.worlds.played import Look, games_of

        if self.answered_by == "human":
            raise UsageError(f"{self.name} gives no rewards for turns, which are learned from.")
        user = self.make_user() if self.answered_by == "oracle" else None
        look = Look(
            self.transcript(),
            self.action_head or "",
            self.system_prompt().strip(),
            self.labels,
            -(self.success_return(options) or 0.0),
            lambda reward, info: self.succeeded(reward, info, options),
        )
        return games_of(self.open(options, user), user, look)

    def measured(self, flags: Any, *, tasks: str | None, max_turns: int) -> Measured:
        """What a model is measured on as it is.

        Args:
            flags: `as_it_is`.
            tasks: the file or list that was named; None for the world's own.
            max_turns: agent turns at most.

        Raises:
            UsageError: there are no such tasks, or its agents do not choose among labels.
            DataError: a task is wrong.
        """
        if self.action_head is None:
            raise UsageError(f"{self.name} offers no labels, and a model is asked for one.")
        return Measured(self.name, self.tasks_of(tasks or self.test_tasks), self.options(max_turns=max_turns))

    def expert(self, game: TextGame) -> Expert:
        """The expert of a game, with its explanations.

        Raises:
            UsageError: no world does.
        """
        raise UsageError(
            f"{self.name} has no expert: name a model by --teacher openai, or choose random actions by --random."
        )

    def prepared(self, options: Options, request: LevelRequest) -> Options:
        """The options with which games of these tasks are played."""
        return options

    def shown_action(self, action: str, options: Options) -> str:
        """An action of a scripted agent as a policy is to write it that imitates it."""
        return action

    def refuses(self, tasks: Sequence[Task]) -> str:
        """Why tasks are not of this world, as the rest of a sentence about their source; empty if they are.

        Tasks of worlds that reward turns are named after the world.
        """
        if all(task.task_id.startswith(f"{self.name}/") for task in tasks):
            return ""
        return f"holds no tasks of {self.name}; use {self.train_tasks!r}, say."

    def lacks(self, task: Task) -> str:
        """What a task of this world needs and has not; empty for nothing."""
        return ""

    def how_to_get(self, path: Path) -> str:
        """What to do about a file of tasks that is not there."""
        return f"name another file, or {self.test_tasks}"

    def at_once(self, wanted: int) -> int:
        """How many of so many episodes may run at a time."""
        return wanted

    def beside(
        self, options: Options, output: Path | None, samples: Mapping[tuple[str, int], int]
    ) -> Options:
        """Options of a run whose rows go to `output`, for worlds that keep files beside them.

        Args:
            options: of this world.
            output: the file of rows; None for rows in memory, which name files by their whole paths.
            samples: the number of an episode's repeat, by its task's identity and its seed.
        """
        return options

    def check_place(self, options: Options) -> None:
        """Make sure that a new run overwrites nothing that this world keeps.

        Raises:
            UsageError: it would.
        """

    def turns(self, options: Options) -> int:
        """Agent turns at most: the option's, else the world's own limit."""
        return self.max_turns if options.max_turns is None else options.max_turns

    def settings(self, options: Options) -> dict[str, Json]:
        """What decides about the content of an episode: a file may be continued only with the same."""
        own = [one.name for one in settings_flags(self.options) if one.name not in COMMON]
        common = {"task_type": self.name, "max_steps": self.turns(options), "compat": options.compat}
        return common | {name: getattr(options, name) for name in own}

    def no_agent(self, name: str) -> UsageError:
        """The error for a scripted agent that there is not."""
        return no_such(f"player of {self.name}", name, self.agents)
