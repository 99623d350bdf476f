"""Stages of a study as chains of steps that `sweet_rl.pipelines` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.pipelines.steps import Step, in_rounds

Flags = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that follow each other, under one name; those of a round do not wait for each other."""

    name: str
    calls: tuple[Step, ...]


def call(run: str, output: Path, words: tuple[str, ...] = (), flags: Flags | None = None) -> Step:
    """A step under the name of what it makes.

    Args:
        run: a command, or `module:FUNCTION`.
        output: what it makes.
        words: what has no name on its command line.
        flags: by name.
    """
    return Step(output.name, run, words, flags or {})


def steps_of(rounds: Sequence[Sequence[Chain]]) -> list[Step]:
    """All steps of a study, each behind those that it needs."""
    return in_rounds([[chain.calls for chain in chains] for chains in rounds])
