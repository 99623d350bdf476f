"""What a stage reports while it runs: output files, models, tokens, progress, numbers; where these can be watched.

Any module may report; what becomes of it is up to the listener (`sweet_rl.runs` does, for every
stage). Without a listener nothing happens.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from sweet_rl.errors import SweetRLError, UsageError, first_line, missing_package
from sweet_rl.network import silence
from sweet_rl.types import Json


@dataclass(slots=True)
class Usage:
    """What one model has done so far.

    `retries` and `failed` (for good) are by the kind of failure; `uncounted` replies came without their numbers of
    tokens; `reasoning_tokens` are part of the completions'. `service_s` adds up the seconds of successful requests.
    `changes` are sentences: what a server does not take, and what it is sent instead.
    """

    role: str = "model"
    model: str = ""
    requests: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    replies: int = 0
    uncounted: int = 0
    service_s: float = 0.0
    changes: list[str] = field(default_factory=list)

    def add(self, prompt_tokens: int | None, completion_tokens: int | None) -> None:
        """Count a reply; None where its number of tokens is unknown."""
        self.replies += 1
        self.uncounted += prompt_tokens is None or completion_tokens is None
        self.prompt_tokens += prompt_tokens or 0
        self.completion_tokens += completion_tokens or 0


@dataclass(slots=True)
class Progress:
    """How far a stage has come, in `unit`s (in the singular), of which `first` were done before this session.

    `failed` are among the done; `phase` says what is going on within one; `numbers` are means over what is done.
    """

    unit: str
    total: int
    done: int = 0
    first: int = 0
    failed: int = 0
    phase: str = ""
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a run's numbers go, beside its record."""

    kinds: tuple[str, ...] = ()  # of `KINDS`
    folder: str | None = None  # of TensorBoard's files; None: beside the first output
    project: str = "sweet_rl"
    name: str | None = None  # of the run, for wandb and trackio; None: its stage and its id
    group: str | None = None  # of runs there
    entity: str | None = None  # who owns it, on wandb
    may_lack: tuple[str, ...] = ()  # kinds that are left out with a note where they cannot be used


RECORD: Final = "run.json"
"""The name of a run's record in a folder, and the end of its name beside a file."""

Counts = TypeVar("Counts", bound=Usage)


class Listener:
    """Receives what a run reads and writes: the functions below of the same names say what each call means. This one does
    nothing with it.
    """

    id: str | None = None
    command: str | None = None

    def uses(self, usage: Usage) -> None: ...
    def permits(self, model: str) -> None: ...
    def progresses(self, progress: Progress) -> None: ...
    def logs(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def logs_to(self, destination: Destination) -> None: ...
    def sets(self, settings: Mapping[str, object]) -> None: ...
    def reads(self, flag: str, source: str) -> None: ...
    def writes(self, path: Path, *, folder: bool, continues: bool, in_place: bool) -> None: ...

    def usage(self) -> Mapping[str, Mapping[str, Mapping[str, Json]]]:
        """What the run has used so far, all its sessions together: by role, then by model."""
        return {}

    def cost(self) -> Mapping[str, Json] | None:
        """The dollars of that; None without prices."""
        return None

    def killed(self) -> int:
        """How many sessions were killed: some of what these used is in no sum."""
        return 0

    def server_changes(self) -> list[str]:
        """What models behind servers were not sent as it was meant."""
        return []


_listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 - it has no state
_role: ContextVar[str | None] = ContextVar("role", default=None)


def current() -> Listener:
    """Who listens in this context."""
    return _listener.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """The listener receives what the block does, and what that calls and awaits."""
    token, role_token = _listener.set(listener), _role.set(None)
    try:
        yield
    finally:
        _listener.reset(token)
        _role.reset(role_token)


@contextmanager
def role(name: str) -> Iterator[None]:
    """Models that are opened in the block play this part: agent, user, reflection, teacher, judge, critic."""
    token = _role.set(name)
    try:
        yield
    finally:
        _role.reset(token)


def is_record(path: Path) -> bool:
    """Whether the name is that of a run's record."""
    return path.name == RECORD or path.name.endswith(f".{RECORD}")


def writes(
    path: str | Path, *, folder: bool = False, continues: bool = False, in_place: bool = False
) -> None:
    """This file (or folder, with all that is in it) is the run's. Call it when that is certain, not before.

    `continues`: it goes on with what is there; `in_place`: it is another run's, and changed where it is.
    """
    current().writes(Path(path), folder=folder, continues=continues, in_place=in_place)


def sets(settings: Mapping[str, object]) -> None:
    """Settings that the stage found elsewhere than in its flags: in a file, in an earlier run."""
    current().sets(settings)


def reads(flag: str, source: str | Path | None) -> None:
    """The outputs depend on this file, folder, model or source of tasks."""
    if source is not None and str(source):
        current().reads(flag, str(source))


def progresses(unit: str, total: int, done: int = 0) -> Progress:
    """New counters for work that begins; who listens reads them from now on."""
    progress = Progress(unit, total, done, first=done)
    current().progresses(progress)
    return progress


def logs(step: int, numbers: Mapping[str, float]) -> None:
    """The numbers of an update, an iteration, a step: they go wherever `logs_to` says."""
    current().logs(step, numbers)


def logs_to(destination: Destination) -> None:
    """Where the numbers of this run go; call it before the first output begins."""
    current().logs_to(destination)


def meter(model: str = "", usually: str = "model") -> Usage:
    """A new `Usage`, of a model in the role of the moment."""
    return joining(Usage(usually, model))


def joining(usage: Counts) -> Counts:
    """The same counters, in the role of the moment; who listens reads them from now on."""
    usage.role = _role.get() or usage.role
    current().uses(usage)
    return usage


def asks(usage: Usage) -> None:
    """Count a request that is about to be sent to a server; raises as `permits`, and then it must not be sent."""
    permits(usage.model)
    usage.requests += 1


def permits(model: str) -> None:
    """Whether the run may ask this model once more; call it also before the first output begins."""
    current().permits(model)


KINDS: Final = ("tensorboard", "wandb", "trackio")
"""Names of trackers, of their packages, and of the extras that install them."""

_WITHOUT: Final = "--log_to none (run_archer: log_to=none) continues without it"


class Tracker(Protocol):
    """Receives the numbers of a run; steps never go back within a session."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


def usable_trackers(destination: Destination) -> Destination:
    """Find out whether the trackers can be used, before anything starts; those that may lack are left out."""
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
    known = bool(os.environ.get("WANDB_API_KEY"))
    places = [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]  # which `wandb login` writes
    for file in (Path(place).expanduser() for place in places if place):
        with contextlib.suppress(OSError, NetrcParseError):
            known = known or netrc(str(file)).authenticators(urlsplit(server).hostname or "") is not None
    if not known:
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
        why = first_line(error).replace(f" ({_WITHOUT})", "").replace(f"; {_WITHOUT}", "")
        print(f"Note: the run goes on without {kind}. {why}", file=sys.stderr)


def open_trackers(
    destination: Destination,
    *,
    folder: Path,
    run: str,
    stage: str,
    continues: bool,
    config: Mapping[str, Json],
) -> list[Tracker]:
    """The trackers of a run; wandb and trackio, whose interface is the same, keep it where their settings say."""
    made: list[Tracker] = []
    for kind in destination.kinds:
        try:
            if kind == "tensorboard":
                made.append(
                    TensorBoard(Path(destination.folder).expanduser() if destination.folder else folder)
                )
                continue
            own: dict[str, Any] = {"id": run, "entity": destination.entity, "resume": "allow"}
            if kind == "trackio":  # finds a run by its name
                own = {"resume": "allow" if continues else "never", "embed": False}
            own |= {"project": destination.project, "group": destination.group, "config": dict(config)}
            with contextlib.redirect_stdout(sys.stderr):  # what the stage prints is its own
                begin = importlib.import_module(kind).init
                made.append(Online(begin(name=destination.name or f"{stage}-{run}", **own)))
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
    """A run of wandb, or of trackio."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add the numbers that are finite."""
        self._run.log({name: value for name, value in numbers.items() if math.isfinite(value)}, step=step)

    def close(self) -> None:
        """End the run there."""
        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()
