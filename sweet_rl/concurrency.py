"""Runs many tasks with a limit on how many at once. It does not know what the tasks do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Await `work` for every item, `at_once` of them at a time, started in the order of the items.

    Args:
        items: asked for the next one when a place is free.
        work: what is done with one.
        at_once: places, at least 1.

    Raises:
        Exception: the first that `work` raises; what is in flight is cancelled, and nothing more is begun.
    """
    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    waiting = iter(items)

    async def place() -> None:
        for item in waiting:
            await work(item)

    places = [asyncio.create_task(place()) for _ in range(at_once)]
    try:
        await asyncio.gather(*places)
    finally:
        for task in places:  # when one has failed, the others are not awaited
            task.cancel()
        await asyncio.gather(*places, return_exceptions=True)
