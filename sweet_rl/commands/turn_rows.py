"""A file with one row for each agent turn, on disk: which rows are done, how to resume, the final order.

Used by the stages that append such rows (sampled, ranked, credited); pure file work, no models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.preferences.trajectory_pairs import TurnKey, key_of
from sweet_rl.records import read_rows, replace_rows, stamp_of
from sweet_rl.runs import HOW_TO_MIX, check_settings
from sweet_rl.types import Json


def done_keys(
    rows: Sequence[tuple[int, Mapping[str, Json]]],
    wanted: Mapping[TurnKey, str],
    *,
    settings: Mapping[str, Json],
    field: str,
    path: str | Path,
    force: bool,
    content: str = "input",
) -> set[TurnKey]:
    """Which of the wanted rows the file holds; a turn that could not be sampled for is wanted again.

    Args:
        rows: what the file holds, with line numbers.
        wanted: the prompt of every row that this run would write, or what else `content` holds.
        settings: what this run would write into `field` of its rows.
        field: where the settings stand in a row.
        path: the file, for errors.
        force: accept rows of other turns and settings; they are kept.
        content: the field by which a row shows that it is of the same turn.
    """
    done: set[TurnKey] = set()
    for line, row in rows:
        key = key_of(row)
        where = f"{str(path)!r}, line {line}"
        if not force:
            if wanted.get(key) != row.get(content):
                raise UsageError(f"{where}: this row is of a turn that is not among yours. {HOW_TO_MIX}")
            check_settings(row.get(field) or {}, settings, where)
        if field == "sampling" and has_failed(row):
            done.discard(key)
        else:
            done.add(key)
    return done & set(wanted)


def finish(path: str | Path, order: Sequence[TurnKey]) -> list[dict[str, Json]]:
    """Bring a complete file into the order of its source, at once or not at all.

    Of a turn that was tried several times the last row stays. Returns the rows of turns that failed.
    """
    places = {key: i for i, key in enumerate(order)}
    stamp = stamp_of(path)
    rows = [row for _, row in read_rows(path)]
    last = {key_of(row): i for i, row in enumerate(rows)}
    stay = [row for i, row in enumerate(rows) if last[key_of(row)] == i or not has_failed(row)]
    in_order = sorted(stay, key=lambda row: places.get(key_of(row), len(places)))
    if len(stay) < len(rows) or any(a is not b for a, b in zip(rows, in_order, strict=True)):
        replace_rows(path, in_order, stamp)
    return [row for row in in_order if has_failed(row)]


def has_failed(row: Mapping[str, Json]) -> bool:
    """Whether the model could not be asked about a turn; a prompt too long for it is no such failure."""
    error = row.get("error")
    if not isinstance(error, dict) or row.get("additional_outputs"):
        return False
    return error.get("kind") != "context_full"
