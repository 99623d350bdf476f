"""The OpenAI protocol as a server sees it: requests read and checked, replies and errors written, faults injected.

Pure functions of JSON; the replies and their delays belong to `sweet_rl.users.server`. A token is a
word here, with the white space before it: that is what `max_tokens` counts, and `usage`.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, listed
from sweet_rl.flags.shared import Seeded
from sweet_rl.types import Json

MAX_CHOICES: Final = 1024
"""Choices of one request: prompts times n."""

HARMLESS: Final = frozenset(
    """temperature top_p top_k min_p seed user presence_penalty frequency_penalty repetition_penalty metadata store
    service_tier safety_identifier prompt_cache_key prompt_cache_retention parallel_tool_calls reasoning_effort
    verbosity""".split()
)
"""Accepted without effect: replies are not sampled, and nothing is kept."""

_NEUTRAL: Final[Mapping[str, tuple[Json, ...]]] = {
    "logprobs": (False,), "top_logprobs": (0,), "tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],),
    "function_call": ("none", "auto"), "response_format": ({"type": "text"},), "modalities": (["text"],),
    "logit_bias": ({},), "echo": (False,), "suffix": ("",), "best_of": (1,),
}  # fmt: skip
"""Not supported: accepted with a value that asks for nothing."""

_BOTH: Final = frozenset({"model", "n", "stream", "stream_options", "stop", "max_tokens"})
_TOKEN: Final = re.compile(r"\s*+\S++(?:\s++\Z)?|\s++\Z")


class RequestProblem(Exception):
    """Why a request gets no reply, as an OpenAI error."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, wait: Json = None
    ) -> None:
        self.status, self.retry_after = status, wait
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        super().__init__(message)


class ServedMessage(NamedTuple):
    """One message of a chat request: its role and text."""

    role: str
    text: str


Speaker = Callable[[Sequence[ServedMessage]], str]
"""What a model says to the messages of a prompt; ValueError: they hold nothing that it can answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What both kinds of completion ask for: a reply to each prompt, `n` times."""

    chat: bool  # messages came; they are one prompt
    model: str
    prompts: tuple[tuple[ServedMessage, ...], ...]  # chats, or texts as chats of one message
    n: int
    stream: bool
    usage_in_stream: bool = False  # a last piece holds the usage
    stop: tuple[str, ...] = ()  # texts before which a reply ends
    max_tokens: int | None = None  # words at most


def read_chat(content: bytes) -> Request:
    """Body of /chat/completions."""
    body = _object(content)
    messages: Json = body.get("messages")
    _require(
        isinstance(messages, list) and messages,
        "messages must be a list with at least one message.",
        "messages",
    )
    return _request(
        body, (tuple(_message(place, message) for place, message in enumerate(messages)),), chat=True
    )


def read_completion(content: bytes) -> Request:
    """Body of /completions."""
    body = _object(content)
    prompt: Json = body.get("prompt")
    given = prompt if isinstance(prompt, list) else [prompt]
    texts_only = given and all(isinstance(text, str) for text in given)
    _require(
        texts_only, "prompt must be a string or a list of strings; token ids have no meaning here.", "prompt"
    )
    return _request(body, tuple((ServedMessage("user", text),) for text in given), chat=False)


def ended(text: str, asked: Request) -> tuple[str, str]:
    """A reply as far as it may go, and why it ends: "stop" or "length"."""
    places = [place for stop in asked.stop if (place := text.find(stop)) >= 0]
    text = text[: min(places)] if places else text
    words = _TOKEN.findall(text)
    if asked.max_tokens is not None and len(words) > asked.max_tokens:
        return "".join(words[: asked.max_tokens]), "length"
    return text, "stop"


def reply_body(asked: Request, texts: Sequence[str | None], number: int) -> dict[str, Json]:
    """The reply to request `number`; None is null content."""
    prompt_tokens = sum(len(message.text.split()) for prompt in asked.prompts for message in prompt)
    choices: list[dict[str, Json]] = []
    completion_tokens = 0
    for index, text in enumerate(texts):
        content, reason = (None, "stop") if text is None else ended(text, asked)
        completion_tokens += len((content or "").split())
        body = {"message": {"role": "assistant", "content": content}} if asked.chat else {"text": content}
        choices.append({"index": index, **body, "logprobs": None, "finish_reason": reason})
    return {
        "id": f"chatcmpl-{number}" if asked.chat else f"cmpl-{number}",
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": int(time.time()),
        "model": asked.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def stream_body(asked: Request, reply: Mapping[str, Json]) -> bytes:
    """The same reply as server-sent events: a piece for each word, why it ends, the usage if wanted."""
    head = {key: value for key, value in reply.items() if key not in {"usage", "choices"}}
    if asked.chat:
        head["object"] = "chat.completion.chunk"
    usage: dict[str, Json] = {"usage": None} if asked.usage_in_stream else {}
    events = [head | {"choices": [piece]} | usage for choice in reply["choices"] for piece in _pieces(choice)]
    if asked.usage_in_stream:
        events.append(head | {"choices": [], "usage": reply["usage"]})
    return (
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    )


def _pieces(choice: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    """A choice in the pieces of a stream."""
    frame = {"index": choice["index"], "logprobs": None, "finish_reason": None}
    chat = "message" in choice
    text = choice["message"]["content"] if chat else choice["text"]
    if chat:
        yield frame | {"delta": {"role": "assistant", "content": None if text is None else ""}}
    for word in _TOKEN.findall(text or ""):
        yield frame | ({"delta": {"content": word}} if chat else {"text": word})
    end: dict[str, Json] = {"delta": {}} if chat else {"text": ""}
    yield frame | end | {"finish_reason": choice["finish_reason"]}


def _require(holds: object, message: str, param: str | None = None) -> None:
    if not holds:
        raise RequestProblem(400, message, param)


def _object(content: bytes) -> dict[str, Json]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestProblem(400, f"The request body is not JSON: {error}") from error
    _require(isinstance(body, dict), "The request body must be a JSON object.")
    return {key: value for key, value in body.items() if value is not None}


def _request(body: dict[str, Json], prompts: tuple[tuple[ServedMessage, ...], ...], *, chat: bool) -> Request:
    own = (
        _BOTH | HARMLESS | {"messages" if chat else "prompt"} | ({"max_completion_tokens"} if chat else set())
    )
    for name, value in body.items():
        if name in _NEUTRAL:
            _require(value in _NEUTRAL[name], f"{name} is not supported by this server; leave it out.", name)
        else:
            _require(name in own, f"Unrecognized request argument supplied: {name}", name)
    _require(isinstance(body.get("model"), str), "model must be a string.", "model")
    for name, most in (("n", 128), ("max_tokens", 2**31), ("max_completion_tokens", 2**31)):
        fits = type(body.get(name, 1)) is int and 1 <= body.get(name, 1) <= most
        _require(fits, f"{name} must be a whole number from 1 to {most}.", name)
    n, options, stops = body.get("n", 1), body.get("stream_options", {}), body.get("stop", [])
    _require(n * len(prompts) <= MAX_CHOICES, f"n times the prompts must be at most {MAX_CHOICES}.", "n")
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    _require(len(limits) < 2, "max_tokens and max_completion_tokens exclude each other.", "max_tokens")
    sensible = isinstance(options, dict) and (not options or body.get("stream"))
    _require(sensible, "stream_options is an object, and only allowed with stream.", "stream_options")
    stream, usage_in_stream = body.get("stream", False), options.get("include_usage", False)
    for name, value in (("stream", stream), ("stream_options.include_usage", usage_in_stream)):
        _require(isinstance(value, bool), f"{name} must be true or false.", name)
    stops = [stops] if isinstance(stops, str) else stops
    texts = (
        isinstance(stops, list) and len(stops) <= 4 and all(isinstance(stop, str) and stop for stop in stops)
    )
    _require(texts, "stop must be a text, or up to four of them, none empty.", "stop")
    max_tokens = limits[0] if limits else None
    return Request(chat, body["model"], prompts, n, stream, usage_in_stream, tuple(stops), max_tokens)


def _message(place: int, message: Json) -> ServedMessage:
    """A message, whose content is a text or a list of typed parts."""
    where = f"messages[{place}]"
    fits = isinstance(message, dict) and isinstance(message.get("role"), str)
    _require(fits, f"{where} must be an object with a role.", where)
    content: Json = "" if message.get("content") is None else message["content"]
    if not isinstance(content, str):
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
        readable = isinstance(content, list) and all(isinstance(text, str) for text in texts)
        problem = f"{where}.content must be a text or a list of text parts; this server sees no pictures."
        _require(readable, problem, f"{where}.content")
        content = "\n".join(map(str, texts))
    return ServedMessage(message["role"], content)


class Fault(StrEnum):
    """What a real server does to its clients now and then."""

    RATE_LIMIT = "rate_limit"  # 429 with Retry-After
    SERVER_ERROR = "server_error"  # 500 with an OpenAI error body
    BAD_REQUEST = "bad_request"  # 400 with one
    RESET = "reset"  # the connection breaks before anything is sent
    TIMEOUT = "timeout"  # nothing is sent for `hang_s`
    SLOW_DRIP = "slow_drip"  # the body comes a byte at a time over `hang_s`
    MALFORMED_JSON = "malformed_json"  # a 200 whose body stops half-way
    EMPTY_CHOICES = "empty_choices"  # a 200 without a choice
    NULL_CONTENT = "null_content"  # a 200 whose message is null


DEFAULT_FAULTS = tuple(fault for fault in Fault if fault is not Fault.BAD_REQUEST)


@dataclass(frozen=True, kw_only=True)
class FaultProfile(Seeded):
    """Latency and faults."""

    latency_median_ms: float = flag(
        0.0, "median of the log-normal time that a reply takes, in milliseconds; 0 for none.", at_least=0
    )
    latency_sigma: float = flag(1.0, "standard deviation of the logarithm of that time.", at_least=0)
    fault_rate: float = flag(
        0.0, "share of requests that something happens to, from 0 to 1.", at_least=0, at_most=1
    )
    faults: str = flag(
        ",".join(DEFAULT_FAULTS),
        "what may happen, separated by commas; bad_request is the one more that there is.",
    )
    hang_s: float = flag(60.0, "seconds that the faults timeout and slow_drip hold a request.", at_least=0)
    max_in_flight: int | None = flag(
        None,
        "requests in work at once; those beyond are turned away with 429. Default: no limit.",
        at_least=1,
    )

    def check_together(self) -> None:
        super().check_together()
        if not self._kinds and self.fault_rate:
            raise UsageError("--fault_rate is above 0, but --faults names none.")

    @cached_property
    def _kinds(self) -> tuple[Fault, ...]:
        try:
            return tuple(map(Fault, listed(self.faults)))
        except ValueError as error:
            raise UsageError(f"--faults: {error}. Known are {', '.join(Fault)}.") from None

    def draw(self, request: int) -> tuple[float, Fault | None]:
        """Seconds of latency and the fault, if any, of the request with this number."""
        source = random.Random(self.seed * 1_000_003 + request)
        latency_s = 0.0
        if self.latency_median_ms > 0:
            mu = math.log(self.latency_median_ms / 1000)
            latency_s = source.lognormvariate(mu, self.latency_sigma)
        fault = source.choice(self._kinds) if self._kinds and source.random() < self.fault_rate else None
        return latency_s, fault
