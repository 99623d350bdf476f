"""The viewer for web pages: every draft's picture beside the target, and its metrics."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweet_rl.grading.pages.drafts import Draft, drafts_of
from sweet_rl.pages.html import extract_html
from sweet_rl.pages.types import Renderer
from sweet_rl.types import NO_ANSWER, Json, Trajectory
from sweet_rl.viewer.content import Contents, Kind, entry_of, numbers, row_of, text_of
from sweet_rl.viewer.gallery import Picture, Remembering, described, find_picture, render_picture

TARGET, ANSWER = "target", "answer"

_HELD = 16
"""Rows whose rendered pictures are kept in memory."""

_FLOOR = "blank page"
_WITH_PATHS = frozenset({"missing picture", "broken picture"})


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a row beyond the file: its pictures by name, and its drafts' metrics by turn."""

    drafts: Sequence[Draft]
    pictures: Mapping[str, Picture | str]
    grades: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


class DesignContents(Contents[Trajectory]):
    """Trajectories whose answers are pictures of pages; see `content.Contents`.

    Args:
        trajectories: in the order in which they are to be listed.
        title: usually the name of their file.
        folder: that of the file, which pictures are relative to.
        elsewhere: a folder in which pictures are looked for by name that are not where rows say.
        renderer: draws what has no picture, and closes with this; None draws nothing.
        metrics: grade every draft with the renderer's help.
    """

    kind: Kind = "design"

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        title: str,
        *,
        folder: Path,
        elsewhere: Path | None = None,
        renderer: Renderer | None = None,
        metrics: bool = False,
    ) -> None:
        super().__init__(trajectories, title)
        self._folder, self._elsewhere = folder, elsewhere
        self._renderer, self._metrics = renderer, metrics
        self._seen: OrderedDict[int, _Seen] = OrderedDict()
        self._looking: dict[int, asyncio.Task[_Seen]] = {}

    @classmethod
    def entry(cls, item: Trajectory) -> dict[str, Json]:
        """As in the contract; `floor` is what a blank page scores, `metric` which grade the reward is."""
        metric = _metric(item)
        return entry_of(item) | {"floor": _floors(item).get(_FLOOR, {}).get(metric or ""), "metric": metric}

    @classmethod
    def text(cls, item: Trajectory) -> str:
        """What was said and drawn."""
        return text_of(item)

    async def prepare(self, position: int) -> None:
        """Find, render and grade, as asked.

        Raises:
            UsageError, ServiceError: there is no browser.
        """
        if position in self._seen:
            self._seen.move_to_end(position)
            return
        if position not in self._looking:  # several may ask for one row at once
            self._looking[position] = asyncio.create_task(self._look(self.items[position]))
        try:
            self._seen[position] = await self._looking[position]
        finally:
            self._looking.pop(position, None)
        while len(self._seen) > _HELD:
            self._seen.popitem(last=False)

    def row(self, position: int) -> dict[str, Json]:
        """As in the contract.

        A message's `html` is its page, which in `content` is a placeholder. `drafts` are the turns with a
        page; `answer` is the turn that gave the picture that was handed in, or that picture itself, or None.
        """
        trajectory, seen = self.items[position], self._seen[position]
        row = row_of(trajectory)
        for message in row["messages"]:
            if message["role"] == "assistant":
                message["content"], html = extract_html(message["content"])
                if html is not None:
                    message["html"] = html
        turn = _turn_of_answer(trajectory, seen.drafts)
        shown = {name: described(picture, name, position) for name, picture in seen.pictures.items()}
        return row | {
            "hidden": trajectory.task.ground_truth,
            "target": shown[TARGET],
            "drafts": [
                {
                    "turn": draft.turn,
                    "picture": shown[str(draft.turn)],
                    "failure": draft.failure,
                    "grades": seen.grades.get(draft.turn),
                }
                for draft in seen.drafts
            ],
            "answer": {"turn": turn, "picture": shown.get(ANSWER)} if _has_answer(trajectory) else None,
            "metric": _metric(trajectory),
            "floors": _floors(trajectory),
            "grading_notes": _notes(trajectory),
        }

    def picture(self, position: int, name: str) -> bytes | None:
        """As in the contract: `target`, `answer`, or the number of a turn."""
        seen = self._seen.get(position)
        picture = seen.pictures.get(name) if seen is not None else None
        return picture.read() if isinstance(picture, Picture) else None

    def pictures(self, position: int) -> Iterator[str]:
        """Names of the pictures of one trajectory that could be rendered."""
        found = self._seen[position].pictures
        return (name for name, picture in found.items() if isinstance(picture, Picture))

    async def close(self) -> None:
        """Stop rendering and end the browsers."""
        for task in self._looking.values():
            task.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        if self._renderer is not None:
            await self._renderer.close()

    async def _look(self, trajectory: Trajectory) -> _Seen:
        renderer = Remembering(self._renderer) if self._renderer is not None else None
        drafts = drafts_of(trajectory)
        target = trajectory.extra.get("target_image")
        wanted: dict[str, tuple[str | None, str | None]] = {
            TARGET: (target if isinstance(target, str) else None, trajectory.task.ground_truth)
        }
        wanted |= {str(draft.turn): (draft.image, draft.html) for draft in drafts}
        if _turn_of_answer(trajectory, drafts) is None and _has_answer(trajectory):
            wanted[ANSWER] = (trajectory.answer, None)
        found = await asyncio.gather(*(self._find(*where, renderer) for where in wanted.values()))
        pictures = dict(zip(wanted, found, strict=True))
        if renderer is None or not self._metrics:
            return _Seen(drafts, pictures)
        from sweet_rl.grading.pages.turns import grade_drafts  # looking needs no numpy

        return _Seen(drafts, pictures, await grade_drafts(trajectory, renderer, self._folder))

    async def _find(self, path: str | None, html: str | None, renderer: Renderer | None) -> Picture | str:
        found = await asyncio.to_thread(find_picture, path, self._folder, self._elsewhere)
        if isinstance(found, Picture) or renderer is None or html is None:
            return found
        return await render_picture(html, renderer)


def _has_answer(trajectory: Trajectory) -> bool:
    return trajectory.answer not in {None, "", NO_ANSWER}


def _turn_of_answer(trajectory: Trajectory, drafts: Sequence[Draft]) -> int | None:
    """The last turn whose picture is the answer."""
    turns = [draft.turn for draft in drafts if draft.image is not None and draft.image == trajectory.answer]
    return turns[-1] if turns else None


def _metric(trajectory: Trajectory) -> str | None:
    """Which grade the reward is."""
    grades = numbers(trajectory.extra.get("grades"))
    return next((name for name, value in grades.items() if value == trajectory.reward), None)


def _floors(trajectory: Trajectory) -> dict[str, dict[str, float]]:
    floors = trajectory.extra.get("floors")
    if not isinstance(floors, Mapping):
        return {}
    return {str(name): numbers(values) for name, values in floors.items()}


def _notes(trajectory: Trajectory) -> list[str]:
    """What grading met on its way, in words, without the paths of files."""
    details = trajectory.extra.get("grading_details")
    failures = details.get("failures") if isinstance(details, Mapping) else None
    if not isinstance(failures, list):
        return []
    notes = []
    for failure in failures:
        if isinstance(failure, Mapping):
            kind = str(failure.get("kind", "")).replace("_", " ")
            notes.append(kind if kind in _WITH_PATHS else f"{kind}: {failure.get('detail', '')}")
    return notes
