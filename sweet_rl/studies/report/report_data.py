"""Input of every report beside its own numbers, and the curves that several of them show.

Anything may be missing or null. Something of a wrong kind is refused by its dotted name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sweet_rl.errors import DataError
from sweet_rl.studies.report.fields import Fields
from sweet_rl.types import Json

Points: TypeAlias = tuple[tuple[float, float], ...]
"""A curve: (x, y) with rising x."""


@dataclass(frozen=True, slots=True)
class ReportHead:
    """What stands above and below the numbers: names, and how the numbers were made.

    `seconds` are by stage, `notes` are sentences, `settings` are shown as they are.
    """

    title: str
    subtitle: str
    settings: Mapping[str, Json]
    machine: str
    seconds: Mapping[str, float]
    notes: tuple[str, ...]


def read_head(fields: Fields) -> ReportHead:
    """The head of a report's JSON with its kinds checked.

    Raises:
        DataError: a value is of another kind than the page needs; names the field.
    """
    return ReportHead(
        title=fields.text("title"),
        subtitle=fields.text("subtitle"),
        settings=fields.fields("settings").values,
        machine=fields.text("machine"),
        seconds=fields.fields("seconds").numbers(),
        notes=fields.texts("notes"),
    )


def read_points(row: Fields, name: str) -> Points:
    """Pairs of numbers; pairs with a gap are left out.

    Raises:
        DataError: something is no pair of numbers.
    """
    pairs = (_pair(pair) for pair in row.lists(name))
    known = [(x, y) for x, y in pairs if x is not None and y is not None]
    return tuple(sorted(known))


def _pair(pair: Fields) -> tuple[float | None, float | None]:
    if len(pair.values) != 2:
        raise DataError("must be a pair of numbers", field=pair.name, value=list(pair.values.values()))
    return pair.number("0"), pair.number("1")
