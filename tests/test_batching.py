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


def test_concurrent_calls_share_a_batch_up_to_its_limit():
    engine = Recorder()

    async def main():
        batcher = MicroBatcher(engine, max_batch=3)
        results = await asyncio.gather(*(batcher.submit(i) for i in range(7)))
        await batcher.close()
        return results

    assert asyncio.run(main()) == [0, 10, 20, 30, 40, 50, 60]
    assert engine.batches == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_lone_call_does_not_wait_and_several_do():
    engine = Recorder()

    async def main():
        batcher = MicroBatcher(engine, max_batch=8, max_wait_s=0.5)
        began = time.monotonic()
        await batcher.submit(1)
        alone_s = time.monotonic() - began

        async def late():
            await asyncio.sleep(0.05)
            return await batcher.submit(4)

        await asyncio.gather(batcher.submit(2), batcher.submit(3), late())
        await batcher.close()
        return alone_s

    assert asyncio.run(main()) < 0.3
    assert engine.batches == [[1], [2, 3, 4]]


def test_what_arrives_while_the_engine_works_is_the_next_batch():
    gate = threading.Event()
    engine = Recorder(gate)

    async def main():
        batcher = MicroBatcher(engine, max_batch=8)
        first = asyncio.create_task(batcher.submit(1))
        await until(lambda: engine.batches)
        others = [asyncio.create_task(batcher.submit(i)) for i in (2, 3)]
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(first, *others) == [10, 20, 30]
        await batcher.close()

    asyncio.run(main())
    assert engine.batches == [[1], [2, 3]]


def test_a_result_does_not_wait_for_the_rest_of_its_batch():
    gate = threading.Semaphore(1)  # opens for one step
    gate.wait = lambda timeout: gate.acquire(timeout=timeout)
    engine = Recorder(gate)

    async def main():
        batcher = MicroBatcher(engine, max_batch=2)
        first, second = (asyncio.create_task(batcher.submit(i)) for i in (1, 2))
        assert await asyncio.wait_for(first, 5) == 10
        assert not second.done()
        gate.release()
        assert await second == 20
        await batcher.close()

    asyncio.run(main())


def test_an_error_reaches_everyone_whose_result_is_missing_and_the_next_batch_works():
    calls = []

    def engine(items):
        calls.append(items)
        yield [(0, "done")]
        if len(calls) == 1:
            raise ZeroDivisionError("broken")

    async def main():
        batcher = MicroBatcher(engine, max_batch=3)
        results = await asyncio.gather(*(batcher.submit(i) for i in range(3)), return_exceptions=True)
        again = await batcher.submit(9)
        await batcher.close()
        return results, again

    (first, *others), again = asyncio.run(main())
    assert first == again == "done"
    assert [type(error) for error in others] == [ZeroDivisionError] * 2


def test_an_engine_that_forgets_an_item_is_an_error_not_a_hang():
    def engine(items):
        yield [(0, "only one")]

    async def main():
        batcher = MicroBatcher(engine, max_batch=2)
        return await asyncio.gather(batcher.submit(1), batcher.submit(2), return_exceptions=True)

    first, second = asyncio.run(main())
    assert first == "only one"
    assert isinstance(second, RuntimeError)


def test_cancelled_calls_drop_out():
    gate = threading.Event()
    engine = Recorder(gate)

    async def main():
        batcher = MicroBatcher(engine, max_batch=8)
        running = asyncio.create_task(batcher.submit(1))
        await until(lambda: engine.batches)
        dropped, kept = (asyncio.create_task(batcher.submit(i)) for i in (2, 3))
        await asyncio.sleep(0)
        dropped.cancel()
        gate.set()
        assert await running == 10
        assert await kept == 30
        await batcher.close()

    asyncio.run(main())
    assert engine.batches == [[1], [3]]


def test_a_batch_that_nobody_waits_for_is_stopped():
    gate = threading.Event()
    engine = Recorder(gate)

    async def main():
        batcher = MicroBatcher(engine, max_batch=8)
        tasks = [asyncio.create_task(batcher.submit(i)) for i in range(5)]
        await until(lambda: engine.batches)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        gate.set()
        await until(lambda: engine.stopped)
        await batcher.close()

    asyncio.run(main())
    assert engine.steps < 5


def test_close_stops_the_running_batch_and_tells_the_callers():
    gate = threading.Event()
    engine = Recorder(gate)

    async def main():
        batcher = MicroBatcher(engine, max_batch=5)
        tasks = [asyncio.create_task(batcher.submit(i)) for i in range(7)]
        await until(lambda: engine.batches)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        gate.set()
        await closing
        await batcher.close()  # again: nothing happens
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, RuntimeError) for result in results[-2:])
        with pytest.raises(RuntimeError, match="closed"):
            await batcher.submit(9)

    asyncio.run(main())
    assert engine.stopped
    assert len(engine.batches) == 1


def test_one_batcher_serves_one_event_loop_after_another():
    batcher = MicroBatcher(Recorder(), max_batch=2)
    assert [asyncio.run(batcher.submit(i)) for i in (1, 2)] == [10, 20]
    asyncio.run(batcher.close())


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

    async def main():
        batcher = ContinuousBatcher(engine)
        long = asyncio.create_task(batcher.submit(3))
        await until(lambda: engine.seen)
        short = asyncio.create_task(batcher.submit(1))
        await asyncio.sleep(0)
        gate.release(9)
        assert await asyncio.gather(short, long) == [10, 30]
        assert await batcher.submit(1) == 10  # after a pause
        await batcher.close()

    asyncio.run(main())
    assert engine.seen == [[3], [3, 1], [3], [1]]


def test_cancelled_calls_leave_a_continuous_engine():
    gate = threading.Semaphore(0)
    engine = Steps(gate)

    async def main():
        batcher = ContinuousBatcher(engine)
        cancelled, kept = (asyncio.create_task(batcher.submit(item)) for item in (9, 3))
        await until(lambda: engine.seen)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        gate.release(5)
        assert await kept == 30
        await batcher.close()

    asyncio.run(main())
    assert engine.dropped == [9]
    assert len(engine.seen) == 3


def test_an_error_of_a_step_reaches_all_whom_the_engine_had_and_it_starts_anew():
    engine = Steps()
    engine.fails = True

    async def main():
        batcher = ContinuousBatcher(engine)
        failed = await asyncio.gather(batcher.submit(2), batcher.submit(3), return_exceptions=True)
        engine.fails = False
        assert await batcher.submit(4) == 40
        await batcher.close()
        return failed

    assert [type(error) for error in asyncio.run(main())] == [ZeroDivisionError] * 2
    assert engine.cleared == 1


def test_closing_stops_a_continuous_engine_and_tells_the_callers():
    gate = threading.Semaphore(0)
    engine = Steps(gate)

    async def main():
        batcher = ContinuousBatcher(engine)
        tasks = [asyncio.create_task(batcher.submit(9)) for _ in range(3)]
        await until(lambda: engine.seen)
        late = asyncio.create_task(batcher.submit(9))
        await asyncio.sleep(0)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        gate.release()
        await closing
        await batcher.close()  # again: nothing happens
        results = await asyncio.gather(*tasks, late, return_exceptions=True)
        assert all(isinstance(result, RuntimeError) for result in results)
        with pytest.raises(RuntimeError, match="closed"):
            await batcher.submit(9)

    asyncio.run(main())
    assert engine.idle
    assert len(engine.seen) == 1


def test_a_continuous_batcher_serves_one_event_loop_after_another():
    batcher = ContinuousBatcher(Steps())
    assert [asyncio.run(batcher.submit(i)) for i in (1, 2)] == [10, 20]
    asyncio.run(batcher.close())


class Lingering(Steps):
    """An engine whose step goes on after its result has reached the caller."""

    def __init__(self):
        super().__init__()
        self.may_end = threading.Event()

    def step(self):
        yield from super().step()
        assert self.may_end.wait(10)


def test_an_engine_still_at_work_for_a_closed_loop_serves_the_next_one():
    engine = Lingering()
    batcher = ContinuousBatcher(engine)

    async def next_loop():
        call = asyncio.create_task(batcher.submit(2))
        await asyncio.sleep(0)  # it waits, and the engine of the last loop will find it
        engine.may_end.set()
        return await asyncio.wait_for(call, 10)

    assert asyncio.run(batcher.submit(1)) == 10
    assert asyncio.run(next_loop()) == 20
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
