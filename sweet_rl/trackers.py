"""Where the numbers of a run can be watched: TensorBoard, wandb, trackio.

Each is a package of its own, imported when it is asked for. What is logged is the same everywhere, under the
names of `metrics.jsonl`; the record of the run (`sweet_rl.runs`) opens and closes them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from sweet_rl.errors import SweetRLError, UsageError, first_line, missing_package
from sweet_rl.network import silence
from sweet_rl.tracking import Destination
from sweet_rl.types import Json

KINDS: Final = ("tensorboard", "wandb", "trackio")
"""Names of trackers, of their packages, and of the extras that install them."""

_WITHOUT: Final = "--log_to none (run_archer: log_to=none) continues without it"


class Tracker(Protocol):
    """Receives the numbers of a run."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of a step; steps never go back within a session."""
        ...

    def close(self) -> None:
        """Write what is left, and end."""
        ...


def usable(destination: Destination) -> Destination:
    """Find out whether the trackers can be used, before anything starts; those that may lack are left out.

    Raises:
        UsageError: a package is missing, or wandb has no login and is to go online.
    """
    kinds = []
    for kind in destination.kinds:
        try:
            if importlib.util.find_spec(kind) is None:
                raise missing_package(kind, kind, needed_for=f"Logging to {kind} ({_WITHOUT})")
            off_line = os.environ.get("WANDB_MODE", "online").lower() in {"offline", "disabled", "dryrun"}
            if kind == "wandb" and not off_line:
                _check_login(asked=kind in destination.may_lack)
            kinds.append(kind)
        except SweetRLError as error:
            _leave_out(kind, destination, error)
    return replace(destination, kinds=tuple(kinds))


def _check_login(*, asked: bool) -> None:
    """That wandb has one; and where it may lack, that its server answers, for which it would wait for minutes."""
    server = os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"
    if not os.environ.get("WANDB_API_KEY") and not _has_password(os.environ.get("WANDB_BASE_URL")):
        raise UsageError(
            f"There is no login to wandb: run `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline to "
            f"keep its files here; {_WITHOUT}."
        )
    if asked and (why := silence(server)):
        raise UsageError(f"{why}; WANDB_MODE=offline keeps its files here.")


def _leave_out(kind: str, destination: Destination, error: Exception) -> None:
    if kind not in destination.may_lack:
        raise error
    if os.environ.get("RANK", "0") == "0":
        print(f"Note: the run goes on without {kind}. {first_line(error)}", file=sys.stderr)


def opened(
    destination: Destination,
    *,
    folder: Path,
    run: str,
    stage: str,
    continues: bool,
    config: Mapping[str, Json],
) -> list[Tracker]:
    """The trackers of a run."""
    place = Path(destination.folder).expanduser() if destination.folder else folder
    made: list[Tracker] = []
    for kind in destination.kinds:
        try:
            if kind == "tensorboard":
                made.append(TensorBoard(place))
            else:
                made.append(Online(kind, destination, f"{stage}-{run}", run, config, continues=continues))
        except Exception as error:
            if kind in destination.may_lack:
                _leave_out(kind, destination, error)
                continue
            for tracker in made:
                tracker.close()
            raise UsageError(
                f"{kind} cannot begin a run: {first_line(error)} Put that right, or leave it out: {_WITHOUT}."
            ) from error
    return made


class TensorBoard:
    """Event files in a folder, written by the package tensorboard alone."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer: Any = EventFileWriter(str(folder))
        self._begun = False

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add a point to every curve; points of an earlier session from this step on are replaced."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        now = time.time()
        if not self._begun:
            begins = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=now, step=step, session_log=begins))
            self._begun = True
        values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._writer.add_event(Event(wall_time=now, step=step, summary=Summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class Online:
    """A run of wandb, or of trackio, whose interface is the same; each keeps it where its settings say."""

    def __init__(
        self,
        kind: str,
        destination: Destination,
        name: str,
        run: str,
        config: Mapping[str, Json],
        *,
        continues: bool,
    ) -> None:
        own: dict[str, Any] = {"id": run, "entity": destination.entity, "resume": "allow"}
        if kind == "trackio":  # finds a run by its name
            own = {"resume": "allow" if continues else "never", "embed": False}
        with contextlib.redirect_stdout(sys.stderr):  # what the stage prints is its own
            self._run: Any = importlib.import_module(kind).init(
                project=destination.project,
                name=destination.name or name,
                group=destination.group,
                config=dict(config),
                **own,
            )

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add the numbers that are finite."""
        self._run.log({name: value for name, value in numbers.items() if math.isfinite(value)}, step=step)

    def close(self) -> None:
        """End the run there."""
        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()


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
