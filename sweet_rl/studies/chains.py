"""Stages of a study as chains of steps that `sweet_rl.pipelines` runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sweet_rl.pipelines.steps import Step

Flags: TypeAlias = Mapping[str, Any]

Chain: TypeAlias = tuple[Step, ...]
"""Steps that follow each other; the chains of a round do not wait for each other."""


def call(run: str, output: Path, words: tuple[str, ...] = (), flags: Flags | None = None) -> Step:
    """A step under the name of what it makes; `words` have no name on its command line."""
    return Step(output.name, run, words, flags or {})
