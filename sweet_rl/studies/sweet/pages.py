"""The page demo of the mini study: designers that need no model, on a few pages, in pictures and numbers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweet_rl.studies.sweet.recipe import DESIGNERS, Study, page_cache, page_dialogues
from sweet_rl.types import Json, Trajectory

STRIPS = 2
"""Dialogues that are shown in pictures."""

PICTURE_WIDTH = 360
"""Pixels of a picture in the report; what is below 1.5 times that is cut off."""

TITLES = {
    "blank": ("blank", "Hands in an empty page: the floor."),
    "generic": ("generic", "A page from the description alone: what can be had without talking."),
    "improver": ("improver", "Begins like the generic one, then does what the human says of each draft."),
    "target": ("told the target", "Is told the page that is wanted: the ceiling."),
}
"""Every designer: its title, and what it is, in one sentence."""


def why_no_pages(study: Study) -> str | None:
    """What this machine lacks to render pages, in words that name the repair; None where it lacks nothing."""
    from sweet_rl.commands.rendering import RenderFlags, make_renderer
    from sweet_rl.errors import UsageError, missing_package

    try:
        make_renderer(RenderFlags(render_cache=str(page_cache(study))))
        for package, distribution in (("PIL", "Pillow"), ("numpy", "numpy")):
            try:
                __import__(package)
            except ImportError:
                raise missing_package(distribution, "pages", needed_for="Grading pages") from None
    except UsageError as error:
        return str(error)
    return None


def page_results(study: Study) -> dict[str, Json] | None:
    """What the report shows of pages; shares are of 1. None where there is nothing to show."""
    if not study.page_tasks:
        return None
    from sweet_rl.records import load_trajectories

    report = _report(study, "improver")
    improved = load_trajectories(page_dialogues(study, "improver"))
    by_turn = asyncio.run(_grades_by_turn(improved, study))
    return {
        "tasks": report["tasks"],
        "metric": report["metric"],
        "designers": [_designer(study, name) for name in DESIGNERS],
        "floors": _floors(report),
        "curves": [
            {"points": [{"turn": turn + 1, "grade": grade} for turn, grade in grades.items()]}
            for grades in by_turn
        ],
        "strips": [
            _strip(row, grades, study.folder) for row, grades in zip(improved[:STRIPS], by_turn, strict=False)
        ],
    }


def _report(study: Study, name: str) -> dict[str, Json]:
    report: dict[str, Json] = json.loads(study.path(f"pages.{name}.report.json").read_text())
    return report


def _designer(study: Study, name: str) -> dict[str, Json]:
    title, explanation = TITLES[name]
    metrics = _report(study, name)["metrics"]
    return {
        "name": name,
        "title": title,
        "explanation": explanation,
        "metrics": {metric: line["mean"] for metric, line in metrics.items()},
    }


def _floors(report: Mapping[str, Json]) -> dict[str, dict[str, float]]:
    """The floors' values by metric, from the other way round."""
    floors: dict[str, dict[str, float]] = {}
    for metric, line in report["metrics"].items():
        for floor, value in line["floors"].items():
            floors.setdefault(floor, {})[metric] = value
    return floors


async def _grades_by_turn(rows: Sequence[Trajectory], study: Study) -> list[dict[int, float]]:
    """The combined metric of every draft, by turn, for each row."""
    from sweet_rl.commands.rendering import RenderFlags, make_renderer
    from sweet_rl.grading.pages.turns import grade_drafts

    async with make_renderer(RenderFlags(browsers=1, render_cache=str(page_cache(study)))) as renderer:
        grades = [await grade_drafts(row, renderer, study.folder) for row in rows]
    return [{turn: grade["combined"] for turn, grade in row.items()} for row in grades]


def _strip(row: Trajectory, grades: Mapping[int, float], folder: Path) -> dict[str, Json]:
    """One dialogue in pictures: each draft with its grade, then the target."""
    drafts = [draft for draft in row.extra.get("drafts", []) if draft["image"]]
    frames: list[Json] = [
        {
            "label": f"turn {draft['turn'] + 1}",
            "score": grades.get(draft["turn"]),
            "picture": _small(folder / draft["image"]),
        }
        for draft in drafts
    ]
    if target := row.extra.get("target_image"):
        frames.append({"label": "target", "picture": _small(folder / target)})
    return {"request": row.task.problem_description, "frames": frames}


def _small(path: Path) -> str:
    """The picture as a data URL of a few kilobytes."""
    from PIL import Image

    with Image.open(path) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, image.width * 3 // 2)))
    top.thumbnail((PICTURE_WIDTH, 2 * PICTURE_WIDTH))
    out = io.BytesIO()
    top.save(out, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
