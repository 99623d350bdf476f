"""Trajectories to grades: targets rendered, answers read, metrics computed, many tasks at once; their table.

A task's repeats are graded together, so that its target is rendered and looked at once.
Published behaviour: docs/published/sweet_rl.md#files, #grading-pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from sweet_rl.browsers.page import RenderedPage, Renderer, RenderFailed
from sweet_rl.concurrency import for_each
from sweet_rl.grading.pages import Draft, drafts_of
from sweet_rl.grading.pages.embedding import Embedder, ModelInput, cosine
from sweet_rl.grading.pages.metrics import (
    METRICS,
    WIDTH,
    BrokenPicture,
    PageView,
    Pixels,
    black,
    compare,
    decode,
    look,
    scale,
)
from sweet_rl.grading.report import failed_words, repeats_words
from sweet_rl.statistics import Estimate, mean_over_tasks
from sweet_rl.types import Failure, Json, Trajectory, is_answer

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


def answer_picture(
    answer: str | None, folder: Path, cache: Path | None = None, *, decoded: bool = False
) -> AnswerPicture:
    """The picture at `answer`, which is relative to `folder` (that of the trajectory file) or absolute."""
    if not is_answer(answer):
        return AnswerPicture(Shown.NONE)
    try:
        path = folder / answer
        if not path.is_file():
            return AnswerPicture(Shown.MISSING, failure=Failure("missing_picture", answer[:300]))
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)  # what is cut off there is broken
        image = decode(data) if decoded else None
        return AnswerPicture(Shown.PICTURE, data, look(data, cache, image), image)
    except (BrokenPicture, OSError, ValueError) as error:
        return AnswerPicture(Shown.BROKEN, failure=Failure("broken_picture", f"{answer[:200]}: {error}"))


def answer_html(trajectory: Trajectory) -> str | None:
    """The page whose picture is the answer, else the last one; None where the dialogue holds none."""
    drafts, answer = drafts_of(trajectory), trajectory.answer
    named = [draft for draft in drafts if answer is not None and draft.image == answer]
    return (named or drafts)[-1].html if drafts else None


async def grade_drafts(
    trajectory: Trajectory, renderer: Renderer, folder: Path
) -> dict[int, dict[str, float]]:
    """The metrics without weights of every draft that has a picture, by turn; empty without a target.

    As the grader does for the answer: pixels are those of the picture in the row, elements those of the page
    rendered again; a page that cannot be rendered again has 0 for text and layout.
    """
    try:
        page = await renderer.render(trajectory.task.ground_truth)
        target = PageView(await asyncio.to_thread(look, page.image), page)
    except (RenderFailed, BrokenPicture):
        return {}

    async def grade(draft: Draft) -> dict[str, float] | None:
        page: RenderedPage | None = None
        try:
            page = await renderer.render(draft.html)
        except RenderFailed:
            if draft.image is None:
                return None

        def graded() -> dict[str, float] | None:
            pixels = answer_picture(draft.image, folder).pixels
            if pixels is None and page is not None:
                pixels = look(page.image)
            return compare(PageView(pixels, page), target) if pixels is not None else None

        return await asyncio.to_thread(graded)

    drafts = drafts_of(trajectory)
    grades = await asyncio.gather(*map(grade, drafts))
    return {draft.turn: grade for draft, grade in zip(drafts, grades, strict=True) if grade is not None}


FLOORS = ("black picture", "blank page")
"""What saying nothing and drawing nothing would score, against each target."""


@dataclass(frozen=True, slots=True)
class PageGrades:
    """One trajectory's grades.

    `values` holds every metric that was computed, None where the target has no picture. `floors` holds the
    same for `FLOORS`. `failures` says what went wrong on the way, by `kind`: "missing_picture",
    "broken_picture", "no_html" and "answer_..." (the elements of the answer are not known: text and layout
    are 0), "target_..." (there is nothing to compare with; the answer was not looked at: `shown` is None).
    """

    values: Mapping[str, float] | None
    floors: Mapping[str, Mapping[str, float]]
    shown: Shown | None
    failures: tuple[Failure, ...] = ()


class _Unit(NamedTuple):
    """All rows of one target, graded but for what the model says, each with what it is shown (None of nothing)."""

    rows: list[tuple[int, PageGrades, ModelInput | None]]
    target_input: ModelInput | None = None
    blank_input: ModelInput | None = None


def row_fields(grades: PageGrades, metric: str, graded_with: Mapping[str, Json]) -> dict[str, Json]:
    """The fields that grading gives a row; `reward` is null where the target has no picture."""
    details: dict[str, Json] = {"picture": grades.shown.value} if grades.shown else {}
    if grades.failures:
        details["failures"] = [
            {name: value for name, value in asdict(failure).items() if value not in (None, "")}
            for failure in grades.failures
        ]
    values = {name: float(value) for name, value in (grades.values or {}).items()}
    return {
        "reward": values.get(metric),
        "grades": values,
        "floors": {name: dict(floor) for name, floor in grades.floors.items()},
        "graded_with": dict(graded_with),
        "grading_details": details,
    }


class PageGrader:
    """Grades answers by their pictures.

    Args:
        renderer: draws targets, and answers again for their elements; not closed here.
        folder: that of the trajectory file, which `answer` is relative to.
        cache: folder that keeps scaled pictures; None: nothing is kept.
        embedder: adds the metric "clip".
        batch_size: pictures that the embedder is given at once, about.
        at_once: tasks in work at a time.
    """

    def __init__(
        self,
        renderer: Renderer,
        *,
        folder: Path,
        cache: Path | None = None,
        embedder: Embedder | None = None,
        batch_size: int = 32,
        at_once: int = 8,
    ) -> None:
        self._renderer, self._folder, self._embedder = renderer, folder, embedder
        self._batch_size, self._at_once, self._cache = batch_size, at_once, cache
        self._black = PageView(scale(black()))
        paper = Image.new("RGB", (WIDTH, 1), "white")  # continued in white to any height
        self._blank = PageView(scale(paper), RenderedPage(b"", WIDTH, 1))
        self._black_input = embedder.prepare(black()) if embedder else None

    async def grade(self, trajectories: Sequence[Trajectory]) -> AsyncIterator[tuple[int, PageGrades]]:
        """Yield (index, grades) for each trajectory, as they become known."""
        by_target: dict[str, list[int]] = {}
        for index, trajectory in enumerate(trajectories):
            by_target.setdefault(trajectory.task.ground_truth, []).append(index)
        done: asyncio.Queue[_Unit | None] = asyncio.Queue(maxsize=self._at_once)

        async def work(rows: list[int]) -> None:
            await done.put(await self._see([(row, trajectories[row]) for row in rows]))

        async def produce() -> None:
            try:
                await for_each(by_target.values(), work, at_once=self._at_once)
            except Exception:  # raised below, where it is awaited
                await done.put(None)
                raise
            await done.put(None)

        producer = asyncio.create_task(produce())
        waiting: list[_Unit] = []
        try:
            while (unit := await done.get()) is not None:
                waiting.append(unit)
                if self._embedder is None or sum(2 + len(one.rows) for one in waiting) >= self._batch_size:
                    for found in await asyncio.to_thread(self._judged, waiting):
                        yield found
                    waiting = []
            await producer
            for found in await asyncio.to_thread(self._judged, waiting):
                yield found
        finally:
            producer.cancel()
            await asyncio.gather(producer, return_exceptions=True)

    async def _see(self, rows: Sequence[tuple[int, Trajectory]]) -> _Unit:
        """Everything about the rows of one target that needs no model."""
        embedder = self._embedder

        def look_at_target() -> tuple[PageView, Mapping[str, Mapping[str, float]], ModelInput | None]:
            image = decode(page.image) if embedder else None
            view = PageView(look(page.image, self._cache, image), page)
            floors = zip(FLOORS, (self._black, self._blank), strict=True)
            given = embedder.prepare(image) if embedder and image else None
            return view, {name: compare(floor, view) for name, floor in floors}, given

        try:
            page = await self._renderer.render(rows[0][1].task.ground_truth)
            target, floors, target_input = await asyncio.to_thread(look_at_target)
        except (RenderFailed, BrokenPicture) as error:
            nothing = PageGrades(None, {}, None, (_failure("target", error),))
            return _Unit([(row, nothing, None) for row, _ in rows])
        seen = [(row, *await self._see_answer(trajectory, target, floors)) for row, trajectory in rows]
        paper = Image.new("RGB", (page.width, page.height), "white")
        blank_input = embedder.prepare(paper) if embedder else None
        return _Unit(seen, target_input, blank_input)

    async def _see_answer(
        self, trajectory: Trajectory, target: PageView, floors: Mapping[str, Mapping[str, float]]
    ) -> tuple[PageGrades, ModelInput | None]:
        picture = await asyncio.to_thread(
            answer_picture, trajectory.answer, self._folder, self._cache, decoded=self._embedder is not None
        )
        if picture.pixels is None:
            failed = (picture.failure,) if picture.failure else ()
            return PageGrades(floors[FLOORS[0]], floors, picture.shown, failed), self._black_input
        failures, page, html = [], None, answer_html(trajectory)
        if html is None:
            failures.append(Failure("no_html", "the dialogue holds no page for this picture"))
        else:
            try:
                page = await self._renderer.render(html)
            except RenderFailed as error:
                failures.append(_failure("answer", error))

        def seen(pixels: Pixels) -> tuple[dict[str, float], ModelInput | None]:
            given = self._embedder.prepare(picture.image) if self._embedder and picture.image else None
            return compare(PageView(pixels, page), target), given

        values, given = await asyncio.to_thread(seen, picture.pixels)
        return PageGrades(values, floors, picture.shown, tuple(failures)), given

    def _judged(self, units: Sequence[_Unit]) -> list[tuple[int, PageGrades]]:
        """Index and grades of every row, with what the model says, in one batch."""
        if self._embedder is None:
            return [(row, grades) for unit in units for row, grades, _ in unit.rows]
        shown = [self._black_input]
        for unit in units:
            shown += [unit.target_input, unit.blank_input, *(given for _, _, given in unit.rows)]
        vectors = iter(self._embedder.embed([given for given in shown if given is not None]))
        black = next(vectors)
        result: list[tuple[int, PageGrades]] = []
        for unit in units:
            if unit.target_input is None:
                result += [(row, grades) for row, grades, _ in unit.rows]
                continue
            target, blank = next(vectors), next(vectors)
            floors = {name: cosine(one, target) for name, one in zip(FLOORS, (black, blank), strict=True)}
            for row, grades, given in unit.rows:
                value = cosine(next(vectors), target)
                if given is not None and np.array_equal(given, unit.target_input):
                    value = 1.0  # whatever the make-up of batches does to the last bit
                known = {name: {"clip": floors[name]} | dict(grades.floors[name]) for name in FLOORS}
                values = {"clip": value} | dict(grades.values or {})
                result.append((row, replace(grades, values=values, floors=known)))
        return result


def _failure(whose: str, error: RenderFailed | BrokenPicture) -> Failure:
    if isinstance(error, RenderFailed):
        return replace(error.failure, kind=f"{whose}_{error.failure.kind}")
    return Failure(f"{whose}_broken_picture", str(error))


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric over all graded rows, over the best repeat of each task, and the floors over tasks."""

    mean: Estimate
    best_of_k: Estimate
    floors: Mapping[str, float]
    rows: int


@dataclass(frozen=True, slots=True)
class PageReport:
    """What `evaluate_html` prints and writes. `rewards` is about what the rows hold as reward."""

    trajectories: int
    tasks: int
    k: int | None
    metric: str
    rewards: MetricLine
    metrics: Mapping[str, MetricLine]
    counts: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0

    def to_json(self) -> dict[str, Json]:
        """All numbers as a JSON object; fractions are in [0, 1]."""
        return asdict(self)

    def to_text(self, title: str) -> str:
        """The table that is printed; numbers in percent."""
        size = f"{self.trajectories} trajectories, {self.tasks} tasks{repeats_words(self.k)}"
        lines = [f"{title}: {size}{failed_words(self.failed)}; the reward is {self.metric}", ""]
        best = f"best of {self.k}" if self.k is not None and self.k > 1 else ""
        header = f"{'%, with 95 % interval':<24}{'mean':>22}" + (f"{best:>22}" if best else "")
        lines.append(header + "".join(f"{floor:>16}" for floor in FLOORS))
        shown = {"reward": self.rewards} | dict(self.metrics)
        for name, line in shown.items():
            row = f"{name:<24}{line.mean!s:>22}" + (f"{line.best_of_k!s:>22}" if best else "")
            row += "".join(f"{100 * line.floors[floor]:>16.1f}" for floor in FLOORS if floor in line.floors)
            lines.append(row)
        lines += ["", *(f"{count:>6}  {label}" for label, count in self.counts.items() if count)]
        return "\n".join(lines).rstrip()


def page_report(
    rows: Sequence[Mapping[str, Json]],
    groups: Sequence[Sequence[int]],
    *,
    k: int | None,
    metric: str,
    failed: int = 0,
) -> PageReport:
    """Fold graded rows into a report; rows without a number are left out."""

    def line(values: Sequence[float | None], floors: Mapping[str, float]) -> MetricLine:
        by_task = [[value for row in group if (value := values[row]) is not None] for group in groups]
        known = [task for task in by_task if task]
        mean, best = (
            mean_over_tasks(some, low=0, high=1) for some in (known, [[max(task)] for task in known])
        )
        return MetricLine(mean, best, floors, sum(map(len, known)))

    lines = {}
    for name in METRICS:
        values = [(row.get("grades") or {}).get(name) for row in rows]
        if all(value is None for value in values):
            continue
        floors = {}  # means over tasks; every repeat of a task has the same
        for floor in FLOORS:
            found = [((rows[group[0]].get("floors") or {}).get(floor) or {}).get(name) for group in groups]
            known = [value for value in found if value is not None]
            if known:
                floors[floor] = sum(known) / len(known)
        lines[name] = line(values, floors)
    rewards = line([row.get("reward") for row in rows], lines[metric].floors if metric in lines else {})
    graded = [rows[row] for group in groups for row in group]
    details = [row.get("grading_details") or {} for row in graded]
    failures = [{failure["kind"] for failure in detail.get("failures") or []} for detail in details]
    shown = [detail.get("picture") for detail in details]
    unscored = [row for row in graded if row.get("reward") is None]
    unknown = [row for row in graded if row.get("reward") is not None and not row.get("grades")]
    not_again = [kinds for kinds in failures if any(kind.startswith("answer_") for kind in kinds)]
    counts = {  # what a reader of the table should know
        "rows without a reward: their target gives no picture; they are in no number above": len(unscored),
        "rows with a stored reward of unknown grading": len(unknown),
        "dialogues without a picture: a black one replaces it": shown.count("none"),
        "pictures that are missing at the path in the row: black as well": shown.count("missing"),
        "pictures that cannot be decoded: black as well": shown.count("broken"),
        "pictures without a page in the dialogue: text and layout are 0": sum(
            "no_html" in one for one in failures
        ),
        "pictures whose page could not be rendered again: text and layout are 0": len(not_again),
        "dialogues with a failed request": sum(
            bool(row.get("failures") or row.get("error")) for row in graded
        ),
    }
    return PageReport(len(rows), len(groups), k, metric, rewards, lines, counts, failed)
