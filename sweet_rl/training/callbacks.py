"""Callbacks of Trainer: the order of the next epoch, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import ProgressCallback, TrainerCallback

from sweet_rl.command_line.running import progress


class EpochCallback(TrainerCallback):
    """Says as an epoch begins how many updates are done: exact, unlike Trainer's fraction."""

    def __init__(self, begin: Callable[[int], None]) -> None:
        self._begin = begin

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Also called once after a resume."""
        del args, control
        self._begin(state.global_step)


class ProgressBar(ProgressCallback):
    """A bar with the last loss and accuracy, which starts where a resumed run does.

    Args:
        quiet: count, and show nothing.
    """

    training_bar: Any

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the bar at the update from which the run resumes."""
        del args, control
        self.training_bar = progress(state.max_steps, state.global_step, unit="update", quiet=self._quiet)
        self.current_step = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Show the last loss and accuracy beside the bar."""
        del args, state, control
        shown = {name: value for name, value in (logs or {}).items() if name in {"loss", "acc"}}
        if shown:
            self.training_bar.set_postfix(
                {name: f"{value:.4g}" for name, value in shown.items()}, refresh=False
            )
