"""Watchers of an online run: a progress bar, TensorBoard, wandb.

Published behaviour: docs/published/archer.md#loop.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tqdm import tqdm

from sweet_rl.errors import UsageError, missing_package
from sweet_rl.types import Json

_SHOWN = {
    "rollout.mean": "return",
    "eval_rollout.mean": "evaluation",
    "q1.loss": "Q loss",
    "pg.loss": "policy loss",
}


_WITHOUT = "use_wandb=false continues without it"


def check_wandb() -> None:
    """Find out whether wandb can be used before anything starts.

    Raises:
        UsageError: the package is missing, or there is no login and it is to go online.
    """
    if importlib.util.find_spec("wandb") is None:
        raise missing_package("wandb", "wandb", needed_for=f"use_wandb=true ({_WITHOUT})")
    off_line = os.environ.get("WANDB_MODE", "online").lower() in {"offline", "disabled", "dryrun"}
    if off_line or os.environ.get("WANDB_API_KEY") or _has_password(os.environ.get("WANDB_BASE_URL")):
        return
    raise UsageError(
        f"use_wandb=true, but there is no login to wandb: {_WITHOUT}; else run `wandb login`, set "
        "WANDB_API_KEY, or set WANDB_MODE=offline to keep its files here."
    )


def _has_password(server: str | None) -> bool:
    """Whether the user's netrc file knows the server, as after `wandb login`."""
    host = urlsplit(server or "https://api.wandb.ai").hostname or ""
    places = [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]
    for file in (Path(place).expanduser() for place in places if place):
        try:
            if netrc(str(file)).authenticators(host):
                return True
        except (OSError, NetrcParseError):
            continue
    return False


class ProgressBar:
    """Iterations, what the current one is doing, and the last returns and losses."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._bar = tqdm(total=total, unit="iteration", disable=quiet, dynamic_ncols=True)
        self._numbers: dict[str, str] = {}

    def say(self, phase: str, done: int, total: int) -> None:
        """Show the phase and how many of its steps are done."""
        self._bar.set_description_str(f"{phase} {done}/{total}", refresh=False)
        self._bar.update(0)

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Show an iteration's numbers beside the bar, and move it to `done` iterations."""
        self._numbers |= {_SHOWN[name]: f"{info[name]:.3g}" for name in _SHOWN if name in info}
        self._bar.set_postfix(self._numbers, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._bar.close()


class TensorBoard:
    """Writes the numbers of every iteration as event files into the run's folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise missing_package("tensorboard", "tensorboard", needed_for="tensorboard=true") from error
        self._writer: Any = SummaryWriter(str(folder))

    def say(self, phase: str, done: int, total: int) -> None:
        """Do nothing: within an iteration there is no number yet."""

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Write one point of every curve, at step `done`."""
        for name, value in info.items():
            self._writer.add_scalar(name, value, done)
        self._writer.flush()

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()


class Wandb:
    """A run of wandb, under the published names; one record an iteration."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise missing_package("wandb", "wandb", needed_for=f"use_wandb=true ({_WITHOUT})") from error
        try:
            self._run: Any = wandb.init(
                project=config["project_name"], name=config["run_name"], config=dict(config), resume="allow"
            )
        except Exception as error:
            what = (str(error) or repr(error)).splitlines()[0]
            raise UsageError(
                f"use_wandb=true, but wandb cannot begin a run: {what} Put that right, set "
                f"WANDB_MODE=offline, or leave it out: {_WITHOUT}."
            ) from error

    def say(self, phase: str, done: int, total: int) -> None:
        """Do nothing: within an iteration there is no number yet."""

    def log(self, done: int, info: Mapping[str, float]) -> None:
        """Send the numbers of an iteration, with `done` as its step."""
        self._run.log(dict(info), step=done)

    def close(self) -> None:
        """End the run of wandb."""
        self._run.finish()
