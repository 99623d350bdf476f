"""Stage 2 of the pipeline: answers to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-code.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweet_rl.cli.progress import Bar, write_report
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.commands.evaluate import check_outputs, graded_file
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.models import NoSandbox
from sweet_rl.flags.shared import Compatible, Evaluation, FanOut, Quiet, Regrade
from sweet_rl.grading.code import WAYS, CodeGrader, constant_floor, reward_of, row_fields
from sweet_rl.grading.report import Report, graded_with, shown, summarise
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.types import Json, is_answer


@group("The sandbox")
class SandboxFlags(NoSandbox):
    test_timeout_s: float = flag(
        1.0, "processor time limit of a test, in seconds.", above=0, aliases=("timeout_s",)
    )
    memory_mb: int = flag(512, "memory limit of an answer, in MiB.", at_least=1, shown="all")
    workers: int | None = flag(
        None, "grading processes in each sandbox; default one for each core.", at_least=1
    )


@group("Grading")
class GradingFlags(Evaluation, SandboxFlags, Compatible, Regrade, FanOut, Quiet):
    pass


@recorded("evaluate_code", reads=("saved_path",))
@stage(
    "saved_path",
    helps={
        "compat": "which grade becomes the reward: fixed (an answer sees its own helpers, imports and "
        "recursion) or published (compares with the paper's numbers)."
    },
    narrow={
        "compat": {"aliases": ("grading",), "formerly": (), "shown": "help"},
        "regrade": {"formerly": ("reevaluate",)},
    },
    facets=lambda flags: {"fan_out": {flags["fan_out"]}},
)
def evaluate_code(flags: GradingFlags, /) -> None:
    """Grade functions by their hidden tests; print the table; write preference pairs.

    Every answer runs in a sandbox: its own process without network, files or environment. Rows with a reward
    are skipped. Each graded row gets `reward` (the share of tests passed; null if the task cannot be graded),
    `grades` (all kinds of grade), `test_results` and `graded_with`; the file is replaced atomically.

    The table shows tests passed and success (all tests passed) with 95 % confidence intervals for each kind
    of grade, and the score of the best constant answer. The lenient grade is the fixed one with a tolerant
    search for the code; the difference is due to formatting. The same goes into a JSON report.
    """
    check_outputs(flags)
    if (cluster := flags.cluster) is not None:
        with cluster.grader_of(flags) as grader:
            run(flags, grader)
        return
    with sandbox_of(flags) as sandbox:
        run(flags, CodeGrader(sandbox))


def sandbox_of(flags: SandboxFlags) -> Sandbox:
    """A sandbox with these limits, started; the caller closes it."""
    return Sandbox(
        workers=flags.workers,
        timeout_s=flags.test_timeout_s,
        memory_mb=flags.memory_mb,
        unsafe_no_sandbox=flags.unsafe_no_sandbox,
    )


def run(flags: GradingFlags, grader: CodeGrader) -> None:
    """Grade, save, print and pair."""
    saved_path, way = flags.saved_path, flags.compat
    made_by = graded_with("tests", {"test_timeout_s": flags.test_timeout_s, "memory_mb": flags.memory_mb})

    def known(row: Mapping[str, Json]) -> dict[str, Json] | None:
        """A reward without a grade was given elsewhere; a grade of another way becomes the reward."""
        grades = row.get("grades") or {}
        other = None if row.get("reward") is None else dict[str, Json]()
        return {"reward": reward_of(grades, way)} if way in grades else other

    with graded_file(saved_path, flags.k, regrade=flags.regrade) as file:
        tasks = [file.trajectories[group[0]].task for group in file.groups]
        outputs = grader.reference_outputs(tasks)
        floors = {task.task_id: constant_floor(outputs[task.task_id]) for task in tasks}
        reasons = {task.task_id: why for task in tasks if (why := outputs[task.task_id].why_not_gradable)}
        if not any(task.test_cases for task in tasks):
            reasons = dict.fromkeys(floors, "it has no tests")
        elsewhere = any(
            row.get("reward") is not None and not row.get("grades") and one.task.test_cases
            for row, one in zip(file.rows, file.trajectories, strict=True)
        )
        if len(reasons) == len(floors) and not elsewhere:
            raise UsageError(
                "\n".join([f"None of the tasks of {saved_path!r} can be graded:", *shown(reasons)])
            )
        missing = file.missing(known, flags.regrade, "tests")
        graded = grader.grade_all(file.trajectories[index] for index in missing)
        with Bar(len(missing), 0, unit="answer", quiet=flags.quiet or not missing) as bar:
            for index, found in zip(missing, graded, strict=True):
                file.update(index, row_fields(found, way, made_by))
                bar.update()
    rows = file.counted
    columns = {"reward": summarise([row.get("reward") for row in file.rows], file.groups)}
    if all("grades" in row for row in rows):
        grades = [row.get("grades") or {} for row in file.rows]
        columns = {
            way: summarise([one.get(way) for one in grades], file.groups, none_is_zero=way == "published")
            for way in WAYS
            if all(way in row["grades"] for row in rows)  # a file of an earlier version has no lenient ones
        }
    floor = [None if task.task_id in reasons else floors[task.task_id] for task in tasks]
    columns["constant answer"] = summarise(floor, [[index] for index in range(len(tasks))])
    known_grades = [row.get("grades") or {} for row in rows]
    outcomes = [{test["outcome"] for test in row.get("test_results") or []} for row in rows]
    counts = {  # what a reader of the table should know
        "rows with a stored reward of unknown grading": sum("grades" not in row for row in rows),
        "answers that only the word filter or a fence rule set to zero: without it they pass every test": sum(
            grade.get("fixed") == 0 and grade.get("lenient") == 1 for grade in known_grades
        ),
        "answers to tasks that cannot be graded": sum(
            "fixed" in grade and grade["fixed"] is None for grade in known_grades
        ),
        "answers with a test that ran out of time": sum("timeout" in seen for seen in outcomes),
        "answers that would have ended the published evaluation": sum(
            "grades" in row and row["grades"].get("published") is None for row in rows
        ),
        "dialogues without an answer": sum(not is_answer(row.get("answer")) for row in rows),
        "dialogues with a failed request": sum(bool(row.get("failures") or row.get("error")) for row in rows),
    }
    size = (len(file.rows), len(file.groups), file.k)
    report = Report(*size, columns, counts, grader.protection, reasons, file.failed)
    print(report.to_text(saved_path))
    write_report(saved_path, flags.report_path, {"grading": way} | report.to_json())
    file.write_pairs(flags, None)
