"""Grades of web pages from Python: answers and wanted pages drawn by a real browser, and compared."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sweet_rl.errors import UsageError, no_such
from sweet_rl.grading.identity import graded_with
from sweet_rl.grading.pages import need_page_metrics
from sweet_rl.interface.waiting import in_thread
from sweet_rl.pages import Renderer, RenderFailed, open_renderer
from sweet_rl.pages.flags import RenderFlags
from sweet_rl.pages.html import extract_html
from sweet_rl.types import NO_ANSWER, Json, Message, Trajectory

METRICS = ("combined", "ssim", "colour", "text", "layout")
"""What may become the reward."""


def wants_a_page(episode: Trajectory) -> bool:
    """Whether it is a page that is compared with what was handed in."""
    return not episode.task.test_cases and "<html" in episode.task.ground_truth.lower()


def page_fields(
    episodes: Sequence[Trajectory], *, metric: str, rendering: Mapping[str, Json], folder: Path | None
) -> list[dict[str, Json]]:
    """What grading gives each row: reward, grades, floors, and how it was graded.

    Args:
        episodes: they did not fail.
        metric: the grade that becomes the reward.
        rendering: fields of `RenderFlags`.
        folder: that pictures are relative to; None: the answers are pages, to be drawn.

    Raises:
        UsageError: a setting, a picture that is not there, or no browser.
    """
    need_page_metrics()
    if metric not in METRICS:
        raise no_such("metric of pages", metric, METRICS)
    known = RenderFlags.__dataclass_fields__
    if unknown := sorted(set(rendering) - set(known)):
        raise no_such("setting of rendering", unknown[0], known)
    flags = RenderFlags(**rendering)
    if folder is not None:
        _check_pictures(episodes, folder)
    return in_thread(lambda: asyncio.run(_graded(episodes, metric, flags, folder)))


def _check_pictures(episodes: Sequence[Trajectory], folder: Path) -> None:
    """Make sure that pictures are there: one that is looked for in another place is no black one."""
    for episode in episodes:
        if episode.answer not in {None, "", NO_ANSWER} and not (folder / str(episode.answer)).is_file():
            raise UsageError(
                f"The picture {episode.answer!r} of {episode.task.task_id!r} is not in {str(folder)!r}: name "
                "the folder of the episodes' file (`folder`), which pictures are relative to."
            )


async def _graded(
    episodes: Sequence[Trajectory], metric: str, flags: RenderFlags, folder: Path | None
) -> list[dict[str, Json]]:
    from sweet_rl.grading.pages.grader import PageGrader, row_fields  # needs numpy
    from sweet_rl.grading.pages.looks import Looks  # likewise

    with tempfile.TemporaryDirectory(prefix="sweet_rl_pages_") as own:
        async with open_renderer(flags.rendering()) as renderer:
            if folder is None:
                folder = Path(own)
                episodes = [
                    await _drawn(episode, renderer, folder / f"{place}.png")
                    for place, episode in enumerate(episodes)
                ]
            looks = Looks(flags.rendering().cache)
            grader = PageGrader(renderer, folder=folder, looks=looks, at_once=4 * flags.browsers)
            found = {
                place: row_fields(grades, metric, graded_with("pages", flags.rendered_with()))
                async for place, grades in grader.grade(episodes)
            }
    return [found[place] for place in range(len(episodes))]


async def _drawn(episode: Trajectory, renderer: Renderer, path: Path) -> Trajectory:
    """The episode with the picture of its page as its answer; without one where there is none to draw."""
    html = extract_html(str(episode.answer))[1]
    if html is None:
        return replace(episode, answer=None)
    try:
        page = await renderer.render(html)
    except RenderFailed:
        return replace(episode, answer=None)
    await asyncio.to_thread(path.write_bytes, page.image)
    return replace(episode, dialogue_history=(Message("assistant", html),), answer=str(path))
