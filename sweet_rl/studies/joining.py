"""A study that was run in parts, seeds or worlds at a time: its `study.json` files as one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError
from sweet_rl.studies.brought_along import read_study
from sweet_rl.studies.results import Comparison, Method


def joined(
    paths: Sequence[Path], with_claims: Callable[[Sequence[Comparison]], tuple[Comparison, ...]]
) -> dict[str, Any]:
    """What a `study.json` of the whole would hold; all else than numbers is the first one's.

    Args:
        paths: the files; those of one comparison have other seeds.
        with_claims: says anew what the numbers say of the claims.

    Raises:
        DataError: a file is no study, or of another one, or a seed of a method is in two of them.
    """
    read = [read_study(path) for path in paths]
    parts: dict[str, Comparison] = {}
    for path, (study, found) in zip(paths, read, strict=True):
        if study["study"] != read[0][0]["study"]:
            raise DataError("is of another study", path=path, field="study", value=study["study"])
        for part in found:
            known = parts.get(part.name)
            parts[part.name] = part if known is None else _with_runs(known, part, path)
    files = [study for study, _ in read]
    made = [study["provenance"] for study in files]
    ways = {
        name: "; ".join(dict.fromkeys(each.get(name, "unknown") for each in made))
        for name in ("commit", "command")
        if any(name in each for each in made)
    }
    seconds: Counter[str] = Counter()
    for study in files:
        seconds.update(study["seconds"])
    return files[0] | {
        "comparisons": [dataclasses.asdict(part) for part in with_claims([*parts.values()])],
        "settings": {name: value for study in reversed(files) for name, value in study["settings"].items()},
        "provenance": files[0]["provenance"] | ways,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
    }


def _with_runs(part: Comparison, more: Comparison, path: Path) -> Comparison:
    """The comparison with another one's seeds, and with the methods that it lacks."""
    known = {method.name: method for method in part.methods}
    for method in more.methods:
        before = known.get(method.name, dataclasses.replace(method, runs=()))
        known[method.name] = _one(before, method, path)
    return dataclasses.replace(part, methods=tuple(known.values()))


def _one(before: Method, more: Method, path: Path) -> Method:
    seeds = {run.seed for run in before.runs}
    if twice := sorted(seeds & {run.seed for run in more.runs}):
        raise DataError("has a seed that was there before", path=path, field=more.name, value=twice[0])
    runs = sorted((*before.runs, *more.runs), key=lambda run: run.seed)
    return dataclasses.replace(before, runs=tuple(runs))
