"""The page demo of the mini study: designers without a model, on a few pages, in pictures and numbers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from sweet_rl.records import load_trajectories
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Counted,
    Frame,
    Measure,
    Method,
    Points,
    Run,
    Strip,
    texts_of,
)
from sweet_rl.studies.runner import Chain, call
from sweet_rl.studies.sweet.settings import Study
from sweet_rl.types import Json, Trajectory

PICTURE_WIDTH = 360  # Pixels of a picture in the report; what is below 1.5 times that is cut off

_TEXTS: Final = texts_of(__package__)
METRICS: Final[Mapping[str, str]] = _TEXTS["metrics"]
DESIGNERS: Final[Mapping[str, tuple[str, str]]] = _TEXTS["designers"]


def why_no_pages(study: Study) -> str | None:
    """What this machine lacks to render pages, in words that name the repair; None where it lacks nothing."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags
    from sweet_rl.errors import UsageError, missing_package

    try:
        open_renderer(RenderFlags(render_cache=str(page_cache(study))).rendering())
        for package, distribution in (("PIL", "Pillow"), ("numpy", "numpy")):
            try:
                __import__(package)
            except ImportError:
                raise missing_package(distribution, "pages", needed_for="Grading pages") from None
    except UsageError as error:
        return str(error)
    return None


def page_chains(study: Study) -> list[Chain]:
    """The dialogues of each designer, graded; the one that takes longest comes first."""
    names = sorted(DESIGNERS, key=lambda name: name != "improver")
    return [_designed(study, name) for name in names] if study.page_tasks else []


def _designed(study: Study, name: str) -> Chain:
    rendering = {"browsers": 1, "render_cache": page_cache(study), "quiet": True}
    output = page_dialogues(study, name)
    playing: dict[str, Any] = {"task_type": "html", "agent_model": name, "env_model": "scripted"}
    playing |= {"num_tasks": study.page_tasks, "seed": study.seed, "to_continue": True}
    return (
        call("simulate_interactions", output, ("mini-web:test", str(output)), playing | rendering),
        call("evaluate_html", study.path(f"pages.{name}.report.json"), (str(output),), rendering),
    )


def page_dialogues(study: Study, name: str) -> Path:
    return study.path(f"pages.{name}.jsonl")


def page_cache(study: Study) -> Path:
    """All designers render the same targets, and every draft is graded later: each page is rendered once."""
    return study.path("pages.rendered")


def page_results(study: Study) -> tuple[Comparison, tuple[Strip, ...]]:
    reports: dict[str, dict[str, Json]] = {
        name: json.loads(study.path(f"pages.{name}.report.json").read_text()) for name in DESIGNERS
    }
    improved = load_trajectories(page_dialogues(study, "improver"))
    grades = asyncio.run(_grades_by_turn(improved, study))
    designers = []
    for name, report in reports.items():
        measures = {
            metric: Counted(**{key: line["mean"][key] for key in ("mean", "low", "high")})
            for metric, line in report["metrics"].items()
        }
        curves = {"combined": _way_up(grades)} if name == "improver" else {}
        designers.append(Method(name, *DESIGNERS[name], (Run(study.seed, measures, curves),)))
    report = reports["improver"]
    floors: dict[str, dict[str, Counted]] = {}
    for metric, line in report["metrics"].items():
        for floor, value in line["floors"].items():
            floors.setdefault(floor, {})[metric] = Counted(value)
    for name, of in floors.items():
        designers.append(Method(f"floor_{name}", f"floor: {name}", runs=(Run(0, of),)))
    order = [*METRICS, *report["metrics"]]
    measured = (Measure(name, METRICS.get(name, name)) for name in sorted(report["metrics"], key=order.index))
    comparison = Comparison(
        *("pages", "Web pages", ""),
        text=f"Frontend Design on {report['tasks']} pages of mini-web, by designers without a model: they "
        "bound what one can score.",
        measures=tuple(measured),
        curves=(Axes("combined", "the improver's drafts (combined)", "turn", "share"),),
        methods=tuple(designers),
    )
    return comparison, tuple(
        _strip(row, each, study.folder) for row, each in zip(improved[:2], grades, strict=False)
    )


def _way_up(rows: Sequence[Mapping[int, float]]) -> Points:
    """The mean grade by turn; a dialogue that has ended keeps its last grade."""
    found = []
    kept = dict.fromkeys(range(len(rows)), 0.0)
    for turn in range(max(map(max, rows)) + 1):
        kept |= {place: grades[turn] for place, grades in enumerate(rows) if turn in grades}
        found.append((turn + 1.0, fmean(kept.values())))
    return tuple(found)


async def _grades_by_turn(rows: Sequence[Trajectory], study: Study) -> list[dict[int, float]]:
    """The combined metric of every draft, by turn, for each row."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags
    from sweet_rl.grading.pages.grader import grade_drafts

    settings = RenderFlags(browsers=1, render_cache=str(page_cache(study))).rendering()
    async with open_renderer(settings) as renderer:
        grades = [await grade_drafts(row, renderer, study.folder) for row in rows]
    return [{turn: grade["combined"] for turn, grade in row.items()} for row in grades]


def _strip(row: Trajectory, grades: Mapping[int, float], folder: Path) -> Strip:
    drafts = [draft for draft in row.extra.get("drafts", []) if draft["image"]]
    frames = [
        Frame(f"turn {draft['turn'] + 1}", _small(folder / draft["image"]), grades.get(draft["turn"]))
        for draft in drafts
    ]
    if target := row.extra.get("target_image"):
        frames.append(Frame("target", _small(folder / target)))
    return Strip(row.task.problem_description, tuple(frames))


def _small(path: Path) -> str:
    from PIL import Image

    with Image.open(path) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, image.width * 3 // 2)))
    top.thumbnail((PICTURE_WIDTH, 2 * PICTURE_WIDTH))
    out = io.BytesIO()
    top.save(out, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
