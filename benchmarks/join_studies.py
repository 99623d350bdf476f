"""Join study.json files of a study that was run in parts, and say anew what their numbers say of its claims.

With one file the claims alone are said anew: where there are more of them than when it was run.

Run: python benchmarks/join_studies.py sweet_rl/studies/reflect/full_study.json PART.json...
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError
from sweet_rl.records import replace_file
from sweet_rl.studies.archer.results import with_claims as claims_of_archer
from sweet_rl.studies.reflect.results import with_claims as claims_of_reflect
from sweet_rl.studies.results import Comparison, Method, read_study

CLAIMS = {"archer": claims_of_archer, "reflect": claims_of_reflect}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("parts", type=Path, nargs="+", help="study.json files; OUTPUT itself may be one")
    flags = parser.parse_args()
    study = read_study(flags.parts[0])[0]["study"]
    if study not in CLAIMS:
        parser.error(f"{flags.parts[0]} is of {study!r}; this joins {' and '.join(CLAIMS)}")
    whole = joined(flags.parts, CLAIMS[study])
    replace_file(flags.output, [json.dumps(whole).encode(), b"\n"])
    for part in whole["comparisons"]:
        print(part["title"])
        for claim in part["claims"]:
            ends = [f"{end:+.3f}" for end in (claim["low"], claim["high"]) if end is not None]
            print(f"  {claim['text']}: {claim['mean']:+.3f} [{', '.join(ends) or 'one seed: no interval'}]")


def joined(
    paths: Sequence[Path], with_claims: Callable[[Sequence[Comparison]], tuple[Comparison, ...]]
) -> dict[str, Any]:
    """What a `study.json` of the whole would hold; all else than numbers is the first one's."""
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


if __name__ == "__main__":
    main()
