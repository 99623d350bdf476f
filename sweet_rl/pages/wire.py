"""The pipe to a browser: JSON messages, each ended by a zero byte. It does not know commands.

Chromium's DevTools protocol comes this way by itself; Firefox's WebDriver BiDi through `firefox_relay`.
Commands can be sent without awaiting the one before, which is most of the speed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import IO

from sweet_rl.types import Json

CLOSED = "closed"
"""The event that every handler gets when the browser has ended."""

EventHandler = Callable[[str, Json], None]
"""Is given an event's name and its parameters."""


class BrowserGone(Exception):
    """The browser, or the page's process in it, ended in the middle."""


class CommandFailed(Exception):
    """The browser answered a command with an error."""


class Wire(asyncio.Protocol):
    """One browser's pipe. Events go to the handler of their session ("" is the browser itself)."""

    def __init__(self) -> None:
        self.handlers: dict[str, EventHandler] = {}
        self.closed = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._chunks: list[bytes] = []
        self._last_id = 0
        self._reading: asyncio.BaseTransport | None = None
        self._writing: asyncio.WriteTransport | None = None

    async def connect(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        """Take over the two ends of the pipes."""
        loop = asyncio.get_running_loop()
        self._reading, _ = await loop.connect_read_pipe(lambda: self, reading)
        self._writing, _ = await loop.connect_write_pipe(_WriteEnd, writing)

    def send(self, method: str, session: str = "", **params: Json) -> asyncio.Future[Json]:
        """Send a command now; the future is its result. It need not be awaited."""
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_looked_at)
        if self.closed.is_set() or self._writing is None:
            answer.set_exception(BrowserGone("the browser has ended"))
            return answer
        self._last_id += 1
        message: dict[str, Json] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._waiting[self._last_id] = answer
        self._writing.write(json.dumps(message).encode() + b"\0")
        return answer

    async def call(self, method: str, session: str = "", **params: Json) -> Json:
        """Send a command and await its result."""
        return await self.send(method, session, **params)

    def close(self) -> None:
        """Close both ends; everything that waits gets an error."""
        self.connection_lost(None)
        for transport in (self._reading, self._writing):
            if transport is not None:
                transport.close()

    def data_received(self, data: bytes) -> None:
        """Collect bytes until a message is whole."""
        *whole, rest = data.split(b"\0")
        for part in whole:
            self._chunks.append(part)
            message, self._chunks = b"".join(self._chunks), []
            self._dispatch(json.loads(message))
        if rest:
            self._chunks.append(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that waits: the other side has closed the connection."""
        self.closed.set()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(BrowserGone("the browser has ended"))
        handlers, self.handlers = self.handlers, {}
        for handler in handlers.values():
            handler(CLOSED, {})

    def _dispatch(self, message: dict[str, Json]) -> None:
        if message.get("id") is None:
            handler = self.handlers.get(message.get("sessionId", ""))
            if handler is not None and "method" in message:
                handler(message["method"], message.get("params") or {})
            return
        answer = self._waiting.pop(message["id"], None)
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result") or {})
        else:  # DevTools gives an object, BiDi a word and a sentence
            text = error.get("message") if isinstance(error, dict) else f"{error}: {message.get('message')}"
            answer.set_exception(CommandFailed(str(text)))


class _WriteEnd(asyncio.BaseProtocol):
    """The write pipe needs one; what it would say, the read pipe says too."""


def _looked_at(answer: asyncio.Future[Json]) -> None:
    if not answer.cancelled():
        answer.exception()  # a command that is not awaited may fail unnoticed
