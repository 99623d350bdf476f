"""Stages that make AutoExplore's training data, and measure models in its talk; one a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sweet_rl.command_line.listing import StageEntry

_HERE: Final = "sweet_rl.worlds.auto_explore.stages"

STAGES: Final[Mapping[str, StageEntry]] = {
    "reflect make_repositories": StageEntry(
        f"{_HERE}.make_repositories:make_repositories",
        "AutoExplore: make small repositories with facts to find.",
        ("repos",),
    ),
    "reflect filter_repo": StageEntry(
        f"{_HERE}.filter_repo:filter_repo",
        "AutoExplore: copy what may be shown of repositories.",
        ("repos_filtered",),
    ),
    "reflect gen_task": StageEntry(
        f"{_HERE}.gen_task:gen_task",
        "AutoExplore: let a teacher ask questions about files of repositories.",
        ("tasks", "tasks/data.json"),
    ),
    "reflect filter_task": StageEntry(
        f"{_HERE}.filter_task:filter_task",
        "AutoExplore: drop tasks that cannot be played, and duplicates.",
        ("tasks_filtered/data.json",),
    ),
    "reflect reflection_negative": StageEntry(
        f"{_HERE}.reflection_negative:reflection_negative",
        "AutoExplore: let a teacher do tasks aloud, also from wrong files.",
        ("data_reflection_negative.json",),
    ),
    "reflect split_data": StageEntry(
        f"{_HERE}.split_data:split_data",
        "AutoExplore: divide tasks 7:2:1 into train, validate and test.",
        ("train.json", "validate.json", "test.json"),
    ),
    "reflect gen_sft": StageEntry(
        f"{_HERE}.gen_sft:gen_sft",
        "AutoExplore: write training texts from trajectories.",
        ("sft*.jsonl",),
    ),
    "reflect auto_explore_gpt": StageEntry(
        f"{_HERE}.auto_explore_gpt:auto_explore_gpt",
        "AutoExplore: measure a model as it is, in the talk of the data generation.",
    ),
}
"""What is typed behind `sweet-rl`, in the order in which data are made."""
