"""Files that are looked at as a whole: training metrics, reports of evaluations, records of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from sweet_rl.errors import DataError, UsageError
from sweet_rl.records.files import parse_line
from sweet_rl.types import Json

MOST_POINTS = 2000
"""Of a curve; of more rows every n-th is shown, and the page says so."""


def read_metrics(path: Path) -> dict[str, Json]:
    """The numbers of a metrics file by name, each with the step of its row.

    A step is the row's `step` or `iteration`, else its place. Torn and foreign lines are passed over.
    """
    curves: dict[str, list[tuple[float, float]]] = {}
    rows = 0
    with _opened(path) as file:
        for number, line in enumerate(file):
            row = _row(line, path, number)
            if row is None:
                continue
            rows += 1
            step = next((row[name] for name in ("step", "iteration") if _is_number(row.get(name))), number)
            for name, value in _numbers(row):
                if name not in {"step", "iteration"}:
                    curves.setdefault(name, []).append((step, value))
    thin = max(1, -(-rows // MOST_POINTS))
    return {
        "rows": rows,
        "every": thin,
        "curves": {name: points[::thin] for name, points in curves.items()},
    }


def read_object(path: Path) -> dict[str, Json]:
    """A file of one JSON object.

    Raises:
        UsageError: it holds something else.
    """
    with _opened(path) as file:
        try:
            found = json.load(file)
        except ValueError as error:
            raise UsageError(
                f"{str(path)!r} is no JSON file ({error}); it may be written just now."
            ) from None
    if not isinstance(found, dict):
        raise UsageError(f"{str(path)!r} holds no JSON object.")
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error


def _row(line: bytes, path: Path, number: int) -> dict[str, Json] | None:
    try:
        return parse_line(line, path, number) if line.strip() else None
    except DataError:
        return None


def _numbers(row: Mapping[str, Json], prefix: str = "") -> list[tuple[str, float]]:
    """All numbers of an object, those inside others by names with dots."""
    found: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}.")
        elif _is_number(value):
            found.append((f"{prefix}{name}", value))
    return found


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
