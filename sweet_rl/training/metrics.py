"""Metrics of a run, one JSON object a line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.errors import DataError
from sweet_rl.records import replace_rows
from sweet_rl.types import Json


def finite(values: Mapping[str, Any]) -> dict[str, Json]:
    """Numbers as JSON has them: non-finite ones become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


class MetricsLog:
    """Appends lines to a file, and reports them (`sweet_rl.tracking`); only the first process has one.

    Args:
        path: the file; None: write nothing.
        after_step: lines of later steps are dropped: a resumed run writes them again. 0 starts a new file.
    """

    def __init__(self, path: Path | None, *, after_step: int = 0) -> None:
        self._path = path
        if path is None:
            return
        kept = [row for row in _rows(path) if row["step"] <= after_step] if after_step else []
        replace_rows(path, kept)

    def append(self, values: Mapping[str, Any]) -> None:
        """Add one line; what a crash of the machine loses, a resumed run writes again."""
        if self._path is not None:
            tracking.logs(values["step"], values)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(finite(values)) + "\n")


def last_step(path: Path) -> int:
    """The last step in a log; 0 without one."""
    return max((row["step"] for row in _rows(path)), default=0)


def _rows(path: Path) -> list[dict[str, Json]]:
    """The lines that name a step; a torn last one is left out: its step is done again.

    Raises:
        DataError: a line is no JSON object.
    """
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().rpartition(b"\n")[0].splitlines(), start=1):
        try:
            row = json.loads(line)
            if isinstance(row.get("step"), int):
                found.append(row)
        except (ValueError, AttributeError) as error:
            raise DataError(
                f"is no JSON object ({error})", path=path, line=number, repair="Remove the line."
            ) from error
    return found
