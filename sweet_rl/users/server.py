"""Simulated humans without a model, and an echo, behind real OpenAI endpoints.

Any OpenAI client can talk to it: /v1/chat/completions, /v1/completions, /v1/models, /v1/models/{id}, /health,
and /stats of our own. Replies come from `World.user.served`, what requests and
replies look like, and deliberate faults, from `sweet_rl.users.protocol`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from sweet_rl.errors import ServiceError
from sweet_rl.serving import Limits, guard
from sweet_rl.serving import serve as serve_application
from sweet_rl.users.protocol import (
    Fault,
    FaultProfile,
    Request,
    RequestProblem,
    ServedMessage,
    Speaker,
    read_request,
    reply_body,
    stream_body,
)

_MAX_REPLY: Final = 16 * 2**20  # characters of all choices of a reply
_READ_AT_ONCE: Final = 2**16  # bytes of a request whose reply is made in the event loop, not in a thread
_INJECTED: Final[Mapping[Fault | None, tuple[int, str, None, str | None, str | None]]] = {
    Fault.RATE_LIMIT: (429, "Too many requests (injected).", None, "rate_limit", "0.05"),
    Fault.SERVER_ERROR: (500, "The server had an error (injected).", None, None, None),
    Fault.BAD_REQUEST: (400, "This request is refused (injected).", None, None, None),
}
"""Faults that are errors."""


class SimulatorServer:
    """The application and its counters; `speakers` and an echo are served, by name, to those who have the `api_key`."""

    def __init__(
        self,
        speakers: Mapping[str, Speaker],
        fault_profile: FaultProfile | None = None,
        *,
        host: str = "127.0.0.1",
        api_key: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._fault_profile = fault_profile or FaultProfile()
        self._host, self._api_key, self._limits = host, api_key, limits or Limits()
        self._speakers: dict[str, Speaker] = {**speakers, "echo": _echo}
        self._requests = self._active = self._max_active = 0
        self._service_s = 0.0
        self._faults: Counter[str] = Counter()

    def application(self) -> web.Application:
        """The routes of the server, with limits and errors in OpenAI's form."""
        layers = [_errors_as_openai_writes_them, guard(self._host, self._limits)]
        app = web.Application(client_max_size=self._limits.body_bytes, middlewares=layers)
        app.router.add_post("/v1/chat/completions", partial(self._serve, chat=True))
        app.router.add_post("/v1/completions", partial(self._serve, chat=False))
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{model}", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/stats", self._stats)
        return app

    def _check_key(self, request: web.Request) -> None:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        given = sent.encode("utf-8", "surrogateescape")
        if self._api_key and not hmac.compare_digest(given, self._api_key.encode()):
            what = "Incorrect API key provided." if sent else "You didn't provide an API key."
            raise RequestProblem(401, f"{what} Send it as: Authorization: Bearer KEY", code="invalid_api_key")

    def _speaker(self, name: str) -> Speaker:
        if name not in self._speakers:
            problem = f"The model {name!r} does not exist; this server offers {', '.join(self._speakers)}."
            raise RequestProblem(404, problem, "model", "model_not_found")
        return self._speakers[name]

    async def _models(self, request: web.Request) -> web.Response:
        """The list of models, or the card of the one that is named."""
        self._check_key(request)
        name = request.match_info.get("model")
        if name is not None:
            self._speaker(name)
        about = {"object": "model", "created": int(time.time()), "owned_by": "sweet_rl"}
        cards = [{"id": one, **about} for one in self._speakers if name in {None, one}]
        return web.json_response({"object": "list", "data": cards} if name is None else cards[0])

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _stats(self, _: web.Request) -> web.Response:
        """Counters since the start; `service_s` adds up the seconds from each request to its reply."""
        counts = {"requests": self._requests, "faults": self._faults, "max_concurrent": self._max_active}
        return web.json_response({**counts, "service_s": self._service_s})

    async def _serve(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        """One request: read, answered, and what happens to it on the way."""
        number, profile, started = self._requests, self._fault_profile, time.perf_counter()
        self._requests += 1
        self._active += 1
        self._max_active = max(self._max_active, self._active)
        try:
            if profile.max_in_flight is not None and self._active > profile.max_in_flight:
                self._faults["turned_away"] += 1
                problem = f"More than {profile.max_in_flight} requests in work."
                raise RequestProblem(429, problem, code="rate_limit")
            self._check_key(request)
            if (kind := request.content_type) != "application/json":
                raise RequestProblem(415, f"The Content-Type must be application/json, got {kind}.")
            asked = read_request(content := await request.read(), chat=chat)
            long = len(content) > _READ_AT_ONCE  # others are answered meanwhile
            texts = await asyncio.to_thread(self._speak, asked) if long else self._speak(asked)
            latency_s, fault = profile.draw(number)
            await asyncio.sleep(latency_s)
            if fault is not None:
                self._faults[fault] += 1
            return await self._respond(request, asked, texts, number, fault)
        finally:
            self._active -= 1
            self._service_s += time.perf_counter() - started

    def _speak(self, asked: Request) -> list[str]:
        speaker = self._speaker(asked.model)
        try:
            replies = [speaker(prompt) for prompt in asked.prompts]
        except ValueError as error:
            param = "messages" if asked.chat else "prompt"
            raise RequestProblem(400, f"Cannot play the human: {error}", param) from error
        if asked.n * sum(map(len, replies)) > _MAX_REPLY:
            raise RequestProblem(400, f"The reply would have more than {_MAX_REPLY:,} characters.", "n")
        return [text for text in replies for _ in range(asked.n)]

    async def _respond(
        self, request: web.Request, asked: Request, replies: list[str], number: int, fault: Fault | None
    ) -> web.StreamResponse:
        """The reply, or what the fault makes of it."""
        if fault in _INJECTED:
            raise RequestProblem(*_INJECTED[fault])
        texts: list[str | None] = [] if fault is Fault.EMPTY_CHOICES else [*replies]
        texts = [None for _ in replies] if fault is Fault.NULL_CONTENT else texts
        body, seconds = reply_body(asked, texts, number), self._fault_profile.hang_s
        content = stream_body(asked, body) if asked.stream else json.dumps(body).encode()
        kind = "text/event-stream" if asked.stream else "application/json"
        if fault is Fault.TIMEOUT:
            await asyncio.sleep(seconds)
        if fault is Fault.SLOW_DRIP:  # headers at once, then a byte at a time
            response = web.StreamResponse(headers={"Content-Type": kind})
            response.content_length = len(content)
            await response.prepare(request)
            for position in range(len(content)):
                await response.write(content[position : position + 1])
                await asyncio.sleep(seconds / len(content))
            return response
        if fault is Fault.MALFORMED_JSON:
            content = content[: len(content) // 2]
        if fault is Fault.RESET and request.transport is not None:
            request.transport.abort()  # the response below goes nowhere
        return web.Response(body=content, content_type=kind)


def _echo(messages: Sequence[ServedMessage]) -> str:
    """The last user message."""
    texts = [message.text for message in messages if message.role == "user"]
    if not texts:
        raise ValueError("there is no user message to repeat.")
    return texts[-1]


@web.middleware
async def _errors_as_openai_writes_them(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Also for what never reaches a handler of ours: an unknown path, a wrong method, too large a body."""
    try:
        return await handler(request)
    except RequestProblem as error:
        problem = error
    except web.HTTPException as error:
        words = (error.text or "").strip()
        if not words or words == f"{error.status}: {error.reason}":
            words = f"{request.method} {request.path}: {error.reason}"
        problem = RequestProblem(error.status, words)
    headers = {"Retry-After": problem.retry_after} if problem.retry_after else None
    return web.json_response(problem.body, status=problem.status, headers=headers)


_READY = "Serving "


async def serve(
    speakers: Mapping[str, Speaker],
    fault_profile: FaultProfile,
    host: str,
    port: int,
    *,
    api_key: str | None = None,
    quiet: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; prints one line once requests are accepted."""

    def ready(actual: int) -> None:
        if not quiet:
            models = ", ".join([*speakers, "echo"])
            print(f"{_READY}{models} at http://{host}:{actual}/v1 (pid {os.getpid()})", flush=True)

    app = SimulatorServer(speakers, fault_profile, host=host, api_key=api_key).application()
    await serve_application(app, host, port, on_ready=ready)


class RunningServer(NamedTuple):
    """A simulator server in a child process."""

    base_url: str
    process: subprocess.Popen[str]


@contextmanager
def start_server(*, port: int = 0, **flags: float | str) -> Iterator[RunningServer]:
    """Run the simulator server in a child process for the length of a `with` block."""
    command = [sys.executable, "-m", "sweet_rl", "serve_simulator", "--port", str(port)]
    for name, value in flags.items():
        command += [f"--{name}", str(value)]
    with tempfile.TemporaryFile("w+") as log:  # a pipe that is not read would fill up
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(_READY):
                log.seek(0)
                raise ServiceError(f"The simulator server did not start: {log.read().strip()}")
            yield RunningServer(line.partition(" at ")[2].split(" ", 1)[0], process)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
