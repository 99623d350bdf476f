"""The identity of an agent turn, and of its row in sampled, ranked and pair files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sweet_rl.errors import DataError
from sweet_rl.types import Json

TurnKey = tuple[str, int, int]
"""task_id, sample_index, turn_index; the last counts the agent's turns from 0."""

KEY_FIELDS = ("task_id", "sample_index", "turn_index")
"""The fields of a row that hold its key."""


def key_of(row: Mapping[str, Json]) -> TurnKey:
    """The identity of a row that our stages wrote."""
    return row.get("task_id", ""), row.get("sample_index", 0), row.get("turn_index", 0)


def key_fields(key: TurnKey) -> dict[str, Json]:
    """The identity as fields of a row."""
    return dict(zip(KEY_FIELDS, key, strict=True))


def twice(path: str | Path | None, line: int, field: str, value: Json, earlier: int) -> DataError:
    """The error of a row with the same identity as line `earlier`."""
    return DataError(
        "is in the file twice",
        path=path,
        line=line,
        field=field,
        value=value,
        repair=f"Delete this line or line {earlier}.",
    )
