"""The grade of each draft of a dialogue, turn by turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sweet_rl.grading.pages.answers import Shown, answer_picture
from sweet_rl.grading.pages.drafts import Draft, drafts_of
from sweet_rl.grading.pages.metrics import PageView, compare, view_of
from sweet_rl.grading.pages.pictures import BrokenPicture, decode
from sweet_rl.pages.types import RenderedPage, Renderer, RenderFailed
from sweet_rl.types import Trajectory


async def grade_drafts(
    trajectory: Trajectory, renderer: Renderer, folder: Path
) -> dict[int, dict[str, float]]:
    """The metrics without weights of every draft that has a picture, by turn; empty without a target.

    As the grader does for the answer: pixels are those of the picture in the row, elements those of the page
    rendered again; a page that cannot be rendered again has 0 for text and layout.

    Args:
        trajectory: one row.
        renderer: draws the target and the drafts.
        folder: that of the trajectory file, which paths are relative to.

    Raises:
        UsageError, ServiceError: there is no browser.
    """
    try:
        page = await renderer.render(trajectory.task.ground_truth)
        target = view_of(await asyncio.to_thread(decode, page.image), page)
    except (RenderFailed, BrokenPicture):
        return {}
    drafts = drafts_of(trajectory)
    grades = await asyncio.gather(*(_grade(draft, target, renderer, folder) for draft in drafts))
    return {draft.turn: grade for draft, grade in zip(drafts, grades, strict=True) if grade is not None}


async def _grade(draft: Draft, target: PageView, renderer: Renderer, folder: Path) -> dict[str, float] | None:
    page: RenderedPage | None = None
    try:
        page = await renderer.render(draft.html)
    except RenderFailed:
        if draft.image is None:
            return None

    def look() -> dict[str, float] | None:
        picture = answer_picture(draft.image, folder)
        if picture.shown is Shown.PICTURE:
            return compare(view_of(picture.image, page), target)
        return compare(view_of(decode(page.image), page), target) if page is not None else None

    return await asyncio.to_thread(look)
