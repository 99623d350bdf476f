"""Grades from Python: of a text without an episode, of episodes, of web pages, of episodes as they end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, get_args, overload

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
from sweet_rl.interface.parts import episodes_in, in_thread
from sweet_rl.records import task_from_row
from sweet_rl.types import Json, Message, Score, Task, Trajectory, is_answer
from sweet_rl.viewer.rows import rewards_turns
from sweet_rl.worlds import Options, world_in
from sweet_rl.worlds.dialogue import parse_published

METRICS = ("combined", "ssim", "colour", "text", "layout")
"""What may become the reward of a page."""

_AT_ONCE: Final = 64
"""Episodes that are graded together as they end."""

AnyTask = Task | Mapping[str, Json]
"""A task, or a row of a task file."""

_SETTINGS: Final[dict[str, Any]] = {
    "tests": {
        "grading": "fixed",
        "workers": None,
        "timeout_s": 1.0,
        "memory_mb": 512,
        "unsafe_no_sandbox": False,
    },
    "pages": {"metric": "combined", "rendering": {}, "folder": "."},
    "grader": {"grader": None},
}
"""Settings of `grade` by what they belong to, with their defaults."""


@overload
def grade(what: str, task: AnyTask, **settings: Any) -> Score: ...
@overload
def grade(
    what: list[str] | tuple[str, ...], task: AnyTask | Sequence[AnyTask], **settings: Any
) -> list[Score]: ...
@overload
def grade(what: Iterable[Trajectory], **settings: Any) -> list[Trajectory]: ...


def grade(what: Any, task: Any = None, **settings: Any) -> Any:
    """Grade by hidden tests, by the wanted page, or by a grader; what `sweet-rl evaluate` does.

    Functions run in a process of their own without network, files or environment (docs/grading.md), pages in
    a browser without network (docs/world_pages.md). Episodes of worlds that reward turns have their reward and
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
    known = {name: value for some in _SETTINGS.values() for name, value in some.items()}
    if unknown := settings.keys() - known.keys():
        raise no_such("setting of grade", min(unknown), known)
    texts = [what] if isinstance(what, str) else what if isinstance(what, list | tuple) else []
    if any(isinstance(one, str) for one in texts):
        if not all(isinstance(one, str) for one in texts):
            raise UsageError("Texts and trajectories cannot be graded in one call.")
        if task is None:
            raise UsageError("Whose solution is the text to be? Name its `task`.")
        tasks = [task] * len(texts) if isinstance(task, Task | Mapping) else list(task)
        if len(tasks) != len(texts):
            raise UsageError(
                f"There are {len(texts)} texts and {len(tasks)} tasks: give one task, or one for each."
            )
        episodes = list[Trajectory]()
        for text, one in zip(texts, tasks, strict=True):  # as an episode's last turn is read
            parsed = parse_published(text)
            answer = parsed.visible if parsed.answer is None else parsed.answer
            whose = one if isinstance(one, Task) else task_from_row(one)
            episodes.append(Trajectory(whose, (Message("assistant", text),), answer))
    else:
        texts = []
        if task is not None:
            raise UsageError("Trajectories have their tasks: leave `task` out.")
        episodes = episodes_in(what, "grade")
    ways = [_way_of(episode, settings.get("grader")) for episode in episodes]
    if idle := [
        (kind, name)
        for kind, some in _SETTINGS.items()
        for name in some
        if name in settings and any(ways) and kind not in ways
    ]:
        kind, name = idle[0]
        here = ", ".join(sorted({*ways} - {""}))
        raise UsageError(f"{name} belongs to grading by {kind}, and this is by {here}.")
    if settings.get("grading", "fixed") not in get_args(Way):
        raise no_such("way of grading", settings["grading"], get_args(Way))
    limits = [
        settings[name] for name in ("workers", "timeout_s", "memory_mb") if settings.get(name) is not None
    ]
    if limits and min(limits) <= 0:
        raise UsageError("workers, timeout_s and memory_mb must be positive.")
    chosen = known | {"workers": 1 if isinstance(what, str) else None} | settings
    found: dict[int, Any] = {}
    for way, by in {"grader": _by_grader, "tests": _by_tests, "pages": _by_pages}.items():
        if places := [place for place, its in enumerate(ways) if its == way]:
            some = [episodes[place] for place in places]
            found |= zip(places, by(some, chosen, texts=bool(texts)), strict=True)
    if texts:
        return found[0] if isinstance(what, str) else [found[place] for place in range(len(texts))]
    for place, row in found.items():
        reward = row.pop("reward")
        episodes[place] = replace(episodes[place], reward=reward, extra={**episodes[place].extra, **row})
    return episodes


async def agrade(what: Any, task: Any = None, **settings: Any) -> Any:
    """As `grade`, in a thread beside the event loop of the caller."""
    return await asyncio.to_thread(lambda: grade(what, task, **settings))


def _way_of(episode: Trajectory, grader: Grader | str | None) -> str:
    """What says how good it is: a grader, tests, the wanted page; "" where nothing is to be said."""
    if episode.failed or (grader is None and rewards_turns([episode])):
        return ""
    if grader is not None:
        return "grader"
    if episode.task.test_cases:
        return "tests"
    if "<html" in episode.task.ground_truth.lower():
        return "pages"
    raise UsageError(
        f"The task {episode.task.task_id!r} has no hidden tests and no page to grade by. Games reward their "
        "turns while they are played; for anything else name a `grader`."
    )


def _by_grader(episodes: Sequence[Trajectory], settings: Mapping[str, Any], *, texts: bool) -> list[Any]:
    """By a grader of one's own, by name or as an object."""
    judge: Any = settings["grader"]
    name = judge if isinstance(judge, str) else getattr(judge, "name", type(judge).__name__)
    if isinstance(judge, str):
        judge = GRADERS.make(judge, world_in(episodes[0].provenance), flag="grader")
    if not callable(getattr(judge, "grade", None)):
        raise UsageError(
            f"grader must be a name, or an object with `def grade(self, trajectories)`; got {judge!r}."
        )
    found = list[Any]()
    for episode, score in zip(episodes, judge.grade(episodes), strict=True):
        if not isinstance(score, Score):
            raise UsageError(f"The grader {name} yielded {score!r}, and no sweet_rl.Score.")
        row = {"reward": episode.reward, **episode.extra}
        found.append(score if texts else fields_by(str(name), judge, score, row))
    return found


def _by_tests(episodes: Sequence[Trajectory], settings: Mapping[str, Any], *, texts: bool) -> list[Any]:
    limits = {name: settings[name] for name in ("workers", "timeout_s", "memory_mb", "unsafe_no_sandbox")}
    told = {"test_timeout_s": settings["timeout_s"], "memory_mb": settings["memory_mb"]}
    with Sandbox(**limits) as sandbox:
        grader = CodeGrader(sandbox, grading=settings["grading"])
        if texts:
            return list(grader.grade(episodes))
        made_by = graded_with("tests", told)
        return [row_fields(grades, settings["grading"], made_by) for grades in grader.grade_all(episodes)]


def _by_pages(episodes: Sequence[Trajectory], settings: Mapping[str, Any], *, texts: bool) -> list[Any]:
    """By the wanted page; a text is a page, to be drawn."""
    need_page_metrics()
    metric, rendering = settings["metric"], settings["rendering"]
    if metric not in METRICS:
        raise no_such("metric of pages", metric, METRICS)
    known = RenderFlags.__dataclass_fields__
    if unknown := sorted(set(rendering) - set(known)):
        raise no_such("setting of rendering", unknown[0], known)
    flags, folder = RenderFlags(**rendering), None if texts else Path(settings["folder"])
    for episode in episodes:  # a picture that is looked for in another place is no black one
        drawn = folder is None or not is_answer(episode.answer)
        if not drawn and not Path(str(folder), str(episode.answer)).is_file():
            raise UsageError(
                f"The picture {episode.answer!r} of {episode.task.task_id!r} is not in {str(folder)!r}: name "
                "the folder of the episodes' file (`folder`), which pictures are relative to."
            )
    rows = in_thread(lambda: asyncio.run(_graded(episodes, metric, flags, folder)))
    if not texts:
        return rows
    details = [
        {"grades": row["grades"], "graded_with": row["graded_with"]} | row["grading_details"] for row in rows
    ]
    return [Score(row["reward"], details=told) for row, told in zip(rows, details, strict=True)]


async def _graded(
    episodes: Sequence[Trajectory], metric: str, flags: RenderFlags, folder: Path | None
) -> list[dict[str, Json]]:
    from sweet_rl.grading.pages.grader import PageGrader, row_fields  # needs numpy

    async def drawn(episode: Trajectory, renderer: Renderer, path: Path) -> Trajectory:
        """The episode with the picture of its page as its answer; without one where there is none to draw."""
        html = extract_html(str(episode.answer))[1]
        try:
            page = None if html is None else await renderer.render(html)
        except RenderFailed:
            page = None
        if html is None or page is None:
            return replace(episode, answer=None)
        await asyncio.to_thread(path.write_bytes, page.image)
        return replace(episode, dialogue_history=(Message("assistant", html),), answer=str(path))

    with tempfile.TemporaryDirectory(prefix="sweet_rl_pages_") as own:
        async with open_renderer(flags.rendering()) as renderer:
            if folder is None:
                folder = Path(own)
                episodes = [
                    await drawn(episode, renderer, folder / f"{place}.png")
                    for place, episode in enumerate(episodes)
                ]
            cache = flags.rendering().cache
            grader = PageGrader(renderer, folder=folder, cache=cache, at_once=4 * flags.browsers)
            found = {
                place: row_fields(grades, metric, graded_with("pages", flags.rendered_with()))
                async for place, grades in grader.grade(episodes)
            }
    return [found[place] for place in range(len(episodes))]


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
