"""What shows how an online run goes: a progress bar, and where its numbers are sent.

Published behaviour: docs/published/archer.md#loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sweet_rl.cli.progress import progress
from sweet_rl.errors import UsageError
from sweet_rl.flags import any_of
from sweet_rl.tracking import KINDS, Destination
from sweet_rl.types import Json

_SHOWN: Final = {
    "rollout.mean": "return",
    "eval_rollout.mean": "evaluation",
    "q1.loss": "Q loss",
    "pg.loss": "policy loss",
}

_PUBLISHED: Final = {"tensorboard": "tensorboard", "use_wandb": "wandb"}
"""Switches that mean the same as log_to with that value; together they may name both."""


def destination_of(config: Mapping[str, Json], typed: Collection[str]) -> Destination:
    """Where the numbers of a run go: by log_to, or by the switches; what is typed goes before what a file says."""
    named, known = config["log_to"], (*KINDS, "none")
    if named is not None and named not in known:
        raise UsageError(f"log_to must be {any_of(known)}, got {named!r}.")
    kinds = tuple(kind for key, kind in _PUBLISHED.items() if config[key])
    may_lack = ("wandb",) if named is None else ()  # the published configurations ask for it
    against = [key for key, kind in _PUBLISHED.items() if config[key] and named not in {None, kind}]
    if against and ("log_to" in typed) == (against[0] in typed):
        raise UsageError(
            f"log_to={named} and {against[0]}=true contradict each other; leave one of them out."
        )
    if named is not None and (not against or "log_to" in typed):
        kinds = () if named == "none" else (str(named),)
    return Destination(
        kinds, project=str(config["project_name"]), name=str(config["run_name"]), may_lack=may_lack
    )


class ProgressBar:
    """Iterations, what the current one is doing, and the last returns and losses."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._bar = progress(total, 0, unit="iteration", quiet=quiet)
        self._numbers: dict[str, str] = {}

    def say(self, phase: str, done: int, total: int) -> None:
        """Show the phase and how many of its steps are done."""
        self._bar.progress.phase = f"{phase} {done}/{total}"
        self._bar.set_description_str(self._bar.progress.phase, refresh=False)
        self._bar.update(0)

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Show an iteration's numbers beside the bar, and move it to `done` iterations."""
        if done and not self._bar.n:  # a run that goes on began there
            self._bar.progress.first = self._bar.initial = done - 1
        self._numbers |= {_SHOWN[name]: f"{info[name]:.3g}" for name in _SHOWN if name in info}
        self._bar.set_postfix(self._numbers, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._bar.close()
