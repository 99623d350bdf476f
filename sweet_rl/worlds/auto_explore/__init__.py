"""AutoExplore: find the file of a repository that answers a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Policy
from sweet_rl.flags import Settings, flag, no_flag
from sweet_rl.prompts import load_prompt
from sweet_rl.text_game import TextGame
from sweet_rl.worlds.base import Rows, no_agent
from sweet_rl.worlds.options import AgentRequest, Learning, Level, LevelRequest, Options, TaskLists
from sweet_rl.worlds.text_games import TextGameWorld

ACTION_HEAD: Final = "\n# Choose from below your command"
"""What begins the list of actions, which ends a prompt."""

STAGES: Final[Mapping[str, StageEntry]] = {
    f"reflect {name}": StageEntry(
        f"sweet_rl.worlds.auto_explore.stages:{name}", f"AutoExplore: {summary}", writes
    )
    for name, summary, writes in (
        ("make_repositories", "make small repositories with facts to find.", ("repos",)),
        ("filter_repo", "copy what may be shown of repositories.", ("repos_filtered",)),
        (
            "gen_task",
            "let a teacher ask questions about files of repositories.",
            ("tasks", "tasks/data.json"),
        ),
        ("filter_task", "drop tasks that cannot be played, and duplicates.", ("tasks_filtered/data.json",)),
        (
            "reflection_negative",
            "let a teacher do tasks aloud, also from wrong files.",
            ("data_reflection_negative.json",),
        ),
        (
            "split_data",
            "divide tasks 7:2:1 into train, validate and test.",
            ("train.json", "validate.json", "test.json"),
        ),
        ("gen_sft", "write training texts from trajectories.", ("sft*.jsonl",)),
        ("auto_explore_gpt", "measure a model as it is, in the talk of the data generation.", ()),
    )
}
"""What is typed behind `sweet-rl`, in the order in which data are made."""


@dataclass(frozen=True, kw_only=True)
class Repositories(Settings):
    """Inputs and outputs."""

    repo_dir: str = flag("data/auto_explore/repos_filtered", "the repositories that they are about.")


@dataclass(frozen=True, kw_only=True)
class Levels(Settings):
    """The levels."""

    depth_curriculum: bool = flag(False, "levels by the depth of the files; else there is one.")
    merge_first_two: bool = flag(False, "the two shallowest levels are one.", shown="all")
    merge_after_first_k: int = flag(3, "so many levels stay, the rest are one.", at_least=0, shown="all")


@dataclass(frozen=True, kw_only=True)
class ExploreOptions(Options):
    """Options of AutoExplore."""

    place: str | None = flag(
        None, "the folder of repositories; default: embedded ones.", aliases=("game_place",)
    )
    leaveout_prob: float = flag(
        0.0,
        "with which probability each file or folder that leads to no answer is left out.",
        at_least=0,
        at_most=1,
    )
    shuffle_action: bool = flag(False, "labels of commands are drawn again for every step.")


@dataclass(frozen=True, kw_only=True)
class ExploreLearning(ExploreOptions, Levels):
    """Options of AutoExplore where an agent learns in it."""

    place: str | None = flag(
        "data/auto_explore/repos_filtered/",
        "the repositories that tasks of a file are about.",
        aliases=("repo_dir",),
    )
    leaveout_prob: float = flag(
        0.5, "files that are no answers are left out with this probability.", at_least=0, at_most=1
    )
    easy: bool = flag(False, "ask for a file by its name.")
    first_step: bool = no_flag(False)


LEARNED_TASKS: Final = "data/auto_explore/tasks_filtered/train.json"
"""Records that agents learn from unless others are named; as published they are measured on these, too."""

MEASURED_TASKS: Final = "data/auto_explore/tasks_filtered/test.json"
"""Records that agents are measured on unless others are named."""


def prepared(options: Options, request: LevelRequest) -> Options:
    """Embedded repositories for a list of ours; nothing is left out where an agent is measured."""
    if not isinstance(options, ExploreOptions):
        return options
    if (request.tasks or "").partition(":")[0] in AutoExplore.tasks.sources:
        options = replace(options, place=None)
    return replace(options, leaveout_prob=0.0) if request.measures else options


def levels(options: Options, request: LevelRequest) -> list[Level]:
    """Tasks of a list or of records, by the depth of their files where that is asked for."""
    from sweet_rl.records import task_from_row
    from sweet_rl.worlds.auto_explore.repositories import Library
    from sweet_rl.worlds.auto_explore.tasks import explore_tasks, levels_of, load_dataset, task_rows

    learning = options if isinstance(options, ExploreLearning) else ExploreLearning()
    compat = options.compat
    usual = MEASURED_TASKS if request.measures and compat != "published" else LEARNED_TASKS
    source, _, where = (request.tasks or usual).partition(":")
    if source in AutoExplore.tasks.sources:
        rows = explore_tasks(where)
    else:
        rows = task_rows(
            load_dataset(request.tasks or usual, compat=compat), easy=learning.easy, compat=compat
        )
        Library(learning.place).need_one({str(row["root"]) for row in rows})
    found = levels_of(map(task_from_row, rows), learning, easy=learning.easy, compat=compat)
    return [Level(f"level {number}", level) for number, level in enumerate(found)]


class AutoExplore(TextGameWorld):
    """AutoExplore: find the file of a repository that answers a question."""

    name = "auto_explore"
    max_turns = 15
    options = ExploreOptions
    tasks = TaskLists("auto-explore:train", "auto-explore:test")
    agents: ClassVar = {"planner": {}, "wanderer": {}}
    learning = Learning(head=ACTION_HEAD, options=ExploreLearning, levels=levels, prepared=prepared)
    player_rules = (
        "Find the file that answers the question: type the label of a command. `cd` goes to a "
        "folder, `cat` shows a file, `id` hands it in and ends the game. You have {turns} commands."
    )
    stages = STAGES

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        from sweet_rl.worlds.auto_explore.tasks import explore_tasks

        return explore_tasks(where)

    def system_prompt(self) -> str:
        return load_prompt("llm_agent_explore_prompt.txt")

    @contextmanager
    def games(self, options: Options) -> Iterator[Callable[[], TextGame]]:
        from sweet_rl.worlds.auto_explore.game import ExploreGame
        from sweet_rl.worlds.auto_explore.repositories import Library

        explore = options if isinstance(options, ExploreOptions) else ExploreOptions()
        learning = options if isinstance(options, ExploreLearning) else ExploreLearning()
        library = Library(explore.place)
        yield lambda: ExploreGame(
            library,
            max_turns=self.turns(options),
            leaveout_prob=explore.leaveout_prob,
            shuffle_action=explore.shuffle_action,
            easy=learning.easy,
            first_step=learning.first_step,
            compat=options.compat,
        )

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        from sweet_rl.worlds.auto_explore.tasks import PlanningExplorer, Wanderer

        if wanted.name == "wanderer":
            return Wanderer(system_prompt=wanted.system_prompt)
        if wanted.name != "planner":
            raise no_agent(self, wanted.name)
        targets = {task.task_id: task.ground_truth for task in wanted.tasks}
        return PlanningExplorer(targets, system_prompt=wanted.system_prompt)


WORLD = AutoExplore()
