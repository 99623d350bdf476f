"""Files that are looked at as a whole: training metrics, reports of evaluations, records of runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from sweet_rl.errors import DataError, UsageError
from sweet_rl.records.files import parse_line
from sweet_rl.types import Json

MOST_POINTS: Final = 2000
"""Of a curve; of more rows every n-th is shown, and the page says so."""

_STEPS: Final = ("step", "iteration", "iter")

Curve: TypeAlias = list[tuple[float, float]]
"""Steps in their order, each with a number."""


def read_metrics(path: Path) -> dict[str, Json]:
    """The curves of a metrics file. Torn and foreign lines are passed over."""
    with _opened(path) as file:
        rows = [row for number, line in enumerate(file) if (row := _row(line, path, number)) is not None]
    thin = max(1, -(-len(rows) // MOST_POINTS))
    return {
        "rows": len(rows),
        "every": thin,
        "curves": {name: points[::thin] for name, points in curves_of(rows).items()},
    }


def curves_of(rows: Iterable[Mapping[str, Json]]) -> dict[str, Curve]:
    """The numbers of rows by name, each with its row's `step`, `iteration` or `iter`, else the place."""
    curves: dict[str, Curve] = {}
    for place, row in enumerate(rows):
        step = next((row[name] for name in _STEPS if _is_number(row.get(name))), place)
        for name, value in _numbers(row):
            if name not in _STEPS:
                curves.setdefault(name, []).append((step, value))
    return curves


def read_object(path: Path) -> dict[str, Json]:
    """A file of one JSON object."""
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
