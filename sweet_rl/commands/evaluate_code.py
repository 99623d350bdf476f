"""Stage 2 of the pipeline: answers to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-code.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import flag
from sweet_rl.flags.models import NoSandbox
from sweet_rl.flags.shared import Compatible, Evaluation, FanOut, Quiet, Regrade


@dataclass(frozen=True, kw_only=True)
class SandboxFlags(NoSandbox):
    """The sandbox."""

    test_timeout_s: float = flag(
        1.0, "seconds of computing that one test may take.", above=0, aliases=("timeout_s",)
    )
    memory_mb: int = flag(512, "memory that one answer may take.", at_least=1, shown="all")
    workers: int | None = flag(
        None, "processes that grade, in each sandbox; default one for each core.", at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class GradingFlags(Evaluation, SandboxFlags, Compatible, Regrade, FanOut, Quiet):
    """Grading."""


@recorded("evaluate_code", reads=("saved_path",))
@stage(
    "saved_path",
    helps={
        "compat": "which grade becomes the reward: fixed (an answer sees its own helpers, imports and recursion) or published (compares with the paper's numbers).",
        "fan_out": "local (this machine), or ray: a sandbox on each machine of a Ray cluster.",
        "overwrite": "replace files of pairs, and a report of another file, when they exist.",
        "regrade": "grade all rows again, also those that have a reward.",
    },
    narrow={
        "compat": {"aliases": ("grading",), "formerly": (), "shown": "help"},
        "regrade": {"formerly": ("reevaluate",)},
    },
    facets=lambda flags: {"fan_out": {flags["fan_out"]}},
)
def evaluate_code(flags: GradingFlags, /) -> None:
    """Grade functions by their hidden tests; print the table; write preference pairs.

    Every answer runs in a sandbox: a process of its own without network, files or environment. Rows that have
    a reward are not graded again. Each graded row gets `reward` (the share of tests passed; null where the task
    cannot be graded), `grades` (all ways of grading), `test_results` and `graded_with`; the file is replaced at once or not at all.

    The table shows tests passed and success (all tests) with 95 % confidence intervals, in each way of
    grading, beside what the best constant answer would score. Lenient is fixed for whatever a person would
    take for the code; the difference is format. The same goes into a JSON report.
    """
    from sweet_rl.commands import code_evaluation
    from sweet_rl.commands.evaluation import check_outputs
    from sweet_rl.commands.parts import cluster_of
    from sweet_rl.grading.code import CodeGrader

    check_outputs(flags)
    if (cluster := cluster_of(flags)) is not None:
        with cluster.grader_of(flags) as grader:
            code_evaluation.run(flags, grader)
        return
    with code_evaluation.sandbox_of(flags) as sandbox:
        code_evaluation.run(flags, CodeGrader(sandbox))
