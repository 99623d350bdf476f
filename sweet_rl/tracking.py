"""What a stage reports while it runs: output files, models, tokens, progress, numbers.

Any module may report; what becomes of it is up to the listener (`sweet_rl.runs` does, for every
stage). Without a listener nothing happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar


@dataclass(slots=True)
class Usage:
    """What one model has done so far.

    `requests` counts all that were sent, `retries` those that were sent again, by the kind of failure that
    made it necessary, `failed` those that were given up, likewise. Tokens are as the tokenizer counts them,
    or as the server does; `uncounted` replies came without their numbers, and `reasoning_tokens` are those of
    the completions in which models thought. `service_s` adds up the seconds of successful requests. `changes`
    are sentences: what is not sent as it was meant, since the server does not take it.
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
    """How far a stage has come; it counts there while it works.

    `done` and `total` count `unit`s (in the singular); `first` were done before this session. `failed` are
    among the done. `phase` says what is going on within one of them; `numbers` are means over what is done.
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
    """Where a run's numbers go, beside its record.

    Attributes:
        kinds: names of trackers (`sweet_rl.trackers`); none: nowhere else.
        folder: of TensorBoard's files; None: beside the first output.
        project: as wandb and trackio file it.
        name: of the run there; None: its stage and its id.
        group: of runs there.
        entity: who owns it, on wandb.
        may_lack: kinds that are left out with a note where they cannot be used; others are an error.
    """

    kinds: tuple[str, ...] = ()
    folder: str | None = None
    project: str = "sweet_rl"
    name: str | None = None
    group: str | None = None
    entity: str | None = None
    may_lack: tuple[str, ...] = ()


RECORD: Final = "run.json"
"""The name of a run's record in a folder, and the end of its name beside a file."""

Counts = TypeVar("Counts", bound=Usage)


class Listener(Protocol):
    """Receives what a run reads and writes."""

    id: str
    """Of the run."""

    command: str
    """That would do the same."""

    def uses(self, usage: Usage) -> None:
        """A model has been opened, and counts there."""
        ...

    def permits(self, model: str) -> None:
        """Return where this model may be asked once more (`sweet_rl.tracking.permits`)."""
        ...

    def usage(self) -> Mapping[str, Mapping[str, Mapping[str, int | None]]]:
        """What models have done in this run so far, all its sessions together: by role, then by model."""
        ...

    def cost(self) -> Mapping[str, object] | None:
        """What that has cost in dollars; None without prices."""
        ...

    def killed(self) -> int:
        """Earlier sessions of this run that were killed: what they used last is in no sum."""
        ...

    def server_changes(self) -> list[str]:
        """What models behind servers were not sent as it was meant, in this run so far."""
        ...

    def progresses(self, progress: Progress) -> None:
        """Work of known length begins, and counts there."""
        ...

    def logs(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of a step (`sweet_rl.tracking.logs`)."""
        ...

    def logs_to(self, destination: Destination) -> None:
        """Take where numbers go (`sweet_rl.tracking.logs_to`)."""
        ...

    def sets(self, settings: Mapping[str, object]) -> None:
        """Take settings that no flag holds (`sweet_rl.tracking.sets`)."""
        ...

    def reads(self, flag: str, source: str) -> None:
        """Take the name of an input and the flag that named it (`sweet_rl.tracking.reads`)."""
        ...

    def writes(self, path: Path, *, folder: bool, continues: bool) -> None:
        """Take the path of an output that begins (`sweet_rl.tracking.writes`)."""
        ...

    def changes(self, path: Path) -> None:
        """Take the path of a file that is changed in place (`sweet_rl.tracking.changes`)."""
        ...


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_role: ContextVar[str | None] = ContextVar("role", default=None)


def is_record(path: Path) -> bool:
    """Whether the name is that of a run's record."""
    return path.name == RECORD or path.name.endswith(f".{RECORD}")


def writes(path: str | Path, *, folder: bool = False, continues: bool = False) -> None:
    """This file (or folder, with all that is in it) is the run's. Call it when that is certain, not before.

    Args:
        path: where it is or will be.
        folder: whether it is one.
        continues: the run continues what an earlier one has left there.
    """
    if (listener := _listener.get()) is not None:
        listener.writes(Path(path), folder=folder, continues=continues)


def changes(path: str | Path) -> None:
    """This file of another run is changed where it is."""
    if (listener := _listener.get()) is not None:
        listener.changes(Path(path))


def sets(settings: Mapping[str, object]) -> None:
    """Settings that the stage found elsewhere than in its flags: in a file, in an earlier run."""
    if (listener := _listener.get()) is not None:
        listener.sets(settings)


def reads(flag: str, source: str | Path | None) -> None:
    """The outputs depend on this file, folder, model or source of tasks.

    Args:
        flag: where it was named.
        source: a path, or a name; None for nothing.
    """
    if (listener := _listener.get()) is not None and source is not None and str(source):
        listener.reads(flag, str(source))


def progresses(unit: str, total: int, done: int = 0) -> Progress:
    """New counters for work that begins; who listens reads them from now on.

    Args:
        unit: what is counted, in the singular.
        total: how many there are.
        done: how many of them are done already.
    """
    progress = Progress(unit, total, done, first=done)
    if (listener := _listener.get()) is not None:
        listener.progresses(progress)
    return progress


def logs(step: int, numbers: Mapping[str, float]) -> None:
    """The numbers of an update, an iteration, a step: they go wherever `logs_to` says."""
    if (listener := _listener.get()) is not None:
        listener.logs(step, numbers)


def logs_to(destination: Destination) -> None:
    """Where the numbers of this run go; call it before the first output begins.

    Raises:
        UsageError: a tracker is not installed, or there is no login.
    """
    if (listener := _listener.get()) is not None:
        listener.logs_to(destination)


def run_id() -> str | None:
    """Id of the run in progress; None without a listener."""
    listener = _listener.get()
    return None if listener is None else listener.id


def command() -> str | None:
    """The command line that would do the same as the run in progress; None without a listener."""
    listener = _listener.get()
    return None if listener is None else listener.command


def meter(model: str = "", usually: str = "model") -> Usage:
    """A new `Usage`, of a model in the role of the moment.

    Args:
        model: its name, where it is known already.
        usually: its role where no other is given.
    """
    return joining(Usage(usually, model))


def joining(usage: Counts) -> Counts:
    """The same counters, in the role of the moment; who listens reads them from now on."""
    usage.role = _role.get() or usage.role
    if (listener := _listener.get()) is not None:
        listener.uses(usage)
    return usage


def asks(usage: Usage) -> None:
    """Count a request that is about to be sent to a server; raises as `permits`, and then it must not be sent."""
    permits(usage.model)
    usage.requests += 1


def permits(model: str) -> None:
    """Whether the run may ask this model once more; call it also before the first output begins.

    Raises:
        UsageError: the run's dollars are bounded, and the model has no price.
        BudgetSpent: the run has used what it may.
    """
    if (listener := _listener.get()) is not None:
        listener.permits(model)


@contextmanager
def role(name: str) -> Iterator[None]:
    """Models that are opened in the block play this part: agent, user, reflection, teacher, judge, critic."""
    token = _role.set(name)
    try:
        yield
    finally:
        _role.reset(token)


def current() -> Listener | None:
    """The listener of this context, or None."""
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
