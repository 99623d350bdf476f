"""This side of the sandbox: warm workers, one job each at a time, a clock over every test.

Most jobs end within a moment and are read when they have ended: we wake up once for all their results. Only a
job that takes longer is watched test by test, so that it is known which one hangs; the others count.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from sweet_rl.errors import SandboxError
from sweet_rl.grading.sandbox.jobs import Job, Outcome, Reply, TestValue
from sweet_rl.grading.sandbox.queue import Assignment, JobQueue
from sweet_rl.grading.sandbox.worker import WorkerProcess, check_protection, default_workers

AFTER_A_TIMEOUT = 1 / 30
"""Share of the time limit that is left for an answer's remaining tests once one has used all of it."""

_ASLEEP_AFTER = 1.5  # of the time limit: when a test that is not computing has to be done
_COMPUTING = 1 / 20  # of the time limit: who has computed that long is not asleep but waits for a core
_STARVED = 10.0  # of the time limit: when a test has to be done, however busy the machine is
_MOMENT = 1 / 20  # of the time limit: after that, a job is watched
_PUBLISHED_WALL = 10.0  # of the time limit: the published alarm rings inside, this is for what swallows it
_RECEIVED = 1 << 16  # bytes at once
_ENDED = select.EPOLLRDHUP  # without EPOLLIN: what a child says alone wakes nobody
_MAX_DEATHS = 10  # of workers, which only the machine can cause


@dataclass(slots=True)
class _Worker:
    process: WorkerProcess
    channel: socket.socket | None = None
    serial: int = 0
    work: Assignment | None = None


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
        self._apart: Sandbox | None = None
        self._like_this = partial(
            Sandbox, timeout_s=timeout_s, memory_mb=memory_mb, unsafe_no_sandbox=unsafe_no_sandbox
        )
        self._memory_bytes = memory_mb * 2**20
        self._epoll = select.epoll()
        self._owners: dict[int, _Worker] = {}  # of the descriptors that are waited for
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

    @property
    def apart(self) -> Sandbox:
        """One more, with one worker, started when first asked for: where no answer's code ever runs."""
        if self._apart is None:
            self._apart = self._like_this(workers=1)
        return self._apart

    def close(self) -> None:
        """End all workers and everything in them."""
        if self._apart is not None:
            self._apart.close()
        for worker in self._workers:
            if worker.channel is not None:
                worker.channel.close()
            worker.process.hang_up()
        for worker in self._workers:
            worker.process.close()
        self._workers.clear()
        self._owners.clear()
        self._epoll.close()

    def run(self, jobs: Iterable[Job]) -> Iterator[list[TestValue]]:
        """Run jobs side by side; yield their results, one for each test, in the order of the jobs.

        Raises:
            SandboxError: a worker does not come up any more.
        """
        if any(worker.work is not None for worker in self._workers):
            raise RuntimeError("this sandbox is running other jobs: take all their results first")
        queue = JobQueue(jobs)
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

    def _wait(self) -> list[Assignment]:
        """Let something happen; return the assignments that no child is working on any more."""
        now = time.monotonic()
        wait = min((worker.work.deadline - now for worker in self._workers if worker.work), default=1.0)
        released = []
        for descriptor, _ in self._epoll.poll(max(0.0, min(1.0, wait))):
            worker = self._owners.get(descriptor)
            if worker is None:
                continue  # let go of in this very round
            if descriptor == worker.process.control.fileno():
                if worker.channel is None:  # else its child has ended just now, and what it said comes first
                    self._welcome(worker)
            elif worker.work is None:
                self._release(worker)  # a child that has died before it was given anything
            elif work := self._hear(worker):
                released.append(work)
        now = time.monotonic()
        late = [worker for worker in self._workers if worker.work is not None and now >= worker.work.deadline]
        return released + [work for worker in late if (work := self._late(worker, now))]

    def _give(self, worker: _Worker, work: Assignment) -> None:
        """Send the rest of a job to a fresh child."""
        work.reply = Reply(len(work.done), work.job.size, work.job.kind)
        worker.work = work
        message = work.job.message(first=work.reply.first, timeout_s=self._limit(work))
        try:
            if worker.channel is not None:
                worker.channel.sendall(message)
            work.delivered = True
        except OSError:  # the child has died already; `_hear` notices its silence
            work.delivered = False
        self._start_clock(work)
        work.watched = False
        if work.is_hurried():
            self._watch(worker, work)
        else:
            work.deadline = work.started + max(self.timeout_s * _MOMENT, 0.02)

    def _limit(self, work: Assignment) -> float:
        """Seconds for the present test."""
        return self.timeout_s * (AFTER_A_TIMEOUT if work.is_hurried() else 1.0)

    def _start_clock(self, work: Assignment) -> None:
        work.started, work.asked_to_die = time.monotonic(), False
        work.deadline = work.started + self._wall(work)

    def _wall(self, work: Assignment) -> float:
        """Seconds by the clock after which something is to be done about the present test."""
        return self.timeout_s * _PUBLISHED_WALL if work.job.kind == "published" else self._limit(work)

    def _watch(self, worker: _Worker, work: Assignment) -> None:
        """From now on wake up for every result of this job; also for those that have come already."""
        work.watched = True
        if worker.channel is not None:
            self._epoll.modify(worker.channel, _ENDED | select.EPOLLIN)

    def _hear(self, worker: _Worker) -> Assignment | None:
        """Read what a child says; return its assignment when it has said everything, or nothing any more."""
        if worker.channel is None or worker.work is None:
            return None
        work, reply = worker.work, worker.work.reply
        before = len(reply.values)
        try:
            data = worker.channel.recv(_RECEIVED)
            reply.feed(data)
            broken = not data
        except (OSError, ValueError):
            broken = True
        ended = bool(reply.values) and reply.values[-1].outcome is Outcome.ENDED
        if work.withdraw_crowded():
            return self._release(worker)
        if work.next_test == work.job.size or ended:
            return self._release(worker, fill=Outcome.ENDED if ended else None)
        if broken:
            if work.delivered and not worker.process.has_died():  # else not the answer's doing: once more
                work.fail(self._timeout(work) if work.asked_to_die else _CRASH)
            return self._release(worker)
        if work.watched and len(reply.values) > before:
            self._start_clock(work)
        return None

    def _late(self, worker: _Worker, now: float) -> Assignment | None:
        """A deadline has been reached: the end of the first moment, or of a test's time by the clock."""
        if worker.work is None:
            return None
        work, reply = worker.work, worker.work.reply
        if not work.watched:
            self._watch(worker, work)
            work.deadline = work.started + self._wall(work)
            return None
        if work.job.kind == "published":
            reply.values.append(TestValue(Outcome.ENDED, text="hang"))
            return self._release(worker, fill=Outcome.ENDED)
        limit, waited = self._limit(work), now - work.started
        if waited >= limit * _STARVED:
            work.fail(self._timeout(work))
            return self._release(worker)
        awake = limit * _COMPUTING if waited >= limit * _ASLEEP_AFTER else 0.0
        worker.process.end(worker.serial, most_s=reply.cpu_s + limit * 0.95, least_s=reply.cpu_s + awake)
        work.asked_to_die = True
        work.deadline = now + limit * (_ASLEEP_AFTER - 1)
        return None

    def _timeout(self, work: Assignment) -> TestValue:
        return TestValue(Outcome.TIMEOUT, text=f"no value within {self._limit(work):.3g} s")

    def _release(self, worker: _Worker, fill: Outcome | None = None) -> Assignment | None:
        """Take the assignment from the worker, with all results so far; its child makes way for the next."""
        work = worker.work
        if work is not None:
            work.done.extend(work.reply.values)
            work.reply.values = []
            if fill is not None:
                work.done.extend([TestValue(fill)] * (work.job.size - len(work.done)))
        if worker.channel is not None:
            worker.process.end(worker.serial)
            del self._owners[worker.channel.fileno()]
            self._epoll.unregister(worker.channel)  # closing leaves it there while anybody else has it open
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
        self._owners[worker.channel.fileno()] = worker
        self._epoll.register(worker.channel, _ENDED)

    def _start(self) -> _Worker:
        worker = _Worker(self._start_process())
        self._listen(worker)
        return worker

    def _listen(self, worker: _Worker) -> None:
        self._owners[worker.process.control.fileno()] = worker
        self._epoll.register(worker.process.control, select.EPOLLIN)

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
        del self._owners[worker.process.control.fileno()]
        worker.process.close()
        worker.process = self._start_process()
        worker.serial = 0  # the new one counts its children from 1 again
        self._listen(worker)
        layers = worker.process.layers()
        if tuple(layers) != self.layers:
            raise SandboxError(
                f"A new worker is protected by {', '.join(layers)}, the others by {', '.join(self.layers)}. "
                "Has somebody changed the machine's settings? Start again."
            )


_CRASH = TestValue(Outcome.CRASH, text="the process ended")
_NAMESPACES = frozenset({"user", "mount", "process", "network", "ipc", "host name", "cgroup"})
