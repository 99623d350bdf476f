"""The outside of the sandbox: warm workers, one job each at a time, a clock over every test, results in the order of jobs.

Most jobs end within a moment and are read when they have ended: we wake up once for all their results. Only a job that
takes longer is watched test by test. A published job has the reference in the answer's own process: it never runs at the
same time as a fixed one, and a worker that has had one is replaced before the next fixed job.
"""

from __future__ import annotations

import itertools
import math
import os
import select
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, partial
from typing import Self

from sweet_rl.errors import SandboxError, without_linux
from sweet_rl.grading.sandbox.guest.isolation import MOST_THREADS
from sweet_rl.grading.sandbox.worker import (
    ENDS_S,
    PATIENCE_S,
    Assignment,
    Job,
    Outcome,
    Program,
    TestValue,
    Worker,
)

AFTER_A_TIMEOUT = 1 / 30
"""Share of the time limit that is left for an answer's remaining tests once one has used all of it."""

_WALL = 1.5  # of the time limit: by the clock, when the machine was not to blame
_STARVED = 10.0  # of the time limit, by the clock, whatever the cause
_STEP = 1 / 10  # of the time limit: between two looks at a test that takes long
_SHORTEST_STEP_S = 0.01
_MOMENT = 1 / 20  # of the time limit: after that, a job is watched
_PUBLISHED_WALL = 10.0  # of the time limit: the published alarm rings inside, this is for what swallows it
_LATE_S = 0.05  # that we may be late for the next look, by our own doing
_LOOKAHEAD = 2048  # jobs begun before the oldest unfinished one, which may hang for seconds
_RECEIVED = 1 << 16  # bytes at once
# Without EPOLLIN: what a child writes does not wake us by itself. Only Linux has it.
_ENDED = getattr(select, "EPOLLRDHUP", 0)
_MAX_DEATHS = 10  # of workers one after the other that have not done the simplest job
_BLAMED_AFTER = 2  # deaths of workers, all with the same job in hand
_PROBE = -1  # number of a job that shows whether a worker can do anything at all
_CRASH = TestValue(Outcome.CRASH, text="the process ended")
_NAMESPACES = frozenset({"user", "mount", "process", "network", "ipc", "host name", "cgroup"})


class WakingTime:
    """Seconds in which this process could look after others.

    A stop of it (Ctrl-Z, a frozen container, a closed lid), or a caller who is slow to ask for the
    next result, is no time: nothing that has come meanwhile could be seen.
    """

    def __init__(self) -> None:
        self._seconds, self._seen = 0.0, time.monotonic()

    def now(self, slept_s: float = 0.0) -> float:
        """The time; since the last look we have meant to sleep for so long."""
        seen = time.monotonic()
        self._seconds += min(seen - self._seen, slept_s + _LATE_S)
        self._seen = seen
        return self._seconds


def check_protection(layers: Collection[str], *, unsafe: bool) -> None:
    """Refuse to run hostile code with too little around it."""
    ways = {
        "files": {"mount", "Landlock"},
        "the network": {"network", "seccomp"},
        "other processes": {"process", "seccomp"},
    }
    missing = [what for what, some in ways.items() if some.isdisjoint(layers)]
    if missing and not unsafe:
        raise SandboxError(
            f"Answers cannot be kept away from {', '.join(missing)} here (active: {', '.join(layers)}). "
            "On Linux, allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or use a kernel with Landlock (5.13 or newer). "
            "--unsafe_no_sandbox runs the answers without protection: only for code that you trust."
        )


class Sandbox:
    """Workers that run jobs under the protection of the kernel. Use it as a context manager.

    Args:
        workers: processes side by side; default one for each core that this process may use.
        timeout_s: seconds of computing for one test, definition included; half as long again by the clock,
            not counting the time in which it waited for a core or the disk. After 10 times as long it has to
            be done however busy the machine is.
        memory_mb: address space of one child.
        unsafe_no_sandbox: run even where the kernel offers too little protection.

    Raises:
        SandboxError: too little protection here, or no Linux; says what is missing and what would help.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        timeout_s: float = 1.0,
        memory_mb: int = 512,
        unsafe_no_sandbox: bool = False,
    ) -> None:
        if sys.platform != "linux":
            raise SandboxError(without_linux("Grading code"))
        self.timeout_s = timeout_s
        self._epoll = select.epoll()
        self._owners: dict[int, Worker] = {}  # of the descriptors that are waited for
        self._workers: list[Worker] = []
        self._deaths = 0
        self._alone = partial(
            Sandbox, workers=1, timeout_s=timeout_s, memory_mb=memory_mb, unsafe_no_sandbox=unsafe_no_sandbox
        )
        self._time = WakingTime()
        try:
            for _ in range(workers or len(os.sched_getaffinity(0))):
                self._workers.append(worker := Worker(memory_mb * 2**20, cpu_s=int(timeout_s * 4) + 60))
                self._listen(worker)
            layers = [worker.layers() for worker in self._workers]
            check_protection(layers[0], unsafe=unsafe_no_sandbox)
            for worker in self._workers:
                worker.is_up, worker.deadline = True, self._time.now() + PATIENCE_S
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

    @cached_property
    def trusted(self) -> Sandbox:
        """Another one, with one worker, for a task's own code: no answer ever comes there."""
        return self._alone()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers and everything in them."""
        if "trusted" in vars(self):
            self.trusted.close()
        for worker in self._workers:
            if worker.channel is not None:
                worker.channel.close()
            worker.control.close()
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._owners.clear()
        self._epoll.close()

    def run(self, jobs: Iterable[Job]) -> Iterator[list[TestValue]]:
        """Run jobs side by side; yield their results, one for each test, in the order of the jobs.

        Those of the job that `Job.then` has made of them follow in the same list.
        """
        if any(worker.work is not None for worker in self._workers):
            raise RuntimeError("this sandbox is running other jobs: take all their results first")
        coming, waiting = enumerate(jobs), deque[Assignment]()
        finished: dict[int, list[TestValue]] = {}
        begun = yielded = 0
        is_last = False
        try:
            while True:
                for worker in self._workers:
                    if worker.channel is None or worker.work is not None:
                        continue
                    if not worker.is_trusted:
                        self._give(worker, Assignment(_PROBE, Job("fixed", [Program("", ["1"])])))
                        continue
                    # first what another child has left undone
                    if not waiting and not is_last and begun - yielded < _LOOKAHEAD:
                        waiting.extend(Assignment(*one) for one in itertools.islice(coming, 1))
                        begun, is_last = begun + len(waiting), not waiting
                    running = [one.work for one in self._workers if one.work and one.work.number != _PROBE]
                    if not waiting or any(work.job.kind != waiting[0].job.kind for work in running):
                        continue
                    if worker.has_seen_references and waiting[0].job.kind == "fixed":
                        self._renew(worker)
                    else:
                        self._give(worker, waiting.popleft())
                while yielded in finished:
                    yielded += 1
                    yield finished.pop(yielded - 1)
                if is_last and yielded == begun:
                    return
                for work in self._wait():
                    if len(work.done) < work.job.size:
                        waiting.appendleft(work)
                    elif work.job.then is not None and (job := work.job.then(work.done)) is not None:
                        waiting.appendleft(Assignment(work.number, job, before=work.done))
                    else:
                        finished[work.number] = work.before + work.done
        finally:
            for worker in self._workers:  # the caller has had enough: what still runs is of no use
                if worker.work is not None:
                    self._release(worker)

    def _wait(self) -> list[Assignment]:
        """Let something happen; return the assignments that no child is working on any more."""
        next_look = min(worker.deadline for worker in self._workers)
        wait = max(0.0, min(1.0, next_look - self._time.now()))
        events, released = self._epoll.poll(wait), []
        self._time.now(slept_s=wait)
        for descriptor, event in events:
            worker = self._owners.get(descriptor)
            if worker is None:
                continue  # freed in this very round
            if descriptor == worker.control.fileno():
                # else its child has ended just now, and its messages are read first
                if worker.channel is None:
                    self._welcome(worker)
            elif worker.work is None:
                self._release(worker)  # a child that has died before it was given anything
            elif worker.unsent and event == select.EPOLLOUT:
                self._send(worker, worker.work)
            elif work := self._hear(worker, worker.work):
                released.append(work)
        now = self._time.now()
        late = [worker for worker in self._workers if now >= worker.deadline]
        return released + [work for worker in late if (work := self._late(worker, now))]

    def _give(self, worker: Worker, work: Assignment) -> None:
        """Send the rest of a job to a fresh child."""
        worker.work = work
        worker.has_seen_references |= work.job.kind == "published"
        worker.unsent = memoryview(work.begin(self._limit(work)))
        worker.deadline = self._time.now() + PATIENCE_S
        self._send(worker, work)

    def _send(self, worker: Worker, work: Assignment) -> None:
        """Send what the child takes of its job now; its time begins when it has all of it."""
        if worker.channel is None:
            return
        try:
            while worker.unsent:
                worker.unsent = worker.unsent[worker.channel.send(worker.unsent) :]
        except OSError:  # it reads no more for now; or it has died, and `_hear` notices its silence
            self._epoll.modify(worker.channel, _ENDED | select.EPOLLOUT)
            return
        self._epoll.modify(worker.channel, _ENDED)
        now = self._time.now()
        work.clock.start(now)
        worker.deadline = now + max(self.timeout_s * _MOMENT, 0.02)
        if work.is_hurried:
            self._watch(worker, work)

    def _limit(self, work: Assignment) -> float:
        """Seconds for the present test."""
        return self.timeout_s * (AFTER_A_TIMEOUT if work.is_hurried else 1.0)

    def _watch(self, worker: Worker, work: Assignment) -> None:
        """From now on wake up for every result of this job; also for those that have come already."""
        work.watched = True
        worker.deadline = self._time.now() + self._step(work)
        if worker.channel is not None:
            self._epoll.modify(worker.channel, _ENDED | select.EPOLLIN)

    def _step(self, work: Assignment) -> float:
        """Seconds until the present test has to be looked at again, at the latest."""
        limit = self._limit(work)
        left = limit - work.clock.computed_s, limit * _WALL - work.clock.waited_s
        return max(_SHORTEST_STEP_S, min(limit * _STEP, *left))

    def _hear(self, worker: Worker, work: Assignment) -> Assignment | None:
        """Read a child's messages; return its assignment when it has sent everything, or nothing more."""
        if worker.channel is None:
            return None
        before = len(work.values)
        try:
            data = worker.channel.recv(_RECEIVED)
            work.feed(data)
            broken = not data
        except BlockingIOError:
            return None
        except (OSError, ValueError):
            broken = True
        ended = bool(work.values) and work.values[-1].outcome is Outcome.ENDED
        if work.withdraw_crowded():
            return self._release(worker)
        if work.next_test == work.job.size or ended:
            return self._release(worker, fill=Outcome.ENDED if ended else None)
        if broken:
            self._blame(worker, work)
            return self._release(worker)
        if work.watched and len(work.values) > before:
            now = self._time.now()
            work.clock.start(now, worker.child_number())
            worker.deadline = now + self._step(work)
        return None

    def _blame(self, worker: Worker, work: Assignment) -> None:
        """A child says nothing any more, which is the answer's doing.

        The death of a worker may not be, and that of a child without all of its job is not: once.
        """
        if not worker.unsent and not worker.has_died():
            work.fail(_CRASH)
            return
        work.deaths += 1
        if work.deaths == _BLAMED_AFTER:
            work.deaths = 0
            work.fail(_CRASH, whole_program=True)

    def _late(self, worker: Worker, now: float) -> Assignment | None:
        """A deadline has been reached: of a worker, of the first moment, or to look at a test."""
        work = worker.work
        if work is None or worker.unsent:
            if work is not None:
                self._blame(worker, work)
            released = self._release(worker)
            self._replace(worker)
            return released
        clock, limit, is_published = work.clock, self._limit(work), work.job.kind == "published"
        clock.look(now, worker.child_number())
        if not work.watched:
            self._watch(worker, work)
        crowded = clock.threads > MOST_THREADS
        over = now - clock.started >= limit * _STARVED or (
            clock.waited_s >= limit * _PUBLISHED_WALL
            if is_published
            else clock.computed_s >= limit or (clock.waited_s >= limit * _WALL and not clock.runs)
        )
        if not (over or crowded):
            worker.deadline = now + self._step(work)
            return None
        known = work.next_test
        released = self._hear(worker, work)
        if released or worker.work is not work or work.next_test > known:
            return released  # it had come before we looked
        if crowded:
            work.fail(TestValue(Outcome.CRASH, text=f"more than {MOST_THREADS} threads"))
        elif is_published:
            work.values.append(TestValue(Outcome.ENDED, text="hang"))
            return self._release(worker, fill=Outcome.ENDED)
        else:
            work.fail(TestValue(Outcome.TIMEOUT, text=f"no value within {limit:.3g} s"))
        return self._release(worker)

    def _release(self, worker: Worker, fill: Outcome | None = None) -> Assignment | None:
        """Take the assignment from the worker, with all results so far; its child makes way for the next."""
        work, worker.work, worker.unsent = worker.work, None, memoryview(b"")
        if worker.channel is not None:
            worker.end_child()
            self._hang_up(worker)
            worker.deadline = self._time.now() + PATIENCE_S
        if work is None:
            return None
        work.done.extend(work.values)
        work.values = []
        if fill is not None:
            work.done.extend([TestValue(fill)] * (work.job.size - len(work.done)))
        if work.number != _PROBE:
            return work
        worker.is_trusted = [value.outcome for value in work.done] == [Outcome.VALUE]
        if worker.is_trusted:
            self._deaths = 0
        else:
            self._count_death(worker)
        return None

    def _hang_up(self, worker: Worker) -> None:
        if worker.channel is not None:
            del self._owners[worker.channel.fileno()]
            self._epoll.unregister(worker.channel)  # closing leaves it there while anybody else has it open
            worker.channel.close()
        worker.channel = None

    def _welcome(self, worker: Worker) -> None:
        """A worker has come up, or a fresh child; a worker from which nothing more can come is replaced."""
        if not worker.is_up:
            if (layers := tuple(worker.layers())) != self.layers:
                raise SandboxError(
                    f"A new worker is protected by {', '.join(layers)}, the others by {', '.join(self.layers)}. "
                    "Did the machine's settings change? Start again."
                )
            worker.is_up, worker.deadline = True, self._time.now() + PATIENCE_S
            return
        channel = worker.next_child()
        if channel is not None:
            channel.setblocking(False)
            worker.channel, worker.deadline = channel, math.inf
            self._owners[channel.fileno()] = worker
            self._epoll.register(channel, _ENDED)
        elif worker.retired:
            self._renew(worker)
        else:
            self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """Put a new process in the place of one that has died. It has to show first that it can work."""
        self._count_death(worker)
        self._renew(worker, patience_s=0)
        worker.is_trusted = False

    def _count_death(self, worker: Worker) -> None:
        """Of a worker, or of the child that should have shown that it can work: not too many in a row."""
        self._deaths += 1
        if self._deaths > _MAX_DEATHS + len(self._workers):
            raise SandboxError(
                f"{self._deaths} workers of the sandbox died in a row before they could do any work: is the machine "
                "out of memory? The last one printed: "
                f"{worker.last_words() or 'none'}"
            )

    def _renew(self, worker: Worker, patience_s: float = ENDS_S) -> None:
        """Start again with a process that has seen nothing."""
        self._hang_up(worker)
        del self._owners[worker.control.fileno()]
        worker.close(patience_s)
        worker.start()
        self._listen(worker)

    def _listen(self, worker: Worker) -> None:
        worker.deadline = self._time.now() + PATIENCE_S
        self._owners[worker.control.fileno()] = worker
        self._epoll.register(worker.control, select.EPOLLIN)
