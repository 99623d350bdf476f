"""The mini benchmark: a ColBench that fits on a laptop, generated from a seed.

Each task is a small Python function whose constants and rules cannot be guessed from the request, so that
clarifying questions decide success. Rows have exactly ColBench's fields (spec §2.1). Any number of tasks
can be drawn; the first k of a longer list are the shorter list; train and test never share a set of rules,
whatever the seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

from sweet_rl.errors import UsageError
from sweet_rl.tasks.mini import lists, money, people, text
from sweet_rl.tasks.mini.family import Family, Problem
from sweet_rl.types import Json, derive_seed

SPLITS = ("train", "test")

FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        money.parcel,
        people.grade,
        text.label,
        lists.results,
        money.loyalty,
        people.ready_time,
        lists.shortlist,
        money.bill,
        lists.readings,
        people.amount,
        money.shares,
        text.word_game,
    )
}
"""Every family by its name, in the order in which they take turns."""

_GIVE_UP_AFTER = 10_000


def generate(split: str, n: int, seed: int = 0) -> list[dict[str, Json]]:
    """The first `n` rows of a split, the families taking turns.

    Args:
        split: "train" or "test".
        n: how many rows.
        seed: another seed gives other tasks; the splits stay disjoint across seeds.

    Raises:
        UsageError: there is no such split, or a family has no further tasks (after many thousands).
    """
    if split not in SPLITS:
        raise UsageError(f"the mini benchmark has the splits 'train' and 'test', not {split!r}.")
    streams = [problems(name, split, seed) for name in FAMILIES]
    return [row_of(next(streams[index % len(streams)])) for index in range(n)]


def problems(family: str, split: str, seed: int) -> Iterator[Problem]:
    """An endless stream of different problems of one family."""
    seen: set[int] = set()
    since_last = 0
    for number in count():
        problem = FAMILIES[family](Random(derive_seed("mini", seed, family, number)))
        rules = derive_seed("rules", family, list(problem.rules))
        if _split_of(rules) == split and rules not in seen:
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
    return "train" if rules % 2 else "test"
