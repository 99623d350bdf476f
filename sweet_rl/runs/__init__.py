"""Runs on disk. Here: which episodes a file has, whether they were made the same way, their final order.

`record` keeps a `run.json` with every output; `facts` are what it says of library, machine and files, and read it.

Published behaviour: docs/published/sweet_rl.md#row-order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import Journal, read_rows, replace_rows, stamp_of
from sweet_rl.rollout import Episode
from sweet_rl.runs.facts import changed_input, place_of, read_record
from sweet_rl.types import Json, StopReason

Key = tuple[str, int]
Settings = Mapping[str, Json]

_FAILED = frozenset(reason.value for reason in StopReason if reason.failed)

HOW_TO_MIX = "Use the settings of the first run, or choose another output."
"""What a person can do about a file that was made another way."""


@dataclass(frozen=True, slots=True)
class Run:
    """A file with some of its episodes done: each one's place in the finished file, those not played again, the rest."""

    order: Mapping[Key, int]
    done: frozenset[Key]
    todo: tuple[Episode, ...]


def open_journal(path: str | Path, *, to_continue: bool, overwrite: bool) -> Journal:
    """Open the output file; UsageError where it has rows and no flag says what to do with them; others as of `Journal`."""
    target = Path(path)
    if overwrite and to_continue:
        raise UsageError("--overwrite and --to_continue exclude each other.")
    if target.is_dir():
        raise UsageError(f"--output_path {str(path)!r} is a folder; name a .jsonl file in it.")
    if target.exists() and target.stat().st_size and not to_continue and not overwrite:
        raise UsageError(
            f"{str(path)!r} already holds a run. Pass --to_continue to finish it, --overwrite to start "
            "again, or choose another --output_path."
        )
    return Journal(target, overwrite=overwrite)


def new_file(path: str | Path, flag: str, *, overwrite: bool, folder: bool = False) -> None:
    """Raise UsageError, before any work, where a file (or folder) that is made all at once must not be written."""
    target = Path(path).expanduser()
    if target.is_dir() != folder and target.exists():
        wrong = "is a file; name a folder" if folder else "is a folder; name a file in it"
        raise UsageError(f"--{flag} {str(path)!r} {wrong}.")
    if not overwrite and target.exists() and (any(target.iterdir()) if folder else target.stat().st_size):
        there = "holds something" if folder else "exists"
        ways = f"Pass --overwrite to replace it, or choose another --{flag}."
        raise UsageError(f"{str(path)!r} {there} already. {ways}")


def plan(
    episodes: Sequence[Episode],
    rows: Sequence[tuple[int, dict[str, Json]]],
    *,
    settings: Settings,
    path: str | Path,
    retry_failed: bool = True,
    repair: str = HOW_TO_MIX,
) -> Run:
    """Compare the rows on disk, with their lines, with all episodes in final order; `settings` are what rows would say.

    An episode that failed is played again (`retry_failed`). Its row stays until a complete run is brought
    into order; of several rows of one episode the last counts, and all before it must have failed (else DataError).
    UsageError: the file was made from other tasks or with other settings.
    """
    keys = [(episode.task.task_id, episode.sample_index) for episode in episodes]
    order = {key: i for i, key in enumerate(keys)}
    wanted = {key: episode.task.row for key, episode in zip(keys, episodes, strict=True)}
    record = read_record(place_of(Path(path), folder=False)) if rows else None
    if record is not None and (changed := changed_input(record, "world")):
        raise UsageError(f"{str(path)!r} was begun with another world: {changed}. {repair}")
    done: dict[Key, int] = {}
    failed: set[Key] = set()
    for position, (line, row) in enumerate(rows):
        key = _key(row, position, keys)
        where = f"{str(path)!r}, line {line}"
        # A repeat beyond --repeats of a task that is wanted: the file was once made with more repeats.
        if key not in wanted and (key[0], 0) not in wanted:
            raise UsageError(f"{where}: this episode is of a task that is not among yours. {repair}")
        if key in wanted and row.get("task") != wanted[key]:
            raise UsageError(f"{where}: the task {key[0]!r} differs from yours of that name. {repair}")
        theirs = (row.get("provenance") or {}).get("settings")
        if theirs is not None:
            check_settings(theirs, settings, where, repair)
        if key in done and key not in failed:
            twice, field = "is an episode that is in the file twice", "task_id, sample_index"
            repair = f"Delete this line or line {done[key]}."
            raise DataError(twice, path=path, line=line, field=field, value=key, repair=repair)
        done[key] = line
        (failed.add if has_failed(row) else failed.discard)(key)
    kept = done.keys() - failed if retry_failed else done.keys()
    todo = tuple(episode for key, episode in zip(keys, episodes, strict=True) if key not in kept)
    return Run(order, frozenset(kept), todo)


def has_failed(row: Mapping[str, Json]) -> bool:
    """Whether a row is of an episode that failed (`Trajectory.failed`)."""
    reason = row.get("stop_reason")
    return isinstance(reason, str) and reason in _FAILED


def check_settings(theirs: Settings, ours: Settings, where: str, repair: str = HOW_TO_MIX) -> None:
    """Refuse to continue a file that was made with other settings; `where` is the row whose settings are `theirs`."""
    changed = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
    if changed:
        differences = ", ".join(f"{n} was {theirs.get(n)!r}, is {ours.get(n)!r}" for n in changed)
        raise UsageError(f"{where}: the file was made with other settings: {differences}. {repair}")


def finish(
    path: str | Path,
    order: Mapping[Any, int],
    *,
    key: Callable[[Mapping[str, Json]], Any] | None = None,
    failed: Callable[[Mapping[str, Json]], bool] = has_failed,
) -> list[dict[str, Json]]:
    """Bring a complete file of episodes, or of what else rows have a `key` for, into an order, at once or not at all.

    Of what failed and was done again the last row stays. Rows that are not in the order follow as they stand.
    Returns the rows that failed.
    """
    stamp = stamp_of(path)
    rows = [row for _, row in read_rows(path)]
    wanted = list(order)
    keys = [_key(row, i, wanted) if key is None else key(row) for i, row in enumerate(rows)]
    last = {one: i for i, one in enumerate(keys)}
    stay = [i for i, one in enumerate(keys) if last[one] == i or not failed(rows[i])]
    in_order = sorted(stay, key=lambda i: order.get(keys[i], len(wanted)))
    if in_order != list(range(len(rows))):
        replace_rows(path, (rows[i] for i in in_order), stamp)
    return [rows[i] for i in in_order if failed(rows[i])]


def _key(row: Mapping[str, Json], position: int, keys: Sequence[Key]) -> Key:
    """The identity of a row; of one without (a published file) by its place."""
    task_id, sample_index = row.get("task_id"), row.get("sample_index", 0)
    if isinstance(task_id, str) and isinstance(sample_index, int):
        return task_id, sample_index
    return keys[position] if position < len(keys) else ("", position)
