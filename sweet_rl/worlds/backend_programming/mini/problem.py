"""What a family of the mini benchmark is: a kind of function from which problems are drawn.

A family knows the shape of a function, how people ask for it, and inputs that reach every rule; the constants
and rules of each problem come from the random generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

Arguments: TypeAlias = tuple[Any, ...]

TESTS = 10
"""Hidden calls of a problem, as many as a ColBench task has."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One drawn function.

    `rules` are all its hidden constants and choices: two problems of a family with the same rules differ in
    wording at most, and never stand in different splits. `inputs` are the arguments of the hidden calls.
    """

    source: str
    request: str
    rules: Arguments
    inputs: tuple[Arguments, ...]

    @property
    def signature(self) -> str:
        """The first line of the function, without `def` and the colon."""
        return self.source.partition("\n")[0].removeprefix("def ").removesuffix(":")

    @property
    def calls(self) -> list[str]:
        """The hidden calls as Python expressions."""
        name = self.signature.partition("(")[0]
        return [f"{name}({', '.join(map(repr, arguments))})" for arguments in self.inputs]


Family: TypeAlias = Callable[[Random], Problem]
"""Draws a problem. All its randomness comes from the generator it is given."""


def half(rng: Random, low: int, high: int) -> int | float:
    """A number between the bounds in steps of a half, whole numbers without a point."""
    value = rng.randint(2 * low, 2 * high) / 2
    return int(value) if value.is_integer() else value
