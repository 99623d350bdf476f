"""A study that was run before, on several seeds: its file comes with the package, and other runs show it beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sweet_rl.errors import DataError
from sweet_rl.studies.results import (
    FORMAT,
    Axes,
    Claim,
    Comparison,
    Counted,
    Measure,
    Method,
    Results,
    Run,
)

ORIGIN: Final = "Of the full study that the package brings along, not of this run."

_THIS: Final = "This run: "


def beside_study(results: Results, study: Iterable[Comparison], made: str) -> Results:
    """The results of one run after the comparisons of a full study, which are marked as such."""
    full = (
        replace(
            part,
            name=f"full-{part.name}",
            title=f"Full study: {part.title}",
            origin=ORIGIN,
        )
        for part in study
    )
    own = (replace(part, title=f"{_THIS}{part.title}") for part in results.comparisons)
    return replace(
        results,
        comparisons=(*full, *own),
        notes=(*results.notes, f"The full study was made with {made}."),
    )


def beside(results: Results, path: Path) -> Results:
    """`beside_study`, of a file; what it says of the same worlds comes first.

    Args:
        path: a `study.json`; where there is none, the results stay as they are.
    """
    if not path.exists():
        return results
    found, parts = read_study(path)
    here = {part.name for part in results.comparisons}
    parts = tuple(sorted(parts, key=lambda part: part.name not in here))
    made = {**found["settings"], **found["provenance"]}
    return beside_study(results, parts, "; ".join(f"{name}: {value}" for name, value in made.items()))


def read_study(path: Path) -> tuple[dict[str, Any], tuple[Comparison, ...]]:
    """A `study.json` as it is, and its own comparisons: not those of a study that was shown beside it."""
    found = _read(path)
    try:
        parts = tuple(_comparison(row) for row in found["comparisons"] if not row["origin"])
        found["settings"].keys(), found["provenance"].keys(), found["seconds"].keys()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"is no whole study ({type(error).__name__}: {error})",
            path=path,
            repair="Restore it, or put the study.json of a finished study there.",
        ) from None
    return found, tuple(replace(part, title=part.title.removeprefix(_THIS)) for part in parts)


def _read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(
            f"must have the format {FORMAT}",
            path=path,
            repair="Put the study.json of a finished study there.",
        )
    return found


def _comparison(row: Mapping[str, Any]) -> Comparison:
    parts: dict[str, Any] = {
        "measures": tuple(Measure(**each) for each in row["measures"]),
        "curves": tuple(map(_axes, row["curves"])),
        "methods": tuple(map(_method, row["methods"])),
        "claims": tuple(
            Claim(**{**each, "each": tuple((seed, value) for seed, value in each["each"])})
            for each in row["claims"]
        ),
    }
    return Comparison(**{**row, **parts})


def _axes(row: Mapping[str, Any]) -> Axes:
    return Axes(**{**row, "changes": tuple((place, name) for place, name in row.get("changes", ()))})


def _method(row: Mapping[str, Any]) -> Method:
    return Method(**{**row, "runs": tuple(map(_run, row["runs"]))})


def _run(row: Mapping[str, Any]) -> Run:
    measures = {name: Counted(**each) for name, each in row["measures"].items()}
    curves = {name: tuple((x, y) for x, y in points) for name, points in row["curves"].items()}
    return Run(row["seed"], measures, curves)
