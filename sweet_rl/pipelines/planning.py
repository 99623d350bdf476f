"""The plan of a pipeline: what would run, and estimated needs where there is a basis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sweet_rl.pipelines.needs import Needed, needed
from sweet_rl.pipelines.state import Look, Records
from sweet_rl.pipelines.steps import Step

_WORDS: Final = {"new": "would run", "changed": "would run again", "begun": "would resume", "done": "done"}


@dataclass(frozen=True, slots=True)
class Planned:
    """One step: its state, what it is expected to take, and the steps before it that would run."""

    step: Step
    look: Look
    needed: Needed
    after: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether it would run now; outputs of earlier steps are not known yet."""
        return self.look.state != "done" or bool(self.after)

    def lines(self, place: str) -> Iterator[str]:
        """Its line in a plan."""
        words, why = _WORDS[self.look.state], self.look.why
        if self.look.state == "done" and self.after:
            words, why = "would run if its inputs change", f"after {', '.join(self.after)}"
        yield f"[{place}] {self.step.name}: {words}" + (f" ({why})" if why else "")
        yield f"    $ {self.step.command}"
        if self.runs:
            yield f"    {self.needed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps of a run."""

    steps: tuple[Planned, ...]

    @property
    def to_run(self) -> list[Step]:
        """The steps that are not done yet, in their order."""
        return [one.step for one in self.steps if one.runs]

    def lines(self) -> Iterator[str]:
        """The plan as it is printed, line by line."""
        for number, one in enumerate(self.steps, 1):
            yield from one.lines(f"{number}/{len(self.steps)}")
        running = [one.needed for one in self.steps if one.runs]
        yield f"{len(running)} of {len(self.steps)} stages would run."
        if running:
            yield f"Together: {Needed.together(running)}"


def plan(steps: Sequence[Step], folder: Path) -> Plan:
    """Look at every step; nothing is run or written."""
    records = Records(folder, steps)
    planned: list[Planned] = []
    running: set[str] = set()
    for step in steps:
        look = records.look(step)
        after = tuple(name for name in step.needs if name in running)
        one = Planned(step, look, needed(step, records, steps), after)
        planned.append(one)
        if one.runs:
            running.add(step.name)
    return Plan(tuple(planned))
