"""Grades from Python: of a text without an episode, and of episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_args, overload

from sweet_rl.contracts import Grader
from sweet_rl.errors import UsageError, no_such
from sweet_rl.grading import GRADERS, fields_by
from sweet_rl.grading.code import CodeGrader, Way, row_fields
from sweet_rl.grading.identity import graded_with
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.interface.page_grades import page_fields, wants_a_page
from sweet_rl.records import task_from_row
from sweet_rl.types import Json, Message, Score, Task, Trajectory
from sweet_rl.viewer.content import rewards_turns
from sweet_rl.worlds import world_in
from sweet_rl.worlds.dialogue.parsing import parse_published

AnyTask = Task | Mapping[str, Json]
"""A task, or a row of a task file."""


class Settings(TypedDict, total=False):
    """Settings of `grade`."""

    grading: Way
    workers: int | None
    timeout_s: float
    memory_mb: int
    unsafe_no_sandbox: bool
    grader: Grader | str
    metric: str
    rendering: Mapping[str, Json]
    folder: str | Path


_OF_TESTS = frozenset({"grading", "workers", "timeout_s", "memory_mb", "unsafe_no_sandbox"})
_OF_PAGES = frozenset({"metric", "rendering", "folder"})


@overload
def grade(what: str, task: AnyTask, **settings: Unpack[Settings]) -> Score: ...
@overload
def grade(
    what: list[str] | tuple[str, ...], task: AnyTask | Sequence[AnyTask], **settings: Unpack[Settings]
) -> list[Score]: ...
@overload
def grade(what: Iterable[Trajectory], **settings: Unpack[Settings]) -> list[Trajectory]: ...


def grade(what: Any, task: Any = None, **settings: Unpack[Settings]) -> Any:
    """Grade by hidden tests, by the wanted page, or by a grader; what `sweet-rl evaluate` does.

    Functions run in a process of their own without network, files or environment (docs/grading.md), pages in
    a browser without network (docs/frontend.md). Episodes of worlds that reward turns have their reward and
    stay as they are, unless a grader is named; so do episodes that failed.

    Args:
        what: what an agent hands in: a text, or several, which may begin with `I WANT TO ANSWER:` and hold
            fenced code, or the source of a page; or trajectories.
        task: of a text: whose tests it has to pass, or whose page it is to be; of several
            texts: one for all, or one for each.
        grading (Way): which grade becomes the reward: fixed, lenient, or published.
        workers (int | None): processes that grade; default: one for each core, and one for a single text.
        timeout_s (float): seconds of computing that one test may take.
        memory_mb (int): memory that one answer may take.
        unsafe_no_sandbox (bool): run the answers without protection where the kernel offers too little of it.
        grader (Grader | str): of your own, for any world: an object, a name that an installed package gives
            one, or module:ATTRIBUTE.
        metric (str): of pages: which grade becomes the reward: combined, ssim, colour, text or layout.
        rendering (Mapping): of pages: how they are drawn, as {"viewport": "800x600"}.
        folder (str | Path): of pages: that of the episodes' file, which their pictures are relative to.

    Returns:
        Of a text its `Score`, from 0 to 1, test by test; its value is None where the task cannot be graded.
        Of trajectories the same ones with `reward`, and in `extra` what evaluation writes into rows.

    Raises:
        UsageError: a setting, or a text without a task.
        SandboxError: answers cannot be run safely here.
    """
    one = isinstance(what, str)
    pieces: list[Any] = [what] if one else list(what)
    texts = _episodes_of(pieces, task)
    graded: list[Any] = list(texts or pieces)
    found = _found(graded, settings, texts=bool(texts), one=one)
    if texts:
        return found[0] if one else [found[place] for place in range(len(texts))]
    for place, fields in found.items():
        reward = fields.pop("reward")
        graded[place] = replace(graded[place], reward=reward, extra={**graded[place].extra, **fields})
    return graded


@overload
async def agrade(what: str, task: AnyTask, **settings: Unpack[Settings]) -> Score: ...
@overload
async def agrade(
    what: list[str] | tuple[str, ...], task: AnyTask | Sequence[AnyTask], **settings: Unpack[Settings]
) -> list[Score]: ...
@overload
async def agrade(what: Iterable[Trajectory], **settings: Unpack[Settings]) -> list[Trajectory]: ...


async def agrade(what: Any, task: Any = None, **settings: Unpack[Settings]) -> Any:
    """As `grade`, in a thread beside the event loop of the caller."""
    return await asyncio.to_thread(lambda: grade(what, task, **settings))


def _found(episodes: Sequence[Trajectory], settings: Settings, *, texts: bool, one: bool) -> dict[int, Any]:
    """What grading gives, by place: of texts a `Score`, of episodes the fields of their rows."""
    grader = settings.get("grader")
    places: dict[str, list[int]] = {"grader": [], "tests": [], "pages": []}
    for place, episode in enumerate(episodes):
        if way := _way_of(episode, grader):
            places[way].append(place)
    _check(settings, places)
    found: dict[int, Any] = {}
    some = {way: [episodes[place] for place in where] for way, where in places.items()}
    if grader is not None:
        found |= zip(places["grader"], _by_grader(grader, some["grader"], texts=texts), strict=True)
    if some["tests"]:
        given = _by_tests(some["tests"], settings, texts=texts, one=one)
        found |= zip(places["tests"], given, strict=True)
    if some["pages"]:
        fields = page_fields(
            some["pages"],
            metric=settings.get("metric", "combined"),
            rendering=settings.get("rendering", {}),
            folder=None if texts else Path(settings.get("folder", ".")),
        )
        found |= zip(places["pages"], map(_score, fields) if texts else fields, strict=True)
    return found


def _way_of(episode: Trajectory, grader: Grader | str | None) -> str:
    """What says how good it is: a grader, tests, the wanted page; "" where nothing is to be said."""
    if episode.failed:
        return ""
    if grader is not None:
        return "grader"
    if rewards_turns([episode]):
        return ""
    if episode.task.test_cases:
        return "tests"
    if wants_a_page(episode):
        return "pages"
    raise UsageError(
        f"The task {episode.task.task_id!r} has no hidden tests and no page to grade by. Games reward their "
        "turns while they are played; for anything else name a `grader`."
    )


def _check(settings: Settings, places: Mapping[str, Sequence[int]]) -> None:
    """Refuse settings that there are not, and those that would do nothing."""
    if unknown := settings.keys() - Settings.__annotations__.keys():
        raise no_such("setting of grade", min(unknown), Settings.__annotations__)
    way = settings.get("grading", "fixed")
    if way not in get_args(Way):
        raise no_such("way of grading", way, get_args(Way))
    limits = (settings.get("workers") or 1, settings.get("timeout_s", 1.0), settings.get("memory_mb", 1))
    if min(limits) <= 0 or settings.get("workers") == 0:
        raise UsageError("workers, timeout_s and memory_mb must be positive.")
    here = {way for way, some in places.items() if some}
    for kind, known, needs in (("tests", _OF_TESTS, "hidden tests"), ("pages", _OF_PAGES, "pages")):
        if here and kind not in here and (idle := sorted(known & settings.keys())):
            raise UsageError(
                f"{idle[0]} belongs to grading by {needs}, and this is by {', '.join(sorted(here))}."
            )


def _by_grader(grader: Grader | str, episodes: Sequence[Trajectory], *, texts: bool) -> Iterator[Any]:
    """By a grader of one's own, by name or as an object."""
    name, judge = grader, grader
    if isinstance(grader, str):
        judge = GRADERS.make(grader, world_in(episodes[0].provenance) if episodes else None, flag="grader")
    else:
        name = getattr(grader, "name", type(grader).__name__)
    for episode, score in zip(episodes, judge.grade(episodes), strict=True):  # type: ignore[union-attr]
        row = {"reward": episode.reward, **episode.extra}
        yield score if texts else fields_by(str(name), score, row)


def _by_tests(episodes: Sequence[Trajectory], settings: Settings, *, texts: bool, one: bool) -> list[Any]:
    grading = settings.get("grading", "fixed")
    timeout_s, memory_mb = settings.get("timeout_s", 1.0), settings.get("memory_mb", 512)
    made_by = graded_with("tests", {"test_timeout_s": timeout_s, "memory_mb": memory_mb})
    with Sandbox(
        workers=settings.get("workers") or (1 if one else None),
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        unsafe_no_sandbox=settings.get("unsafe_no_sandbox", False),
    ) as sandbox:
        grader = CodeGrader(sandbox, grading=grading)
        if texts:
            return list(grader.grade(episodes))
        return [row_fields(grades, grading, made_by) for grades in grader.grade_all(episodes)]


def _score(fields: Mapping[str, Json]) -> Score:
    """The grades of a page as the score of a text."""
    details = {"grades": fields["grades"], "graded_with": fields["graded_with"], **fields["grading_details"]}
    return Score(fields["reward"], details=details)


def _episodes_of(pieces: Sequence[Any], task: Any) -> list[Trajectory]:
    """Episodes in which an agent's only turn is each text; none where the pieces are no texts."""
    count = sum(isinstance(piece, str) for piece in pieces)
    if not count:
        if task is not None:
            raise UsageError("Trajectories have their tasks: leave `task` out.")
        return []
    if count < len(pieces):
        raise UsageError("Texts and trajectories cannot be graded in one call.")
    if task is None:
        raise UsageError("Whose solution is the text to be? Name its `task`.")
    tasks = [task] * count if isinstance(task, (Task, Mapping)) else list(task)
    if len(tasks) != count:
        raise UsageError(f"There are {count} texts and {len(tasks)} tasks: give one task, or one for each.")
    known = [one if isinstance(one, Task) else task_from_row(one) for one in tasks]
    return [_said(text, one) for text, one in zip(pieces, known, strict=True)]


def _said(text: str, task: Task) -> Trajectory:
    """As an episode's last turn is read: the answer behind the marker, or the whole text."""
    parsed = parse_published(text)
    answer = parsed.visible if parsed.answer is None else parsed.answer
    return Trajectory(task, (Message("assistant", text),), answer)
