"""AutoExplore played by a model as it is, in the talk that data is generated with.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, MaxFailed, Overwriting, Quiet, Seeded
from sweet_rl.sft_data.flags import Markov, Output, TaskFile
from sweet_rl.sft_data.teacher_flags import TeacherFlags, teacher_stage
from sweet_rl.worlds.auto_explore.stages.flags import Levels, Repositories


@dataclass(frozen=True, kw_only=True)
class AutoExploreGptFlags(
    TaskFile, Repositories, Levels, Markov, Output, MaxFailed, Seeded, Overwriting, Compatible, Quiet
):
    """The flags of this stage."""

    eval_reps: int = flag(10, "episodes of every task.", at_least=1)


@recorded("reflect auto_explore_gpt", reads=("task_file", "repo_dir"), prices=True, resumes=True)
@teacher_stage(
    "task_file",
    defaults={
        "task_file": "data/auto_explore/tasks_filtered/test.json",
        "output": "results/auto_explore_gpt.json",
    },
    helps={
        "output": "the file of results; beside it is a journal of the episodes.",
        "seed": "of the model's draws.",
        "overwrite": "begin again.",
        "compat": "fixed, or published: its targets, levels and costs, and an episode that fails is one that is not won.",
        "teacher": "embedded (no model: a scripted player that sees what a model sees, and knows whether a file that it opened is right), or openai: a model behind an OpenAI-compatible server.",
        "concurrency": "episodes in flight.",
    },
)
def auto_explore_gpt(flags: AutoExploreGptFlags, teacher_flags: TeacherFlags, /) -> None:
    """Let a model do tasks of AutoExplore, and print its success on every level.

    A model is named by --teacher openai --base_url URL --model NAME. Without these flags none is measured:
    the embedded player is, and the result says so.

    An episode that fails because a service is missing is in no number; the same command plays it again, and resumes
    where it stopped.
    """
    from sweet_rl.worlds.auto_explore.teacher.measuring import run

    run(flags, teacher_flags)
