"""What a file holds, found by looking at its beginning; and how the rows of each kind are read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sweet_rl.errors import DataError
from sweet_rl.records import trajectory_from_row
from sweet_rl.records.files import parse_line
from sweet_rl.tracking import is_record
from sweet_rl.types import Json, Trajectory
from sweet_rl.viewer.content import CodeContents, Contents, GameContents, kind_of_trajectories
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.indexing import Entry
from sweet_rl.viewer.pairs import PairContents, TurnContents

FileKind = Literal["code", "game", "design", "turns", "pairs", "credit", "metrics", "report", "record"]

LAYOUTS: Mapping[str, type[Contents[Any]]] = {
    "code": CodeContents,
    "game": GameContents,
    "design": DesignContents,
    "turns": TurnContents,
    "pairs": PairContents,
}
"""Kinds of files of rows, and what shows them."""

TRAJECTORIES = frozenset({"code", "game", "design"})

_LOOKED_AT = 100
"""Rows that decide which of the layouts shows trajectories."""


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of one kind."""

    kind: FileKind

    def item(self, row: Mapping[str, Json]) -> Any:
        """A row as its layout takes it.

        Raises:
            DataError: it is not of this kind.
        """
        return trajectory_from_row(row) if self.kind in TRAJECTORIES else row

    def __call__(self, row: Mapping[str, Json]) -> Entry:
        """What an index keeps of a row."""
        if self.kind == "credit":
            return _of_credit(row)
        item, layout = self.item(row), LAYOUTS[self.kind]
        shown = layout.entry(item)
        unnamed = self.kind in TRAJECTORIES and row.get("sample_index") is None
        repeat = None if unnamed else _counted(shown["repeat"])
        return Entry(shown["task"], repeat, shown, layout.text(item))


def kind_of(path: Path) -> FileKind | None:
    """What a file holds; None where that is nothing that is shown here.

    Raises:
        OSError: it cannot be read.
    """
    if is_record(path):
        return "record"
    if is_report(path):
        return "report"
    if path.suffix != ".jsonl":
        return None
    with path.open("rb") as file:
        return _kind_of_rows(_beginning(file, path), path)


def _beginning(file: BinaryIO, path: Path) -> Iterator[dict[str, Json]]:
    """The first rows that can be read."""
    for number, line in enumerate(itertools.islice(file, _LOOKED_AT)):
        try:
            yield parse_line(line, path, number + 1)
        except DataError:
            continue


def is_report(path: Path) -> bool:
    """Whether the name is that of an evaluation's report."""
    return path.name == "report.json" or path.name.endswith(".report.json")


def _kind_of_rows(rows: Iterator[dict[str, Json]], path: Path) -> FileKind | None:
    first = next(rows, None)
    if first is None:
        if ".credit." in path.name:  # what `sweet-rl credit` has begun
            return "credit"
        return "metrics" if path.name == "metrics.jsonl" else "code"
    if "dialogue_history" in first:
        some = map(_trajectory, itertools.chain([first], rows))
        return kind_of_trajectories([one for one in some if one is not None])
    for field, kind in (("additional_outputs", "turns"), ("turn_digest", "credit"), ("chosen", "pairs")):
        if field in first:
            return kind  # type: ignore[return-value]
    numeric = path.name == "metrics.jsonl" or first.keys() & {"step", "iteration", "loss"}
    return "metrics" if numeric else None


def _trajectory(row: Mapping[str, Json]) -> Trajectory | None:
    try:
        return trajectory_from_row(row)
    except DataError:
        return None


def _of_credit(row: Mapping[str, Json]) -> Entry:
    task, repeat, turn = row.get("task_id"), row.get("sample_index"), row.get("turn_index")
    if not (isinstance(task, str) and isinstance(repeat, int) and isinstance(turn, int)):
        raise DataError("has no identity", value=json.dumps(row)[:80], repair="Make it with sweet-rl credit.")
    return Entry(task, _counted(repeat), {})


def _counted(repeat: int | None) -> int | None:
    """The number of a repeat, if an index can keep it."""
    if repeat is not None and not 0 <= repeat < 2**63:
        raise DataError(
            "counts its repeat by a number that no file has", value=repeat, repair="Count from 0."
        )
    return repeat
