"""Gathering, early results, errors, cancellation and closing, with engines of a few lines; worker processes."""

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sweet_rl.batching import ContinuousBatcher, MicroBatcher
from sweet_rl.errors import EpisodeError
from sweet_rl.processes import WorkerPool, work


class Recorder:
    """Answers with ten times the item; remembers the batches. Waits for `gate` before each step."""

    def __init__(self, gate=None):
        self.batches, self.steps, self.stopped = [], 0, False
        self.gate = gate

    def __call__(self, items):
        self.batches.append(list(items))
        try:
            for place, item in enumerate(items):
                if self.gate:
                    assert self.gate.wait(10)
                self.steps += 1
                yield [(place, item * 10)]
        except GeneratorExit:
            self.stopped = True
            raise


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited in vain")


def using(batcher, work):
    """What `work` gives, which is given a function that submits an item in a task of its own."""

    async def main():
        try:
            return await work(lambda item: asyncio.create_task(batcher.submit(item)))
        finally:
            await batcher.close()

    return asyncio.run(main())


def test_concurrent_calls_share_a_batch_up_to_its_limit():
    engine = Recorder()
    results = using(MicroBatcher(engine, max_batch=3), lambda submit: asyncio.gather(*map(submit, range(7))))
    assert results == [0, 10, 20, 30, 40, 50, 60]
    assert engine.batches == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_lone_call_does_not_wait_and_several_do():
    engine = Recorder()

    async def work(submit):
        began = time.monotonic()
        await submit(1)
        alone_s = time.monotonic() - began
        both = submit(2), submit(3)
        await asyncio.sleep(0.05)
        await asyncio.gather(*both, submit(4))
        return alone_s

    assert using(MicroBatcher(engine, max_batch=8, max_wait_s=0.5), work) < 0.3
    assert engine.batches == [[1], [2, 3, 4]]


def test_what_arrives_while_the_engine_works_is_the_next_batch_and_cancelled_calls_drop_out():
    gate = threading.Event()
    engine = Recorder(gate)

    async def work(submit):
        first = submit(1)
        await until(lambda: engine.batches)
        dropped, *others = map(submit, (9, 2, 3))
        await asyncio.sleep(0)
        dropped.cancel()
        gate.set()
        assert await asyncio.gather(first, *others) == [10, 20, 30]

    using(MicroBatcher(engine, max_batch=8), work)
    assert engine.batches == [[1], [2, 3]]


def test_a_result_does_not_wait_for_the_rest_of_its_batch():
    gate = threading.Semaphore(1)  # opens for one step
    gate.wait = lambda timeout: gate.acquire(timeout=timeout)

    async def work(submit):
        first, second = map(submit, (1, 2))
        assert await asyncio.wait_for(first, 5) == 10
        assert not second.done()
        gate.release()
        assert await second == 20

    using(MicroBatcher(Recorder(gate), max_batch=2), work)


def test_an_error_reaches_everyone_whose_result_is_missing_and_the_next_batch_works():
    calls = []

    def engine(items):
        calls.append(items)
        yield [(0, "done")]
        if len(calls) == 1:
            raise ZeroDivisionError("broken")

    async def work(submit):
        return await asyncio.gather(*map(submit, range(3)), return_exceptions=True), await submit(9)

    (first, *others), again = using(MicroBatcher(engine, max_batch=3), work)
    assert first == again == "done"
    assert [type(error) for error in others] == [ZeroDivisionError] * 2


def test_an_engine_that_forgets_an_item_is_an_error_not_a_hang():
    first, second = using(
        MicroBatcher(lambda items: (part for part in [[(0, "only one")]]), max_batch=2),
        lambda submit: asyncio.gather(submit(1), submit(2), return_exceptions=True),
    )
    assert first == "only one"
    assert isinstance(second, RuntimeError)


def test_a_batch_that_nobody_waits_for_is_stopped():
    gate = threading.Event()
    engine = Recorder(gate)

    async def work(submit):
        tasks = list(map(submit, range(5)))
        await until(lambda: engine.batches)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        gate.set()
        await until(lambda: engine.stopped)

    using(MicroBatcher(engine, max_batch=8), work)
    assert engine.steps < 5


class Steps:
    """A continuous engine: an item is as many steps of work, and its result ten times the item."""

    def __init__(self, gate=None):
        self.left, self.given, self.seen, self.dropped, self.cleared = {}, {}, [], [], 0
        self.gate, self.fails = gate, False

    @property
    def idle(self):
        return not self.left

    def add(self, item):
        number = len(self.given)
        self.given[number] = self.left[number] = item
        return number

    def drop(self, number):
        self.dropped.append(self.given[number])
        del self.left[number]

    def clear(self):
        self.left.clear()
        self.cleared += 1

    def step(self):
        self.seen.append([self.given[number] for number in self.left])
        if self.gate:
            assert self.gate.acquire(timeout=10)
        if self.fails:
            raise ZeroDivisionError("broken")
        self.left = {number: left - 1 for number, left in self.left.items()}
        done = [number for number, left in self.left.items() if not left]
        for number in done:
            del self.left[number]
        return [(number, 10 * self.given[number]) for number in done]


def test_a_continuous_engine_is_given_calls_between_its_steps():
    gate = threading.Semaphore(0)
    engine = Steps(gate)

    async def work(submit):
        long = submit(3)
        await until(lambda: engine.seen)
        short = submit(1)
        await asyncio.sleep(0)
        gate.release(9)
        assert await asyncio.gather(short, long) == [10, 30]
        assert await submit(1) == 10  # after a pause

    using(ContinuousBatcher(engine), work)
    assert engine.seen == [[3], [3, 1], [3], [1]]


def test_cancelled_calls_leave_a_continuous_engine():
    gate = threading.Semaphore(0)
    engine = Steps(gate)

    async def work(submit):
        cancelled, kept = map(submit, (9, 3))
        await until(lambda: engine.seen)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        gate.release(5)
        assert await kept == 30

    using(ContinuousBatcher(engine), work)
    assert engine.dropped == [9]
    assert len(engine.seen) == 3


def test_an_error_of_a_step_reaches_all_whom_the_engine_had_and_it_starts_anew():
    engine = Steps()
    engine.fails = True

    async def work(submit):
        failed = await asyncio.gather(submit(2), submit(3), return_exceptions=True)
        engine.fails = False
        assert await submit(4) == 40
        return failed

    assert [type(error) for error in using(ContinuousBatcher(engine), work)] == [ZeroDivisionError] * 2
    assert engine.cleared == 1


@pytest.mark.parametrize("continuous", [True, False])
def test_closing_stops_the_engine_and_tells_the_callers(continuous):
    gate = threading.Semaphore(0)
    gate.wait = lambda timeout: gate.acquire(timeout=timeout)
    engine = Steps(gate) if continuous else Recorder(gate)
    batcher = ContinuousBatcher(engine) if continuous else MicroBatcher(engine, max_batch=3)

    async def work(submit):
        tasks = [submit(9) for _ in range(3)]
        await until(lambda: engine.seen if continuous else engine.batches)
        late = submit(9)
        await asyncio.sleep(0)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        gate.release()
        await closing
        await batcher.close()  # again: nothing happens
        results = await asyncio.gather(*tasks, late, return_exceptions=True)
        assert all(isinstance(result, RuntimeError) for result in (results if continuous else results[1:]))
        with pytest.raises(RuntimeError, match="closed"):
            await submit(9)

    using(batcher, work)
    assert (engine.idle, len(engine.seen)) == (True, 1) if continuous else engine.stopped


@pytest.mark.parametrize("batcher", [ContinuousBatcher(Steps()), MicroBatcher(Recorder(), max_batch=2)])
def test_one_batcher_serves_one_event_loop_after_another(batcher):
    assert [asyncio.run(batcher.submit(i)) for i in (1, 2)] == [10, 20]
    asyncio.run(batcher.close())


def test_a_caller_whose_loop_is_closed_costs_the_others_nothing():
    gate = threading.Semaphore(0)
    engine = Steps(gate)
    batcher = ContinuousBatcher(engine)

    async def leave():
        call = asyncio.create_task(batcher.submit(1))
        await until(lambda: engine.seen)
        return call

    async def next_loop():
        call = asyncio.create_task(batcher.submit(1))
        await asyncio.sleep(0)
        gate.release(2)
        return await asyncio.wait_for(call, 10)

    asyncio.run(leave())
    assert asyncio.run(next_loop()) == 10
    asyncio.run(batcher.close())


class TwoWordsError(Exception):
    """Can be pickled, and not read again: its initializer wants two words."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def start(word):
    """What the workers of these tests answer."""

    def where():
        Path("file").touch()
        return Path.cwd(), word

    def fail():
        raise TwoWordsError("no", "idea")

    return {"where": where, "fail": fail, "hang": lambda: signal.pause()}


@pytest.fixture
def pool(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with WorkerPool(__name__, ["hello"], workers=1, timeout_s=60) as pool:
        yield pool
    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_with_its_worker(pool, tmp_path):
    folder, word = pool.ask_now("where")
    assert word == "hello"
    assert (folder.parent, (folder / "file").exists()) == (tmp_path, True)
    with pytest.raises(EpisodeError, match=r"game_crashed: .*no answer within 0.5 s"):
        pool.ask_now("hang", timeout_s=0.5)
    assert not folder.exists()
    folder, _ = pool.ask_now("where")
    os.kill(pool._idle.queue[0]._process.pid, signal.SIGKILL)
    with pytest.raises(EpisodeError, match=r"game_crashed: .*died"):
        pool.ask_now("where")
    assert not folder.exists()


def test_an_error_that_cannot_be_read_by_the_other_side_is_told(pool):
    with pytest.raises(EpisodeError, match="game_failed: RuntimeError: TwoWordsError: no idea"):
        pool.ask_now("fail")
    assert pool.ask_now("where")[1] == "hello"


if __name__ == "__main__":
    assert sys.argv[3] == "hello"
    work(start)
