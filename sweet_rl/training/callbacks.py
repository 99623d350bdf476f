"""Callbacks of Trainer: the order of the next epoch, and a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback


class EpochCallback(TrainerCallback):
    """Says as an epoch begins how many updates are done: exact, unlike Trainer's fraction."""

    def __init__(self, begin: Callable[[int], None]) -> None:
        self._begin = begin

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Also called once after a resume."""
        del args, control
        self._begin(state.global_step)


class ProgressBar(TrainerCallback):
    """A bar with the last loss and accuracy."""

    _bar: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar to where a resumed run begins."""
        del args, control
        self._bar = tqdm(total=state.max_steps, initial=state.global_step, unit="update")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar by one update."""
        del args, state, control
        self._bar.update()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Show the last loss and accuracy beside the bar."""
        del args, state, control
        shown = {name: value for name, value in (logs or {}).items() if name in {"loss", "acc"}}
        if shown:
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in shown.items()}, refresh=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Close the bar and leave it on the screen."""
        del args, state, control
        self._bar.close()
