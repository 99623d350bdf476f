"""What an agent is worth, and which of two is better, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl.contracts import Policy, User
from sweet_rl.errors import UsageError
from sweet_rl.evaluation.comparison import Comparison, IntervalWay, compared
from sweet_rl.evaluation.episodes import episodes_of
from sweet_rl.evaluation.report import Report, counts_of, families_of, lines_of
from sweet_rl.evaluation.sources import Source, opened
from sweet_rl.interface.grades import grade
from sweet_rl.interface.parts import Tasks, name_of
from sweet_rl.interface.simulation import simulate
from sweet_rl.types import Json, Task, Trajectory
from sweet_rl.worlds import World, world_of


class Evaluated(NamedTuple):
    """The report, which prints itself as a table, and the graded episodes, which `compare` takes."""

    report: Report
    trajectories: list[Trajectory]


def evaluate(
    world: World | str = "code",
    tasks: Tasks | Iterable[Task | Mapping[str, Json]] | None = None,
    *,
    agent: Policy | str = "auto",
    human: User | str | None = None,
    num_tasks: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    **more: Any,
) -> Evaluated:
    """Simulate, grade, report; what `sweet-rl eval` does, on objects in memory.

    Args:
        world: as of `simulate`, and so are the next four.
        tasks: what is played.
        agent: who acts.
        human: who answers.
        num_tasks: how many at most, from the first on.
        repeats: episodes of each task; pass@k and pass^k are over them.
        seed: of all draws.
        more: further arguments of `simulate`.

    Raises:
        SweetRLError: as `simulate` and `grade`.
    """
    played = world_of(world) if isinstance(world, str) else world
    trajectories = simulate(
        played, tasks, agent=agent, human=human, num_tasks=num_tasks, repeats=repeats, seed=seed, **more
    )
    graded = grade(trajectories)
    found = episodes_of(graded, played)
    title = f"{name_of(agent)} in {played.name}" + (f" x {repeats}" if repeats > 1 else "")
    about = {} if played.answered_by == "world" else {"human": {"model": name_of(human)}}
    return Evaluated(
        Report(title, *counts_of(found), lines_of(found), families_of(found), about=about), graded
    )


def compare(
    *runs: str | Path | Iterable[Trajectory], interval: IntervalWay = "student", force: bool = False
) -> Comparison:
    """Compare the first run with each other one, task by task; what `sweet-rl compare` prints.

    Args:
        runs: files of trajectories, folders of `sweet-rl eval`, or graded trajectories.
        interval: of differences: "student" or "bootstrap", over tasks.
        force: compare what runs share, although they are of other tasks, humans, rules or graders.

    Raises:
        UsageError: fewer than two runs; they cannot be compared, or are trainings.
        DataError: a file is broken.
    """
    return compared([_source(place, run) for place, run in enumerate(runs)], interval=interval, force=force)


def _source(place: int, run: str | Path | Iterable[Trajectory]) -> Source:
    if isinstance(run, str | Path):
        found = opened(str(run))
        if isinstance(found, Source):
            return found
        raise UsageError(f"{str(run)!r} is a training: `sweet-rl compare` shows trainings side by side.")
    label = chr(ord("A") + place)
    return Source(label, Path(label), episodes_of(run))
