"""A world as an OpenEnv server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from sweet_rl.command_line.stages import stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.doors.choice import WorldChoice
from sweet_rl.errors import SweetRLError, first_line, missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import Listening
from sweet_rl.worlds import Options, first_for

if TYPE_CHECKING:
    from sweet_rl.serving import Limits

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Application: TypeAlias = Callable[[Event, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Sessions(Listening):
    """Where it listens."""

    sessions: int = flag(64, "clients at once.", at_least=1)
    session_idle_s: float = flag(3600, "seconds until a client that says nothing loses its session.", above=0)


@stage(
    "world",
    defaults={"world": first_for("dialogue")},
    helps={"seed": "every episode's seed is derived from it."},
    options=WORLD_OPTIONS,
)
def serve_env(flags: Sessions, choice: WorldChoice, options: Options, /) -> None:
    """Serve a world, with its human, as an OpenEnv environment: reset, step and state.

    A client sends what the agent says, {"text": ...}, and gets what it is told, the reward of the turn, and
    whether the episode is over. docs/doors/openenv.md has a client, and TRL's GRPO as one.

    The smallest run: serve_env code
    """
    import socket

    from sweet_rl.doors.opened import open_world
    from sweet_rl.serving import Limits, in_one_line, usable

    try:
        import uvicorn
        from openenv.core.env_server.http_server import create_fastapi_app
        from openenv.core.env_server.types import ConcurrencyConfig

        from sweet_rl.doors.openenv import Heard, Played, Say, WorldEnvironment
    except ModuleNotFoundError as error:
        raise missing_package("openenv", "openenv", needed_for="serve_env") from error

    async def serve() -> None:
        async with open_world(replace(choice, options=asdict(options))) as world:
            app = create_fastapi_app(
                lambda: WorldEnvironment(world),
                Say,
                Heard,
                concurrency_config=ConcurrencyConfig(
                    max_concurrent_envs=flags.sessions, session_timeout=flags.session_idle_s
                ),
                state_cls=Played,
            )
            guarded = Guarded(app, flags.host, Limits(), flags.session_idle_s)
            most = guarded.limits.body_bytes
            server = uvicorn.Server(uvicorn.Config(guarded, log_level="warning", ws_max_size=most))
            logging.getLogger("uvicorn.error").addFilter(in_one_line)
            with usable(flags.host, flags.at_port):
                listening = socket.create_server((flags.host, flags.at_port))
            print(
                f"Serving {world.world.name} at http://{flags.host}:{listening.getsockname()[1]}", flush=True
            )
            dropping = asyncio.create_task(_drop_slow(server, guarded.limits.headers_s))
            await server.serve(sockets=[listening])
            dropping.cancel()

    asyncio.run(serve())


class Guarded:
    """An ASGI application with the limits of our other servers (`sweet_rl.serving`), and without tracebacks.

    It answers to its own names, and to no page of another origin: browsers let any page open a WebSocket.

    Args:
        app: what answers.
        host: what the server listens on.
        limits: for bodies.
        idle_s: seconds until a WebSocket that is silent is closed.
    """

    def __init__(self, app: Application, host: str, limits: Limits, idle_s: float) -> None:
        self._app, self._host, self.limits, self._idle_s = app, host, limits, idle_s

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket from its beginning to its end."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        body, started = bytearray(), scope["type"] == "websocket"
        refused = self._refused(scope) or (None if started else await self._read(receive, body))
        unread = not started

        async def heard() -> Event:
            nonlocal unread
            if unread:
                unread = False
                return {"type": "http.request", "body": bytes(body)}
            if scope["type"] == "http":
                return await receive()
            try:
                async with asyncio.timeout(self._idle_s):
                    return await receive()
            except TimeoutError:
                why = f"Nothing was said for {self._idle_s:g} s (--session_idle_s)."
                await send({"type": "websocket.close", "code": 1001, "reason": why})
                return {"type": "websocket.disconnect", "code": 1001}

        async def told(event: Event) -> None:
            nonlocal started, refused
            if event.get("status") == 500:  # ours is JSON
                refused = 500, "The server had an error; its log names it."
            if refused is None:
                started = True
                await send(event)

        try:
            if refused is None:
                await self._app(scope, heard, told)
        except SweetRLError as error:
            refused = (400, str(error)) if scope["type"] == "http" else None
        except Exception as error:  # noqa: BLE001 - no request ends the server, or fills its log
            kind = type(error).__name__
            print(f"{scope['path']!r}: {kind}: {first_line(error)}", file=sys.stderr, flush=True)
        if refused is not None and not (started and scope["type"] == "http"):
            await _refuse(scope["type"], receive, send, *refused)

    def _refused(self, scope: Event) -> tuple[int, str] | None:
        """Why a request is not let in, by its headers."""
        from sweet_rl.serving import is_own_name

        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = given.get("host", ""), given.get("origin")
        if not is_own_name(host, self._host):
            return 403, f"This server does not answer to the name {host!r}."
        if origin is not None and origin.partition("://")[2] != host:
            return 403, f"Pages of {origin!r} may not talk to this server."
        kind = given.get("content-type", "").partition(";")[0].strip().lower()
        if scope.get("method", "GET") not in {"GET", "HEAD"} and kind != "application/json":
            return 415, f"The Content-Type must be application/json, got {kind!r}."
        length = given.get("content-length", "0")
        if len(length) > 12 or int(length) > self.limits.body_bytes:
            return 413, f"A body has at most {self.limits.body_bytes:,} bytes."
        return None

    async def _read(self, receive: Receive, body: bytearray) -> tuple[int, str] | None:
        """Read a request's body, or say why it is not taken."""
        try:
            async with asyncio.timeout(self.limits.body_s):
                more = True
                while more:
                    event = await receive()
                    body += event.get("body", b"")
                    if len(body) > self.limits.body_bytes:
                        return 413, f"A body has at most {self.limits.body_bytes:,} bytes."
                    more = event.get("more_body", False)
            if body:
                json.dumps(json.loads(body), ensure_ascii=False, allow_nan=False).encode()
        except TimeoutError:
            return 408, f"The body was not there after {self.limits.body_s:g} s."
        except (ValueError, RecursionError) as error:
            return 400, f"The body is not JSON: {first_line(error)}"
        return None


async def _refuse(kind: str, receive: Receive, send: Send, status: int, problem: str) -> None:
    if kind == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    with contextlib.suppress(OSError):  # the client is gone
        await send({"type": "http.response.body", "body": json.dumps({"error": problem}).encode()})


async def _drop_slow(server: Any, headers_s: float) -> None:
    """Hang up on clients whose request has no whole headers in time: uvicorn waits for them for ever."""
    since: dict[tuple[Any, Any], float] = {}
    while True:
        await asyncio.sleep(headers_s / 4)
        waiting = [
            (one, one.cycle)
            for one in server.server_state.connections
            if hasattr(one, "cycle") and (one.cycle is None or one.cycle.response_complete)
        ]
        since = {one: since.get(one, time.monotonic()) for one in waiting}
        for (connection, _), began in since.items():
            if time.monotonic() - began > headers_s:
                connection.transport.close()
