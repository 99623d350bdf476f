"""An HTTP application on an address of this machine, with limits against abusive clients.

A connection must deliver its request's headers, and a body, in time; a body may be so large and no larger;
and a server answers to its own names only: a foreign Host header is how a page elsewhere would make a browser
talk to a loopback address (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_protocol import RequestHandler

from sweet_rl.errors import UsageError

_BACKLOG = 1024
_LOG = logging.getLogger(__name__)
_WAITING = web.AppKey("waiting", set[Any])
"""Connections whose first request has no whole headers yet."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much a client may take."""

    headers_s: float = 10.0  # from a connection's beginning to the end of its first request's headers
    body_s: float = 60.0  # from there to the end of its body
    idle_s: float = 75.0  # that a connection is kept open for its next request, whose headers end in them
    body_bytes: int = 8 * 2**20


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """True when only this machine can connect to `host`."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def is_own_name(host_header: str, host: str) -> bool:
    """Whether a request with this Host header is meant for a server that listens on `host`.

    An IP address cannot be rebound as a host name can, so any is accepted where other machines are let in;
    tunnels change the port, so it does not matter.
    """
    try:
        name = urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return False
    if is_loopback(host):
        return is_loopback(name)
    names = {host.lower(), "localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
    return name in names or _address(name) is not None


def guard(host: str, limits: Limits) -> Middleware:
    """A middleware that refuses foreign names, and bodies that do not come in time; handlers find them read."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (waiting := request.app.get(_WAITING)) is not None:
            waiting.discard(request.protocol)
        if not is_own_name(request.host, host):
            raise web.HTTPForbidden(text=f"This server does not answer to the name {request.host!r}.\n")
        try:
            async with asyncio.timeout(limits.body_s):
                await request.read()
        except TimeoutError:
            refused = web.HTTPRequestTimeout(text=f"The body was not there after {limits.body_s:g} s.\n")
            refused.force_close()
            raise refused from None
        return await handler(request)

    return guarded


def in_one_line(record: logging.LogRecord) -> bool:
    """A filter of a server's log: what a client got wrong is one line, and no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | UnicodeError):
        record.msg, record.args = f"{record.getMessage()}: {ascii(' '.join(str(error).split()))[:200]}", ()
        record.exc_info = None
    return True


_LOG.addFilter(in_one_line)


@contextmanager
def usable(host: str, port: int) -> Iterator[None]:
    """A block in which an address is begun to be listened on."""
    try:
        yield
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"Cannot listen on {host}, port {port}: {reason}. Choose another --port (0 takes a free one) "
            "or an address of this machine as --host."
        ) from error


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, limits: Limits | None = None
) -> AsyncIterator[int]:
    """The application on an address, for the length of a block; yields its port.

    A handler is cancelled when its client has gone away.
    """
    limits = limits or Limits()
    waiting = app[_WAITING] = set()
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_LOG,
        handler_cancellation=True,
        keepalive_timeout=limits.idle_s,
        shutdown_timeout=0.5,
        lingering_time=min(limits.body_s, 10.0),  # for what comes of a body that is not wanted
    )
    await runner.setup()
    make, loop = runner.server, asyncio.get_running_loop()

    def drop(connection: RequestHandler) -> None:
        if connection in waiting:
            waiting.discard(connection)
            connection.force_close()

    def connected() -> RequestHandler:
        if make is None:
            raise RuntimeError("the application has stopped")
        connection = make()
        waiting.add(connection)
        loop.call_later(limits.headers_s, drop, connection)
        return connection

    try:
        with usable(host, port):
            server = await loop.create_server(connected, host, port, backlog=_BACKLOG)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
    finally:
        await runner.cleanup()


async def serve(
    app: web.Application,
    host: str,
    port: int,
    *,
    on_ready: Callable[[int], None],
    limits: Limits | None = None,
) -> None:
    """Serve an application until SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with listening(app, host, port, limits) as actual:
        on_ready(actual)
        await stopped.wait()
