"""Which of two runs is better, and where: task by task, as a table and as one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Overwriting


@dataclass(frozen=True, kw_only=True)
class CompareFlags(Overwriting):
    """How runs are compared, and where to."""

    output: str = flag("comparison.html", "the page; its numbers as JSON are beside it (.json).")
    interval: Literal["student", "bootstrap"] = flag(
        "student", "of differences: Student's over tasks, or a paired bootstrap's over tasks."
    )
    dialogues: int = flag(
        12, "on the page: so many tasks that only the one run solves, and as many of the other.", at_least=0
    )
    force: bool = flag(
        False,
        "compare what runs share although their tasks, worlds, humans, rules or graders differ, or a file is torn or being "
        "written; the page says so on top.",
    )


@recorded("compare")
@stage(helps={"overwrite": "replace the page and its numbers when they exist."})
def compare(flags: CompareFlags, /, *runs: str) -> None:
    """Compare runs of the same tasks: the first one with each of the others.

    A run is a file of trajectories, a folder of `sweet-rl eval`, or, beside its likes, the folder or metrics.jsonl of a
    training. Of every number the difference task by task, with its interval; wins, losses and ties; McNemar's exact test
    where every task has one success or failure, else a paired t; by kinds of tasks and by turns; what only the one
    solves. The table is printed; the page has the dialogues side by side. Runs of other tasks, humans, rules or
    graders are refused.

    The smallest comparison:
    sweet-rl eval --model expert --num_tasks 50 --output_dir a
    sweet-rl eval --model random --num_tasks 50 --output_dir b
    sweet-rl compare a b

    Args:
        flags: how, and where to.
        runs: two or more.
    """
    if len(runs) < 2:
        raise UsageError("Name at least two runs, for example: sweet-rl compare evals/a evals/b")
    from sweet_rl.commands import comparing

    comparing.run(flags, runs)
