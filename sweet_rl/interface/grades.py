"""Grades from Python: of a text without an episode, of episodes, of web pages, of episodes as they end."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, get_args, overload

from sweet_rl.batching import MicroBatcher
from sweet_rl.browsers import Renderer, RenderFailed, open_renderer
from sweet_rl.browsers.page import RenderFlags, extract_html
from sweet_rl.contracts import Grader
from sweet_rl.errors import UsageError, no_such
from sweet_rl.grading import GRADERS, fields_by
from sweet_rl.grading.code import CodeGrader, Way, row_fields
from sweet_rl.grading.pages import need_page_metrics
from sweet_rl.grading.report import graded_with
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.interface.parts import check_kinds, episodes_in, shown, tasks_in
from sweet_rl.interface.sync import in_thread
from sweet_rl.types import NO_ANSWER, Json, Message, Score, Task, Trajectory
from sweet_rl.viewer.rows import rewards_turns
from sweet_rl.worlds import Options, world_in
from sweet_rl.worlds.dialogue import parse_published

METRICS = ("combined", "ssim", "colour", "text", "layout")
"""What may become the reward of a page."""

_AT_ONCE: Final = 64
"""Episodes that are graded together as they end."""

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


_KINDS: Mapping[str, tuple[Any, str]] = {
    "workers": ((int, type(None)), "a whole number, or None"),
    "timeout_s": ((int, float), "seconds, a number"),
    "memory_mb": (int, "a whole number"),
    "unsafe_no_sandbox": (bool, "True or False"),
    "rendering": (Mapping, 'like {"viewport": "800x600"}'),
    "folder": ((str, Path), "a folder"),
}
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
    pieces = [what] if one else episodes_in(what, "grade", texts=True)
    texts = _episodes_of(pieces, task)
    graded: list[Any] = list(texts or pieces)
    found = _found(graded, settings, texts=bool(texts), one=one)
    if texts:
        return found[0] if one else [found[place] for place in range(len(texts))]
    for place, row in found.items():
        reward = row.pop("reward")
        graded[place] = replace(graded[place], reward=reward, extra={**graded[place].extra, **row})
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
    ways = [_way_of(episode, settings.get("grader")) for episode in episodes]
    _check(settings, set(ways) - {""})
    found: dict[int, Any] = {}
    for way, by in {"grader": _by_grader, "tests": _by_tests, "pages": _by_pages}.items():
        if way in ways:
            places = [place for place, its in enumerate(ways) if its == way]
            some = [episodes[place] for place in places]
            found |= zip(places, by(some, settings, texts=texts, one=one), strict=True)
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
    if "<html" in episode.task.ground_truth.lower():
        return "pages"
    raise UsageError(
        f"The task {episode.task.task_id!r} has no hidden tests and no page to grade by. Games reward their "
        "turns while they are played; for anything else name a `grader`."
    )


def _check(settings: Settings, here: set[str]) -> None:
    """Refuse settings that there are not, and those that would do nothing."""
    if unknown := settings.keys() - Settings.__annotations__.keys():
        raise no_such("setting of grade", min(unknown), Settings.__annotations__)
    for name in _KINDS.keys() & settings.keys():
        check_kinds(*_KINDS[name], **{name: settings[name]})  # type: ignore[literal-required]
    way = settings.get("grading", "fixed")
    if way not in get_args(Way):
        raise no_such("way of grading", way, get_args(Way))
    limits = (settings.get("workers") or 1, settings.get("timeout_s", 1.0), settings.get("memory_mb", 1))
    if min(limits) <= 0 or settings.get("workers") == 0:
        raise UsageError("workers, timeout_s and memory_mb must be positive.")
    for kind, known, needs in (("tests", _OF_TESTS, "hidden tests"), ("pages", _OF_PAGES, "pages")):
        if here and kind not in here and (idle := sorted(known & settings.keys())):
            raise UsageError(
                f"{idle[0]} belongs to grading by {needs}, and this is by {', '.join(sorted(here))}."
            )


def _by_grader(
    episodes: Sequence[Trajectory], settings: Settings, *, texts: bool, one: bool
) -> Iterator[Any]:
    """By a grader of one's own, by name or as an object."""
    name = judge = grader = settings["grader"]
    if isinstance(grader, str):
        judge = GRADERS.make(grader, world_in(episodes[0].provenance), flag="grader")
    else:
        name = getattr(grader, "name", type(grader).__name__)
    if inspect.isclass(judge) or not callable(getattr(judge, "grade", None)):
        raise UsageError(
            f"grader must be a name, or an object with `def grade(self, trajectories)` that yields a sweet_rl.Score "
            f"for each (sweet_rl.contracts.Grader); {shown(grader)}."
        )
    for episode, score in zip(episodes, judge.grade(episodes), strict=True):  # type: ignore[union-attr]
        if not isinstance(score, Score):
            raise UsageError(
                f"The grader {name} yielded {score!r} ({type(score).__name__}), and no sweet_rl.Score."
            )
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
    tasks = tasks_in([task] * count if isinstance(task, Task | Mapping) else task, "task")
    if len(tasks) != count:
        raise UsageError(f"There are {count} texts and {len(tasks)} tasks: give one task, or one for each.")
    found = []
    for text, one in zip(pieces, tasks, strict=True):  # as an episode's last turn is read
        parsed = parse_published(text)
        answer = parsed.visible if parsed.answer is None else parsed.answer
        found.append(Trajectory(one, (Message("assistant", text),), answer))
    return found


def _by_pages(episodes: Sequence[Trajectory], settings: Settings, *, texts: bool, one: bool) -> list[Any]:
    """By the wanted page; a text is a page, to be drawn."""
    need_page_metrics()
    metric, rendering = settings.get("metric", "combined"), settings.get("rendering", {})
    if metric not in METRICS:
        raise no_such("metric of pages", metric, METRICS)
    known = RenderFlags.__dataclass_fields__
    if unknown := sorted(set(rendering) - set(known)):
        raise no_such("setting of rendering", unknown[0], known)
    flags = RenderFlags(**rendering)
    folder = None if texts else Path(settings.get("folder", "."))
    for episode in episodes:  # a picture that is looked for in another place is no black one
        drawn = folder is None or episode.answer in {None, "", NO_ANSWER}
        if not drawn and not Path(str(folder), str(episode.answer)).is_file():
            raise UsageError(
                f"The picture {episode.answer!r} of {episode.task.task_id!r} is not in {str(folder)!r}: name "
                "the folder of the episodes' file (`folder`), which pictures are relative to."
            )
    rows = in_thread(lambda: asyncio.run(_graded(episodes, metric, flags, folder)))
    if not texts:
        return list(rows)
    details = [
        {name: row[name] for name in ("grades", "graded_with")} | row["grading_details"] for row in rows
    ]
    return [Score(row["reward"], details=told) for row, told in zip(rows, details, strict=True)]


async def _graded(
    episodes: Sequence[Trajectory], metric: str, flags: RenderFlags, folder: Path | None
) -> list[dict[str, Json]]:
    from sweet_rl.grading.pages.grader import PageGrader, row_fields  # needs numpy

    with tempfile.TemporaryDirectory(prefix="sweet_rl_pages_") as own:
        async with open_renderer(flags.rendering()) as renderer:
            if folder is None:
                folder = Path(own)
                episodes = [
                    await _drawn(episode, renderer, folder / f"{place}.png")
                    for place, episode in enumerate(episodes)
                ]
            cache = flags.rendering().cache
            grader = PageGrader(renderer, folder=folder, cache=cache, at_once=4 * flags.browsers)
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


def grading_of(
    options: Options, settings: Mapping[str, Any], *, folder: Path | None = None
) -> dict[str, Any]:
    """Settings of `grade` for a world's episodes: pages are drawn as for the human, if nothing else is said.

    Pictures in episodes are relative to the folder; without one they are named by their whole paths.
    """
    if not isinstance(options, RenderFlags) or "grader" in settings:
        return dict(settings)
    drawn = {one.name: getattr(options, one.name) for one in fields(RenderFlags)}
    return {"rendering": drawn, **({} if folder is None else {"folder": folder}), **settings}


def grading_as_they_end(settings: Mapping[str, Any]) -> MicroBatcher[Trajectory, Trajectory]:
    """Gives each episode that is handed in its reward; its caller closes it.

    Episodes that end while others are graded wait for each other, and are graded together.
    """

    def engine(batch: Sequence[Trajectory]) -> Generator[Sequence[tuple[int, Trajectory]], None, None]:
        yield list(enumerate(grade(list(batch), **settings)))

    return MicroBatcher(engine, max_batch=_AT_ONCE)
