"""Single calls, gathered into batches for an engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, Generic, Protocol, TypeVar

Item = TypeVar("Item")

Result = TypeVar("Result")

Engine = Callable[[Sequence[Item]], Generator[Sequence[tuple[int, Result]], None, None]]
"""Works on a batch step by step. After each step it yields what has become known, as (place in the batch,
result), perhaps nothing; between two steps it can be stopped by closing the generator."""


class Stepwise(Protocol):
    """An engine that works in steps on whatever was added; every call comes from one thread."""

    @property
    def idle(self) -> bool: ...  # there is nothing to do
    def add(self, item: Any) -> int: ...  # a number for an item, worked on from the next step on
    def drop(self, number: int) -> None: ...  # nobody wants this one any more
    def clear(self) -> None: ...  # the last step failed: drop everything
    def step(self) -> Sequence[tuple[int, Any]]: ...  # what has become known, as (number, result)


class _Batcher(Generic[Item, Result]):
    """Calls that wait, and a thread for the engine."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._dispatcher: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, item: Item) -> Result:
        """The engine's result for one item."""
        if self._closed:
            raise RuntimeError("this engine is closed")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.create_task(self._dispatch())
        return await future

    async def close(self) -> None:
        """Stop after the step at hand; callers still there get an error. Idempotent."""
        self._closed = True
        if self._dispatcher is not None and not self._dispatcher.done():
            await asyncio.wait([self._dispatcher])
        self._thread.shutdown()

    async def _dispatch(self) -> None:
        """Run the engine until no caller is waiting. Lives no longer than that, so no event loop is held."""
        raise NotImplementedError


class MicroBatcher(_Batcher[Item, Result]):
    """Runs an engine in a thread of its own, on whatever is waiting, one batch after the other.

    A lone call and a full batch start at once. Where several are waiting, the batch is held open for
    `max_wait_s` so that their neighbours can join. Cancelled callers drop out; when no caller wants a running
    batch any more, it is stopped after the step at hand.
    """

    def __init__(self, engine: Engine[Item, Result], *, max_batch: int, max_wait_s: float = 0.002) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        super().__init__()
        self._engine = engine
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s

    async def _dispatch(self) -> None:
        while self._waiting:
            seen = 0
            while seen < len(self._waiting) < self._max_batch:  # let everything that is ready now come in
                seen = len(self._waiting)
                await asyncio.sleep(0)
            if 1 < len(self._waiting) < self._max_batch and self._max_wait_s:
                await asyncio.sleep(self._max_wait_s)
            batch: list[tuple[Item, asyncio.Future[Result]]] = []
            while self._waiting and len(batch) < self._max_batch:
                item, future = self._waiting.popleft()
                if not future.done():
                    batch.append((item, future))
            if batch and not self._closed:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._run, batch)
            for _, future in batch:
                _settle(future, _stopped())

    def _run(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        """In the thread: step the engine through one batch, handing over results as they come."""
        futures = [future for _, future in batch]
        try:
            with closing(self._engine([item for item, _ in batch])) as steps:
                for finished in steps:
                    for place, result in finished:
                        _tell(futures[place], result)
                    if self._closed or all(future.done() for future in futures):
                        break
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers
            for future in futures:
                _tell(future, error)


class ContinuousBatcher(_Batcher[Item, Result]):
    """Runs an engine in a thread of its own, and hands it calls as they come.

    Cancelled callers drop out after the step at hand. An error of a step reaches all whose items the engine had.
    """

    def __init__(self, engine: Stepwise) -> None:
        super().__init__()
        self._engine = engine

    async def _dispatch(self) -> None:
        while self._waiting:
            if not self._closed:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._run)
            while self._closed and self._waiting:
                _settle(self._waiting.popleft()[1], _stopped())

    def _run(self) -> None:
        """In the thread: step the engine until it has nothing to do."""
        engine, futures = self._engine, dict[int, asyncio.Future[Result]]()
        while not self._closed:
            while self._waiting:
                item, future = self._waiting.popleft()
                futures[engine.add(item)] = future
            for number in [number for number, future in futures.items() if future.done()]:
                engine.drop(number)
                del futures[number]
            if engine.idle:
                break
            try:
                for number, result in engine.step():
                    _tell(futures.pop(number), result)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers
                engine.clear()
                for future in futures.values():
                    _tell(future, error)
                futures.clear()
        for number, future in futures.items():
            engine.drop(number)
            _tell(future, _stopped())


def _stopped() -> RuntimeError:
    return RuntimeError("the engine stopped before it had a result")


def _tell(future: asyncio.Future[Any], what: Any) -> None:
    """From the thread, in the event loop of whoever waits: a thread may outlive the loop that started it."""
    with suppress(RuntimeError):  # the loop is closed, so nobody waits
        future.get_loop().call_soon_threadsafe(_settle, future, what)


def _settle(future: asyncio.Future[Any], what: Any) -> None:
    if not future.done():
        (future.set_exception if isinstance(what, Exception) else future.set_result)(what)
