"""This side of the sandbox: warm workers, one job each at a time, a clock over every test.

A job is first run in a burst: all results in one message. Where that takes longer than a moment, its child is
killed and the job is run again one test at a time, so that it is known which test hangs; the others count.
"""

from __future__ import annotations

import math
import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox.jobs import Job, Outcome, Reply, TestValue
from sweet_rl.grading.sandbox.worker import WorkerProcess, check_protection, default_workers

AFTER_A_TIMEOUT = 1 / 30
"""Share of the time limit that is left for an answer's remaining tests once one has used all of it."""

_ASLEEP_AFTER = 1.5  # of the time limit: when a test that is not computing has to be done
_COMPUTING = 1 / 20  # of the time limit: who has computed that long is not asleep but waits for a core
_STARVED = 10.0  # of the time limit: when a test has to be done, however busy the machine is
_BURST = 0.05  # of the time limit: how long a burst may take
_PUBLISHED_WALL = 3.0  # of the time limit: the published alarm rings inside, this is for what swallows it
_LOOKAHEAD = 256  # jobs begun before the oldest unfinished one
_GOODBYE_S = 0.05  # for a child to end that has sent all its results: the next one waits for that
_MAX_DEATHS = 10  # of workers, which only the machine can cause


@dataclass(slots=True)
class _Assignment:
    """A job on its way through one or more children."""

    number: int
    job: Job
    done: list[TestValue] = field(default_factory=list)
    one_by_one: bool = False
    hurried_until: int = 0  # tests before this number get less time: one of their program has used up its own
    asked_to_die: bool = False
    delivered: bool = False
    reply: Reply = field(default_factory=lambda: Reply(0, 0))
    deadline: float = 0.0
    started: float = 0.0


class _Queue:
    """Jobs on their way through the workers, and their results in the order of the jobs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = enumerate(jobs)
        self._unfinished: deque[_Assignment] = deque()
        self._finished: dict[int, list[TestValue]] = {}
        self._begun = self._yielded = 0
        self._exhausted = False

    def next(self) -> _Assignment | None:
        """What a free worker should do: first what another child has left undone."""
        if self._unfinished:
            return self._unfinished.popleft()
        if self._exhausted or self._begun - self._yielded >= _LOOKAHEAD:
            return None
        number, job = next(self._jobs, (-1, None))
        if job is None:
            self._exhausted = True
            return None
        self._begun += 1
        return _Assignment(number, job)

    def take_back(self, work: _Assignment) -> None:
        """A child is through with this one: with all of its tests, or not."""
        if len(work.done) == work.job.size:
            self._finished[work.number] = work.done
        else:
            self._unfinished.append(work)

    def results(self) -> Iterator[list[TestValue]]:
        """The results that are next in order and known."""
        while self._yielded in self._finished:
            self._yielded += 1
            yield self._finished.pop(self._yielded - 1)

    def is_done(self) -> bool:
        """Whether every job has been begun and its results have been taken."""
        return self._exhausted and self._yielded == self._begun


@dataclass(slots=True)
class _Worker:
    process: WorkerProcess
    channel: socket.socket | None = None
    serial: int = 0
    work: _Assignment | None = None
    overdue: float = math.inf  # when the child that was let go must have made way for the next one


class Sandbox:
    """Workers that run jobs under the protection of the kernel. Use it as a context manager.

    Args:
        workers: processes side by side; default one for each core.
        timeout_s: seconds of computing for one test, definition included; half as long again by the clock for
            a test that does not compute. A busy machine fails no test that is done within 10 times the limit.
        memory_mb: address space of one child.
        unsafe_no_sandbox: run even where the kernel offers too little protection.

    Raises:
        SandboxError: too little protection here; says what is missing and what would help.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        timeout_s: float = 1.0,
        memory_mb: int = 512,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        self.timeout_s = timeout_s
        self._memory_bytes = memory_mb * 2**20
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._deaths = 0
        try:
            for _ in range(workers or default_workers()):
                self._workers.append(self._start())
            layers = [worker.process.layers() for worker in self._workers]
            check_protection(layers[0], unsafe=unsafe_no_sandbox)
        except BaseException:
            self.close()
            raise
        self.layers: tuple[str, ...] = tuple(layers[0])

    @property
    def protection(self) -> str:
        """The layers that are active, for people."""
        spaces = [name for name in self.layers if name in _NAMESPACES]
        others = [name for name in self.layers if name not in _NAMESPACES]
        return "; ".join([*([f"{', '.join(spaces)} namespaces"] if spaces else []), *others])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers and everything in them."""
        for worker in self._workers:
            if worker.channel is not None:
                worker.channel.close()
            worker.process.close()
        self._workers.clear()
        self._selector.close()

    def run(self, jobs: Iterable[Job]) -> Iterator[list[TestValue]]:
        """Run jobs side by side; yield their results, one for each test, in the order of the jobs.

        Raises:
            SandboxError: a worker does not come up any more.
        """
        if any(worker.work is not None for worker in self._workers):
            raise RuntimeError("this sandbox is running other jobs: take all their results first")
        queue = _Queue(jobs)
        try:
            while True:
                for worker in self._workers:
                    ready = worker.channel is not None and worker.work is None
                    if ready and (work := queue.next()) is not None:
                        self._give(worker, work)
                yield from queue.results()
                if queue.is_done():
                    return
                for work in self._wait():
                    queue.take_back(work)
        finally:
            for worker in self._workers:  # the caller has had enough: what still runs is of no use
                if worker.work is not None:
                    self._release(worker)

    def _wait(self) -> list[_Assignment]:
        """Let something happen; return the assignments that no child is working on any more."""
        now = time.monotonic()
        deadlines = [worker.work.deadline if worker.work else worker.overdue for worker in self._workers]
        wait = max(0.0, min(1.0, min(deadlines) - now))
        released = []
        for key, _ in self._selector.select(wait):
            worker, is_control = key.data
            if is_control:
                if worker.channel is None:  # else its child has ended just now, and what it said comes first
                    self._welcome(worker)
            elif worker.channel is not key.fileobj:
                continue  # let go of in this very round
            elif worker.work is None:
                self._release(worker)  # a child that has died before it was given anything
            elif work := self._hear(worker):
                released.append(work)
        now = time.monotonic()
        for worker in self._workers:
            if worker.work is not None and now >= worker.work.deadline and (work := self._late(worker, now)):
                released.append(work)
            elif now >= worker.overdue:
                worker.process.kill(worker.serial)  # it has said all there is to say, and stays on
                worker.overdue = math.inf
        return released

    def _give(self, worker: _Worker, work: _Assignment) -> None:
        """Send the rest of a job to a fresh child."""
        first = len(work.done)
        work.reply = Reply(first, work.job.size, work.job.kind)
        worker.work = work
        message = work.job.message(
            first=first, one_by_one=work.one_by_one, timeout_s=self.timeout_s * self._share(work)
        )
        try:
            if worker.channel is not None:
                worker.channel.sendall(message)
            work.delivered = True
        except OSError:  # the child has died already; `_hear` notices its silence
            work.delivered = False
        self._set_deadline(work)

    def _share(self, work: _Assignment) -> float:
        next_test = len(work.done) + len(work.reply.values)
        return AFTER_A_TIMEOUT if next_test < work.hurried_until else 1.0

    def _set_deadline(self, work: _Assignment) -> None:
        now = time.monotonic()
        limit = self.timeout_s * self._share(work)
        if not work.one_by_one:
            work.deadline = now + max(self.timeout_s * _BURST, 0.02)
        elif work.job.kind == "published":
            work.deadline = now + self.timeout_s * _PUBLISHED_WALL
        else:
            work.deadline = now + limit
        work.started, work.asked_to_die = now, False

    def _hear(self, worker: _Worker) -> _Assignment | None:
        """Read what a child says; return its assignment when it has said everything, or nothing any more."""
        if worker.channel is None or worker.work is None:
            return None
        work, reply = worker.work, worker.work.reply
        before = len(reply.values)
        try:
            data = worker.channel.recv(1 << 18)
            reply.feed(data)
            broken = not data
        except (OSError, ValueError):
            broken = True
        ended = bool(reply.values) and reply.values[-1].outcome is Outcome.ENDED
        if len(work.done) + len(reply.values) == work.job.size or ended:
            return self._release(worker, fill=Outcome.ENDED if ended else None)
        if broken:
            if not work.delivered or worker.process.has_died():  # not the answer's doing: once more
                return self._release(worker)
            if not work.one_by_one and not reply.values:
                work.one_by_one = True  # which test it was is not known yet
                return self._release(worker)
            reply.values.append(self._timeout(work) if work.asked_to_die else _CRASH)
            return self._release(worker)
        if len(reply.values) > before:
            self._set_deadline(work)
        return None

    def _late(self, worker: _Worker, now: float) -> _Assignment | None:
        """A test (or a burst) has reached its deadline by the clock; by its own computing perhaps not."""
        if worker.work is None:
            return None
        work, reply = worker.work, worker.work.reply
        if not work.one_by_one:
            work.one_by_one = True
            return self._release(worker)
        if work.job.kind == "published":
            reply.values.append(TestValue(Outcome.ENDED, text="hang"))
            return self._release(worker, fill=Outcome.ENDED)
        limit, waited = self.timeout_s * self._share(work), now - work.started
        if waited >= limit * _STARVED:
            reply.values.append(self._timeout(work))
            return self._release(worker)
        awake = limit * _COMPUTING if waited >= limit * _ASLEEP_AFTER else 0.0
        worker.process.kill(worker.serial, most_s=reply.cpu_s + limit * 0.95, least_s=reply.cpu_s + awake)
        work.asked_to_die = True
        work.deadline = now + limit * (_ASLEEP_AFTER - 1)
        return None

    def _timeout(self, work: _Assignment) -> TestValue:
        text = f"no value within {self.timeout_s * self._share(work):.3g} s"
        work.hurried_until = work.job.end_of_program(len(work.done) + len(work.reply.values))
        return TestValue(Outcome.TIMEOUT, text=text)

    def _release(self, worker: _Worker, fill: Outcome | None = None) -> _Assignment | None:
        """Take the assignment from the worker, with all results so far; kill the child if it does not end."""
        work = worker.work
        if work is not None:
            work.done.extend(work.reply.values)
            if fill is not None:
                work.done.extend([TestValue(fill)] * (work.job.size - len(work.done)))
        if worker.channel is not None:
            finished = work is not None and fill is None and len(work.done) == work.job.size
            if not finished:
                worker.process.kill(worker.serial)
            worker.overdue = time.monotonic() + _GOODBYE_S
            self._selector.unregister(worker.channel)
            worker.channel.close()
        worker.channel, worker.work = None, None
        return work

    def _welcome(self, worker: _Worker) -> None:
        """A fresh child reports; a worker that says nothing any more is replaced."""
        child = worker.process.next_child()
        if child is None:
            self._replace(worker)
            return
        worker.serial, worker.channel = child
        worker.overdue = math.inf
        self._selector.register(worker.channel, selectors.EVENT_READ, (worker, False))

    def _start(self) -> _Worker:
        worker = _Worker(self._start_process())
        self._selector.register(worker.process.control, selectors.EVENT_READ, (worker, True))
        return worker

    def _start_process(self) -> WorkerProcess:
        return WorkerProcess(self._memory_bytes, cpu_s=int(self.timeout_s * 4) + 60)

    def _replace(self, worker: _Worker) -> None:
        """Put a new process in the place of one that has died, which no answer should be able to cause.

        Raises:
            SandboxError: it happens again and again, or the new one is less protected.
        """
        self._deaths += 1
        if self._deaths > _MAX_DEATHS:
            raise SandboxError(
                f"{self._deaths} workers of the sandbox have died, which no answer can cause: is "
                f"the machine out of memory? The last one's words: {worker.process.last_words() or 'none'}"
            )
        self._selector.unregister(worker.process.control)
        worker.process.close()
        worker.process = self._start_process()
        worker.serial, worker.overdue = 0, math.inf  # the new one counts its children from 1 again
        self._selector.register(worker.process.control, selectors.EVENT_READ, (worker, True))
        layers = worker.process.layers()
        if tuple(layers) != self.layers:
            raise SandboxError(
                f"A new worker is protected by {', '.join(layers)}, the others by {', '.join(self.layers)}. "
                "Has somebody changed the machine's settings? Start again."
            )


_CRASH = TestValue(Outcome.CRASH, text="the process ended")
_NAMESPACES = frozenset({"user", "mount", "process", "network", "ipc", "host name", "cgroup"})
