"""One finding of a preflight: what was checked, the result, and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check and its result.

    Attributes:
        level: "wrong" would end the run sooner or later; "warn" may, or makes it another run than intended.
        what: the thing.
        seen: what it is like.
        repair: what to do; "" where it is as it should be.
    """

    level: Level
    what: str
    seen: str
    repair: str = ""

    def __str__(self) -> str:
        """One line, and a second one with the repair."""
        name = {"ok": "OK", "warn": "WARN", "wrong": "WRONG"}[self.level]
        line = f"{name:<6} {self.what}: {self.seen}"
        return f"{line}\n       repair: {self.repair}" if self.repair else line


def fine(what: str, seen: str) -> Finding:
    """A finding of level "ok"."""
    return Finding("ok", what, seen)


def warn(what: str, seen: str, repair: str) -> Finding:
    """A finding of level "warn": it may end the run, or makes it another one than intended."""
    return Finding("warn", what, seen, repair)


def missing(what: str, seen: str, repair: str) -> Finding:
    """A finding of level "wrong": it would end the run sooner or later."""
    return Finding("wrong", what, seen, repair)
