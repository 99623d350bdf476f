"""The scripted human, and an echo, behind real OpenAI endpoints.

Any OpenAI client can talk to it: /v1/chat/completions, /v1/completions, /v1/models, /health, and /stats of
our own. What is said comes from `sweet_rl.users.scripted`; what goes wrong on purpose from
`sweet_rl.users.faults`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from sweet_rl.prompts.simulator import parse_simulator_prompt
from sweet_rl.types import Json
from sweet_rl.users.faults import Fault, Weather
from sweet_rl.users.scripted import ScriptedHuman

Speaker = Callable[[str], str]
"""From the last message (or the prompt) to what is said; ValueError says what is wrong with the prompt."""

_MAX_BODY_BYTES: Final = 64 * 2**20


class RequestProblem(Exception):  # noqa: N818 - becomes a response
    """What a client did wrong, as an OpenAI error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status, self.message, self.headers = status, message, headers
        self.param, self.code = param, code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Request:
    """What both kinds of completion ask for: prompts (one reply each, `n` times), the model, streaming."""

    model: str
    prompts: tuple[str, ...]
    n: int
    stream: bool


class SimulatorServer:
    """The application and its counters.

    Args:
        weather: latency and faults.
    """

    def __init__(self, weather: Weather | None = None) -> None:
        self._weather = weather or Weather()
        human = ScriptedHuman()

        def scripted(prompt: str) -> str:
            context = parse_simulator_prompt(prompt)
            return human.answer(context.problem_description, context.hidden_information, context.messages)

        self._speakers: dict[str, Speaker] = {"scripted": scripted, "echo": lambda prompt: prompt}
        self._started = int(time.time())
        self._requests = 0
        self._active = 0
        self._most_active = 0
        self._service_s = 0.0
        self._faults: Counter[str] = Counter()

    def application(self) -> web.Application:
        """Routes to handlers."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/stats", self._stats)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_chat, _chat_choice, "chat.completion")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await self._serve(request, _read_completion, _text_choice, "text_completion")

    async def _models(self, _: web.Request) -> web.Response:
        models = [
            {"id": name, "object": "model", "created": self._started, "owned_by": "sweet_rl"}
            for name in self._speakers
        ]
        return web.json_response({"object": "list", "data": models})

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "requests": self._requests,
                "faults": dict(self._faults),
                "service_s": self._service_s,
                "max_concurrent": self._most_active,
            }
        )

    async def _serve(
        self,
        request: web.Request,
        read: Callable[[dict[str, Json]], Request],
        choice: Callable[[int, str | None], dict[str, Json]],
        kind: str,
    ) -> web.StreamResponse:
        """One request through the weather to its reply."""
        number = self._requests
        self._requests += 1
        self._active += 1
        self._most_active = max(self._most_active, self._active)
        started = time.perf_counter()
        try:
            latency_s, fault = self._weather.draw(number)
            if fault is not None:
                self._faults[fault] += 1
            asked = _read_body(await request.read(), read)
            texts = self._speak(asked)
            if latency_s:
                await asyncio.sleep(latency_s)
            body = _completion_body(kind, number, asked, texts, choice)
            return await self._respond(request, asked, body, fault)
        except RequestProblem as problem:
            return _error_response(problem)
        finally:
            self._active -= 1
            self._service_s += time.perf_counter() - started

    def _speak(self, asked: Request) -> list[str]:
        if asked.model not in self._speakers:
            known = ", ".join(self._speakers)
            raise RequestProblem(
                404,
                f"The model {asked.model!r} does not exist; this server offers {known}.",
                param="model",
                code="model_not_found",
            )
        try:
            said = [self._speakers[asked.model](prompt) for prompt in asked.prompts]
        except ValueError as error:
            raise RequestProblem(400, f"Cannot play the human: {error}", param="messages") from error
        return [text for text in said for _ in range(asked.n)]

    async def _respond(
        self, request: web.Request, asked: Request, body: dict[str, Json], fault: Fault | None
    ) -> web.StreamResponse:
        """The reply, or what the fault makes of it."""
        if problem := _injected(fault):
            raise problem
        if fault is Fault.EMPTY_CHOICES:
            body = body | {"choices": []}
        if fault is Fault.NULL_CONTENT:
            body = _without_content(body)
        if fault is Fault.TIMEOUT:
            await asyncio.sleep(self._weather.hang_s)
        if fault is Fault.SLOW_DRIP:
            return await _drip(request, body, self._weather.hang_s)
        if asked.stream:
            return await _stream(request, body)
        if fault is Fault.RESET and request.transport is not None:
            request.transport.abort()  # the response below goes nowhere
        text = json.dumps(body)
        return web.json_response(text=text[:-20] if fault is Fault.MALFORMED_JSON else text)


def _injected(fault: Fault | None) -> RequestProblem | None:
    """The error that a fault is, if it is one."""
    match fault:
        case Fault.RATE_LIMIT:
            wait = {"Retry-After": "0.05"}
            return RequestProblem(429, "Rate limit reached (injected).", code="rate_limit", headers=wait)
        case Fault.SERVER_ERROR:
            return RequestProblem(500, "The server had an error (injected).")
        case Fault.BAD_REQUEST:
            return RequestProblem(400, "This request is refused (injected).")
        case _:
            return None


def _read_body(content: bytes, read: Callable[[dict[str, Json]], Request]) -> Request:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestProblem(400, f"The request body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestProblem(400, "The request body must be a JSON object.")
    return read(body)


def _read_chat(body: dict[str, Json]) -> Request:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestProblem(400, "messages must be a list with at least one message.", param="messages")
    said = [message for message in messages if isinstance(message, dict) and message.get("role") == "user"]
    prompt = _text_of(said[-1].get("content")) if said else None
    if prompt is None:
        raise RequestProblem(400, "messages must hold a user message with text.", param="messages")
    return _read_common(body, (prompt,))


def _read_completion(body: dict[str, Json]) -> Request:
    prompt = body.get("prompt")
    given = prompt if isinstance(prompt, list) else [prompt]
    prompts = tuple(text for text in given if isinstance(text, str))
    if not prompts or len(prompts) < len(given):
        raise RequestProblem(
            400,
            "prompt must be a string or a list of strings; token ids have no meaning here.",
            param="prompt",
        )
    return _read_common(body, prompts)


def _read_common(body: dict[str, Json], prompts: tuple[str, ...]) -> Request:
    n = body.get("n", 1)
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= 128:
        raise RequestProblem(400, "n must be a whole number from 1 to 128.", param="n")
    if not isinstance(body.get("model"), str):
        raise RequestProblem(400, "model must be a string.", param="model")
    return Request(body["model"], prompts, n, bool(body.get("stream")))


def _text_of(content: Json) -> str | None:
    """The text of a message, which is a string or a list of typed parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _completion_body(
    kind: str,
    number: int,
    asked: Request,
    texts: Sequence[str],
    choice: Callable[[int, str | None], dict[str, Json]],
) -> dict[str, Json]:
    prompt_tokens = sum(len(prompt.split()) for prompt in asked.prompts)
    completion_tokens = sum(len(text.split()) for text in texts)
    return {
        "id": f"cmpl-{number}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model,
        "choices": [choice(index, text) for index, text in enumerate(texts)],
        "usage": {  # words: there is no tokenizer here
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _chat_choice(index: int, text: str | None) -> dict[str, Json]:
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}


def _text_choice(index: int, text: str | None) -> dict[str, Json]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}


def _without_content(body: dict[str, Json]) -> dict[str, Json]:
    make = _chat_choice if body["object"] == "chat.completion" else _text_choice
    return body | {"choices": [make(index, None) for index in range(len(body["choices"]))]}


def _error_response(problem: RequestProblem) -> web.Response:
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    error = {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}
    return web.json_response({"error": error}, status=problem.status, headers=problem.headers)


async def _stream(request: web.Request, body: dict[str, Json]) -> web.StreamResponse:
    """The same reply as server-sent events: one chunk with the text, then the end mark."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    choices = [dict(choice) for choice in body["choices"]]
    for choice in choices:
        if "message" in choice:
            choice["delta"] = choice.pop("message")
    kind = body["object"] + (".chunk" if body["object"] == "chat.completion" else "")
    chunk = {key: value for key, value in body.items() if key != "usage"} | {
        "object": kind,
        "choices": choices,
    }
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


async def _drip(request: web.Request, body: dict[str, Json], seconds: float) -> web.StreamResponse:
    content = json.dumps(body).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(content)
    await response.prepare(request)
    for position in range(len(content)):
        await response.write(content[position : position + 1])
        await asyncio.sleep(seconds / len(content))
    return response
