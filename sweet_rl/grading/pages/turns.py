"""A dialogue's drafts, turn by turn: what each turn drew, where its picture lies, and how good it was."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.grading.pages.answers import Shown, answer_picture
from sweet_rl.grading.pages.metrics import PageView, compare, view_of
from sweet_rl.grading.pages.pictures import BrokenPicture, decode
from sweet_rl.pages.html import extract_html
from sweet_rl.pages.types import RenderedPage, Renderer, RenderFailed
from sweet_rl.types import NO_ANSWER, Json, Trajectory


@dataclass(frozen=True, slots=True)
class Draft:
    """One turn's page.

    `turn` counts agent turns from 0; `image` is the picture's path as the row tells it; `failure` is the
    recorded kind of what kept the page from being rendered.
    """

    turn: int
    html: str
    image: str | None = None
    failure: str | None = None


def drafts_of(trajectory: Trajectory) -> list[Draft]:
    """Every turn with a page, in order.

    Rows of ours tell each draft's picture (`drafts`); a published row tells that of the last page only, as
    its answer.
    """
    said = [message.content for message in trajectory.dialogue_history if message.role == "assistant"]
    pages = [(turn, html) for turn, content in enumerate(said) if (html := extract_html(content)[1])]
    told = _told(trajectory.extra.get("drafts"))
    if told is None:
        last = trajectory.answer if trajectory.answer not in {None, "", NO_ANSWER} else None
        return [Draft(turn, html, last if turn == pages[-1][0] else None) for turn, html in pages]
    return [Draft(turn, html, *told.get(turn, (None, None))) for turn, html in pages]


def _told(drafts: Json) -> dict[int, tuple[str | None, str | None]] | None:
    """Picture and failure by turn; other people's files may hold anything under that name."""
    if not isinstance(drafts, list):
        return None
    return {
        draft["turn"]: (_text(draft.get("image")), _text(draft.get("failure")))
        for draft in drafts
        if isinstance(draft, Mapping) and isinstance(draft.get("turn"), int)
    }


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


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
        told = answer_picture(draft.image, folder)
        if told.shown is Shown.PICTURE:
            return compare(view_of(told.image, page), target)
        return compare(view_of(decode(page.image), page), target) if page is not None else None

    return await asyncio.to_thread(look)
