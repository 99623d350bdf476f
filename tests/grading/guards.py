"""Each guard of the sandbox, how it is taken out, and the row of the table of attacks that turns red without it.

A row stands for all that the guard holds. Where two layers hold the same, both are taken out. What holds no row by
itself has tests of its own: the order of grades and the deaths of workers (test_sandbox.py), deadlines and stops
(test_watch.py).

Run: python -m tests.grading.guards [--environment root|user|neither|container]
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

from tests.grading.attacks import CASES, Playground, seen_through
from tests.grading.environments import ENVIRONMENTS, enter, why_not
from tests.grading.hostile_case import CHANNELS

_GRADING = "sweet_rl.grading"
_HANGS_S = 3
WITH, WITHOUT = "with namespaces", "without namespaces"


class Guard(NamedTuple):
    """`edits`: module below `sweet_rl.grading`, or its `sandbox`, its text, and what stands there without the guard.

    `where`: WITH namespaces or WITHOUT, where the other kind of place holds the row by another layer or has no such
    thing; "" in both.
    """

    name: str
    row: str
    edits: tuple[tuple[str, str, str], ...]
    where: str = ""


def _filtered(name: str, row: str, old: str, new: str, where: str = "") -> Guard:
    return Guard(name, row, (("guest.seccomp", old, new),), where)


_ANY_FLAGS = ("guest.seccomp", "_ALL ^ _HARMLESS_MESSAGES", "0")
_ANY_CLONE = ("guest.seccomp", "_ALL ^ _CLONE_FOR_THREADS", "0")

GUARDS = [
    _filtered("a list of calls", "system call pipe", "for numbers in allowed)]),\n        _NO,", "for numbers in allowed)]),\n        _YES,"),
    _filtered("x32 calls end the process", "x32 calls", "(_AT_LEAST, 0, 1, _X32)", "(_AT_LEAST, 1, 1, _X32)"),
    _filtered("calls of the worker alone", "signal 9 to 2", "((numbers, [_NO]) for numbers in workers_own.values())", "()", WITH),
    Guard("flags of messages", "a byte out of band", (_ANY_FLAGS,)),
    Guard("flags of threads", "a thread with a descriptor of it", (_ANY_CLONE,)),
    Guard("threads only", "fork", (_ANY_CLONE, ("guest.seccomp", "(_ANY_BIT, 1, 0, _CLONE_THREAD)", "(_ANY_BIT, 1, 1, _CLONE_THREAD)"))),
    _filtered("no places that are not opened", "a place that is not opened", ' | getattr(os, "O_PATH", 0)', ""),
    _filtered("one's own cores only", "whether there is another process", "((204, 123), [_argument(0), *_one_of([0])])", "((204, 123), [_YES])"),
    _filtered("one's own limits only", "limits of its worker", "((302, 261), [_argument(0), *_one_of([0])])", "((302, 261), [_YES])", WITH),
    _filtered("no links where there are no mounts", "where its program lies", 'for name in ("readlink", "readlinkat")', "for name in ()", WITHOUT),
    _filtered("private futexes", "waking by a page of a library file", "(_ANY_BIT, 0, 1, _FUTEX_PRIVATE), _YES, ", "_YES, "),
    Guard("locks that seem to be got", "locks of a library file", (("guest.seccomp", "{command: [_answer(0)] for", "{command: [_YES] for"), ("guest.seccomp", "in (_GETFD, _SETFD, _GETFL)", "in (_GETFD, _SETFD, _GETFL, 5, 36)"))),
    _filtered("one's own clock only", "another one's processor time", "(_AT_LEAST, 0, 1, _CLOCKS), _answer(errno.EINVAL), _YES]", "_YES]", WITHOUT),
    Guard("hidden descriptors", "inode numbers of sockets", (("guest.seccomp", "shown = [_argument(0), (_AT_LEAST, 0, 1, HIDDEN), _NO, _YES]", "shown = [_YES]"), ("guest.seccomp", "shown_or_path = [_argument(0), (_AT_LEAST, 0, 2, HIDDEN), (_AT_LEAST, 1, 0, END), _NO, _YES]", "shown_or_path = [_YES]"))),
    _filtered("no statx", "system call statx", "((332, 291), [_answer(errno.ENOSYS)])", "((332, 291), [_YES])"),
    _filtered("files have names", "inode numbers of files without a name", "(_ANY_BIT, 0, 1, _UNSEEN), _answer(errno.EOPNOTSUPP), ", "", WITH),
    _filtered("no process numbers where they are the machine's", "process number", "if not numbered:", "if False:", WITHOUT),
    Guard("Landlock", "/etc/passwd", (("guest.run", "layers += isolation.restrict(readable, hidden, scratch, isolation.NULL)", 'layers += ["Landlock"]'),), WITHOUT),
    Guard("nothing in /tmp is executed", "run a file of its own", (("guest.isolation", "MS_NODEV | MS_NOEXEC | MS_NOATIME", "MS_NODEV | MS_NOATIME"),), WITH),
    Guard("few files", "more files than it may have", (("guest.isolation", ",nr_inodes=1000", ""),), WITH),
    Guard("a small /tmp", "more bytes than it may have", (("guest.isolation", "size={SCRATCH_BYTES}", "size=99m"), ("guest.isolation", "SCRATCH_BYTES if writable else 0", "99 << 20")), WITH),
    Guard("a worker ends with what is left in /tmp", "a file", (("guest.run", "if look() != untouched:", "if False:"),), WITH),
    Guard("little memory", "memory above its limit", (("guest.isolation", "_limit(resource.RLIMIT_AS, memory_bytes)", "_limit(resource.RLIMIT_AS, 1 << 33)"),)),
    Guard("signals are ignored", "a timer without a handler", (("guest.run", "signal.signal(number, signal.SIG_IGN)", "pass"),)),
    Guard("a pair of sockets for asyncio", "asyncio, which needs a pair of sockets", (("guest.run", "    isolation.offer_wake_pair()\n", ""),)),
    Guard("new descriptors", "places in descriptors", (("guest.isolation", "return [*self._arrange, (os.closerange, (0, HIDDEN)), *null]", "return self._arrange"),), WITH),
    Guard("an empty environment", "looks for the secret in the environment", (("worker", "env={", "env={**os.environ,"),)),
    Guard("one arena of memory", "a pool of 32 threads, all at once", (("worker", '"MALLOC_ARENA_MAX": "1"', '"MALLOC_ARENA_MAX": "99"'),)),
    Guard("results in their order", "the second result first", (("worker", "number == self.next_test and number < size", "number < size"),)),
    Guard("results that are a child's to give", "says that it has passed", (("worker", " and _SENT[outcome] in _SENT_BY[self.job.kind]", ""),)),
    Guard("results of some length", "a result of 4 GiB", (("worker", " or text_size > MAX_TEXT:", ":"),)),
    Guard("a channel that does not block", "a byte out of band, then silence", (_ANY_FLAGS, ("pool", "channel.setblocking(False)", "channel.setblocking(True)"))),
    Guard("a clock for every test", "sleep", (("pool", "if not (over or crowded):", "if True:"),)),
    Guard("a bound for what waits", "many short sleeps", (("pool", "(clock.waited_s >= limit * _WALL and not clock.runs)", "False"), ("pool", "now - clock.started >= limit * _STARVED", "False"))),
    Guard("a bound for what computes", "endless loop", (("pool", "clock.computed_s >= limit or ", ""), ("pool", "now - clock.started >= limit * _STARVED", "False"))),
    Guard("names are the reference's", "a helper compares: junk", (("hidden_tests", "frozenset(left if is_clear", "frozenset(kinds if kinds"),)),
    Guard("nothing returned is run", "a helper that runs some texts: junk", (("guest.run", 'event not in {"compile", "pickle.find_class"}', "True"),)),
    Guard("values of the same kind", "an empty list: junk", (("guest.run", "or not all(map(alike, values, wanted))", ""),)),
    Guard("finite where it has to be", "infinity in place of numbers: junk", (("guest.run", "if finite(wanted) and not finite(values):", "if False:"),)),
    Guard("constants pass no task", "a class that judges itself: junk", (("hidden_tests", "== {_TRUE}:", "== {None}:"),)),
]  # fmt: skip


class _HangsError(BaseException):
    """No OSError, as a TimeoutError would be: nobody takes it for a sign from the other side."""


class _Editor(SourceFileLoader):
    """Loads a module with other words in it."""

    edits: list[tuple[str, str]]

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text()
        for old, new in self.edits:
            assert source.count(old) == 1, f"{self.path} has {source.count(old)} times: {old}"
            source = source.replace(old, new)
        return compile(source, self.path, "exec", dont_inherit=True)

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        edits = cls.found.get(name)
        made = PathFinder.find_spec(name, path) if edits else None
        if made is not None:
            made.loader = cls(name, str(made.origin))
            made.loader.edits = edits
        return made

    found: dict[str, list[tuple[str, str]]] = {}  # noqa: RUF012 - of the guard that is out


@contextmanager
def without(guard: Guard) -> Iterator[Any]:
    """The grader (`sweet_rl.grading.code`) as it would be without this guard."""
    kept = {name: module for name, module in sys.modules.items() if f"{name}.".startswith(f"{_GRADING}.")}
    for name in kept:
        del sys.modules[name]
    _Editor.found = {}
    for module, old, new in guard.edits:
        above = "" if module == "hidden_tests" else ".sandbox"
        _Editor.found.setdefault(f"{_GRADING}{above}.{module}", []).append((old, new))
    sys.meta_path.insert(0, _Editor)
    try:
        yield importlib.import_module(f"{_GRADING}.code")
    finally:
        sys.meta_path.remove(_Editor)
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{_GRADING}.")]:
            del sys.modules[name]
        sys.modules.update(kept)
        sys.modules["sweet_rl"].grading = kept[_GRADING]


def is_red(guard: Guard, folder: Path) -> bool:
    """Whether the row is not as expected without the guard; one that hangs is not."""

    def ring(*_: object) -> None:
        raise _HangsError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _HANGS_S, _HANGS_S)
    with without(guard) as code:
        channel = next((channel for channel in CHANNELS if channel.name == guard.row), None)
        at_once = channel is not None and channel.at_once
        workers, timeout_s = 2 if at_once else 1, 1 if channel else 0.3
        make = partial(code.Sandbox, workers=workers, timeout_s=timeout_s)
        ground = Playground(folder, make=make, grader=code.CodeGrader)
        try:
            if channel is not None:
                first, second = seen_through(channel, ground.sandbox)
                return first != second
            (row,) = ground.rows([case for case in CASES if case.name == guard.row])
            return not row.is_right() or row.after != 1
        except _HangsError:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            ground.close()


def main() -> int:
    """Print of each guard whether its row turns red: without namespaces, of those that count there only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", choices=ENVIRONMENTS, default="root")
    environment = parser.parse_args().environment
    if reason := why_not(environment):
        parser.error(reason)
    enter(environment)
    green, here = 0, {"", WITH} if environment in {"root", "user"} else {WITHOUT}
    for guard in GUARDS:
        if guard.where in here:
            with tempfile.TemporaryDirectory() as folder:
                red = is_red(guard, Path(folder))
            print(f"{'red' if red else 'GREEN':<7}{guard.name}: {guard.row}", flush=True)
            green += not red
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main())
