"""The mini benchmark: a ColBench that fits on a laptop, generated from a seed; its four worlds: docs/world_code.md.

The first k rows of a longer list are the shorter list; the splits never share a set of rules. Published behaviour:
docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import extras, families
from sweet_rl.mini.backend.families import Family, Problem
from sweet_rl.types import Json, Task, derive_seed

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class World:
    """Families that take turns; `fields` are added to each row; if it `recurs`, two tasks may have the same rules."""

    families: Mapping[str, Family]
    recurs: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)


def trades(count: int) -> World:
    """The world of the first `count` trades; its rows say how many they are."""
    return World({TRADES: extras.of_trades(count)}, recurs=True, fields={TRADES: count})


TRADES = "trades"  # The world whose name may say how many trades there are, as in `trades=10`


WORLDS = {  # Every world by its name; the first one is meant where none is named
    "usual": World({"usual": extras.usual}, recurs=True),
    TRADES: trades(len(extras.TRADES)),
    "easy": World({"easy": extras.easy}, recurs=True),
    "families": World({family.__name__: family for family in families.ALL}),
}

DEFAULT_WORLD = "usual"

_GIVE_UP_AFTER = 10_000


def generate(split: str, n: int, seed: int = 0, world: str = DEFAULT_WORLD) -> list[dict[str, Json]]:
    """The first `n` rows of a split, the world's families taking turns."""
    if split not in SPLITS:
        raise UsageError(f"the mini benchmark has the splits {_listed(SPLITS)}, not {split!r}.")
    found = world_of(world)
    streams = [problems(world, family, split, seed) for family in found.families]
    return [{**row_of(next(streams[index % len(streams)])), **found.fields} for index in range(n)]


def world_of(name: str) -> World:
    kind, sign, count = name.partition("=")
    if kind == TRADES and sign:
        if not (count.isascii() and count.isdigit() and 1 <= int(count) <= len(extras.TRADES)):
            raise UsageError(
                f"{name!r}: there are 1 to {len(extras.TRADES)} trades, got {count!r}. Write 'trades=10', say."
            )
        return trades(int(count))
    if name not in WORLDS:
        raise UsageError(f"the mini benchmark has the worlds {_listed(WORLDS)}, not {name!r}.")
    return WORLDS[name]


def check_trades(tasks: Sequence[Task], count: int, source: str) -> None:
    """Make sure that tasks are of the world of the first `count` trades."""
    for number, task in enumerate(tasks, start=1):
        if (own := task.row.get(TRADES)) != count:
            what = "of no trade" if own is None else f"one of {own} trades"
            raise UsageError(
                f"{source!r}: task {number} is {what}, and {count} trades are wanted. Generate the file from "
                f"'mini:{TRADES}={count}:train' (or ':dev', ':test')."
            )


def problems(world: str, family: str, split: str, seed: int) -> Iterator[Problem]:
    found = world_of(world)
    draw, recurs = found.families[family], found.recurs
    seen: set[int] = set()
    since_last = 0
    for number in count():
        problem = draw(Random(derive_seed("mini", seed, family, number)))
        rules = derive_seed("rules", family, list(problem.rules))
        # the rules alone decide about the split, so that no list can mix them
        own_split = "train" if rules % 2 else "dev" if rules % 4 else "test"
        if own_split == split and (recurs or rules not in seen):
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


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
