"""Jobs in progress: what is left of each, and the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sweet_rl.grading.sandbox.clock import TestClock
from sweet_rl.grading.sandbox.jobs import Job, Outcome, Reply, TestValue

_LOOKAHEAD = 2048  # jobs begun before the oldest unfinished one, which may hang for seconds


@dataclass(slots=True)
class Assignment:
    """A job on its way through one or more children.

    Args:
        number: its place among all jobs.
        done: results of earlier children.
        before: results of the job of which this one has been made (`Job.then`).
        reply: what the present child has sent.
        hurried_until: tests before this number get less time: one of their program has used up its own.
        watched: whether each result is looked at when it comes, and no longer all of them at the end.
        deaths: workers that have died while they had it, and children that have not taken it.
        clock: what the present test has used.
    """

    number: int
    job: Job
    done: list[TestValue] = field(default_factory=list)
    before: list[TestValue] = field(default_factory=list)
    reply: Reply = field(default_factory=lambda: Reply(0, 0))
    hurried_until: int = 0
    watched: bool = False
    deaths: int = 0
    clock: TestClock = field(default_factory=TestClock)

    @property
    def next_test(self) -> int:
        """Number of the test that the child is at."""
        return len(self.done) + len(self.reply.values)

    def is_hurried(self) -> bool:
        """Whether the present test gets less time."""
        return self.next_test < self.hurried_until

    def fail(self, value: TestValue) -> None:
        """Set the present test's result, for which the child is to blame.

        Or a program that ran in the child before: one that was not the first there is run again, alone.
        """
        program = self.job.program_of(self.next_test)
        if program.start > self.reply.first:
            del self.reply.values[program.start - self.reply.first :]
            return
        if value.outcome is Outcome.TIMEOUT:
            self.hurried_until = program.stop
        self.reply.values.append(value)

    def blame(self, value: TestValue) -> None:
        """Set the results of all remaining tests of the present program, by which workers have died."""
        program = self.job.program_of(self.next_test)
        self.deaths = 0
        self.fail(value)
        if program.start <= self.reply.first:  # else it was not alone, and is run again
            self.reply.values.extend([value] * (program.stop - self.next_test))

    def withdraw_crowded(self) -> bool:
        """Take back what ran out of memory behind other programs in the same child: it is run again."""
        if len(self.job.programs) == 1:
            return False
        for number, value in enumerate(self.reply.values, start=self.reply.first):
            if value.outcome is Outcome.MEMORY:
                program = self.job.program_of(number)
                if program.start > self.reply.first:
                    del self.reply.values[program.start - self.reply.first :]
                    return True
        return False


class JobQueue:
    """Hands out jobs to workers that are free, and their results in the order of the jobs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = enumerate(jobs)
        self._waiting: deque[Assignment] = deque()
        self._finished: dict[int, list[TestValue]] = {}
        self._begun = self._yielded = 0
        self._exhausted = False

    def peek(self) -> Assignment | None:
        """What a free worker should do: first what another child has left undone."""
        if not self._waiting and not self._exhausted and self._begun - self._yielded < _LOOKAHEAD:
            number, job = next(self._jobs, (-1, None))
            if job is None:
                self._exhausted = True
            else:
                self._begun += 1
                self._waiting.append(Assignment(number, job))
        return self._waiting[0] if self._waiting else None

    def take(self) -> Assignment:
        """Take what `peek` has shown."""
        return self._waiting.popleft()

    def take_back(self, work: Assignment) -> None:
        """A child is through with this one: with all of its tests, or not."""
        if len(work.done) < work.job.size:
            self._waiting.appendleft(work)
        elif work.job.then is not None and (job := work.job.then(work.done)) is not None:
            self._waiting.appendleft(Assignment(work.number, job, before=work.done))
        else:
            self._finished[work.number] = work.before + work.done

    def results(self) -> Iterator[list[TestValue]]:
        """The results that are next in order and known."""
        while self._yielded in self._finished:
            self._yielded += 1
            yield self._finished.pop(self._yielded - 1)

    def is_done(self) -> bool:
        """Whether every job was started and its results were taken."""
        return self._exhausted and self._yielded == self._begun
