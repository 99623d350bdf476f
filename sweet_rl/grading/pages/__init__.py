"""Pages to scores: how much the answer's picture and its elements agree with the target's.

`metrics` compares pixels, and `elements` what the browser says stands where; `embedding` asks a CLIP model; `grader`
does it for trajectories and for drafts, and has the table. The drafts of a dialogue are here: looking at them needs
no package. Definitions and blind spots: docs/world_pages.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweet_rl.browsers.page import extract_html
from sweet_rl.errors import missing_package
from sweet_rl.types import Trajectory, is_answer


def need_page_metrics() -> None:
    """Make sure that pages can be compared."""
    try:
        import sweet_rl.grading.pages.metrics  # noqa: F401
    except ImportError as error:
        raise missing_package(error.name or "pillow", "pages", needed_for="Comparing pages") from error


@dataclass(frozen=True, slots=True)
class Draft:
    """One turn's page.

    `turn` counts agent turns from 0; `image` is the picture's path as in the row; `failure` is the
    recorded kind of what kept the page from being rendered.
    """

    turn: int
    html: str
    image: str | None = None
    failure: str | None = None


def drafts_of(trajectory: Trajectory) -> list[Draft]:
    """Every turn with a page, in order.

    Rows of ours name each draft's picture (`drafts`); a published row names that of the last page only, as
    its answer.
    """
    replies = [message.content for message in trajectory.dialogue_history if message.role == "assistant"]
    pages = [(turn, html) for turn, content in enumerate(replies) if (html := extract_html(content)[1])]
    drafts = trajectory.extra.get("drafts")
    if not isinstance(drafts, list):
        last = trajectory.answer if is_answer(trajectory.answer) else None
        return [Draft(turn, html, last if turn == pages[-1][0] else None) for turn, html in pages]
    recorded = {}
    for draft in drafts:  # other people's files may hold anything under that name
        if isinstance(draft, Mapping) and isinstance(draft.get("turn"), int):
            found = (draft.get("image"), draft.get("failure"))
            recorded[draft["turn"]] = [one if isinstance(one, str) else None for one in found]
    return [Draft(turn, html, *recorded.get(turn, ())) for turn, html in pages]
