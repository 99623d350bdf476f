"""An asynchronous client of one or several OpenAI-compatible servers.

One pool of connections for all episodes; a request goes to the endpoint with the fewest outstanding ones and,
when it is tried again, to another one if there is one. How many are sent at once is found out from what each
server does (`sweet_rl.openai_client.limiter`); waiting for a place counts against no time-out.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import aiohttp

from sweet_rl import tracking
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.openai_client.limiter import Limiter, limiter_of
from sweet_rl.openai_client.retry import (
    AttemptFailed,
    Refusals,
    RequestFailed,
    RetryPolicy,
    Spent,
    failed_status,
)
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import Failure, Json

T = TypeVar("T")

_THOUGHTS: Final = ("reasoning_content", "reasoning")
"""Where servers put what a model thought: vLLM and DeepSeek, and OpenRouter and newer vLLMs."""

_RESUME: Final = (
    "What had finished is on disk: the same command (with --to_continue where it has it) resumes it."
)
_PROBE_TIMEOUT_S: Final = 10.0
_REST_S: Final = 5.0
"""How long an endpoint that could not be reached is passed over. A dead one fails at once, so it would
always have the fewest outstanding requests, and draw them all."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The first choice of a chat completion.

    `content` is the model's reply; `thoughts` the reasoning before it, in a field of its own or between
    tags.
    """

    content: str
    finish_reason: str | None
    thoughts: str | None = None


@dataclass(slots=True)
class ClientStats(tracking.Usage):
    """What a client has done so far; `first_failure` is the first request that was given up."""

    first_failure: Failure | None = None


@dataclass(slots=True, eq=False)
class _Endpoint:
    base_url: str
    outstanding: int = 0
    resting_until: float = 0.0

    @property
    def limiter(self) -> Limiter:
        return limiter_of(self.base_url)


class OpenAIClient:
    """Sends requests, tries again what can pass, and says what cannot.

    Args:
        base_urls: one or several endpoints that offer the same models, each like `http://host:8000/v1`.
        api_key: sent as a bearer token; "EMPTY" (what local servers expect) when None. Never shown.
        retry: how often and how patiently.
        max_connections: requests of this client in flight at once.
        sleep: waits between attempts; replaceable for tests.
        jitter: where the randomness of waits comes from.
        named_by: a sentence that says which flags name the server, for the person who can correct them.

    Raises:
        UsageError: a key that no HTTP header can carry.
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
        named_by: str = "",
    ) -> None:
        self.stats = tracking.joining(ClientStats())
        self._endpoints = [_Endpoint(url.rstrip("/")) for url in base_urls]
        self._key = (api_key or "").strip() or "EMPTY"
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError("The API key holds characters that no key has; check where it comes from.")
        self._retry = retry or RetryPolicy()
        self._free = asyncio.Semaphore(max_connections)
        self._sleep = sleep
        self._jitter = jitter or random.Random()
        self._session: aiohttp.ClientSession | None = None
        self._named_by = f" {named_by}" if named_by else ""
        self._refusals = Refusals()

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
        return await self._send("completions", body, _read_texts)

    async def models(self) -> list[dict[str, Json]]:
        """What an endpoint offers.

        Raises:
            ServiceError: it does not answer, or refuses.
        """
        try:
            return await self._send("models", None, lambda data: [dict(model) for model in data["data"]])
        except RequestFailed as error:
            raise ServiceError(
                f"{self._urls} does not list its models ({error.failure}). Check the address: it "
                "usually ends in /v1."
            ) from error

    async def close(self) -> None:
        """Close the HTTP session, if a request was ever sent."""
        if self._session is not None:
            await self._session.close()

    @property
    def _urls(self) -> str:
        return ", ".join(endpoint.base_url for endpoint in self._endpoints)

    async def _send(
        self, route: str, body: Mapping[str, Json] | None, read: Callable[[dict[str, Json]], T]
    ) -> T:
        payload = None if body is None else json.dumps(body).encode()
        if body is not None:
            self.stats.model = str(body.get("model", ""))
        tried: set[_Endpoint] = set()
        spent = self._retry.begin(asyncio.get_running_loop().time())
        async with self._free:
            while True:
                endpoint = self._choose(tried)
                try:
                    result = await self._attempt(endpoint, route, payload, read, spent)
                except AttemptFailed as failed:
                    limiter = endpoint.limiter
                    alive = limiter.accepted_at >= spent.began
                    wait_s = spent.wait_s(failed, self._jitter, alive=alive, closed=limiter.closed)
                    if wait_s is None:
                        failure = Failure(failed.kind, failed.detail, failed.status, spent.requests)
                        await self._give_up(failure, asking=payload is not None)
                        raise RequestFailed(failure) from failed
                    self.stats.retries[failed.kind] += 1
                    tried.add(endpoint)
                    if failed.kind == "connection" and not alive:
                        endpoint.resting_until = time.monotonic() + _REST_S
                else:
                    self._refusals.accepted = self._refusals.accepted or body is not None
                    return result
                with limiter.rest():
                    await self._sleep(wait_s)

    def _choose(self, tried: set[_Endpoint]) -> _Endpoint:
        if len(tried) == len(self._endpoints):
            tried.clear()
        now = time.monotonic()
        return min(
            self._endpoints,
            key=lambda endpoint: (
                endpoint in tried,
                endpoint.resting_until > now,
                endpoint.outstanding / endpoint.limiter.level,
            ),
        )

    async def _attempt(
        self,
        endpoint: _Endpoint,
        route: str,
        payload: bytes | None,
        read: Callable[[dict[str, Json]], T],
        spent: Spent,
    ) -> T:
        """Wait for a place and send once; the server's limiter learns from what becomes of it."""
        limiter = endpoint.limiter
        if spent.ticket is None:
            spent.ticket = limiter.ticket()
        endpoint.outstanding += 1
        try:
            async with limiter.place(spent.ticket, again=spent.requests > 0) as sent_at:
                tracking.asks(self.stats)
                spent.requests += 1
                with self._refusals.under_way(sent_at):
                    try:
                        result, seconds = await self._exchange(endpoint, route, payload, read)
                    except AttemptFailed as failed:
                        if failed.overload:
                            limiter.push_back(sent_at, turned_away=failed.back_pressure)
                        raise
                limiter.served(seconds, self._retry.timeout_s, sent_at)
                return result
        finally:
            endpoint.outstanding -= 1

    async def _exchange(
        self, endpoint: _Endpoint, route: str, payload: bytes | None, read: Callable[[dict[str, Json]], T]
    ) -> tuple[T, float]:
        """Send once; sort whatever goes wrong. Returns what was read and the seconds that it took."""
        started = time.perf_counter()
        try:
            async with self._open_session().request(
                "GET" if payload is None else "POST",
                f"{endpoint.base_url}/{route}",
                data=payload,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                status, headers = response.status, response.headers
        except TimeoutError:
            raise AttemptFailed(
                "timeout", f"no whole answer within {self._retry.timeout_s:g} s", can_pass=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            detail = str(cause) or type(cause).__name__
            raise AttemptFailed("connection", detail, can_pass=True) from error
        if status >= 300:
            raise failed_status(status, headers, self._without_key(content))
        try:
            data = json.loads(content)
            if b"\\ud" in content.lower():
                data = _readable(data)
            result = read(data)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            begins = self._without_key(content)[:100].decode("utf-8", "replace")
            raise AttemptFailed(
                "malformed_reply",
                f"{type(error).__name__}: {error}; the reply begins {begins!r}",
                can_pass=True,
            ) from error
        seconds = time.perf_counter() - started
        self.stats.service_s += seconds
        if payload is not None:
            self._count(data)
        return result, seconds

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self._new_session(self._retry.timeout_s)
        return self._session

    def _new_session(self, timeout_s: float) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # places are given out before
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def _without_key(self, content: bytes) -> bytes:
        """A server's message, without the key that some servers repeat in it."""
        return content if self._key == "EMPTY" else content.replace(self._key.encode(), b"[key]")

    def _count(self, data: dict[str, Json]) -> None:
        """Tokens as the server counts them; unknown where it does not say."""
        usage = data.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
        self.stats.add(
            prompt if isinstance(prompt, int) else None, completion if isinstance(completion, int) else None
        )
        details = counts.get("completion_tokens_details")
        thought = details.get("reasoning_tokens") if isinstance(details, dict) else None
        self.stats.reasoning_tokens += thought if isinstance(thought, int) else 0

    async def _give_up(self, failure: Failure, *, asking: bool) -> None:
        """Count a request that failed for good."""
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
        if self._refusals.final(failure, asyncio.get_running_loop().time(), asking=asking):
            offered = await self._offer(self._endpoints[0])
            models = f" It offers {', '.join(offered)}." if offered else ""
            elsewhere = await self._other_address() if failure.status == 404 and not offered else ""
            raise ServiceError(
                f"{self._urls} refuses our requests ({failure}).{elsewhere} Check the model's name, the key "
                f"and the address.{self._named_by}{models}"
            )

    async def _other_address(self) -> str:
        """What to try where nothing is found at the address: most servers have their routes under /v1."""
        url = self._endpoints[0].base_url
        if url.endswith("/v1"):
            return ""
        if await self._offer(_Endpoint(f"{url}/v1")):
            return f" A server of models answers at {url}/v1: use that address."
        return f" The addresses of most servers end in /v1: try {url}/v1."

    async def _offer(self, endpoint: _Endpoint) -> list[str] | None:
        """Names of an endpoint's models, none where it does not say; None if there is no HTTP server."""
        answered = False
        try:
            # a session of its own: neither a full pool nor a stale connection may pass for a dead server
            async with (
                self._new_session(_PROBE_TIMEOUT_S) as session,
                session.get(f"{endpoint.base_url}/models") as response,
            ):
                answered = True
                return [str(model["id"]) for model in (await response.json(content_type=None))["data"]]
        except (aiohttp.ClientError, OSError, ValueError, LookupError, TypeError):
            return [] if answered else None


def _readable(value: Json) -> Json:
    """The same JSON, the replacement character in place of lone surrogates, which no tokenizer takes."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    return value


def _read_choices(data: dict[str, Json]) -> list[dict[str, Json]]:
    choices = data["choices"]
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise TypeError("choices is not a list of objects")
    if not choices:
        raise AttemptFailed("empty_reply", "the list of choices is empty", can_pass=True)
    return choices


def _read_texts(data: dict[str, Json]) -> list[dict[str, Json]]:
    choices = _read_choices(data)
    if any(choice.get("text") is None for choice in choices):
        raise AttemptFailed("empty_reply", "the text of a choice is null", can_pass=True)
    return choices


def _read_chat(data: dict[str, Json]) -> ChatReply:
    choice = _read_choices(data)[0]
    message, reason = choice["message"], choice.get("finish_reason")
    content = message.get("content")  # left out by some servers where others say null
    if content is not None and not isinstance(content, str):
        raise TypeError(f"the content is {type(content).__name__}, not text")
    parts = split_thoughts(content or "")
    aside = (message.get(field) for field in _THOUGHTS)
    thoughts = next((text for text in aside if isinstance(text, str) and text.strip()), parts.thoughts)
    if thoughts and not parts.text.strip():
        raise AttemptFailed(
            "only_thoughts",
            f"the model wrote thoughts, no answer (finish_reason {reason}); where its tokens were used up, "
            f"allow more of them. It ends: {thoughts[-100:]!r}",
            can_pass=False,
        )
    if content is None:
        raise AttemptFailed("empty_reply", f"the content is null (finish_reason {reason})", can_pass=True)
    return ChatReply(parts.text, reason, thoughts)
