"""Gathers single calls into batches for an engine that works on batches; knows nothing of models.

While the engine works, calls pile up; when it is free, all of them (up to `max_batch`) become the next batch.
A result reaches its caller as soon as the engine has it, not when the last one of its batch is ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Engine = Callable[[Sequence[Item]], Generator[Sequence[tuple[int, Result]], None, None]]
"""Works on a batch step by step. After each step it yields what has become known, as (place in the batch,
result), perhaps nothing; between two steps it can be stopped by closing the generator."""


class MicroBatcher(Generic[Item, Result]):
    """Runs an engine in a thread of its own, on whatever is waiting.

    A lone call starts at once. Where several are waiting, the batch is held open for `max_wait_s` so that
    their neighbours can join; a full batch starts at once. Cancelled callers drop out; when no caller
    wants a running batch any more, it is stopped after the step at hand.

    Args:
        engine: see `Engine`; called in the thread, for one batch at a time.
        max_batch: items in a batch at most.
        max_wait_s: how long a batch of several is held open, in seconds.
    """

    def __init__(self, engine: Engine[Item, Result], *, max_batch: int, max_wait_s: float = 0.002) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        self._engine = engine
        self._max_batch = max_batch
        self._max_wait_s = max_wait_s
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._dispatcher: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, item: Item) -> Result:
        """The engine's result for one item.

        Raises:
            Exception: what the engine raised for the batch.
            RuntimeError: the batcher is closed.
        """
        if self._closed:
            raise RuntimeError("this engine is closed")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.create_task(self._dispatch())
        return await future

    async def close(self) -> None:
        """Stop the running batch after its step at hand; callers still there get an error. Idempotent."""
        self._closed = True
        if self._dispatcher is not None and not self._dispatcher.done():
            await asyncio.wait([self._dispatcher])
        self._thread.shutdown()

    async def _dispatch(self) -> None:
        """Run batches until no caller is waiting. Lives no longer than that, so no event loop is held."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = await self._gather()
            if batch and not self._closed:
                await loop.run_in_executor(self._thread, self._run, batch, loop)
            for _, future in batch:
                _reject(future, RuntimeError("the engine stopped before it had a result"))

    async def _gather(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """The next batch: the calls that wait now, and their neighbours."""
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
        return batch

    def _run(
        self, batch: Sequence[tuple[Item, asyncio.Future[Result]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """In the thread: step the engine through one batch, handing over results as they come."""
        futures = [future for _, future in batch]
        try:
            with closing(self._engine([item for item, _ in batch])) as steps:
                for finished in steps:
                    for place, result in finished:
                        loop.call_soon_threadsafe(_resolve, futures[place], result)
                    if self._closed or all(future.done() for future in futures):
                        break
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the callers
            for future in futures:
                loop.call_soon_threadsafe(_reject, future, error)


def _resolve(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _reject(future: asyncio.Future[Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
