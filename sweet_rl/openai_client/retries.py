"""Which failures of a request are retried, and how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from sweet_rl.concurrency import place_in_order
from sweet_rl.errors import UsageError
from sweet_rl.types import Failure

if TYPE_CHECKING:
    from sweet_rl.openai_client.replies import ServerError

_OVERLOADED = {502, 503, 504, 529}

MOST_LOST: Final = 12
"""Connections that one request may lose while its server answers others."""
_CROWDED_WAIT_S: Final = 5.0
"""The longest wait of our own choosing for who was turned away: a place may be free any moment."""


class RequestFailed(Exception):
    """One request has failed for good; `failure` is recorded in the episode's row."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(f"{failure.kind}: {failure.detail}")

    def __reduce__(self) -> tuple[type[RequestFailed], tuple[Failure]]:
        return RequestFailed, (self.failure,)


class AttemptFailed(Exception):
    """One attempt has failed. Can another succeed? `error` is what the server said, which may be `starting`."""

    def __init__(
        self, kind: str, detail: str, *, can_pass: bool = True, status: int | None = None,
        retry_after_s: float | None = None, error: ServerError | None = None, starting: bool = False,
    ) -> None:  # fmt: skip
        self.kind, self.detail, self.can_pass = kind, detail, can_pass
        self.status, self.retry_after_s, self.error = status, retry_after_s, error
        self.starting = starting or status == 503
        asks = status is not None and status >= 500 and retry_after_s is not None
        # the server is well, and asks for patience
        self.turned_away = can_pass and (kind == "rate_limited" or asks)
        self.overload = self.turned_away or kind in {"connection", "timeout"} or status in _OVERLOADED
        super().__init__(f"{kind}: {detail}")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a request is tried.

    A request that is turned away (429, or a 5xx with Retry-After) has not failed: it uses up patience and no
    attempts. So does one whose connection is lost while the server answers others, `MOST_LOST` times at most.

    Args:
        attempts: requests that may fail, the first one included.
        timeout_s: seconds that one attempt may take in all, so that a slow drip ends too. Waiting for its
            turn does not count.
        patience_s: seconds that one request may wait in all after being turned away.
        first_wait_s: longest wait before the second attempt; it doubles with each further one.
        max_wait_s: longest wait of our own choosing.
        max_retry_after_s: longest wait that a server may ask for.
        server_wait_s: how long a server that has not answered yet is waited for while it starts: while it
            refuses connections, or answers 503.

    Raises:
        UsageError: no attempt, or no time for one.
    """

    attempts: int = 4
    timeout_s: float = 120.0
    patience_s: float = 300.0
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    max_retry_after_s: float = 60.0
    server_wait_s: float = 0.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.timeout_s <= 0 or self.patience_s < 0:
            raise UsageError(
                "A request needs at least 1 attempt, more than 0 seconds for it and no negative patience, "
                f"got {self.attempts}, {self.timeout_s:g} s and {self.patience_s:g} s."
            )

    def wait_s(
        self, failed_attempts: int, asked_s: float | None, source: random.Random, most_s: float | None = None
    ) -> float:
        """Seconds to wait: exponential with jitter, but never less than the server asked for."""
        doublings = min(failed_attempts - 1, 64)  # beyond that a float overflows sooner or later
        longest = min(self.max_wait_s if most_s is None else most_s, self.first_wait_s * 2.0**doublings)
        return max(longest * source.uniform(0.5, 1.0), min(asked_s or 0.0, self.max_retry_after_s))


@dataclass(slots=True)
class Spent:
    """What one request has used up of its policy; `requests` is how often it was sent."""

    policy: RetryPolicy
    began: float
    requests: int = 0
    ticket: Ticket | None = None
    _charged: int = 0
    _lost: int = 0
    _waited_s: float = 0.0

    def wait_s(self, failed: AttemptFailed, source: random.Random, *, alive: bool) -> float | None:
        """Charge a failed attempt; seconds until the next, None for none. `alive`: the server has answered others."""
        if not failed.can_pass:
            return None
        lost = failed.kind == "connection" and alive and self._lost < MOST_LOST
        patient = failed.turned_away or lost
        self._lost += lost
        self._charged += not patient
        most_s = _CROWDED_WAIT_S if patient else None
        wait_s = self.policy.wait_s(self.requests, failed.retry_after_s, source, most_s)
        self._waited_s += wait_s if patient else 0.0
        if self._charged >= self.policy.attempts or self._waited_s > self.policy.patience_s:
            return None
        return wait_s


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header, which holds a number or an HTTP date."""
    value = headers.get("Retry-After", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        with suppress(TypeError, ValueError, OverflowError):
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    return None


FIRST_LEVEL: Final = 32.0
_STEEP, _GENTLE = 0.5, 0.85
_SLOW, _TOO_SLOW = 0.25, 0.5
"""Shares of the time-out: a reply that takes longer keeps the level as it is, or lowers it."""

Ticket = tuple[int, int]
"""Who waits longer has the smaller one."""

_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Limiter]] = WeakKeyDictionary()


class Limiter:
    """Places at one server, given by age: of the episode (what `for_each` works on), then of the request."""

    def __init__(self) -> None:
        self.level = FIRST_LEVEL
        self.accepted_at = self._changed_at = float("-inf")
        self._in_flight = self._accepted = 0
        self._steep = True
        self._tickets = itertools.count()
        self._waiting: list[tuple[Ticket, asyncio.Future[None]]] = []

    def ticket(self) -> Ticket:
        """The age of a request among all that are sent here."""
        return place_in_order(), next(self._tickets)

    @asynccontextmanager
    async def place(self, ticket: Ticket) -> AsyncIterator[float]:
        """Wait for a place and hold it; yields the loop's time at which it was got."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (ticket, future))
        self._admit()
        try:
            await future
            yield loop.time()
        finally:
            if future.done() and not future.cancelled():  # also where the place came together with the end
                self._in_flight -= 1
                self._admit()

    def served(self, seconds: float, timeout_s: float, sent_at: float) -> None:
        """The server has answered: grow where the level is what holds requests back."""
        self.accepted_at = asyncio.get_running_loop().time()
        self._accepted += 1
        if seconds > _TOO_SLOW * timeout_s:
            self._steep = False
            self.push_back(sent_at)
        elif seconds <= _SLOW * timeout_s and self._in_flight >= 0.75 * self.level:
            self.level += 2.0 if self._steep else 0.5 / self.level
        self._admit()

    def push_back(self, sent_at: float) -> None:
        """The server had too much to do. Requests sent before the last change of the level show nothing new."""
        if sent_at < self._changed_at:
            return
        share = _GENTLE if 2 * self._accepted >= self.level else _STEEP
        self.level = max(1.0, share * min(self.level, float(self._in_flight)))
        self._changed_at = asyncio.get_running_loop().time()
        self._accepted, self._steep = 0, False

    def _admit(self) -> None:
        while self._waiting and self._in_flight < int(self.level):
            _, future = heapq.heappop(self._waiting)
            if not future.done():
                self._in_flight += 1
                future.set_result(None)


def limiter_of(base_url: str) -> Limiter:
    """The limiter of a server, shared by everybody in this event loop who asks at the same address."""
    parts = urlsplit(base_url)
    address = f"{parts.scheme}://{parts.netloc}".lower()
    by_address = _limiters.setdefault(asyncio.get_running_loop(), {})
    return by_address.setdefault(address, Limiter())
