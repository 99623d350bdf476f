"""The mini benchmark: a ColBench that fits on a laptop, generated from a seed.

Each task is a small Python function whose constants and rules cannot be guessed from the request, so that
clarifying questions decide success. Rows have exactly ColBench's fields. Any number of tasks
can be drawn; the first k of a longer list are the shorter list; the splits never share a set of rules,
whatever the seeds.

There are three worlds (docs/mini.md): one in which credit for single turns matters, one in which filtering
whole dialogues is enough, and twelve families of functions for models that can write code.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random

from sweet_rl.errors import UsageError
from sweet_rl.types import Json, derive_seed
from sweet_rl.worlds.backend_programming.mini import extras, families
from sweet_rl.worlds.backend_programming.mini.problem import Family, Problem

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class World:
    """Families that take turns. Where `recurs`, two tasks of a split may have the same rules (not inputs)."""

    families: Mapping[str, Family]
    recurs: bool = False


WORLDS = {
    "usual": World({"usual": extras.usual}, recurs=True),
    "easy": World({"easy": extras.easy}, recurs=True),
    "families": World({family.__name__: family for family in families.ALL}),
}
"""Every world by its name; the first one is meant where none is named."""

DEFAULT_WORLD = "usual"

_GIVE_UP_AFTER = 10_000


def generate(split: str, n: int, seed: int = 0, world: str = DEFAULT_WORLD) -> list[dict[str, Json]]:
    """The first `n` rows of a split, the world's families taking turns.

    Args:
        split: "train", "dev" or "test".
        n: how many rows.
        seed: another seed gives other tasks; the splits stay disjoint across seeds.
        world: see `WORLDS`.

    Raises:
        UsageError: there is no such split, or a family has no further tasks (after many thousands).
    """
    if split not in SPLITS:
        raise UsageError(f"the mini benchmark has the splits {_listed(SPLITS)}, not {split!r}.")
    if world not in WORLDS:
        raise UsageError(f"the mini benchmark has the worlds {_listed(WORLDS)}, not {world!r}.")
    streams = [problems(world, family, split, seed) for family in WORLDS[world].families]
    return [row_of(next(streams[index % len(streams)])) for index in range(n)]


def problems(world: str, family: str, split: str, seed: int) -> Iterator[Problem]:
    """An endless stream of different problems of one family."""
    draw, recurs = WORLDS[world].families[family], WORLDS[world].recurs
    seen: set[int] = set()
    since_last = 0
    for number in count():
        problem = draw(Random(derive_seed("mini", seed, family, number)))
        rules = derive_seed("rules", family, list(problem.rules))
        if _split_of(rules) == split and (recurs or rules not in seen):
            seen.add(rules)
            since_last = 0
            yield problem
        since_last += 1
        if since_last > _GIVE_UP_AFTER:
            raise UsageError(
                f"the family {family!r} of the mini benchmark has no more than {len(seen)} tasks."
            )


def row_of(problem: Problem) -> dict[str, Json]:
    """The problem as a row of a ColBench file, fields in ColBench's order."""
    return {
        "ground_truth": problem.source,
        "problem_description": f"{problem.request}The signature of the function is: def {problem.signature}",
        "test_cases": {f"test{number}": call for number, call in enumerate(problem.calls, start=1)},
        "hidden_information": problem.source,
    }


def _split_of(rules: int) -> str:
    """Which split a set of rules belongs to: decided by the rules alone, so that no list can mix them."""
    return "train" if rules % 2 else "dev" if rules % 4 else "test"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
