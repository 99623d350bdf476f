"""The work of `evaluate_code`, `evaluate_games` and, in part, `evaluate_html`: a file graded in place, its report, its pairs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.command_line.running import progress, write_report
from sweet_rl.commands.fan_out import RayGrader
from sweet_rl.errors import UsageError
from sweet_rl.flags.common import Evaluation
from sweet_rl.grading.code import WAYS, CodeGrader, constant_floor, reward_of, row_fields
from sweet_rl.grading.hidden_tests import why_not_gradable
from sweet_rl.grading.identity import graded_with
from sweet_rl.grading.report import Report, failed_words, repeats_words, summarise
from sweet_rl.grouping import group_by_identity, group_by_task, repeats_of
from sweet_rl.preferences.step_pairs import dialogue_hard_negatives
from sweet_rl.preferences.trajectory_pairs import TrajectoryPair, margin_pairs, pair_rows, trajectory_pairs
from sweet_rl.records import locked, read_rows, replace_rows, trajectories_from_rows
from sweet_rl.runs import new_file
from sweet_rl.statistics import Estimate, mean_over_tasks, share_over_tasks
from sweet_rl.types import NO_ANSWER, AgentTurn, Json, StopReason, Trajectory

if TYPE_CHECKING:
    from sweet_rl.commands.evaluate_code import GradingFlags
    from sweet_rl.commands.evaluate_games import GameFlags

_SAVE_AFTER_S = 1.0
_SAVING_SHARE = 0.05
"""Grading is saved as often as costs a twentieth of the time; what is saved is not graded again."""


class GradedFile:
    """A trajectory file in our hands: `rows` are changed in place and keep every field they have.

    `trajectories` are the same rows as they were read; `groups` holds the row indices of each task's repeats
    that did not fail, of the tasks that have any; `failed` counts the rows that did. Failed episodes have no
    reward, and get none. `k` is the number of repeats of every task, None where they differ.

    Args:
        path: of the file.
        k: repeats of each task; None: as the rows say, which are one each where they do not say which repeat they are.

    Raises:
        UsageError: there are no rows, or all episodes failed.
    """

    def __init__(self, path: str, k: int | None) -> None:
        numbered = list(read_rows(path))
        self.path = path
        self.rows = [row for _, row in numbered]
        self.trajectories = trajectories_from_rows(numbered, path=path)
        if not self.trajectories:
            raise UsageError(f"{path!r} holds no trajectories.")
        if k is None and all(row.get("sample_index") is not None for row in self.rows):
            groups = group_by_identity(self.trajectories)
        else:
            groups = group_by_task(self.trajectories, k or 1, path=path)
        self.k = repeats_of(groups)
        self._changed = False
        self._known = self._others = 0
        self._saved = time.monotonic()
        self._wait_s = _SAVE_AFTER_S
        self.groups = [kept for group in groups if (kept := [i for i in group if self.counts(i)])]
        self.failed = sum(trajectory.failed for trajectory in self.trajectories)
        if not self.groups:
            first = next((error for one in self.trajectories if (error := one.error)), "unknown")
            raise UsageError(
                f"All {self.failed} episodes of {path!r} failed: there is nothing to grade. "
                f"The first: {first}. Play them again: the command that made the file, with --to_continue."
            )
        for index, row in enumerate(self.rows):
            if not self.counts(index) and row.get("reward") is not None:  # by an earlier version
                row["reward"], self._changed = None, True

    def counts(self, index: int) -> bool:
        """Whether the row is of an episode that did not fail."""
        return not self.trajectories[index].failed

    def update(self, index: int, fields: Mapping[str, Json]) -> None:
        """Give a row fields, and save all rows now and then."""
        row, before = self.rows[index], self.rows[index].get("reward")
        row |= fields
        self._changed = True
        self._known += before is not None
        self._others += before is not None and row.get("reward") != before
        if time.monotonic() - self._saved > self._wait_s:
            self.save()

    def say_regraded(self, *, regrade: bool) -> None:
        """Say what became of the rewards of rows that were graded again."""
        if regrade:
            print(
                f"Graded again: {self._known} rows had a reward, and {self._others} of them got another one."
            )

    def save(self) -> None:
        """Write all rows, at once or not at all, where any has changed."""
        if self._changed:
            started = time.monotonic()
            tracking.changes(self.path)
            replace_rows(self.path, self.rows)
            self._saved, self._changed = time.monotonic(), False
            self._wait_s = max(_SAVE_AFTER_S, (self._saved - started) / _SAVING_SHARE)


@contextmanager
def graded_file(path: str, k: int | None) -> Iterator[GradedFile]:
    """The file, locked; finished grades are saved at the end, also after an error.

    Raises:
        SweetRLError: the file is broken, in use, or not in groups of `k`; nothing in it was changed.
    """
    with locked(path):
        file = GradedFile(path, k)
        try:
            yield file
        finally:
            file.save()


def check_outputs(flags: Evaluation) -> None:
    """Check, before grading, that no output replaces an existing file.

    A report of the same trajectory file is brought up to date without asking.

    Raises:
        UsageError: one of the files exists, and may not be replaced.
    """
    for name in ("preference_path", "ground_truth_preference_path"):
        if (path := getattr(flags, name)) is not None:
            new_file(path, name, overwrite=flags.overwrite)
    if (report := flags.report_path) is not None and not _is_report_of(flags.saved_path, Path(report)):
        new_file(report, "report_path", overwrite=flags.overwrite)


def _is_report_of(saved_path: str, report: Path) -> bool:
    try:
        found = json.loads(report.read_bytes())
        return Path(found["saved_path"]).resolve() == Path(saved_path).resolve()
    except (OSError, ValueError, LookupError, TypeError):
        return False


def write_pairs(
    paths: Mapping[bool, str | None],
    pairs: Sequence[TrajectoryPair],
    to_rows: Callable[[bool], Sequence[Json]],
    *,
    why_none: str,
    skipped: int,
    guards: Sequence[Json] = (),
) -> None:
    """Write the pair files that are asked for, and say how many pairs they hold.

    Args:
        paths: where pairs go, by whether the hidden solution precedes them.
        pairs: what is written.
        to_rows: the pairs as rows, given the key of `paths`.
        why_none: the reason that is printed where there are none.
        skipped: dialogues that did not fail and cannot stand in a pair.
        guards: rows of single turns beside the pairs without the solution (`sweet_rl.preferences.step_pairs`).
    """
    remark = "" if pairs else f"({why_none}) "
    for with_ground_truth, path in paths.items():
        if path is not None:
            tracking.writes(path)
            beside = () if with_ground_truth else guards
            replace_rows(path, [*to_rows(with_ground_truth), *beside])
            print(f"{len(pairs)} pairs {remark}are in {path}")
            if beside:
                print(f"{len(beside)} rows of hard negatives are in it, too.")
    if skipped and any(paths.values()):
        print(f"{skipped} dialogues that do not end with an agent turn are in no pair.")


def usable_in_pairs(trajectories: Sequence[Trajectory]) -> list[bool]:
    """Which trajectories end with an agent turn, and did not fail."""
    return [trajectory.last_turn is not None and not trajectory.failed for trajectory in trajectories]


def grade_code(flags: GradingFlags, grader: CodeGrader | RayGrader) -> None:
    """Grade, save, print and pair.

    Args:
        flags: of `evaluate_code`.
        grader: of this machine or of a cluster.

    Raises:
        SweetRLError: the file is broken, in use, or not in groups of `k`; nothing in it was changed.
    """
    saved_path = flags.saved_path
    with graded_file(saved_path, flags.k) as file:
        _grade(file, grader, flags)
    file.say_regraded(regrade=flags.regrade)
    report = _report(file, grader)
    print(report.to_text(saved_path))
    write_report(saved_path, flags.report_path, {"grading": flags.compat} | report.to_json())
    usable = usable_in_pairs(file.trajectories)
    rewards = [row.get("reward") for row in file.rows]
    in_pairs = [able and reward is not None for able, reward in zip(usable, rewards, strict=True)]
    pairs = trajectory_pairs([float(reward or 0.0) for reward in rewards], file.groups, in_pairs)
    write_pairs(
        flags.pair_paths,
        pairs,
        lambda hidden: pair_rows(file.trajectories, pairs, with_ground_truth=hidden),
        why_none="no task has a right answer beside a worse one",
        skipped=usable.count(False) - file.failed,
        guards=dialogue_hard_negatives(file.trajectories, pairs, flags.hard_negatives),
    )


def _grade(file: GradedFile, grader: CodeGrader | RayGrader, flags: GradingFlags) -> None:
    """Fill in rewards where they are missing."""
    grading, missing = flags.compat, []
    for index, row in enumerate(file.rows):
        known = row.get("grades") or {}
        if not file.counts(index):
            continue
        if flags.regrade or (row.get("reward") is None and grading not in known):
            missing.append(index)
        elif grading in known and row.get("reward") != reward_of(
            known, grading
        ):  # graded before, another way
            file.update(index, {"reward": reward_of(known, grading)})
    graded = grader.grade_all(file.trajectories[index] for index in missing)
    made_by = graded_with("tests", {"test_timeout_s": flags.test_timeout_s, "memory_mb": flags.memory_mb})
    with progress(len(missing), 0, unit="answer", quiet=flags.quiet or not missing) as bar:
        for index, grades in zip(missing, graded, strict=True):
            file.update(index, row_fields(grades, grading, made_by))
            bar.update()


def _report(file: GradedFile, grader: CodeGrader | RayGrader) -> Report:
    rows = [row for index, row in enumerate(file.rows) if file.counts(index)]
    columns = {"reward": summarise([row.get("reward") for row in file.rows], file.groups)}
    if all("grades" in row for row in rows):
        grades = [row.get("grades") or {} for row in file.rows]
        columns = {
            way: summarise([one.get(way) for one in grades], file.groups, none_is_zero=way == "published")
            for way in WAYS
            if all(way in row["grades"] for row in rows)  # a file of an earlier version has no lenient ones
        }
    tasks = [file.trajectories[group[0]].task for group in file.groups]
    outputs = grader.reference_outputs(tasks)
    reasons = {task.task_id: why_not_gradable(task, outputs[task.task_id]) for task in tasks}
    floor = [None if reasons[task.task_id] else constant_floor(outputs[task.task_id]) for task in tasks]
    columns["constant answer"] = summarise(floor, [[index] for index in range(len(tasks))])
    return Report(
        len(file.rows),
        len(file.groups),
        file.k,
        columns,
        _counts(rows),
        grader.protection,
        {task_id: why for task_id, why in reasons.items() if why},
        file.failed,
    )


def _counts(rows: Sequence[Mapping[str, Json]]) -> dict[str, int]:
    """How many rows have what a reader of the table should know."""
    grades = [row.get("grades") or {} for row in rows]
    outcomes = [{test["outcome"] for test in row.get("test_results") or []} for row in rows]
    return {
        "rows with a stored reward of unknown grading": sum("grades" not in row for row in rows),
        "answers that only the word filter or a fence rule set to zero: without it they pass every test": sum(
            grade.get("fixed") == 0 and grade.get("lenient") == 1 for grade in grades
        ),
        "answers to tasks that cannot be graded": sum(
            "fixed" in grade and grade["fixed"] is None for grade in grades
        ),
        "answers with a test that ran out of time": sum("timeout" in seen for seen in outcomes),
        "answers that would have ended the published evaluation": sum(
            "grades" in row and row["grades"].get("published") is None for row in rows
        ),
        "dialogues without an answer": sum(row.get("answer") in {None, NO_ANSWER} for row in rows),
        "dialogues with a failed request": sum(bool(row.get("failures") or row.get("error")) for row in rows),
    }


def measure_games(flags: GameFlags) -> None:
    """Print the table, write the report and the pairs.

    Raises:
        UsageError: no episode of the file was rewarded.
        DataError: the file is broken or not in groups of `k`.
    """
    saved_path, margin = flags.saved_path, flags.margin
    file = GradedFile(saved_path, flags.k)
    k = file.k
    rewards = [None if one.failed else one.reward for one in file.trajectories]
    if all(reward is None for reward in rewards):
        raise UsageError(
            f"{saved_path!r} holds no rewards: its world does not reward turns, or every episode failed. "
            "Functions are graded by evaluate_code.py, pages by evaluate_html.py."
        )
    rewarded = _by_task(file, lambda trajectory: trajectory.reward)
    numbers = {
        "return": mean_over_tasks(rewarded),
        "return, best of k": mean_over_tasks([[max(task)] for task in rewarded]),
        "ended by the world": share_over_tasks(_by_task(file, _ended)),
        "turns": mean_over_tasks(_by_task(file, _turns)),
    }
    if any(_won(trajectory) is not None for trajectory in file.trajectories):
        numbers["won"] = share_over_tasks(_by_task(file, _won))
    failed = sum(reward is None for reward in rewards)
    size = f"{len(rewards)} episodes, {len(file.groups)} tasks{repeats_words(k)}"
    print(f"{saved_path}: {size}{failed_words(failed)}\n")
    for name, interval in numbers.items():
        if (k is not None and k > 1) or name != "return, best of k":
            print(f"{name:<22}{_shown(interval)}")
    if failed:
        print(f"{failed:>6}  episodes failed and are left out")
    report = {"trajectories": len(rewards), "tasks": len(file.groups), "k": k, "failed": failed}
    write_report(
        saved_path, flags.report_path, report | {name: asdict(found) for name, found in numbers.items()}
    )
    usable = usable_in_pairs(file.trajectories)
    pairs = margin_pairs(rewards, file.groups, margin, usable)
    write_pairs(
        flags.pair_paths,
        pairs,
        lambda hidden: pair_rows(file.trajectories, pairs, with_ground_truth=hidden),
        why_none=f"no two episodes of a task differ by {margin:g}",
        skipped=usable.count(False) - file.failed,
        guards=dialogue_hard_negatives(file.trajectories, pairs, flags.hard_negatives),
    )


def _ended(trajectory: Trajectory) -> float | None:
    return None if trajectory.reward is None else float(trajectory.stop_reason is StopReason.ENDED)


def _won(trajectory: Trajectory) -> float | None:
    """Whether the goal was reached, where the world reports it."""
    game = trajectory.extra.get("game")
    won = game.get("won") if isinstance(game, Mapping) else None
    return None if trajectory.reward is None or not isinstance(won, bool) else float(won)


def _turns(trajectory: Trajectory) -> float | None:
    turns = sum(isinstance(entry, AgentTurn) for entry in trajectory.dialogue_history)
    return None if trajectory.reward is None else float(turns)


def _by_task(file: GradedFile, number: Callable[[Trajectory], float | None]) -> list[list[float]]:
    """The values of each task's repeats that have one; tasks without any are left out."""
    tasks = [
        [value for row in group if (value := number(file.trajectories[row])) is not None]
        for group in file.groups
    ]
    return [task for task in tasks if task]


def _shown(found: Estimate) -> str:
    return f"{found.mean:8.2f}" + ("" if found.low is None else f" [{found.low:.2f}, {found.high:.2f}]")
