"""AutoExplore: find the file of a repository that answers a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from sweet_rl.command_line.listing import StageEntry
from sweet_rl.contracts import Policy
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag, no_flag
from sweet_rl.text_game import TextGame
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.options import AgentRequest, Level, LevelRequest, Options
from sweet_rl.worlds.text_game_world import TextGameWorld

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect make_repositories": StageEntry(
        f"{__name__}.stages:make_repositories",
        "AutoExplore: make small repositories with facts to find.",
        ("repos",),
    ),
    "reflect filter_repo": StageEntry(
        f"{__name__}.stages:filter_repo",
        "AutoExplore: copy what may be shown of repositories.",
        ("repos_filtered",),
    ),
    "reflect gen_task": StageEntry(
        f"{__name__}.stages:gen_task",
        "AutoExplore: let a teacher ask questions about files of repositories.",
        ("tasks", "tasks/data.json"),
    ),
    "reflect filter_task": StageEntry(
        f"{__name__}.stages:filter_task",
        "AutoExplore: drop tasks that cannot be played, and duplicates.",
        ("tasks_filtered/data.json",),
    ),
    "reflect reflection_negative": StageEntry(
        f"{__name__}.stages:reflection_negative",
        "AutoExplore: let a teacher do tasks aloud, also from wrong files.",
        ("data_reflection_negative.json",),
    ),
    "reflect split_data": StageEntry(
        f"{__name__}.stages:split_data",
        "AutoExplore: divide tasks 7:2:1 into train, validate and test.",
        ("train.json", "validate.json", "test.json"),
    ),
    "reflect gen_sft": StageEntry(
        f"{__name__}.stages:gen_sft",
        "AutoExplore: write training texts from trajectories.",
        ("sft*.jsonl",),
    ),
    "reflect auto_explore_gpt": StageEntry(
        f"{__name__}.stages:auto_explore_gpt",
        "AutoExplore: measure a model as it is, in the talk of the data generation.",
    ),
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


ACTION_HEAD: Final = "\n# Choose from below your command"
"""What begins the list of actions, which ends a prompt."""

LEARNED_TASKS: Final = "data/auto_explore/tasks_filtered/train.json"
"""Records that agents learn from unless others are named; as published they are measured on these, too."""

MEASURED_TASKS: Final = "data/auto_explore/tasks_filtered/test.json"
"""Records that agents are measured on unless others are named."""


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
    """Options of AutoExplore where an agent learns in it.

    Args:
        first_step: only the first step is played.
    """

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


class AutoExplore(TextGameWorld):
    """AutoExplore: find the file of a repository that answers a question."""

    name = "auto_explore"
    first_for = "reflect"
    max_turns = 15
    options = ExploreOptions
    train_tasks, test_tasks = "auto-explore:train", "auto-explore:test"
    sources = ("auto-explore",)
    agents = ("planner", "wanderer")
    agent_prompt = "llm_agent_explore_prompt.txt"
    action_head = ACTION_HEAD
    learning = ExploreLearning
    player_rules = (
        "Find the file that answers the question: type the label of a command. `cd` goes to a "
        "folder, `cat` shows a file, `id` hands it in and ends the game. You have {turns} commands."
    )
    stages = STAGES

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Questions of a split, or of a file of task records."""
        from sweet_rl.worlds.auto_explore.tasks import explore_tasks

        return explore_tasks(where)

    def prepared(self, options: Options, request: LevelRequest) -> Options:
        """Embedded tasks have embedded repositories; measured policies see them whole."""
        if not isinstance(options, ExploreOptions):
            return options
        if _is_list(request):
            options = replace(options, place=None)
        return replace(options, leaveout_prob=0.0) if request.measures else options

    def levels(self, options: Options, request: LevelRequest) -> list[Level]:
        """Tasks of a list or of records, by the depth of their files where that is asked for."""
        from sweet_rl.records import task_from_row
        from sweet_rl.worlds.auto_explore.levels import LevelFlags, levels_of
        from sweet_rl.worlds.auto_explore.tasks import explore_tasks, load_dataset, task_rows

        learning = options if isinstance(options, ExploreLearning) else ExploreLearning()
        compat = options.compat
        usual = MEASURED_TASKS if request.measures and compat != "published" else LEARNED_TASKS
        source = request.tasks or usual
        if _is_list(request):
            rows = explore_tasks(source.partition(":")[2])
        else:
            rows = task_rows(load_dataset(source, compat=compat), easy=learning.easy, compat=compat)
            _need_one(learning.place, {str(row["root"]) for row in rows})
        flags = LevelFlags(
            depth_curriculum=learning.depth_curriculum,
            merge_first_two=learning.merge_first_two,
            merge_after_first_k=learning.merge_after_first_k,
            easy=learning.easy,
            compat=compat,
        )
        found = levels_of(
            rows,
            flags,
            paths=lambda row: [str(path) for path in row["targets"]],
            question=lambda row: str(row.get("question") or row.get("problem_description") or ""),
        )
        return [Level(f"level {n}", [task_from_row(row) for row in level]) for n, level in enumerate(found)]

    @contextmanager
    def games(self, options: Options) -> Iterator[Callable[[], TextGame]]:
        """Games over one library of repositories, each looked at once."""
        from sweet_rl.worlds.auto_explore.game import ExploreGame
        from sweet_rl.worlds.auto_explore.repositories.library import Library

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
        """An agent that goes straight to the file, and one that draws random commands."""
        from sweet_rl.worlds.auto_explore.agents import PlanningExplorer, Wanderer

        if wanted.name == "wanderer":
            return Wanderer(system_prompt=wanted.system_prompt)
        if wanted.name != "planner":
            raise self.no_agent(wanted.name)
        targets = {task.task_id: task.ground_truth for task in wanted.tasks}
        return PlanningExplorer(targets, system_prompt=wanted.system_prompt)


def _is_list(request: LevelRequest) -> bool:
    return (request.tasks or "").partition(":")[0] in AutoExplore.sources


def _need_one(folder: str | None, roots: set[str]) -> None:
    """A repository that is missing spoils its own episodes; where all are, the folder is another one."""
    from sweet_rl.worlds.auto_explore.repositories.library import Library

    library = Library(folder)
    absent: UsageError | None = None
    for root in sorted(roots):
        try:
            library.get(root)
        except UsageError as error:
            absent = absent or error
        else:
            return
    if absent is not None:
        raise absent


WORLD = AutoExplore()
