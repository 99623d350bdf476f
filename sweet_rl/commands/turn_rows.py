"""A file with one row for each agent turn, on disk: which rows are done, how to go on, the final order.

Used by the stages that append such rows (sampled, ranked); pure file work, no models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.preferences.turn_keys import TurnKey, key_of
from sweet_rl.records import read_rows, replace_rows
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
) -> set[TurnKey]:
    """Which of the wanted rows the file holds.

    Args:
        rows: what the file holds, with line numbers.
        wanted: the prompt of every row that this run would write.
        settings: what this run would write into `field` of its rows.
        field: where the settings stand in a row.
        path: the file, for errors.
        force: accept rows of other turns and settings; they are kept.

    Raises:
        UsageError: the file was made from other data or with other settings, and `force` is not set.
    """
    done: set[TurnKey] = set()
    for line, row in rows:
        key = key_of(row)
        where = f"{str(path)!r}, line {line}"
        if not force:
            if wanted.get(key) != row.get("input"):
                raise UsageError(f"{where}: this row is of a turn that is not among yours. {HOW_TO_MIX}")
            check_settings(row.get(field) or {}, settings, where)
        done.add(key)
    return done & set(wanted)


def finish(path: str | Path, order: Sequence[TurnKey]) -> None:
    """Bring a complete file into the order of its source, at once or not at all."""
    places = {key: i for i, key in enumerate(order)}
    rows = [row for _, row in read_rows(path)]
    in_order = sorted(rows, key=lambda row: places.get(key_of(row), len(places)))
    if any(a is not b for a, b in zip(rows, in_order, strict=True)):
        replace_rows(path, in_order)
