"""An oracle behind the published gradio server: one text in, one text out, questions joined in batches.

As published: the server offers `predict(text)`; a batch is one string, its items joined by five commas,
and so are the answers. Spoken here without gradio's client, to servers old and new.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import aiohttp

from sweet_rl.errors import ServiceError
from sweet_rl.openai_client import RetryPolicy, base_url_from, shown
from sweet_rl.openai_client.replies import failed_status
from sweet_rl.openai_client.retry import AttemptFailed
from sweet_rl.types import NO_RESPONSE, Failure, Json, UserContext, UserReply
from sweet_rl.worlds.question_games.asking import Asking

SEPARATOR: Final = ",,,,,"
"""Between the items of a batch, and between their answers."""

_QUEUED_ROUTES: Final = ("/gradio_api/call/predict", "/call/predict")
"""Gradio 5 and 6, and from 4.20 on: a POST gives an event's id, a GET of that id its events."""

_DIRECT_ROUTES: Final = ("/run/predict", "/api/predict")
"""Before that: a POST gives the answer."""

_PATIENCE: Final = RetryPolicy(timeout_s=120.0)


class GradioOracle:
    """Gathers the questions that wait and sends them as one text; while it is answered, others gather."""

    def __init__(
        self,
        asking: Asking,
        url: str,
        *,
        max_batch: int = 32,
        retry: RetryPolicy = _PATIENCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._asking = asking
        self._suffix = asking.suffix
        (self._url,) = base_url_from("", 0, url)
        self.name = f"gradio {shown(self._url)}"
        self._max_batch = max_batch
        self._retry, self._sleep = retry, sleep
        self._jitter = random.Random()
        self._routes: tuple[str, ...] = (*_QUEUED_ROUTES, *_DIRECT_ROUTES)
        self._session: aiohttp.ClientSession | None = None
        self._waiting: deque[tuple[str, asyncio.Future[UserReply]]] = deque()
        self._unanswered: set[asyncio.Future[UserReply]] = set()
        self._dispatcher: asyncio.Task[None] | None = None

    async def reply(self, context: UserContext) -> UserReply:
        """The server's answer to the question asked last; `UserReply.failure` says why there is none."""
        item = re.sub(",{2,}", ",", self._asking.published(context)) + self._suffix
        future: asyncio.Future[UserReply] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        if self._dispatcher is None or self._dispatcher.done():
            self._dispatcher = asyncio.create_task(self._dispatch())
        return await future

    async def close(self) -> None:
        """Close the connection; calls that still wait are cancelled."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.wait([self._dispatcher])
        for future in list(self._unanswered):
            future.cancel()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _dispatch(self) -> None:
        """Send batches until no caller is waiting."""
        while self._waiting:
            await asyncio.sleep(0)  # let everything that is ready now come in
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
            batch = [(item, future) for item, future in batch if not future.done()]
            if not batch:
                continue
            try:
                replies = await self._answers([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who asked
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), reply in zip(batch, replies, strict=True):
                if not future.done():
                    future.set_result(reply)

    async def _answers(self, items: Sequence[str]) -> list[UserReply]:
        """One answer for each item, or the same failure for each."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return [UserReply(text) for text in await self._predict(items)]
            except AttemptFailed as failed:
                if failed.can_pass and attempt < self._retry.attempts:
                    await self._sleep(self._retry.wait_s(attempt, failed.retry_after_s, self._jitter))
                    continue
                if failed.kind == "connection":
                    raise ServiceError(
                        f"No oracle answers at {shown(self._url)} ({attempt} attempts; the last one: "
                        f"{failed.detail}). Correct the address or start the server."
                    ) from failed
                failure = Failure(failed.kind, failed.detail, failed.status, attempt)
                return [UserReply(NO_RESPONSE, failure)] * len(items)

    async def _predict(self, items: Sequence[str]) -> list[str]:
        """Send a batch once, by the first route that the server has; it is remembered."""
        body = {"data": [SEPARATOR.join(items)]}
        for route in self._routes:
            try:
                content = await self._send("POST", route, body)
                if route in _QUEUED_ROUTES:
                    event = _parsed(content, "event_id", str)
                    content = _last_event(await self._send("GET", f"{route}/{event}"))
                    data: Json = _parsed(content, None, list)
                else:
                    data = _parsed(content, "data", list)
            except AttemptFailed as failed:
                if failed.status in {404, 405} and route != self._routes[-1]:
                    continue
                raise
            self._routes = (route,)
            return _split(data, len(items))
        raise AssertionError("there is always a last route")

    async def _send(self, method: str, route: str, body: Json = None) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._retry.timeout_s),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.request(method, self._url + route, json=body) as response:
                content, status, headers = await response.read(), response.status, response.headers
        except TimeoutError:
            detail = f"no whole answer within {self._retry.timeout_s:g} s"
            raise AttemptFailed("timeout", detail, can_pass=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise AttemptFailed("connection", str(error) or type(error).__name__, can_pass=True) from error
        if status >= 300:
            raise failed_status(status, headers, content)
        return content


def _last_event(stream: bytes) -> bytes:
    """The data of the event that ends a stream of server-sent events."""
    for block in reversed(re.split(r"\r?\n\r?\n", stream.decode("utf-8", "replace").strip())):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("event") == "complete":
            return fields.get("data", "").encode()
        if fields.get("event") == "error":
            detail = f"the server's function failed: {fields.get('data', '')}"[:300]
            raise AttemptFailed("server_error", detail, can_pass=True)
    raise AttemptFailed("malformed_reply", "the event stream ends without an answer", can_pass=True)


def _parsed(content: bytes, field: str | None, kind: type) -> Json:
    """JSON of a reply, or one field of it, which must be of a kind."""
    try:
        value = json.loads(content)
        value = value if field is None else value[field]
    except (ValueError, LookupError, TypeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        begins = content[:100].decode("utf-8", "replace")
        raise AttemptFailed("malformed_reply", f"the reply begins {begins!r}", can_pass=True)
    return value


def _split(data: list[Json], count: int) -> list[str]:
    """The answers in what `predict` returned: one joined text, or a list of texts."""
    answers = data[0] if data else None
    if isinstance(answers, str):
        answers = answers.split(SEPARATOR)
    if (
        not isinstance(answers, list)
        or len(answers) != count
        or not all(isinstance(answer, str) for answer in answers)
    ):
        detail = f"{count} questions were asked, and the answer is {str(data)[:100]!r}"
        raise AttemptFailed("malformed_reply", detail, can_pass=True)
    return [answer.strip() for answer in answers]
