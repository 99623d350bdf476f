"""The warm process that forks a child for each job, and the child, which runs the programs of one job.

The zygote never sees a job, nor its children's numbers, nor how they have ended: the next child could find it in
inherited memory. It sends `READY` with the channel of a new child attached, or `RETIRED`, where it can have no further
child because this one has left files; it is sent `NEXT`: end the child, and fork another one.

What is between the fork and the job is written to touch few pages: in a forked interpreter each one is a copy to be
made, and copies are most of what an answer costs. Hostile code runs beside this code, in a process of its own that is
thrown away; it may patch it, kill it or lie to it, and all it can achieve is a wrong value for its own tests.

Published behaviour: docs/published/sweet_rl.md#grading-code.
"""

from __future__ import annotations

import _socket
import _thread
import builtins
import gc
import importlib
import marshal
import os
import signal
import struct
import sys
from _sitebuiltins import Quitter, _Helper
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from . import isolation, seccomp
from .crossing import alike, apart, finite, unpack
from .values import MAX_TEXT, MODULE, NotPlainData, fingerprint, literal, settled

for _value in (Quitter("exit", "EOF"), Quitter("quit", "EOF"), _Helper()):
    _name = getattr(_value, "name", "help")
    if not hasattr(builtins, _name):  # every interpreter has them, but a worker is started without `site`
        setattr(builtins, _name, _value)

PASSED, FAILED, VALUE, ERROR, MEMORY, NOT_PLAIN, TIMEOUT, ENDED = range(8)
"""Outcomes as they are sent. `VALUE` carries a fingerprint to be compared; `ENDED` ends the published run."""

_BUILTINS = dict(vars(builtins))
"""As they were before any answer could touch them."""

_PUBLISHED_MODULE = "sweet_rl.utils.code_utils"
"""Where the published evaluation executes answers."""

VALUES = "_values_"
"""What an expression that is evaluated outside calls the data from inside (`grading.hidden_tests`)."""

Test = CodeType | str
"""An expression, compiled; as text where it cannot be compiled, so that evaluating it says why."""


def traces() -> tuple[Any, ...]:
    """What a program could leave to the next one without meaning to: no protection, one that wants to can hide more."""
    modules, threads = len(sys.modules) - (MODULE in sys.modules), _thread._count()  # no other way
    return vars(builtins) == _BUILTINS, modules, threads, sys.getrecursionlimit()


class Result(NamedTuple):
    """Result of one test: its outcome as a code, and its value or a text about it."""

    outcome: int
    value: bytes = b""
    text: str = ""


def run_fixed(program: dict[str, Any], first: int) -> Iterator[Result]:
    """Run the definition afresh for each test in one namespace, and evaluate the test's expression.

    `__name__` is not "__main__", as in the published evaluation, so that an answer's own try-out block is not
    run. Builtins that the answer has redefined or patched do not reach the expression, except the names in
    `own_names`, which the reference defines too; nor does what it calls by a name of `imports`. A value of a test
    in `packed` is sent in full, with objects of the classes that stand there. With `data` (one literal for each
    test) the definition is the reference, and the data is what an answer has returned, where the reference has
    `returned` another.
    """
    expressions: list[Test] = program["expressions"]
    try:
        code = compile(program["source"], "<answer>", "exec", dont_inherit=True)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer's
        for _ in expressions[first:]:
            yield _error(error)
        return
    own_names, data = program["own_names"], program["data"]
    if data:
        own_names = _BUILTINS
        sys.addaudithook(_refuse_to_run)
    for number, expression in enumerate(expressions[first:], start=first):
        try:
            module = sys.modules[MODULE] = ModuleType(MODULE)  # dataclasses and pickle look classes up there
            namespace = vars(module)
            namespace["__file__"] = "answer.py"
            exec(code, namespace)  # noqa: S102 - this is what the sandbox is for
            scope: dict[str, Any] = {
                name: value for name, value in namespace.items() if name not in _BUILTINS or name in own_names
            }
            scope["__builtins__"] = _BUILTINS
            if program["imports"]:
                exec(program["imports"], scope)  # noqa: S102
            if data:
                names = {name: scope[name] for name in program["classes"] if name in scope}
                scope[VALUES] = _checked(data[number], program["returned"][number], names)
                _running.append(expression)
            value, limit = settled(eval(expression, scope)), 2000  # noqa: S307 - likewise
            if number in program["packed"]:
                value, limit = apart(value, program["packed"][number]), MAX_TEXT
            yield Result(VALUE, fingerprint(value), literal(value, limit))
        except NotPlainData as error:
            yield Result(NOT_PLAIN, text=str(error)[:200])
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are the answer's too
            yield _error(error)
        _running.clear()


def _checked(text: str, returned: str, names: dict[str, Any]) -> Any:
    """The values; refuses what only passes a comparison for being of another kind than what the reference returns."""
    values, wanted = (unpack(one, names) for one in (text, returned or text))
    if type(values) is not tuple or len(values) != len(wanted) or not all(map(alike, values, wanted)):
        raise NotPlainData("another kind of value than the reference's")
    values, wanted = (unpack(one, names) for one in (text, returned or text))  # iterators have been used up
    if finite(wanted) and not finite(values):
        raise NotPlainData("NaN, or infinite, where the reference's value is not")
    return unpack(text, names)


_running: list[Test] = []
"""The test that is evaluated on what an answer has returned, if any is."""


def _refuse_to_run(event: str, arguments: tuple[Any, ...]) -> None:
    """Nothing of what an answer has returned becomes code where expected values are."""
    if not _running or event not in {"compile", "pickle.find_class"}:
        return
    asks = sys._getframe(1).f_globals.get("__name__", "")
    is_import = str(arguments[1])[:1] == "/" and str(arguments[1])[-3:] == ".py"
    if event == "compile" and (is_import or asks in {"collections", "dataclasses", "enum", "ast", "typing"}):
        return  # which check the names that they make code of; ast runs nothing
    raise PermissionError("a test may not run what an answer has returned beside what it expects")


def run_published(
    reference: str, answer: str, expressions: list[Test], timeout_s: float, first: int
) -> Iterator[Result]:
    """The published evaluation of one answer, defects included, but in the sandbox.

    Definition and call run with separate globals and locals, the globals those of an imported module, with what is
    known to be in it; the comparison is the values' own `==`. Every test has the whole time limit.
    """
    path = ""
    for name in _PUBLISHED_MODULE.split(
        "."
    ):  # there to be found: `dataclasses`, `typing` and `pickle` look it up
        parent, path = path, f"{path}.{name}".lstrip(".")
        module = sys.modules[path] = ModuleType(path)
        module.__package__, module.__path__ = path, []
        if parent:
            setattr(sys.modules[parent], name, module)
    del module.__path__
    shared = vars(module)
    shared.update(__package__=parent, __file__=f"/{path.replace('.', '/')}.py", __builtins__=vars(builtins))
    shared["signal"] = signal
    if "multiprocessing" in reference + answer:
        shared["multiprocessing"] = importlib.import_module("multiprocessing")
    rang = False

    def ring(*_: object) -> None:
        nonlocal rang
        rang = True
        raise TimeoutError

    for expression in expressions[first:]:
        wanted = _published_value(shared, reference, expression)
        rang = False
        try:
            signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, timeout_s)
            try:
                got = _published_value(shared, answer, expression)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                passed = bool(wanted == got) and wanted is not None
            except ValueError:
                passed = False
        except BaseException as error:  # noqa: BLE001 - what the published code does not catch ends its run
            yield Result(ENDED, text=type(error).__name__)
            return
        yield Result(PASSED if passed else TIMEOUT if rang else FAILED)


def _published_value(shared: dict[str, Any], code: str, expression: Test) -> Any:
    own: dict[str, Any] = {}
    try:
        # its own future imports only: with ours, annotations would not be evaluated
        exec(compile(code, "<string>", "exec", dont_inherit=True), shared, own)  # noqa: S102
        return eval(expression, shared, own)  # noqa: S307
    except Exception:  # noqa: BLE001 - as published: any exception is None
        return None


def _error(error: BaseException) -> Result:
    try:
        text = f"{type(error).__name__}: {error}"[:300]
    except BaseException:  # noqa: BLE001 - the error's own words may be hostile
        text = "an error that cannot be shown"
    return Result(MEMORY if isinstance(error, MemoryError) else ERROR, text=text)


READY, RETIRED, NEXT = b"c", b"r", b"n"
RESULT = struct.Struct("<IBII")
LENGTH = struct.Struct("<I")

_CHILD = 2
"""Every child's process number, where it gets one; the zygote is process 1."""
_NOT_IGNORED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
}


def main(control: _socket.socket, settings: dict[str, Any]) -> None:
    """Isolate, report the layers that are active, and serve children until the other end closes.

    Args:
        control: a datagram-like socket pair end to the process outside.
        settings: "readable" folders, "hidden" ones below them, "memory_bytes", "cpu_s", "path" for imports.
    """
    layers = isolation.enter_namespaces()
    inner = os.fork() if "process" in layers else 0
    if inner:  # outside the new process namespace: wait for it to end
        control.close()
        os.waitpid(inner, 0)
        os._exit(0)
    os.setsid()
    readable, hidden, alone = settings["readable"], settings["hidden"], "process" in layers
    numbers = None
    if alone:
        with suppress(OSError):  # while it can be seen
            numbers = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    scratch = isolation.hide_file_system(readable, hidden) if "mount" in layers else None
    if scratch is None:
        layers = [layer for layer in layers if layer != "mount"]
    else:
        hidden = []
    own_user = isolation.drop_privileges(
        readable if scratch is None else (), keep_numbering=numbers is not None
    )
    isolation.take([isolation.die_with_parent()])  # a change of user would have made the kernel forget it
    layers += isolation.restrict(readable, hidden, scratch, isolation.NULL)
    os.chdir(scratch or "/")
    os.environ["HOME"] = os.environ["TMPDIR"] = scratch or "/"
    isolation.prctl(isolation.PR_SET_DUMPABLE, 0)  # not to be traced or dumped by others of the same user
    set_number = isolation.count_from(_CHILD, numbers)
    for number in (
        signal.valid_signals() - _NOT_IGNORED
    ):  # whoever may find a way to send one: it ends no worker
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    child_filter: list[isolation.Step] = []
    with suppress(OSError):
        worker_filter, *child_filter = seccomp.filters(
            numbered=set_number is not None, writable=scratch is not None
        )
        isolation.take([worker_filter])
        layers.append("seccomp")
    sys.path[:] = settings["path"]
    isolation.take(isolation.inherited_limits(settings["memory_bytes"]))
    pairs = isolation.Pairs()
    doors = [
        *([] if alone else [isolation.die_with_parent()]),
        isolation.keep_capabilities(),
        *pairs.arrangement(),
        *isolation.limits_of_a_child(
            settings["cpu_s"], writable=scratch is not None, own_user=own_user, own_namespace="user" in layers
        ),
        *child_filter,
    ]
    isolation.offer_wake_pair()
    look = bytes if scratch is None else isolation.prepared_look(scratch)
    prepare = [*pairs.make, *([] if set_number is None else [set_number])]
    gc.collect()
    gc.freeze()
    control.send(marshal.dumps([*layers, "rlimits"]))
    _serve(control, pairs, prepare, doors, look, alone=alone)


def _serve(
    control: _socket.socket,
    pairs: isolation.Pairs,
    prepare: list[isolation.Step],
    doors: list[isolation.Step],
    look: Callable[[], bytes],
    *,
    alone: bool,
) -> None:
    """One child after the other: `prepare` is done before a fork, `doors` are closed behind it.

    `look` sees what differs once a child has had a file, and what none can change back. `alone`: this is process 1 of
    its own namespace, may kill everybody else and takes all with it.
    """
    untouched, channel = look(), isolation.channel()
    attached = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pairs.outer)
    while True:
        isolation.take(prepare)
        child = isolation.fork()
        if child == 0:
            _be_child(channel, doors, look)
        if child < 0:
            os._exit(1)  # no room for it. To end "-1" would be to kill all that this user has
        isolation.take(pairs.close_ends)
        control.sendmsg([READY], [attached])
        isolation.take(pairs.close_outer)
        asked = control.recv(len(NEXT))
        isolation.end(-1 if alone else child)  # and whatever it may have left
        if not asked:
            os._exit(0)  # the parent has gone
        if look() != untouched:
            control.send(RETIRED)
            os._exit(0)


def _be_child(channel: _socket.socket, doors: list[isolation.Step], look: Callable[[], bytes]) -> None:
    """Lock the doors, read one job, run it, end. Never returns."""
    status = 1
    try:
        isolation.take(doors)
        length = channel.recv(LENGTH.size)
        if length:  # else nothing is asked of this child
            body = channel.recv(LENGTH.unpack(length)[0], _socket.MSG_WAITALL)  # all at once
            _run(channel, marshal.loads(body), look)  # noqa: S302 - of us, from outside
            channel.close()  # which says that this is all, before the process has been taken down
        status = 0
    finally:
        os._exit(status)


def _run(channel: _socket.socket, job: dict[str, Any], look: Callable[[], bytes]) -> None:
    """All programs of the job from test number `first` on; each result is sent as soon as it is known.

    Ends early where a program has left something that the next one would notice: that one gets a fresh child.
    """
    start, first, several = 0, job["first"], len(job["programs"]) > 1
    if any(program["data"] for program in job["programs"]):
        import ast  # noqa: F401 - not to be taken for what a program has left
    before, short_of_memory = (traces(), look()) if several else None, False
    for program in job["programs"]:
        expressions = program["expressions"]
        end = start + len(expressions)
        if first < end:
            if first < start and (short_of_memory or (traces(), look()) != before):
                return
            number = max(first, start)
            skip = number - start
            if job["kind"] == "fixed":
                results = run_fixed(program, skip)
            else:
                results = run_published(
                    program["reference"], program["source"], expressions, job["timeout_s"], skip
                )
            for result in results:
                text = result.text.encode("utf-8", "replace")
                message = RESULT.pack(number, result.outcome, len(result.value), len(text))
                channel.sendall(message + result.value + text)
                if result.outcome == ENDED:
                    return
                short_of_memory = short_of_memory or result.outcome == MEMORY
                number += 1
        start = end
