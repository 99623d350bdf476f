"""An asynchronous client of one or several OpenAI-compatible servers.

One pool of connections for all episodes; a request goes to the endpoint with the fewest outstanding ones and,
when it is tried again, to another one if there is one.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp

from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client.retry import AttemptFailed, RequestFailed, RetryPolicy, failed_status
from sweet_rl.types import Failure, Json

T = TypeVar("T")

_PROBE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The first choice of a chat completion; `content` is None where the server sent null."""

    content: str | None
    finish_reason: str | None


@dataclass(slots=True)
class ClientStats:
    """What a client has done so far; `service_s` adds up the seconds of all successful requests."""

    requests: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    service_s: float = 0.0


@dataclass(slots=True)
class _Endpoint:
    base_url: str
    outstanding: int = 0


def base_url_from(hostname: str, port: int, base_url: str | None = None) -> list[str]:
    """Base URLs from flags: `base_url` (several are separated by commas), else `http://HOST:PORT/v1`.

    Raises:
        UsageError: not an http or https URL.
    """
    urls = [url.strip().rstrip("/") for url in (base_url or f"http://{hostname}:{port}/v1").split(",")]
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"A base URL looks like http://host:8000/v1, got {url!r}.")
    return urls


class OpenAIClient:
    """Sends requests, tries again what can pass, and says what cannot.

    Args:
        base_urls: one or several endpoints that offer the same models, each like `http://host:8000/v1`.
        api_key: sent as a bearer token; "EMPTY" (what local servers expect) when None. Never shown.
        retry: how often and how patiently.
        max_connections: connections open at once.
        sleep: waits between attempts; replaceable for tests.
        jitter: where the randomness of waits comes from.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        *,
        api_key: str | None = None,
        retry: RetryPolicy | None = None,
        max_connections: int = 1000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: random.Random | None = None,
    ) -> None:
        self.stats = ClientStats()
        self._endpoints = [_Endpoint(url.rstrip("/")) for url in base_urls]
        self._headers = {
            "Authorization": f"Bearer {api_key or 'EMPTY'}",
            "Content-Type": "application/json",
        }
        self._retry = retry or RetryPolicy()
        self._max_connections = max_connections
        self._sleep = sleep
        self._jitter = jitter or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._succeeded = False

    async def chat(self, body: Mapping[str, Json]) -> ChatReply:
        """One chat completion.

        Raises:
            RequestFailed: after the attempts, or at once where trying again is of no use.
            ServiceError: no server answers, or it refuses every request: a person must act.
        """
        return await self._send("chat/completions", body, _read_chat)

    async def complete(self, body: Mapping[str, Json]) -> list[dict[str, Json]]:
        """One text completion request; returns the raw choices.

        Raises:
            RequestFailed, ServiceError: as `chat`.
        """
        return await self._send("completions", body, _read_choices)

    async def models(self) -> list[dict[str, Json]]:
        """What the first endpoint offers.

        Raises:
            ServiceError: it does not answer, or refuses.
        """
        try:
            return await self._send("models", None, lambda data: [dict(model) for model in data["data"]])
        except RequestFailed as error:
            raise ServiceError(
                f"{self._endpoints[0].base_url} does not list its models ({error}). Check the address: "
                "it usually ends in /v1."
            ) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, route: str, body: Mapping[str, Json] | None, read: Callable[[dict[str, Json]], T]
    ) -> T:
        payload = None if body is None else json.dumps(body).encode()
        tried: set[int] = set()
        attempt = 0
        while True:
            attempt += 1
            index = min(
                range(len(self._endpoints)), key=lambda i: (i in tried, self._endpoints[i].outstanding)
            )
            try:
                result = await self._attempt(self._endpoints[index], route, payload, read)
            except AttemptFailed as failed:
                if failed.can_pass and attempt < self._retry.attempts:
                    self.stats.retries[failed.kind] += 1
                    tried = tried | {index} if len(tried) + 1 < len(self._endpoints) else set()
                    await self._sleep(self._retry.wait_s(attempt, failed.retry_after_s, self._jitter))
                    continue
                failure = Failure(failed.kind, failed.detail, failed.status, attempt)
            else:
                self._succeeded = True
                return result
            await self._raise_if_nobody_can_go_on(failure)
            raise RequestFailed(failure)

    async def _attempt(
        self,
        endpoint: _Endpoint,
        route: str,
        payload: bytes | None,
        read: Callable[[dict[str, Json]], T],
    ) -> T:
        """Send once; sort whatever goes wrong."""
        self.stats.requests += 1
        endpoint.outstanding += 1
        started = time.perf_counter()
        try:
            async with self._open_session().request(
                "GET" if payload is None else "POST",
                f"{endpoint.base_url}/{route}",
                data=payload,
                headers=self._headers,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                status, headers = response.status, response.headers
        except TimeoutError:
            raise AttemptFailed(
                "timeout", f"no whole answer within {self._retry.timeout_s:g} s", can_pass=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            detail = str(error) or type(error).__name__
            raise AttemptFailed("connection", detail, can_pass=True) from error
        finally:
            endpoint.outstanding -= 1
        if status >= 300:
            raise failed_status(status, headers, content)
        try:
            data = json.loads(content)
            result = read(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise AttemptFailed(
                "malformed_reply", f"{type(error).__name__}: {error}"[:300], can_pass=True
            ) from error
        self._count(data, time.perf_counter() - started)
        return result

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_connections),
                timeout=aiohttp.ClientTimeout(total=self._retry.timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _count(self, data: dict[str, Json], seconds: float) -> None:
        self.stats.service_s += seconds
        usage = data.get("usage")
        if isinstance(usage, dict):
            self.stats.prompt_tokens += int(usage.get("prompt_tokens") or 0)
            self.stats.completion_tokens += int(usage.get("completion_tokens") or 0)

    async def _raise_if_nobody_can_go_on(self, failure: Failure) -> None:
        """Tell a server that is gone, or that refuses us altogether, from one bad request.

        Raises:
            ServiceError: no endpoint answers at all, or none has ever accepted a request.
        """
        urls = ", ".join(endpoint.base_url for endpoint in self._endpoints)
        what = f"{failure.kind}{f' {failure.status}' if failure.status else ''}: {failure.detail}"
        if failure.kind in {"connection", "timeout"}:
            alive = await asyncio.gather(*(self._answers(endpoint) for endpoint in self._endpoints))
            if not any(alive):
                raise ServiceError(
                    f"No server answers at {urls} ({failure.attempts} attempts; the last one: {what}). Start "
                    "it or correct the address; what had finished is on disk, and --to_continue goes on."
                )
        if failure.kind == "refused" and not self._succeeded:
            raise ServiceError(
                f"{urls} refuses our requests ({what}). Check the model's name, the key and the address."
            )

    async def _answers(self, endpoint: _Endpoint) -> bool:
        """Whether there is an HTTP server at all, in whatever mood."""
        try:
            async with self._open_session().get(
                f"{endpoint.base_url}/models",
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=_PROBE_TIMEOUT_S),
            ):
                return True
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False


def _read_choices(data: dict[str, Json]) -> list[dict[str, Json]]:
    choices = data["choices"]
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise TypeError("choices is not a list of objects")
    if not choices:
        raise AttemptFailed("empty_reply", "the list of choices is empty", can_pass=True)
    return choices


def _read_chat(data: dict[str, Json]) -> ChatReply:
    choice = _read_choices(data)[0]
    content = choice["message"]["content"]
    if content is not None and not isinstance(content, str):
        raise TypeError(f"the content is {type(content).__name__}, not text")
    return ChatReply(content, choice.get("finish_reason"))
