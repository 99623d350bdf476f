"""Grades from Python: of a text without an episode, and of episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, get_args, overload

from sweet_rl.errors import UsageError, no_such
from sweet_rl.grading.code import CodeGrader, Way, row_fields
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.records import task_from_row
from sweet_rl.types import Json, Score, Task, Trajectory
from sweet_rl.viewer.game import rewards_turns
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


@overload
def grade(what: str, task: AnyTask, **settings: Unpack[Settings]) -> Score: ...
@overload
def grade(
    what: list[str] | tuple[str, ...], task: AnyTask | Sequence[AnyTask], **settings: Unpack[Settings]
) -> list[Score]: ...
@overload
def grade(what: Iterable[Trajectory], **settings: Unpack[Settings]) -> list[Trajectory]: ...


def grade(what: Any, task: Any = None, **settings: Unpack[Settings]) -> Any:
    """Grade by hidden tests; what `sweet-rl evaluate_code` does, in the same sandbox.

    Every answer runs in a process of its own without network, files or environment (docs/grading.md).
    Episodes of worlds that reward turns have their reward and stay as they are; so do episodes that failed.

    Args:
        what: what an agent hands in: a text, or several, which may begin with `I WANT TO ANSWER:` and hold
            fenced code; or trajectories.
        task: of a text: whose tests it has to pass; of several texts: one for all, or one for each.
        grading (Way): which grade becomes the reward: fixed, lenient, or published.
        workers (int | None): processes that grade; default: one for each core, and one for a single text.
        timeout_s (float): seconds of computing that one test may take.
        memory_mb (int): memory that one answer may take.
        unsafe_no_sandbox (bool): run the answers without protection where the kernel offers too little of it.

    Returns:
        Of a text its `Score`, from 0 to 1, test by test; its value is None where the task cannot be graded.
        Of trajectories the same ones with `reward`, and in `extra` what evaluation writes into rows.

    Raises:
        UsageError: a setting, or a text without a task.
        SandboxError: answers cannot be run safely here.
    """
    grading = settings.pop("grading", "fixed")
    if grading not in get_args(Way):
        raise no_such("way of grading", grading, get_args(Way))
    one = isinstance(what, str)
    pieces: list[Any] = [what] if one else list(what)
    texts = _episodes_of(pieces, task)
    graded: list[Trajectory] = list(texts or pieces)
    missing = [place for place, episode in enumerate(graded) if _is_to_be_graded(episode)]
    if not missing:
        return graded
    with _sandbox(settings, workers=1 if one else None) as sandbox:
        grader = CodeGrader(sandbox, grading=grading)
        if texts:
            scores = list(grader.grade(texts))
            return scores[0] if one else scores
        found = grader.grade_all(graded[place] for place in missing)
        for place, grades in zip(missing, found, strict=True):
            fields = row_fields(grades, grading)
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


def _sandbox(settings: Settings, *, workers: int | None) -> Sandbox:
    if unknown := settings.keys() - Settings.__annotations__.keys():
        raise no_such("setting of grade", min(unknown), Settings.__annotations__)
    workers = settings.get("workers") or workers
    timeout_s, memory_mb = settings.get("timeout_s", 1.0), settings.get("memory_mb", 512)
    if timeout_s <= 0 or memory_mb < 1 or (workers is not None and workers < 1):
        raise UsageError("workers, timeout_s and memory_mb must be positive.")
    unsafe = settings.get("unsafe_no_sandbox", False)
    return Sandbox(workers=workers, timeout_s=timeout_s, memory_mb=memory_mb, unsafe_no_sandbox=unsafe)


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
        raise UsageError("Whose tests is the text to pass? Name its `task`.")
    tasks = [task] * count if isinstance(task, (Task, Mapping)) else list(task)
    if len(tasks) != count:
        raise UsageError(f"There are {count} texts and {len(tasks)} tasks: give one task, or one for each.")
    known = [one if isinstance(one, Task) else task_from_row(one) for one in tasks]
    return [_said(text, one) for text, one in zip(pieces, known, strict=True)]


def _said(text: str, task: Task) -> Trajectory:
    """As an episode's last turn is read: the answer behind the marker, or the whole text."""
    parsed = parse_published(text)
    return Trajectory(task, (), parsed.visible if parsed.answer is None else parsed.answer)


def _is_to_be_graded(trajectory: Trajectory) -> bool:
    """Whether hidden tests say how good it is.

    Raises:
        UsageError: something else does.
    """
    if trajectory.failed or rewards_turns([trajectory]):
        return False
    if not trajectory.task.test_cases:
        raise UsageError(
            f"The task {trajectory.task.task_id!r} has no hidden tests to grade by. Web pages are compared "
            "with their targets by `sweet-rl evaluate_html`; games reward their turns while they are played."
        )
    return True
