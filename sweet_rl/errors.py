"""One base error, and a class for each kind of repair.

Everything here is for people: a message names what is wrong, with which value, where, and how to repair it.
What goes wrong inside one episode is not raised out of the loop but recorded (`sweet_rl.types.Failure`);
`EpisodeError` is how a user or a policy hands such a failure to the loop.
"""

from __future__ import annotations

import difflib
import functools
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweet_rl.types import Failure, StopReason


class SweetRLError(Exception):
    """Base of all errors this library raises on purpose. `str(error)` is fit to be shown as it is."""


class UsageError(SweetRLError):
    """For the person who typed the command: a wrong flag, a missing file, a missing package."""


class NonFiniteError(UsageError):
    """A loss or a gradient is NaN or infinite; no step was made with it, so the weights are as before."""


class DataError(SweetRLError):
    """For the person who made the file: names file, line (from 1), dotted field, value (shortened) and repair.

    `problem` says what is wrong as a clause ("must be a string").
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        value: Any = None,
        repair: str = "",
    ) -> None:
        self.problem, self.path, self.line = problem, path, line
        self.field, self.value, self.repair = field, value, repair
        where = ("<data>" if path is None else str(path)) + ("" if line is None else f", line {line}")
        what = f"field {field!r} {problem}" if field else problem
        if field is not None or value is not None:
            got = repr(value)
            what += f", got {got if len(got) <= 120 else f'{got[:119]}…'}"
        super().__init__(f"{where}: {what}." + (f" {repair}" if repair else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        known = {name: getattr(self, name) for name in ("path", "line", "field", "value", "repair")}
        return functools.partial(DataError, **known), (self.problem,)


class ServiceError(SweetRLError):
    """For the person who runs the server: it is down, or refuses us (wrong key, wrong model name)."""


class StorageError(SweetRLError):
    """For the person who owns the disk: it is full, read-only, or the file is in use by another run."""


class BudgetSpent(SweetRLError):
    """For the person who pays: the run has used what it may; it is not finished, and can be resumed."""


class SandboxError(SweetRLError):
    """For the person who administers the machine: answers cannot be run safely here."""


class EpisodeError(SweetRLError):
    """One episode cannot continue; the loop records `failure` in its row and continues with the others."""

    def __init__(self, stop_reason: StopReason, failure: Failure) -> None:
        self.stop_reason, self.failure = stop_reason, failure
        super().__init__(f"{stop_reason}: {failure.kind}: {failure.detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return EpisodeError, (self.stop_reason, self.failure)


def missing_package(package: str, extra: str, *, needed_for: str) -> UsageError:
    """The error for an optional dependency that is not installed; names the line that installs it."""
    return UsageError(
        f"{needed_for} needs the package {package!r}, which is not installed. "
        f"Install it with: pip install 'sweet_rl[{extra}]'"
    )


@contextmanager
def own_code(
    whose: str,
    hint: str = "That ends the run, and is no score. Where only one episode cannot go on, raise sweet_rl.errors.EpisodeError.",
) -> Iterator[None]:
    """Around a person's own code: what it raises is told with its place, the last one outside this library, or the last of all."""
    try:
        yield
    except SweetRLError:
        raise
    except Exception as error:
        if isinstance(error, SyntaxError):
            what = error.msg
            place = f"file {error.filename}, line {error.lineno}: {(error.text or '').strip()}"
        else:
            frames = traceback.extract_tb(error.__traceback__)
            here = str(Path(__file__).parent)
            own = [one for one in frames if not one.filename.startswith((here, sys.base_prefix, "<"))]
            at = own[-1] if own else frames[-1]
            what, place = str(error), f"file {at.filename}, line {at.lineno}, in {at.name}: {at.line}"
        raise UsageError(
            f"{whose} raised {type(error).__name__}: {what} ({place}). {hint}".rstrip()
        ) from error


def without_linux(what: str) -> str:
    """What to tell those who ask for what only Linux can do, on another system."""
    return (
        f"{what} needs Linux, for the isolation, and this is {sys.platform}. Nothing but grading code and "
        "rendering pages does; do these two in a container, or on Windows in WSL (docs/get_started.md)."
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not empty; of one without, the name of its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def suggestion(word: str, known: Iterable[str], prefix: str = "") -> str:
    """The nearest of the known words, as a question to put behind a message; nothing where none is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {prefix}{close[0]}?)" if close else ""


def no_such(what: str, name: object, known: Iterable[str], hint: str = "") -> UsageError:
    """The error for an unknown name of `what` ("world"): it lists the known ones, and the most similar; then a hint."""
    names = list(known)
    meant = suggestion(str(name), names)
    text = f"There is no {what} {name!r}{meant}. Known: {', '.join(names) or 'none'}."
    return UsageError(f"{text} {hint}".rstrip())
