"""How many requests are sent to a server at once, adapted to its replies.

Additive increase and multiplicative decrease, with one level for each address, shared by clients. The level
begins low and grows threefold with each round of replies, until the server turns requests away (429, 503),
loses connections, or takes a large part of the time that a request may take. From then on it goes down by a
share where that happens and up by one in two rounds where it does not.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from sweet_rl.concurrency import place_in_order

FIRST_LEVEL: Final = 32.0
_STEEP, _GENTLE = 0.5, 0.85
_SLOW, _TOO_SLOW = 0.25, 0.5
"""Shares of the time-out: a reply that takes longer keeps the level as it is, or lowers it."""

Ticket = tuple[int, int]
"""Who waits longer has the smaller one."""

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Limiter]] = WeakKeyDictionary()


class Limiter:
    """Places at one server. Those who wait are served by age: of the episode, then of the request.

    So episodes (what `for_each` works on) end one after the other, and who was turned away comes first.

    While even single requests fail, only those that have failed are sent again, each when its own wait is
    over.
    """

    def __init__(self) -> None:
        self.level = FIRST_LEVEL
        self.turned_away = 0
        self.accepted_at = float("-inf")
        self._in_flight = 0
        self._resting = 0
        self._steep = True
        self._closed = False
        self._changed_at = float("-inf")
        self._accepted = 0
        self._tickets = itertools.count()
        self._waiting: list[tuple[Ticket, bool, asyncio.Future[None]]] = []

    def ticket(self) -> Ticket:
        """The age of a request among all that are sent here."""
        return place_in_order(), next(self._tickets)

    @property
    def closed(self) -> bool:
        """Whether the address refuses even single requests."""
        return self._closed

    @asynccontextmanager
    async def place(self, ticket: Ticket, *, again: bool = False) -> AsyncIterator[float]:
        """Wait for a place and hold it; yields the time, in seconds of the loop's clock, at which it was got.

        Args:
            ticket: the age of the request.
            again: it was turned away before.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (ticket, again, future))
        self._admit()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the place came together with the end
                self._leave()
            raise
        try:
            yield loop.time()
        finally:
            self._leave()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Around the wait of a request that is going to ask again."""
        self._resting += 1
        try:
            yield
        finally:
            self._resting -= 1
            self._admit()

    def served(self, seconds: float, timeout_s: float, sent_at: float) -> None:
        """The server has answered: grow where the level is what holds requests back."""
        now = asyncio.get_running_loop().time()
        self.accepted_at = now
        self._accepted += 1
        if self._closed:
            self._closed, self._steep = False, True
        if seconds > _TOO_SLOW * timeout_s:
            self._steep = False
            self.push_back(sent_at)
        elif seconds <= _SLOW * timeout_s and self._in_flight >= 0.75 * self.level:
            self.level += 2.0 if self._steep else 0.5 / self.level
        self._admit()

    def push_back(self, sent_at: float, *, turned_away: bool = False) -> None:
        """The server had too much to do. Requests sent before the last change of the level show nothing new.

        Args:
            sent_at: when the request was sent.
            turned_away: the server refused the request (429) rather than failing.
        """
        self.turned_away += turned_away
        if self.level <= 1:
            self._closed = True
        if sent_at < self._changed_at:
            return
        share = _GENTLE if 2 * self._accepted >= self.level else _STEEP
        self.level = max(1.0, share * min(self.level, float(self._in_flight)))
        self._changed_at = asyncio.get_running_loop().time()
        self._accepted, self._steep = 0, False

    def _leave(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._in_flight < int(self.level):
            _, again, future = self._waiting[0]
            if not future.done() and self._closed and self._resting and not again:
                return
            heapq.heappop(self._waiting)
            if not future.done():
                self._in_flight += 1
                future.set_result(None)


def limiter_of(base_url: str) -> Limiter:
    """The limiter of a server, shared by everybody in this event loop who asks at the same address."""
    parts = urlsplit(base_url)
    address = f"{parts.scheme}://{parts.netloc}".lower()
    by_address = _limiters.setdefault(asyncio.get_running_loop(), {})
    return by_address.setdefault(address, Limiter())
