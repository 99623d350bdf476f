"""The page demo of the mini study: designers without a model, on a few pages, in pictures and numbers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from sweet_rl.pipelines.steps import Step
from sweet_rl.records import load_trajectories
from sweet_rl.studies.chains import Chain, call
from sweet_rl.studies.results import Axes, Comparison, Counted, Frame, Measure, Method, Points, Run, Strip
from sweet_rl.studies.sweet.settings import Study
from sweet_rl.types import Json, Trajectory

DESIGNERS = ("blank", "generic", "improver", "target")
"""Designers that need no model, from the floor to the ceiling."""

STRIPS = 2
"""Dialogues that are shown in pictures."""

PICTURE_WIDTH = 360
"""Pixels of a picture in the report; what is below 1.5 times that is cut off."""

METRICS = {
    "combined": "combined",
    "ssim": "structure",
    "colour": "colour",
    "text": "text",
    "layout": "layout",
    "clip": "CLIP",
}
"""Metrics in their order, by the words for them; combined is the mean of the others."""

TITLES = {
    "blank": ("blank", "Hands in an empty page: the floor."),
    "generic": ("generic", "A page from the description alone: what can be had without talking."),
    "improver": ("improver", "Begins like the generic one, then does what the human says of each draft."),
    "target": ("knows the target", "Is given the page that is wanted: the ceiling."),
}
"""Every designer: its title, and what it is, in one sentence."""


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
    if not study.page_tasks:
        return []
    names = sorted(DESIGNERS, key=lambda name: name != "improver")
    return [_designed(study, name) for name in names]


def _designed(study: Study, name: str) -> tuple[Step, Step]:
    rendering = {"browsers": 1, "render_cache": page_cache(study), "quiet": True}
    output = page_dialogues(study, name)
    return (
        call(
            "simulate_interactions",
            output,
            ("mini-web:test", str(output)),
            {
                "task_type": "html",
                "agent_model": name,
                "env_model": "scripted",
                "num_tasks": study.page_tasks,
                "seed": study.seed,
                "to_continue": True,
                **rendering,
            },
        ),
        call("evaluate_html", study.path(f"pages.{name}.report.json"), (str(output),), rendering),
    )


def page_dialogues(study: Study, name: str) -> Path:
    """The dialogues of a designer."""
    return study.path(f"pages.{name}.jsonl")


def page_cache(study: Study) -> Path:
    """All designers render the same targets, and every draft is graded later: each page is rendered once."""
    return study.path("pages.rendered")


def page_results(study: Study) -> tuple[Comparison, tuple[Strip, ...]] | None:
    """The designers and the floors, and a few dialogues in pictures; None where no pages were asked for."""
    if not study.page_tasks:
        return None
    report = _report(study, "improver")
    improved = load_trajectories(page_dialogues(study, "improver"))
    grades = asyncio.run(_grades_by_turn(improved, study))
    strips = [_strip(row, each, study.folder) for row, each in zip(improved[:STRIPS], grades, strict=False)]
    comparison = Comparison(
        "pages",
        "Web pages",
        own="",
        text=f"Frontend Design on {report['tasks']} pages of mini-web, by designers without a model: they "
        "bound what one can score.",
        measures=tuple(
            Measure(name, METRICS.get(name, name)) for name in sorted(report["metrics"], key=_column)
        ),
        curves=(Axes("combined", "the improver's drafts (combined)", "turn", "share"),),
        methods=(*(_designer(study, name, grades) for name in DESIGNERS), *_floors(report)),
    )
    return comparison, tuple(strips)


def _column(metric: str) -> int:
    return list(METRICS).index(metric) if metric in METRICS else len(METRICS)


def _report(study: Study, name: str) -> dict[str, Json]:
    report: dict[str, Json] = json.loads(study.path(f"pages.{name}.report.json").read_text())
    return report


def _designer(study: Study, name: str, grades: Sequence[Mapping[int, float]]) -> Method:
    metrics = _report(study, name)["metrics"]
    measures = {
        metric: Counted(**{key: line["mean"][key] for key in ("mean", "low", "high")})
        for metric, line in metrics.items()
    }
    curves = {"combined": _way_up(grades)} if name == "improver" else {}
    return Method(name, *TITLES[name], (Run(study.seed, measures, curves),))


def _way_up(rows: Sequence[Mapping[int, float]]) -> Points:
    """The mean grade by turn; a dialogue that has ended keeps its last grade."""
    last = max(turn for grades in rows for turn in grades)
    found = []
    kept = dict.fromkeys(range(len(rows)), 0.0)
    for turn in range(last + 1):
        kept |= {place: grades[turn] for place, grades in enumerate(rows) if turn in grades}
        found.append((turn + 1.0, fmean(kept.values())))
    return tuple(found)


def _floors(report: Mapping[str, Json]) -> Iterator[Method]:
    """What stands below every designer."""
    floors: dict[str, dict[str, Counted]] = {}
    for metric, line in report["metrics"].items():
        for floor, value in line["floors"].items():
            floors.setdefault(floor, {})[metric] = Counted(value)
    for name, measures in floors.items():
        yield Method(f"floor_{name}", f"floor: {name}", runs=(Run(0, measures),))


async def _grades_by_turn(rows: Sequence[Trajectory], study: Study) -> list[dict[int, float]]:
    """The combined metric of every draft, by turn, for each row."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags
    from sweet_rl.grading.pages.turns import grade_drafts

    settings = RenderFlags(browsers=1, render_cache=str(page_cache(study))).rendering()
    async with open_renderer(settings) as renderer:
        grades = [await grade_drafts(row, renderer, study.folder) for row in rows]
    return [{turn: grade["combined"] for turn, grade in row.items()} for row in grades]


def _strip(row: Trajectory, grades: Mapping[int, float], folder: Path) -> Strip:
    """One dialogue in pictures: each draft with its grade, then the target."""
    drafts = [draft for draft in row.extra.get("drafts", []) if draft["image"]]
    frames = [
        Frame(f"turn {draft['turn'] + 1}", _small(folder / draft["image"]), grades.get(draft["turn"]))
        for draft in drafts
    ]
    if target := row.extra.get("target_image"):
        frames.append(Frame("target", _small(folder / target)))
    return Strip(row.task.problem_description, tuple(frames))


def _small(path: Path) -> str:
    """The picture as a data URL of a few kilobytes."""
    from PIL import Image

    with Image.open(path) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, image.width * 3 // 2)))
    top.thumbnail((PICTURE_WIDTH, 2 * PICTURE_WIDTH))
    out = io.BytesIO()
    top.save(out, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
