"""The source of pages: a shop's server, or a shop in this process. Both are parsed by the same code."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import RequestFailed, RetryPolicy, shown
from sweet_rl.openai_client.replies import failed_status
from sweet_rl.openai_client.retries import AttemptFailed
from sweet_rl.types import Failure
from sweet_rl.worlds.webshop.pages import Address, OddPage

T = TypeVar("T")

PATIENCE: Final = RetryPolicy(timeout_s=30.0)
_PROBE_TIMEOUT_S: Final = 10.0


class Shop(Protocol):
    """Fetches pages for many episodes at once."""

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        """The page at `address`, read by `read`."""
        ...

    async def close(self) -> None:
        """Close connections; no page is asked for afterwards."""
        ...


class LocalShop:
    """A shop in this process: `get` gives the HTML at a percent-encoded path, or a LookupError."""

    def __init__(self, get: Callable[[str], str]) -> None:
        self._get = get

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        """The page at `address`. It is made at once: asking again would make it again as it is."""
        try:
            html = self._get(address.path)
        except LookupError as error:
            if address.raw:
                return read(_NOT_FOUND)
            detail = f"{address.readable}: {error}"
            raise RequestFailed(Failure("refused", detail[:_DETAIL], status=404)) from error
        try:
            return read(html)
        except OddPage as error:
            raise RequestFailed(_odd(address.readable, html, error, 1)) from error

    async def close(self) -> None:
        """Do nothing: the shop belongs to its maker."""


class HttpShop:
    """A shop's server: one pool of connections for all episodes, every request tried again if that may help."""

    def __init__(
        self,
        base_url: str,
        *,
        retry: RetryPolicy = PATIENCE,
        max_connections: int = 100,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.base_url = _checked(base_url)
        self.requests = 0
        self.retries: Counter[str] = Counter()
        self._retry = retry
        self._max_connections = max_connections
        self._sleep = sleep
        self._jitter = jitter or random.Random()
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        """The page at `address`."""
        url = f"{self.base_url}{address.readable}"
        attempt = 0
        while True:
            attempt += 1
            try:
                html = await self._attempt(address)
                return read(html)
            except OddPage as error:
                failure, can_pass, asked_s = _odd(url, html, error, attempt), True, None
            except AttemptFailed as failed:
                detail = f"{shown(url)}: {failed.detail}"[:_DETAIL]
                failure = Failure(failed.kind, detail, failed.status, attempt)
                can_pass, asked_s = failed.can_pass, failed.retry_after_s
            if not can_pass or attempt >= self._retry.attempts:
                if failure.kind in {"connection", "timeout"}:
                    await self._raise_if_nobody_answers(failure)
                raise RequestFailed(failure)
            self.retries[failure.kind] += 1
            await self._sleep(self._retry.wait_s(attempt, asked_s, self._jitter))

    async def close(self) -> None:
        """Close the HTTP session, if a page was ever asked for."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _attempt(self, address: Address) -> str:
        """Ask once; sort what goes wrong."""
        self.requests += 1
        if self._session is None:
            self._session = self._open(self._retry.timeout_s)
        try:
            url = URL(self.base_url + address.path, encoded=True)
            async with self._session.get(url) as response:
                content, status, headers = await response.read(), response.status, response.headers
        except TimeoutError:
            raise AttemptFailed(
                "timeout", f"no whole page within {self._retry.timeout_s:g} s", can_pass=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            raise AttemptFailed("connection", str(cause) or type(cause).__name__, can_pass=True) from error
        shown = address.raw and status not in _OUT_OF_SERVICE
        if status >= 300 and not shown:
            raise failed_status(status, headers, content)
        return content.decode("utf-8", "replace")

    def _open(self, timeout_s: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _raise_if_nobody_answers(self, failure: Failure) -> None:
        """Distinguish a server that is gone from one bad request."""
        try:
            # a session of its own: neither a full pool nor a stale connection may pass for a dead server
            async with self._open(_PROBE_TIMEOUT_S) as session, session.get(self.base_url):
                return
        except (aiohttp.ClientError, OSError):
            raise ServiceError(
                f"No shop answers at {shown(self.base_url)} ({failure.attempts} attempts; the last one: "
                f"{failure.kind}: {failure.detail}). Correct the address or start it; `sweet-rl serve_shop` "
                "starts one that needs nothing. What had finished is kept."
            ) from None


_NOT_FOUND: Final = "<html><title>404</title><h1>Not Found</h1><p>There is no such page.</p></html>"
_OUT_OF_SERVICE: Final = frozenset({429, 502, 503, 504})
"""Says nothing about the page that was asked for."""

_DETAIL: Final = 400
"""Characters of a failure's detail: an address and the beginning of what came."""


def _odd(url: str, html: str, error: OddPage, attempts: int) -> Failure:
    begins = " ".join(html.split())[:120]
    return Failure(
        "odd_page", f"{shown(url)[:200]}: {error}; the page begins {begins!r}"[:_DETAIL], attempts=attempts
    )


def _checked(base_url: str) -> str:
    url = base_url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is not a number
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        good = False
    if not good or "@" in url:
        raise UsageError(f"A shop's address looks like http://127.0.0.1:3000, got {shown(base_url)!r}.")
    return url
