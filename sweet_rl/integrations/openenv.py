"""Every world as an OpenEnv environment, which `serve_env` serves: a session is a client with an episode of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from sweet_rl.errors import SweetRLError, UsageError, first_line
from sweet_rl.integrations.worlds import OpenWorld, SteppedEpisode
from sweet_rl.serving import Limits, is_own_name

Event: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Application: TypeAlias = Callable[[Event, Receive, Send], Awaitable[None]]


class Say(Action):
    """The agent's turn: what it says."""

    text: str


class Heard(Observation):
    """What the agent may see: what it is told next, the dialogue as chat models are given it, the task's name."""

    text: str = ""
    messages: list[dict[str, str]] = []  # noqa: RUF012 - pydantic copies it
    task_id: str = ""


class Played(State):
    """Where the episode is; `rewards` are those of its turns."""

    task_id: str | None = None
    sample_index: int | None = None
    rewards: list[float] = []  # noqa: RUF012 - likewise
    stop_reason: str | None = None


class WorldEnvironment(Environment[Say, Heard, Played]):
    """A session's episodes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, world: OpenWorld) -> None:
        super().__init__()
        self._world = world
        self._episode: SteppedEpisode | None = None
        self._name: str | None = None

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        sample_index: int | None = None,
        **others: Any,
    ) -> Heard:
        """Begin an episode: of the task named, or of the one that the seed draws, or of the first."""
        self._loop, self._name = asyncio.get_running_loop(), episode_id
        if self._episode is not None:
            await self._episode.close()
            self._episode = None
        if task_id is None and seed is not None:
            task_id = list(self._world.tasks)[seed % len(self._world.tasks)]
        self._episode = await self._world.begin(task_id, sample_index)
        return _heard(self._episode, self._episode.told)

    async def step_async(self, action: Say, timeout_s: float | None = None, **others: Any) -> Heard:
        """Take a turn; an episode that fails is an error of the session, and has no reward."""
        if self._episode is None:
            raise UsageError("The session has no episode: reset it first.")
        turn = await self._episode.step(action.text)
        return _heard(self._episode, turn.text, reward=turn.reward, done=turn.over)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **others: Any) -> Heard:
        raise NotImplementedError("await reset_async: OpenEnv's server has an event loop")

    def step(self, action: Say, timeout_s: float | None = None, **others: Any) -> Heard:
        raise NotImplementedError("await step_async")

    def close(self) -> None:
        """Free what an episode holds that its client left; called from a thread of the server's."""
        if self._episode is not None:
            asyncio.run_coroutine_threadsafe(self._episode.close(), self._loop)

    @property
    def state(self) -> Played:
        """Where the episode is."""
        if self._episode is None:
            return Played()
        one, rewards = self._episode.trajectory, list(self._episode.rewards)
        whose = {"episode_id": self._name, "task_id": one.task.task_id, "sample_index": one.sample_index}
        return Played(step_count=len(rewards), rewards=rewards, stop_reason=one.stop_reason, **whose)


def _heard(episode: SteppedEpisode, text: str, *, reward: float | None = None, done: bool = False) -> Heard:
    name = episode.trajectory.task.task_id
    return Heard(text=text, messages=episode.messages, task_id=name, reward=reward, done=done)


class Guarded:
    """An ASGI application with the limits of our other servers (`sweet_rl.serving`), and without tracebacks.

    It answers to its own names, and to no page of another origin: browsers let any page open a WebSocket.
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


async def drop_slow(server: Any, headers_s: float) -> None:
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
