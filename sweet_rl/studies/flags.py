"""Flags of every study."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.flags import Settings, flag
from sweet_rl.flags.common import Jobs, OutputDir, Overwriting
from sweet_rl.flags.models import Iterations


@dataclass(frozen=True, kw_only=True)
class StudyFlags(OutputDir, Jobs, Overwriting):
    """The study."""


@dataclass(frozen=True, kw_only=True)
class OnlineFlags(StudyFlags, Iterations):
    """The study."""

    seeds: int = flag(3, "models to begin with, and runs of every method.", at_least=1)
    first_seed: int = flag(0, "the number of the first; settings were chosen with 100 to 102.", at_least=0)
    ablations: bool = flag(False, "the study's own method with parts left out, too.")


@dataclass(frozen=True, kw_only=True)
class TestGames(Settings):
    """The study."""

    test_games: int | None = flag(None, "games that every policy is measured on.", at_least=1)


HELPS = {"overwrite": "throw away what an earlier demo left in the folder."}
"""What some flags mean in all studies."""
