"""What AutoExplore has on the command line: its stages and its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.cli.stage import StageEntry
from sweet_rl.flags import Settings, flag, group, no_flag
from sweet_rl.worlds.options import Options

ACTION_HEAD: Final = "\n# Choose from below your command"
"""What begins the list of actions, which ends a prompt."""

STAGES: Final[Mapping[str, StageEntry]] = {
    f"reflect {name}": StageEntry(
        f"sweet_rl.worlds.auto_explore.{module}:{name}", f"AutoExplore: {summary}", tuple(writes)
    )
    for module, name, summary, *writes in (
        ("data_tasks", "make_repositories", "make small repositories with facts to find.", "repos"),
        ("data_tasks", "filter_repo", "copy what may be shown of repositories.", "repos_filtered"),
        (
            *("data_tasks", "gen_task", "let a teacher ask questions about files of repositories."),
            *("tasks", "tasks/data.json"),
        ),
        (
            *("tasks", "filter_task", "drop tasks that cannot be played, and duplicates."),
            "tasks_filtered/data.json",
        ),
        (
            *("data_texts", "reflection_negative", "let a teacher do tasks and explain its steps."),
            "data_reflection_negative.json",
        ),
        (
            *("tasks", "split_data", "divide tasks 7:2:1 into train, validate and test."),
            *("train.json", "validate.json", "test.json"),
        ),
        ("data_texts", "gen_sft", "write training texts from trajectories.", "sft*.jsonl"),
        (
            "data_texts",
            "auto_explore_gpt",
            "evaluate an untrained model in the dialogues of data generation.",
        ),
    )
}
"""What is typed behind `sweet-rl`, in the order in which data are made."""


@group("Inputs and outputs")
class Repositories(Settings):
    repo_dir: str = flag("data/auto_explore/repos_filtered", "the repositories that the tasks are about.")


@group("The levels")
class Levels(Settings):
    depth_curriculum: bool = flag(False, "levels by the depth of the files; otherwise one level.")
    merge_first_two: bool = flag(False, "merge the two shallowest levels.", shown="all")
    merge_after_first_k: int = flag(3, "levels to keep; the deeper ones are merged.", at_least=0, shown="all")


@group("Options of AutoExplore")
class ExploreOptions(Options):
    place: str | None = flag(
        None, "folder of repositories; default: the embedded ones.", aliases=("game_place",)
    )
    leaveout_prob: float = flag(
        0.0,
        "probability of hiding each file or folder that does not lead to an answer.",
        at_least=0,
        at_most=1,
    )
    shuffle_action: bool = flag(False, "draw new labels for the commands at every step.")


@group("Options of AutoExplore for training")
class ExploreLearning(ExploreOptions, Levels):
    place: str | None = flag(
        "data/auto_explore/repos_filtered/",
        "folder of the repositories, for tasks from a file.",
        aliases=("repo_dir",),
    )
    leaveout_prob: float = flag(
        0.5, "probability of hiding a file that is not an answer.", at_least=0, at_most=1
    )
    easy: bool = flag(False, "name the wanted file in the question.")
    first_step: bool = no_flag(False)
