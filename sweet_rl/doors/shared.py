"""Worlds that are open while anyone plays in them, for tools that do not say when they begin and end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sweet_rl.doors.choice import WorldChoice
from sweet_rl.doors.opened import OpenWorld, open_world


class SharedWorld:
    """A world that is open while anyone plays in it; a task's repeats are counted on when it opens again.

    Args:
        choice: which one.
    """

    def __init__(self, choice: WorldChoice) -> None:
        self._choice = choice
        self._begun: Counter[str] = Counter()
        self._players = 0
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._world: OpenWorld | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenWorld]:
        """The world; the first player opens it, the last one closes it."""
        async with self._lock:
            if self._world is None:
                self._world = await self._stack.enter_async_context(
                    open_world(self._choice, begun=self._begun)
                )
            world = self._world
            self._players += 1
        try:
            yield world
        finally:
            async with self._lock:
                self._players -= 1
                if self._players == 0:
                    self._world = None
                    await self._stack.aclose()


_shared: dict[str, SharedWorld] = {}


def shared_world(choice: WorldChoice) -> SharedWorld:
    """The world of this choice that all callers share, for tools that make an object for every episode."""
    return _shared.setdefault(repr(choice), SharedWorld(choice))
