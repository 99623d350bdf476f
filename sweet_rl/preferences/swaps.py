"""The swap test: does a model read what it is given?

It is asked again with the input of another task: a critic with another hidden solution, or another dialogue.
Values that stay as they are say that it does not look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt
from statistics import fmean

from sweet_rl.errors import UsageError
from sweet_rl.grouping import other_places
from sweet_rl.preferences.candidates import Candidates
from sweet_rl.types import Json

SWAPPED = "judge_result_swapped"
"""Field of a row: the candidates' scores with another task's solution."""

_EQUAL = 1e-6
"""Difference of the scores of equals in different batches, at most."""


def with_others_solutions(rows: Sequence[Candidates]) -> list[Candidates]:
    """The same turns, each with the hidden solution of another task.

    One without a line of the task's own, but for lines that all have; where there is none, any other.

    Raises:
        UsageError: all have the same.
    """
    solutions = {row.key[0]: row.ground_truth for row in rows}
    lines = {solution: frozenset(solution.splitlines()) for solution in solutions.values()}
    of_all = frozenset.intersection(*lines.values()) if lines else frozenset()

    def apart(own: str, other: str) -> bool:
        return own != other and lines[own] & lines[other] <= of_all

    texts = list(solutions.values())
    places = (
        far if texts[far] != text else near
        for text, far, near in zip(texts, other_places(texts, apart), other_places(texts), strict=True)
    )
    given = {task: texts[place] for task, place in zip(solutions, places, strict=True)}
    if any(given[task] == own for task, own in solutions.items()):
        raise UsageError(
            "--swap_test needs turns of tasks with different hidden solutions; here all are the same."
        )
    return [replace(row, ground_truth=given[row.key[0]]) for row in rows]


@dataclass(frozen=True, slots=True)
class Moved:
    """How far values move with another input.

    Attributes:
        groups: of values that are compared, each of at least two.
        correlation: of both values within groups; 1 where the input is not read, None where all are equal.
        best: share of the groups in which another one is best then.
    """

    groups: int
    correlation: float | None
    best: float


def moved(groups: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Moved | None:
    """How far values move; None where no group has two of them.

    Args:
        groups: of values among which a choice is made: with their own input, and with another.
    """
    own_all, other_all, changed = list[float](), list[float](), list[bool]()
    for own, other in groups:
        if len(own) < 2:
            continue
        best = max(range(len(own)), key=own.__getitem__)
        changed.append(max(other) - other[best] > _EQUAL)
        own_all += [value - fmean(own) for value in own]
        other_all += [value - fmean(other) for value in other]
    if not changed:
        return None
    spread = sqrt(fsum(value * value for value in own_all) * fsum(value * value for value in other_all))
    products = fsum(own * other for own, other in zip(own_all, other_all, strict=True))
    return Moved(len(changed), products / spread if spread else None, fmean(changed))


def moved_scores(rows: Iterable[Mapping[str, Json]]) -> Moved | None:
    """The same for the candidates of ranked turns that were scored with another task's solution as well."""

    def both(row: Mapping[str, Json]) -> tuple[list[float], list[float]]:
        pairs = [pair for pair in zip(row["judge_result"], row[SWAPPED], strict=True) if None not in pair]
        return [own for own, _ in pairs], [other for _, other in pairs]

    return moved(map(both, rows))


def said_of_scores(found: Moved) -> str:
    """That, for people."""
    how = "no correlation" if found.correlation is None else f"a correlation of {found.correlation:.4f}"
    return (
        f"Swap test: with another task's solution the scores of a turn's candidates have {how} with the "
        "right ones (1: the critic does not read the solution), and another candidate is best in "
        f"{found.best:.1%} of {found.groups} turns."
    )
