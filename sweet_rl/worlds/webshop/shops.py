"""The source of pages: a shop's server, or a shop in this process. Both are parsed by the same code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import aiohttp
from yarl import URL

from sweet_rl.errors import ServiceError
from sweet_rl.openai_client import RequestFailed, RetryPolicy, base_url_from, shown
from sweet_rl.openai_client.client import not_answered, tried
from sweet_rl.openai_client.replies import failed_status
from sweet_rl.openai_client.retries import AttemptFailed
from sweet_rl.types import Failure
from sweet_rl.worlds.webshop.pages import Address, OddPage

T = TypeVar("T")

PATIENCE: Final = RetryPolicy(timeout_s=30.0)
_NOT_FOUND: Final = "<html><title>404</title><h1>Not Found</h1><p>There is no such page.</p></html>"
_OUT_OF_SERVICE: Final = frozenset({429, 502, 503, 504})
"""Says nothing about the page that was asked for."""
_DETAIL: Final = 400
"""Characters of a failure's detail: an address and the beginning of what came."""


class Shop(Protocol):
    """Fetches pages for many episodes at once."""

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        """The page at `address`, read by `read`."""

    async def close(self) -> None:
        """Close connections; no page is asked for afterwards."""


class LocalShop:
    """A shop in this process: `get` gives the HTML at a percent-encoded path, or a LookupError."""

    def __init__(self, get: Callable[[str], str]) -> None:
        self._get = get

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        try:
            html = self._get(address.path)
        except LookupError as error:
            if address.raw:
                return read(_NOT_FOUND)
            failure = Failure("refused", f"{address.readable}: {error}"[:_DETAIL], status=404)
            raise RequestFailed(failure) from error
        try:
            return read(html)
        except OddPage as error:
            detail = f"{address.readable[:200]}: {_odd(html, error).detail}"[:_DETAIL]
            raise RequestFailed(Failure("odd_page", detail, attempts=1)) from error

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
    ) -> None:
        (self.base_url,) = base_url_from("", 0, base_url or "no address")
        self._retry, self._max_connections, self._sleep = retry, max_connections, sleep
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, address: Address, read: Callable[[str], T]) -> T:
        if self._session is None:
            self._session = self._open(self._retry.timeout_s)
        asked = self._session.get

        async def once() -> T:
            try:
                async with asked(URL(self.base_url + address.path, encoded=True)) as response:
                    content, status, headers = await response.read(), response.status, response.headers
            except (aiohttp.ClientError, OSError) as error:
                raise not_answered(error, self._retry.timeout_s) from error
            if status >= 300 and (status in _OUT_OF_SERVICE or not address.raw):
                raise failed_status(status, headers, content)
            html = content.decode("utf-8", "replace")
            try:
                return read(html)
            except OddPage as error:
                raise _odd(html, error) from error

        try:
            return await tried(once, self._retry, self._sleep)
        except RequestFailed as error:
            url = shown(f"{self.base_url}{address.readable}")
            failure = replace(error.failure, detail=f"{url[:200]}: {error.failure.detail}"[:_DETAIL])
        if failure.kind in {"connection", "timeout"}:
            try:
                # a session of its own: neither a full pool nor a stale connection may pass for a dead server
                async with self._open(10.0) as session, session.get(self.base_url):
                    pass
            except (aiohttp.ClientError, OSError):
                raise ServiceError(
                    f"No shop answers at {shown(self.base_url)} ({failure.attempts} attempts; the last one: "
                    f"{failure.kind}: {failure.detail}). Correct the address or start it; `sweet-rl serve_shop` "
                    "starts one that needs nothing. What had finished is kept."
                ) from None
        raise RequestFailed(failure)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self, timeout_s: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def _odd(html: str, error: OddPage) -> AttemptFailed:
    return AttemptFailed("odd_page", f"{error}; the page begins {' '.join(html.split())[:120]!r}")
