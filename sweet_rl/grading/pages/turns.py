"""The grade of each draft of a dialogue, turn by turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sweet_rl.browsers.page import RenderedPage, Renderer, RenderFailed
from sweet_rl.grading.pages.answers import answer_picture
from sweet_rl.grading.pages.drafts import Draft, drafts_of
from sweet_rl.grading.pages.looks import Looks
from sweet_rl.grading.pages.metrics import PageView, compare, view_of
from sweet_rl.grading.pages.pictures import BrokenPicture
from sweet_rl.types import Trajectory


async def grade_drafts(
    trajectory: Trajectory, renderer: Renderer, folder: Path, looks: Looks | None = None
) -> dict[int, dict[str, float]]:
    """The metrics without weights of every draft that has a picture, by turn; empty without a target.

    As the grader does for the answer: pixels are those of the picture in the row, elements those of the page
    rendered again; a page that cannot be rendered again has 0 for text and layout.

    Args:
        trajectory: one row.
        renderer: draws the target and the drafts.
        folder: that of the trajectory file, which paths are relative to.
        looks: scale pictures, or know them; None: nothing is kept.

    Raises:
        UsageError, ServiceError: there is no browser.
    """
    looks = looks or Looks()
    try:
        page = await renderer.render(trajectory.task.ground_truth)
        target = view_of(await asyncio.to_thread(looks.of, page.image), page)
    except (RenderFailed, BrokenPicture):
        return {}
    drafts = drafts_of(trajectory)
    grades = await asyncio.gather(*(_grade(draft, target, renderer, folder, looks) for draft in drafts))
    return {draft.turn: grade for draft, grade in zip(drafts, grades, strict=True) if grade is not None}


async def _grade(
    draft: Draft, target: PageView, renderer: Renderer, folder: Path, looks: Looks
) -> dict[str, float] | None:
    page: RenderedPage | None = None
    try:
        page = await renderer.render(draft.html)
    except RenderFailed:
        if draft.image is None:
            return None

    def look() -> dict[str, float] | None:
        pixels = answer_picture(draft.image, folder, looks).pixels
        if pixels is None and page is not None:
            pixels = looks.of(page.image)
        return compare(view_of(pixels, page), target) if pixels is not None else None

    return await asyncio.to_thread(look)
