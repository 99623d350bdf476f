"""The numbers of an episode, and their means over tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sweet_rl.evaluation.episodes import Episode, Episodes
from sweet_rl.statistics import Estimate, mean_over_tasks, pass_all, pass_at, share_over_tasks

Unit = Literal["success", "share", "number"]

ByTask = Mapping[str, Sequence[float]]
"""The values of each task's repeats; tasks without any are not there."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that episodes have.

    Attributes:
        name: in reports, and for people.
        field: of `Episode`.
        unit: success (0 or 1), a share from 0 to 1, or any number.
        better: which direction is good; empty where neither is.
    """

    name: str
    field: Literal["success", "reward", "turns", "questions"]
    unit: Unit
    better: Literal["more", "fewer", ""] = "more"

    def by_task(self, episodes: Iterable[Episode]) -> dict[str, list[float]]:
        """The values of each task's repeats that have one."""
        values: dict[str, list[float]] = {}
        for episode in episodes:
            value = None if episode.failed else getattr(episode, self.field)
            if value is not None:
                values.setdefault(episode.task, []).append(value)
        return values

    def estimate(self, values: ByTask) -> Estimate:
        """The mean over tasks, with its error and its interval."""
        tasks = list(values.values())
        if self.unit == "success":
            return share_over_tasks(tasks)
        return mean_over_tasks(tasks, **({"low": 0.0, "high": 1.0} if self.unit == "share" else {}))


def measures_of(several: Sequence[Episodes]) -> list[Measure]:
    """What all of these have in common, the most telling first."""
    found: list[Measure] = []
    if all(any(each.success is not None for each in one.episodes) for one in several):
        found.append(Measure("success", "success", "success"))
    worlds = {None if one.world is None else one.world.name: one.world for one in several}
    world = next(iter(worlds.values()))
    if all(any(each.reward is not None for each in one.episodes) for one in several):
        title = "reward" if world is None or len(worlds) > 1 else world.reward_is
        rewards = [each.reward for one in several for each in one.episodes if each.reward is not None]
        share = title != "return" and all(0 <= reward <= 1 for reward in rewards)
        found.append(Measure(title, "reward", "share" if share else "number"))
    found.append(Measure("turns", "turns", "number", ""))
    if any(each is None or each.answered_by != "world" for each in worlds.values()):
        found.append(Measure("questions", "questions", "number", ""))
    return found


def passes(values: ByTask, k: int) -> tuple[Estimate, Estimate]:
    """pass@k and pass^k over the tasks that have k repeats.

    Args:
        values: of success, at least one task with k repeats.
        k: repeats that are drawn.
    """
    enough = [task for task in values.values() if len(task) >= k]
    chances = [
        (pass_at(k, round(sum(task)), len(task)), pass_all(k, round(sum(task)), len(task))) for task in enough
    ]
    some, every = zip(*chances, strict=True)
    return share_over_tasks([[one] for one in some]), share_over_tasks([[one] for one in every])
