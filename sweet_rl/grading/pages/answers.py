"""The final answer of a trajectory: its picture file, and its page.

Published behaviour: docs/published/sweet_rl.md#files, #grading-pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from PIL import Image

from sweet_rl.browsers.page import extract_html
from sweet_rl.grading.pages.looks import Looks
from sweet_rl.grading.pages.pictures import BrokenPicture, Pixels, decode
from sweet_rl.types import NO_ANSWER, Failure, Json, Trajectory

_MOST_BYTES = 200_000_000


class Shown(StrEnum):
    """Whether there is a picture; a black one replaces a missing one."""

    PICTURE = "picture"
    NONE = "none"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class AnswerPicture:
    """The picture that is judged: its bytes, its scaled pixels, and itself where that was asked for."""

    shown: Shown
    data: bytes = b""
    pixels: Pixels | None = None
    image: Image.Image | None = None
    failure: Failure | None = None


def answer_picture(answer: str | None, folder: Path, looks: Looks, *, decoded: bool = False) -> AnswerPicture:
    """The picture at `answer`, which is relative to `folder` (that of the trajectory file) or absolute.

    Args:
        answer: the path.
        folder: what it is relative to.
        looks: scale the picture, or know it.
        decoded: with `image`, which else need not be decoded.

    Raises:
        StorageError: the disk that keeps looks is full or read-only.
    """
    if answer is None or answer in {NO_ANSWER, ""}:
        return AnswerPicture(Shown.NONE)
    try:
        path = folder / answer
        if not path.is_file():
            return AnswerPicture(Shown.MISSING, failure=Failure("missing_picture", answer[:300]))
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)  # what is cut off there is broken
        image = decode(data) if decoded else None
        return AnswerPicture(Shown.PICTURE, data, looks.of(data, image), image)
    except (BrokenPicture, OSError, ValueError) as error:
        return AnswerPicture(Shown.BROKEN, failure=Failure("broken_picture", f"{answer[:200]}: {error}"))


def answer_html(trajectory: Trajectory) -> str | None:
    """The page whose picture is the answer; None where the dialogue holds none.

    In our rows `drafts` names the turn that gave the picture; else it is the last turn with a page.
    """
    replies = [message.content for message in trajectory.dialogue_history if message.role == "assistant"]
    turn = _turn_of_answer(trajectory.extra.get("drafts"), trajectory.answer)
    if turn is not None and turn < len(replies):
        page = extract_html(replies[turn])[1]
        if page is not None:
            return page
    pages: Sequence[str | None] = [extract_html(content)[1] for content in replies]
    return next((page for page in reversed(pages) if page is not None), None)


def _turn_of_answer(drafts: Json, answer: str | None) -> int | None:
    """The agent turn, from 0, of the last draft with this picture; None where the row does not say."""
    if not isinstance(drafts, list) or answer is None:
        return None
    turns = [
        draft.get("turn") for draft in drafts if isinstance(draft, dict) and draft.get("image") == answer
    ]
    return turns[-1] if turns and isinstance(turns[-1], int) and turns[-1] >= 0 else None
