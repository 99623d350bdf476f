"""An asynchronous client of one or several OpenAI-compatible servers.

One pool of connections for all episodes; a request goes to the endpoint with the fewest outstanding ones and,
when it is tried again, to another one if there is one. How many are sent at once is found out from what each
server does (`sweet_rl.openai_client.retries`); waiting for a place counts against no time-out.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from sweet_rl import tracking
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client import base_url_from, shown
from sweet_rl.openai_client.dialect import Dialect
from sweet_rl.openai_client.replies import ChatReply, body_of, failed_status, read_chat, read_texts
from sweet_rl.openai_client.retries import AttemptFailed, RequestFailed, RetryPolicy, Spent, limiter_of
from sweet_rl.types import Failure, Json

T = TypeVar("T")
Fields = dict[str, Json]
Read = Callable[[Fields], T]
"""Reads a reply."""

_RESUME = "What had finished is on disk: the same command (with --to_continue where it has it) resumes it."
_PROBE_TIMEOUT_S: Final = 10.0
_START_S: Final = 1.0
"""How often a server that is starting is asked."""
_REST_S: Final = 5.0
"""How long an endpoint that could not be reached is passed over. A dead one fails at once, so it would
always have the fewest outstanding requests, and draw them all."""
_OWN: Final = {"context_full", "only_thoughts", "model_refused", "tool_call"}
"""Failures of one request that say nothing about the others."""
_HANDFUL: Final = 5
"""So many failures and nothing accepted: the server refuses everything."""


@dataclass(slots=True)
class ClientStats(tracking.Usage):
    """What a client has done so far; `first_failure` is the first request that was given up."""

    first_failure: Failure | None = None


@dataclass(slots=True, eq=False)
class _Endpoint:
    base_url: str
    proxy: str | None = None
    outstanding: int = 0
    resting_until: float = 0.0

    def url(self, route: str) -> str:
        """Of a route; what a query holds (an API's version, a key) belongs behind it."""
        place, mark, query = self.base_url.partition("?")
        return f"{place.rstrip('/')}/{route}{mark}{query}"


def not_answered(error: Exception, timeout_s: float, proxy: str | None = None) -> AttemptFailed:
    """The attempt that failed with this error of `aiohttp`."""
    if isinstance(error, TimeoutError):
        return AttemptFailed("timeout", f"no whole answer within {timeout_s:g} s")
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    by = f" through the proxy {urlsplit(proxy).hostname}" if proxy else ""
    starting = isinstance(cause, ConnectionRefusedError)
    return AttemptFailed("connection", (str(cause) or type(cause).__name__) + by, starting=starting)


async def tried(
    once: Callable[[], Awaitable[T]], policy: RetryPolicy, sleep: Callable[[float], Awaitable[None]]
) -> T:
    """What an attempt brings, repeated as the policy says: for servers that speak something else than this client.

    Raises:
        RequestFailed: after all attempts, or at once where another one cannot help.
    """
    source, attempt = random.Random(), 1
    while True:
        try:
            return await once()
        except AttemptFailed as failed:
            if not failed.can_pass or attempt >= policy.attempts:
                raise RequestFailed(Failure(failed.kind, failed.detail, failed.status, attempt)) from failed
            await sleep(policy.wait_s(attempt, failed.retry_after_s, source))
            attempt += 1


class OpenAIClient:
    """Sends requests and retries those that may still succeed.

    Args:
        base_urls: like `http://host:8000/v1`; in a list, several that serve the same models.
        api_key: sent as a bearer token; "EMPTY" (what local servers expect) when None. Never shown.
        retry: how often and how patiently a request is tried.
        request: fields that override those of every request; None removes one.
        headers: HTTP headers that override ours.
        direct: bypass the environment's proxies, for a server of our own on this machine.
        max_connections: requests of this client in flight at once.
        sleep: waits between attempts; replaceable for tests.
        jitter: source of the waits' randomness.
        named_by: a sentence that says which flags name the server, for error messages.

    Raises:
        UsageError: no address, or a key that no HTTP header can carry.
    """

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        api_key: str | None = None,
        retry: RetryPolicy | None = None,
        request: Mapping[str, Json] | None = None,
        headers: Mapping[str, str] | None = None,
        direct: bool = False,
        max_connections: int = 1000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: random.Random | None = None,
        named_by: str = "",
    ) -> None:
        self.stats = tracking.joining(ClientStats())
        urls = [base_urls] if isinstance(base_urls, str) else base_urls
        if not urls or not (isinstance(urls, Sequence) and all(isinstance(url, str) for url in urls)):
            problem = "base_urls must be an address like http://host:8000/v1, or several"
            raise UsageError(f"{problem}, got {urls!r}.")
        self._endpoints: list[_Endpoint] = []
        proxies = {} if direct else getproxies()  # those of the environment, as other programs read them
        for url in (url for one in urls for url in base_url_from("", 0, one)):
            parts = urlsplit(url)
            known = proxies and not proxy_bypass(parts.netloc)
            proxy = proxies.get(parts.scheme) or proxies.get("all") if known else None
            self._endpoints.append(_Endpoint(url, proxy))
        self._key = (api_key or "").strip() or "EMPTY"
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError("The API key holds characters that no key has; check where it comes from.")
        self._retry = retry or RetryPolicy()
        self._free = asyncio.Semaphore(max_connections)
        self._sleep = sleep
        self._jitter = jitter or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._named_by = f" {named_by}" if named_by else ""
        self._request, self._headers = dict(request or {}), dict(headers or {})
        self._dialects: dict[str, Dialect] = {}
        self._heard = self._accepted = False
        self._under_way: dict[object, float] = {}  # when each was sent
        self._refused_at: list[float] = []
        self._waits_until: float | None = None

    async def chat(self, body: Mapping[str, Json], *, any_reply: bool = False) -> ChatReply:
        """One chat completion.

        Args:
            body: the request.
            any_reply: accept silence, thoughts alone, a refusal or a tool call as the reply of an agent;
                otherwise the request has failed.

        Raises:
            RequestFailed: after all attempts, or at once where a retry cannot help.
            ServiceError: no server answers, or it refuses every request: a person must act.
        """
        reply, sent = await self._send("chat/completions", body, partial(read_chat, any_reply=any_reply))
        as_given = sent.get("messages") == body.get("messages")
        return reply if as_given else replace(reply, sent=sent["messages"])

    async def complete(self, body: Mapping[str, Json]) -> list[dict[str, Json]]:
        """One text completion request; returns the raw choices.

        Raises:
            RequestFailed, ServiceError: as `chat`.
        """
        return (await self._send("completions", body, read_texts))[0]

    async def models(self, *, needed: bool = True) -> list[dict[str, Json]]:
        """What an endpoint offers.

        Args:
            needed: else a server that answers and has no such list offers none.

        Raises:
            ServiceError: it does not answer, or refuses.
        """
        try:
            found = await self._send("models", None, lambda data: [*map(dict, data["data"])], needed=needed)
            return found[0]
        except RequestFailed as error:
            if not needed:
                return []
            raise ServiceError(
                f"{self._urls} does not list its models ({error.failure}). Check the address: it usually ends in /v1."
            ) from error

    async def close(self) -> None:
        """Close the HTTP session, if a request was ever sent."""
        if self._session is not None:
            await self._session.close()

    @property
    def _urls(self) -> str:
        return ", ".join(shown(endpoint.base_url) for endpoint in self._endpoints)

    async def _send(
        self, route: str, body: Mapping[str, Json] | None, read: Read[T], *, needed: bool = True
    ) -> tuple[T, Fields]:
        """What was read of the reply, and the request as the server took it."""
        asking, own = body is not None, self._request if body is not None else {}
        wanted = {**(body or {}), **own}
        wanted = {name: value for name, value in wanted.items() if value is not None or name not in own}
        dialect = self._dialects.setdefault(str(wanted.get("model", "")), Dialect())
        if asking:
            self.stats.model = str(wanted.get("model", ""))
        tried: set[_Endpoint] = set()
        spent = Spent(self._retry, asyncio.get_running_loop().time())

        def load(one: _Endpoint) -> tuple[bool, bool, float]:
            level = limiter_of(one.base_url).level
            return one in tried, one.resting_until > time.monotonic(), one.outstanding / level

        async with self._free:
            while True:
                if len(tried) == len(self._endpoints):
                    tried.clear()
                endpoint = min(self._endpoints, key=load)
                sent = dialect.applied(wanted)
                try:
                    result = await self._attempt(endpoint, route, sent if asking else None, read, spent)
                except AttemptFailed as failed:
                    change = dialect.learn(wanted, sent, failed) if asking else None
                    if change is not None:
                        self.stats.retries["adapted"] += 1
                        if change:  # said once, and recorded: what is sent is not what was meant
                            words = f"{shown(endpoint.base_url)} refused a request ({shown(failed.detail)}): {change}"
                            self.stats.changes.append(words)
                            print(f"{words}, from now on.", file=sys.stderr)
                        continue
                    alive = limiter_of(endpoint.base_url).accepted_at >= spent.began
                    wait_s = self._until_it_is_up(endpoint, failed)
                    in_vain = self._waits_until is not None and not self._heard and failed.starting
                    if wait_s is None and not in_vain:
                        wait_s = spent.wait_s(failed, self._jitter, alive=alive)
                    if wait_s is None:
                        failure = Failure(failed.kind, shown(failed.detail), failed.status, spent.requests)
                        if needed or failure.status is None or failure.status in {401, 403}:
                            await self._give_up(failure, asking=asking)
                        raise RequestFailed(failure) from failed
                    self.stats.retries[failed.kind] += 1
                    tried.add(endpoint)
                    if failed.kind == "connection" and not alive:
                        endpoint.resting_until = time.monotonic() + _REST_S
                else:
                    self._heard, self._accepted = True, self._accepted or asking
                    return result, sent
                await self._sleep(wait_s)

    def _until_it_is_up(self, endpoint: _Endpoint, failed: AttemptFailed) -> float | None:
        """Seconds to wait for a server that has never answered and may be starting; None: it is not waited for."""
        if self._heard or not failed.starting or not self._retry.server_wait_s:
            return None
        now = time.monotonic()
        if self._waits_until is None:
            self._waits_until = now + self._retry.server_wait_s
            most = f"{self._retry.server_wait_s:g} s (--server_wait_s)"
            why = shown(failed.detail) or failed.kind
            said = f"{shown(endpoint.base_url)} is not up yet ({why}): waiting for it, at most {most}."
            print(said, file=sys.stderr)
        return _START_S if now < self._waits_until else None

    async def _attempt(
        self, endpoint: _Endpoint, route: str, body: Fields | None, read: Read[T], spent: Spent
    ) -> T:
        """Wait for a place and send once; the server's limiter learns from what becomes of it."""
        limiter, mark = limiter_of(endpoint.base_url), object()
        payload = None if body is None else json.dumps(body).encode()
        spent.ticket = spent.ticket or limiter.ticket()
        endpoint.outstanding += 1
        try:
            async with limiter.place(spent.ticket) as sent_at:
                tracking.asks(self.stats)
                spent.requests += 1
                self._under_way[mark] = sent_at
                started = time.perf_counter()
                try:
                    data, result = await self._exchange(endpoint, route, payload, read)
                except AttemptFailed as failed:
                    if failed.overload:
                        limiter.push_back(sent_at)
                    raise
                finally:
                    del self._under_way[mark]
                seconds = time.perf_counter() - started
                limiter.served(seconds, self._retry.timeout_s, sent_at)
        finally:
            endpoint.outstanding -= 1
        self.stats.service_s += seconds
        if payload is not None:  # tokens as the server counts them; unknown where it does not say
            usage = data.get("usage")
            counts = usage if isinstance(usage, dict) else {}
            details = counts.get("completion_tokens_details")
            numbers = [counts.get("prompt_tokens"), counts.get("completion_tokens")]
            numbers.append(details.get("reasoning_tokens") if isinstance(details, dict) else 0)
            prompt, completion, thought = (number if isinstance(number, int) else None for number in numbers)
            self.stats.add(prompt, completion)
            self.stats.reasoning_tokens += thought or 0
        return result

    async def _exchange(
        self, endpoint: _Endpoint, route: str, payload: bytes | None, read: Read[T]
    ) -> tuple[Fields, T]:
        """Send once; sort whatever goes wrong. Returns the reply, and what was read of it."""
        if self._session is None:
            self._session = self._new_session(self._retry.timeout_s)
            weakref.finalize(self, _close_behind, self._session, asyncio.get_running_loop())
        method = "GET" if payload is None else "POST"
        try:
            async with self._session.request(
                method, endpoint.url(route), data=payload, allow_redirects=False, proxy=endpoint.proxy
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise not_answered(error, self._retry.timeout_s, endpoint.proxy) from error
        # some servers repeat the key in their messages
        clean = content if self._key == "EMPTY" else content.replace(self._key.encode(), b"[key]")
        if response.status >= 300:
            raise failed_status(response.status, response.headers, clean)
        try:
            data = body_of(content)
            return data, read(data)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            begins = clean[:100].decode("utf-8", "replace")
            detail = f"{type(error).__name__}: {error}; the reply begins {begins!r}"
            raise AttemptFailed("malformed_reply", detail) from error

    def _new_session(self, timeout_s: float) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # places are given out before
            headers=headers | self._headers,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def _give_up(self, failure: Failure, *, asking: bool) -> None:
        """Count a request that failed for good.

        Raises:
            ServiceError: the run cannot continue: nobody answers, our identity is refused, the account is empty, or
                a handful failed and nothing was ever accepted. Requests that were under way when the first of those
                failed are waited for; what says nothing about other requests does not count.
        """
        self.stats.failed[failure.kind] += 1
        self.stats.first_failure = self.stats.first_failure or failure
        if failure.kind == "quota":
            raise ServiceError(f"The account behind the key is used up ({failure}). {_RESUME}")
        if failure.kind in {"connection", "timeout"}:
            offers = await asyncio.gather(*map(self._offer, self._endpoints))
            if all(offer is None for offer in offers):
                raise ServiceError(
                    f"No server answers at {self._urls} ({failure.attempts} attempts; the last one: "
                    f"{failure}). Correct the address or start it.{self._named_by} {_RESUME}"
                )
        if self._accepted or failure.kind in _OWN or not (asking or failure.kind == "refused"):
            return
        if failure.kind != "refused":
            self._refused_at.append(asyncio.get_running_loop().time())
            oldest = next(iter(self._under_way.values()), self._refused_at[0])
            if len(self._refused_at) < _HANDFUL or oldest < self._refused_at[0]:
                return
        offered = ", ".join(await self._offer(self._endpoints[0]) or ())
        there = f" It offers {offered}." if offered else ""
        if failure.status == 404 and not offered:
            there = " The addresses of most servers end in /v1."
        raise ServiceError(
            f"{self._urls} refuses our requests ({failure}). Check the model's name, the key "
            f"and the address.{self._named_by}{there}"
        )

    async def _offer(self, endpoint: _Endpoint) -> list[str] | None:
        """Names of an endpoint's models, none where it does not say; None if there is no HTTP server."""
        answered = False
        try:
            # a session of its own: neither a full pool nor a stale connection may pass for a dead server
            async with (
                self._new_session(_PROBE_TIMEOUT_S) as session,
                session.get(endpoint.url("models"), proxy=endpoint.proxy) as response,
            ):
                answered = True
                return [str(model["id"]) for model in (await response.json(content_type=None))["data"]]
        except (aiohttp.ClientError, OSError, ValueError, LookupError, TypeError):
            return [] if answered else None


def _close_behind(session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
    """Close the session of a client that nobody closed, when the client goes or the process ends."""
    if loop.is_closed() or asyncio._get_running_loop() is loop:
        with suppress(StopIteration):
            session.close().send(None)
    elif loop.is_running() and not session.closed:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(session.close(), loop).result(timeout=1)
