"""What `evaluate_code` and `evaluate_html` share: a file graded in place, and its pairs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.flags.shared import Evaluation
from sweet_rl.preferences.trajectory_pairs import TrajectoryPair
from sweet_rl.records import locked, read_rows, replace_rows, stamp_of, trajectories_from_rows
from sweet_rl.records.rows import group_by_identity, group_by_task, repeats_of
from sweet_rl.runs import new_file
from sweet_rl.types import Json, Trajectory
from sweet_rl.viewer.rows import rewards_turns
from sweet_rl.worlds import two_worlds, world_in, world_named_in

_SAVE_AFTER_S = 1.0
_SAVING_SHARE = 0.05
"""Grading is saved as often as costs a twentieth of the time; what is saved is not graded again."""


class GradedFile:
    """A trajectory file in our hands: `rows` are changed in place and keep every field they have.

    `trajectories` are the same rows as they were read; `groups` holds the row indices of each task's repeats
    that did not fail, of the tasks that have any; `failed` counts the rows that did. Failed episodes have no
    reward, and get none. `k` is the number of repeats of every task, None where they differ.
    """

    def __init__(self, path: str, k: int | None) -> None:
        self._stamp = stamp_of(path)
        numbered = list(read_rows(path))
        self.path = path
        self.rows = [row for _, row in numbered]
        self.trajectories = trajectories_from_rows(numbered, path=path)
        if not self.trajectories:
            raise UsageError(f"{path!r} holds no trajectories.")
        _refuse_two_worlds(path, [line for line, _ in numbered], self.trajectories)
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
            try:
                self._stamp = replace_rows(self.path, self.rows, self._stamp)
            except UsageError:
                self._changed = False  # it is kept beside a file that has changed: once is enough
                raise
            self._saved, self._changed = time.monotonic(), False
            self._wait_s = max(_SAVE_AFTER_S, (self._saved - started) / _SAVING_SHARE)


def _refuse_two_worlds(path: str, lines: Sequence[int], trajectories: Sequence[Trajectory]) -> None:
    """A mean over two worlds says nothing of either. Rows that name none are told apart by how they are graded."""
    seen: dict[str, tuple[str, int, str]] = {}
    for line, one in zip(lines, trajectories, strict=True):
        name, world, task = world_named_in(one.provenance), world_in(one.provenance), one.task
        if name is not None:
            said, stage = name, world and world.evaluation
        elif task.test_cases:
            said, stage = "a world with hidden tests", "evaluate_code"
        elif rewards_turns([one]):
            said, stage = "a world that rewards turns", "evaluate_games"
        elif "<html" in task.ground_truth.lower():
            said, stage = "a world of web pages", "evaluate_html"
        else:
            continue
        for kind, value in (("name", name), ("stage", stage)):
            known, first, words = seen.setdefault(kind, (value, line, said)) if value else (value, line, said)
            if value != known:
                raise two_worlds(said, words, first, path=path, line=line)


@contextmanager
def graded_file(path: str, k: int | None) -> Iterator[GradedFile]:
    """The file, locked; finished grades are saved at the end, also after an error."""
    with locked(path):
        file = GradedFile(path, k)
        try:
            yield file
        finally:
            file.save()


def check_outputs(flags: Evaluation) -> None:
    """Check, before grading, that no output replaces an existing file.

    A report of the same trajectory file is brought up to date without asking.
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
    """Write the pair files that are asked for, and say how many pairs they hold."""
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
