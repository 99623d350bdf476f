"""The viewer for pages: drafts and the wanted page as pictures, with what the metrics say.

A row may name any file, as published rows do with absolute paths. So what is opened must be a plain file that
is a PNG; everything else is a reason in words why there is no picture.
"""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweet_rl.browsers.page import Renderer, RenderFailed, extract_html
from sweet_rl.grading.pages import Draft, drafts_of
from sweet_rl.types import Json, Trajectory, is_answer
from sweet_rl.viewer.rows import floors_of, metric_of, row_of

MAX_BYTES = 64_000_000  # a larger file is not shown
_HEADER = struct.Struct(">8sI4sII")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"

NOT_TOLD = "The file names no picture."
NOT_THERE = "The picture is not where the row says."
NO_PNG = "The file that the row names is no PNG."
TOO_LARGE = f"The picture is larger than {MAX_BYTES // 1_000_000} MB."
NOT_RENDERED = "The page could not be rendered"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of `width` by `height` pixels, in a file or (`data`) just rendered."""

    width: int
    height: int
    path: Path | None = None
    data: bytes | None = None

    def read(self) -> bytes | None:
        """The PNG; None where the file no longer exists."""
        if self.path is None:
            return self.data
        found = _open(self.path)
        return found[0] if isinstance(found, tuple) else None


def find_picture(path: str | None, folder: Path, elsewhere: Path | None = None) -> Picture | str:
    """The picture at a path as in a row, or why there is none; `elsewhere` a file of the same name will do."""
    if not path:
        return NOT_TOLD
    place = folder / path
    found = _open(place, header_only=True)
    if found == NOT_THERE and elsewhere is not None:
        place = elsewhere / path.replace("\\", "/").rsplit("/", 1)[-1]
        found = _open(place, header_only=True)
    return found if isinstance(found, str) else Picture(*found[1:], path=place)


def _open(path: Path, *, header_only: bool = False) -> tuple[bytes, int, int] | str:
    """The bytes of a PNG with its size in pixels, or why there are none."""
    try:
        # A pipe would keep us waiting for its other end.
        with open(path, "rb", opener=lambda name, how: os.open(name, how | os.O_NONBLOCK)) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return NO_PNG
            if about.st_size > MAX_BYTES:
                return TOO_LARGE
            data = file.read(_HEADER.size if header_only else MAX_BYTES)
    except (OSError, ValueError):
        return NOT_THERE
    if len(data) < _HEADER.size:
        return NO_PNG
    signature, length, name, width, height = _HEADER.unpack_from(data)
    is_png = signature == _SIGNATURE and (length, name) == (13, b"IHDR") and width and height
    return (data, width, height) if is_png else NO_PNG


TARGET, ANSWER = "target", "answer"

_HELD = 16  # rows whose rendered pictures are kept in memory


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a row beyond the file: its pictures by name, and its drafts' metrics by turn."""

    drafts: Sequence[Draft]
    pictures: Mapping[str, Picture | str]
    grades: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


class DesignContents:
    """The pictures of trajectories whose answers are pages, which go by their position in their file.

    `read` gives a trajectory; `folder` is that of the file, which pictures are relative to; in `elsewhere` they are looked
    for by name where rows name what is not there. A renderer draws what has no picture, and closes with this; with
    `metrics` it grades every draft.
    """

    def __init__(
        self,
        read: Callable[[int], Trajectory],
        *,
        folder: Path,
        elsewhere: Path | None = None,
        renderer: Renderer | None = None,
        metrics: bool = False,
    ) -> None:
        self._read, self._folder, self._elsewhere = read, folder, elsewhere
        self._renderer, self._metrics = renderer, metrics
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._looking: dict[int, asyncio.Task[_Seen]] = {}

    async def prepare(self, position: int) -> None:
        """Find, render and grade, as asked, before `row` and `picture`; a second time costs nothing."""
        if position in self._seen:
            self._seen.move_to_end(position)
            return
        if position not in self._looking:  # several may ask for one row at once
            self._looking[position] = asyncio.create_task(self._look(self._read(position)))
        try:
            self._seen[position] = await self._looking[position]
        finally:
            self._looking.pop(position, None)
        while len(self._seen) > _HELD:
            self._seen.popitem(last=False)

    def row(self, position: int) -> dict[str, Json]:
        """Everything the page shows of a prepared row, with messages' pages as `html`, and `drafts`, the turns with one.

        `answer` is the turn that gave the picture that was handed in, or that picture itself.
        """
        trajectory, seen = self._read(position), self._seen[position]
        row = row_of(trajectory)
        for message in row["messages"]:
            if message["role"] == "assistant":
                message["content"], html = extract_html(message["content"])
                if html is not None:
                    message["html"] = html
        turn = _turn_of_answer(trajectory, seen.drafts)
        details = trajectory.extra.get("grading_details")
        failures = details.get("failures") if isinstance(details, Mapping) else None
        notes = []  # what grading met on its way, in words, without the paths of files
        for failure in failures if isinstance(failures, list) else ():
            if isinstance(failure, Mapping):
                kind = str(failure.get("kind", "")).replace("_", " ")
                has_path = kind in {"missing picture", "broken picture"}
                notes.append(kind if has_path else f"{kind}: {failure.get('detail', '')}")
        shown: dict[str, dict[str, Json]] = {}  # by names that reveal no path
        for name, picture in seen.pictures.items():
            if isinstance(picture, str):
                shown[name] = {"id": None, "note": picture}
                continue
            size = {"width": picture.width, "height": picture.height}
            shown[name] = {"id": f"{position}/{name}", **size, "rendered": picture.path is None}
        return row | {
            "hidden": trajectory.task.ground_truth,
            "target": shown[TARGET],
            "drafts": [
                {"turn": one.turn, "picture": shown[str(one.turn)], "failure": one.failure}
                | {"grades": seen.grades.get(one.turn)}
                for one in seen.drafts
            ],
            "answer": {"turn": turn, "picture": shown.get(ANSWER)} if is_answer(trajectory.answer) else None,
            "metric": metric_of(trajectory),
            "floors": floors_of(trajectory),
            "grading_notes": notes,
        }

    def picture(self, position: int, name: str) -> bytes | None:
        """The PNG of a prepared row by its name: `target`, `answer`, or the number of a turn."""
        seen = self._seen.get(position)
        picture = seen.pictures.get(name) if seen is not None else None
        return picture.read() if isinstance(picture, Picture) else None

    def of_row(self, position: int) -> Iterator[tuple[str, bytes]]:
        """The pictures of a prepared row that are there, by their names."""
        for name in self._seen[position].pictures:
            if (picture := self.picture(position, name)) is not None:
                yield name, picture

    async def close(self) -> None:
        """Stop rendering and end the browsers."""
        for task in self._looking.values():
            task.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        if self._renderer is not None:
            await self._renderer.close()

    async def _look(self, trajectory: Trajectory) -> _Seen:
        renderer, drafts = self._renderer, drafts_of(trajectory)
        target = trajectory.extra.get("target_image")
        said = target if isinstance(target, str) else None
        wanted: dict[str, tuple[str | None, str | None]] = {TARGET: (said, trajectory.task.ground_truth)}
        wanted |= {str(draft.turn): (draft.image, draft.html) for draft in drafts}
        if _turn_of_answer(trajectory, drafts) is None and is_answer(trajectory.answer):
            wanted[ANSWER] = (trajectory.answer, None)
        found = await asyncio.gather(*(self._find(*where, renderer) for where in wanted.values()))
        pictures = dict(zip(wanted, found, strict=True))
        if renderer is None or not self._metrics:
            return _Seen(drafts, pictures)
        from sweet_rl.grading.pages.grader import grade_drafts  # looking needs no numpy

        return _Seen(drafts, pictures, await grade_drafts(trajectory, renderer, self._folder))

    async def _find(self, path: str | None, html: str | None, renderer: Renderer | None) -> Picture | str:
        found = await asyncio.to_thread(find_picture, path, self._folder, self._elsewhere)
        if isinstance(found, Picture) or renderer is None or html is None:
            return found
        try:
            page = await renderer.render(html)
        except RenderFailed as error:
            return f"{NOT_RENDERED}: {error.failure.detail or error.failure.kind}."
        return Picture(page.width, page.height, data=page.image)


def _turn_of_answer(trajectory: Trajectory, drafts: Sequence[Draft]) -> int | None:
    """The last turn whose picture is the answer."""
    turns = [draft.turn for draft in drafts if draft.image is not None and draft.image == trajectory.answer]
    return turns[-1] if turns else None
