"""Runs many tasks with a limit on how many at once. It does not know what the tasks do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Final, TypeVar

Item = TypeVar("Item")

_OUTSIDE: Final = -1
_begun: ContextVar[int] = ContextVar("begun", default=_OUTSIDE)


def place_in_order() -> int:
    """The place, in their order, of the item that is being worked on; -1 where nothing runs below `for_each`.

    What waits for something scarce is served in this order, so that items end one after the other and not all
    together at the end. Within an item's own `for_each` it is the item's.
    """
    return _begun.get()


async def for_each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Await `work` for every item, `at_once` of them at a time, started in the order of the items.

    The first exception that `work` raises ends it: what is in flight is cancelled, and nothing more is begun.
    """
    import asyncio  # which is not loaded for help

    if at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {at_once}")
    waiting, within = enumerate(items), place_in_order() != _OUTSIDE

    async def place() -> None:
        for number, item in waiting:
            if not within:
                _begun.set(number)
            await work(item)

    places = [asyncio.create_task(place()) for _ in range(at_once)]
    try:
        await asyncio.gather(*places)
    finally:
        for task in places:  # when one has failed, the others are not awaited
            task.cancel()
        await asyncio.gather(*places, return_exceptions=True)
