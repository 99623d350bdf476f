"""How every study is run: steps of `sweet_rl.pipelines`, then its results in a file, as a table and as a page."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sweet_rl import tracking
from sweet_rl.errors import missing_package
from sweet_rl.pipelines.steps import Step, in_rounds
from sweet_rl.records import replace_file
from sweet_rl.studies.report import words
from sweet_rl.studies.results import Comparison, Results, beside

Flags: TypeAlias = Mapping[str, Any]

Chain: TypeAlias = tuple[Step, ...]
"""Steps that follow each other; the chains of a round do not wait for each other."""


def call(run: str, output: Path, words: tuple[str, ...] = (), flags: Flags | None = None) -> Step:
    """A step under the name of what it makes; `words` have no name on its command line."""
    return Step(output.name, run, words, flags or {})


def prepared(output_dir: str, *, overwrite: bool) -> Path:
    """The folder of a study, empty if it is to begin again; says at once what its page will need."""
    for package in ("jinja2", "matplotlib", "numpy"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise missing_package(package, "plots", needed_for="The page of a study") from None
    folder = Path(output_dir)
    if overwrite and folder.exists():
        shutil.rmtree(folder)
    tracking.writes(folder, folder=True, continues=True)
    return folder


def run_study(
    kind: str, study: Any, jobs: int, *, threads: int = 1, full: str | None = "full_study.json"
) -> None:
    """Run the missing steps of a kind, which is a folder here; write `study.json` and `report.html`.

    Args:
        threads: of each process.
        full: the file of a study that comes with the package, to be shown beside this one.
    """
    from sweet_rl.pipelines.running import run_steps, seconds_of

    recipe, reading = (
        importlib.import_module(f"sweet_rl.studies.{kind}.{part}") for part in ("recipe", "results")
    )
    started, folder = time.perf_counter(), study.folder
    steps = in_rounds(recipe.rounds(study), folder)
    run_steps(steps, folder, jobs=jobs, fresh=False, small=True, threads=threads)
    found = reading.results(study, seconds_of(folder, steps))
    finish(folder, beside(found, Path(__file__).parent / kind / full) if full else found)
    print(f"Done in {time.perf_counter() - started:.0f} s. Open {folder / 'report.html'} in a browser.")


def finish(folder: Path, results: Results) -> None:
    from sweet_rl.studies.report.page import results_page

    numbers = json.dumps(dataclasses.asdict(results), ensure_ascii=True)
    replace_file(folder / "study.json", [numbers.encode()])
    replace_file(folder / "report.html", [results_page(results).encode()])
    print(f"\n{table(results)}\n")


def table(results: Results) -> str:
    """Every method's measures and what the numbers say of every claim, as plain text; of this run."""
    own = (part for part in results.comparisons if not part.origin)
    return "\n\n".join("\n".join(_lines(part)) for part in own if part.measures)


def _lines(part: Comparison) -> Iterator[str]:
    shown = [measure for measure in part.measures if measure.group != "behaviour"]
    shown = [each for each in shown if any(method.estimate(each.name) for method in part.methods)]
    widths = [max(len(measure.title), 22 if place == 0 else 9) for place, measure in enumerate(shown)]
    known = [method for method in part.methods if any(run.measures for run in method.runs)]
    names = max(len(part.title), *(len(method.title) for method in known), 0)
    heads = "".join(f"  {measure.title:>{width}}" for measure, width in zip(shown, widths, strict=True))
    yield f"{part.title:<{names}}{heads}"
    for method in known:
        line = f"{method.title:<{names}}"
        for place, (measure, width) in enumerate(zip(shown, widths, strict=True)):
            found = measure.of(method)
            text = words.writer(measure.unit)(found.mean if found else None)
            if place == 0 and found and (span := words.span(found, measure.unit)):
                text += f" [{span}]"
            line += f"  {text:>{width}}"
        yield line.replace("\u202f", " ")
    unit = part.measures[0].unit
    for claim in part.claims:
        if claim.mean is None:
            yield f"  {claim.text}: not measured"
            continue
        text = f"  {claim.text}: {words.signed(claim.mean, unit)}{' points' if unit == 'share' else ''}"
        if claim.low is not None and claim.high is not None:
            text += f", 95 % interval [{words.signed(claim.low, unit)}, {words.signed(claim.high, unit)}]"
        yield f"{text}: {words.VERDICTS[claim.verdict]}"
