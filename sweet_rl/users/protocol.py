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
    {
        "temperature", "top_p", "top_k", "min_p", "seed", "user", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
        "prompt_cache_retention", "parallel_tool_calls", "reasoning_effort", "verbosity",
    }
)  # fmt: skip
"""Accepted without effect: replies are not sampled, and nothing is kept."""

_NEUTRAL: Final[Mapping[str, tuple[Json, ...]]] = {
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "logit_bias": ({},),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
}
"""Not supported: accepted with a value that asks for nothing."""

_BOTH: Final = frozenset({"model", "n", "stream", "stream_options", "stop", "max_tokens"})
_TOKEN: Final = re.compile(r"\s*+\S++(?:\s++\Z)?|\s++\Z")


class RequestProblem(Exception):
    """Why a request gets no reply, as an OpenAI error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after = retry_after
        super().__init__(message)

    def body(self) -> dict[str, Json]:
        """The error as a JSON object in OpenAI's form."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


class ServedMessage(NamedTuple):
    """One message of a chat request: its role and text."""

    role: str
    text: str


Speaker = Callable[[Sequence[ServedMessage]], str]
"""What a model says to the messages of a prompt; ValueError: they hold nothing that it can answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What both kinds of completion ask for: a reply to each prompt, `n` times.

    Attributes:
        chat: whether messages came; they are one prompt.
        model: its name.
        prompts: what is replied to: chats, or texts as chats of one message.
        n: replies to each.
        stream: in pieces.
        usage_in_stream: with a last piece that holds the usage.
        stop: texts before which a reply ends.
        max_tokens: words at most; None: as many as there are.
    """

    chat: bool
    model: str
    prompts: tuple[tuple[ServedMessage, ...], ...]
    n: int
    stream: bool
    usage_in_stream: bool = False
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None


def read_chat(content: bytes) -> Request:
    """Body of /chat/completions."""
    body = _object(content)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestProblem(400, "messages must be a list with at least one message.", param="messages")
    return _request(body, (tuple(map(_message, range(len(messages)), messages)),), chat=True)


def read_completion(content: bytes) -> Request:
    """Body of /completions."""
    body = _object(content)
    prompt = body.get("prompt")
    given = prompt if isinstance(prompt, list) else [prompt]
    prompts = tuple((ServedMessage("user", text),) for text in given if isinstance(text, str))
    if not prompts or len(prompts) < len(given):
        raise RequestProblem(
            400,
            "prompt must be a string or a list of strings; token ids have no meaning here.",
            param="prompt",
        )
    return _request(body, prompts, chat=False)


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
    """A choice as one piece of a stream."""
    frame = {"index": choice["index"], "logprobs": None, "finish_reason": None}
    chat = "message" in choice
    text = choice["message"]["content"] if chat else choice["text"]
    if chat:
        yield frame | {"delta": {"role": "assistant", "content": None if text is None else ""}}
    for word in _TOKEN.findall(text or ""):
        yield frame | ({"delta": {"content": word}} if chat else {"text": word})
    end: dict[str, Json] = {"delta": {}} if chat else {"text": ""}
    yield frame | end | {"finish_reason": choice["finish_reason"]}


def _object(content: bytes) -> dict[str, Json]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestProblem(400, f"The request body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestProblem(400, "The request body must be a JSON object.")
    return {key: value for key, value in body.items() if value is not None}


def _request(body: dict[str, Json], prompts: tuple[tuple[ServedMessage, ...], ...], *, chat: bool) -> Request:
    own = {"messages", "max_completion_tokens"} if chat else {"prompt"}
    for name, value in body.items():
        if name in _NEUTRAL and value not in _NEUTRAL[name]:
            raise RequestProblem(400, f"{name} is not supported by this server; leave it out.", param=name)
        if name not in _BOTH | own | HARMLESS and name not in _NEUTRAL:
            raise RequestProblem(400, f"Unrecognized request argument supplied: {name}", param=name)
    if not isinstance(body.get("model"), str):
        raise RequestProblem(400, "model must be a string.", param="model")
    n = _whole(body, "n", most=128) or 1
    if n * len(prompts) > MAX_CHOICES:
        raise RequestProblem(400, f"n times the prompts must be at most {MAX_CHOICES}.", param="n")
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise RequestProblem(
            400, "max_tokens and max_completion_tokens exclude each other.", param="max_tokens"
        )
    options = body.get("stream_options", {})
    if not isinstance(options, dict) or (options and not body.get("stream")):
        raise RequestProblem(
            400, "stream_options is an object, and only allowed with stream.", param="stream_options"
        )
    return Request(
        chat,
        body["model"],
        prompts,
        n,
        _switch(body, "stream"),
        _switch(options, "include_usage", "stream_options.include_usage"),
        _stops(body.get("stop", [])),
        _whole(body, "max_completion_tokens") or _whole(body, "max_tokens"),
    )


def _whole(body: Mapping[str, Json], name: str, most: int = 2**31) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise RequestProblem(400, f"{name} must be a whole number from 1 to {most}.", param=name)
    return value


def _switch(body: Mapping[str, Json], name: str, param: str = "") -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise RequestProblem(400, f"{param or name} must be true or false.", param=param or name)
    return value


def _stops(value: Json) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > 4 or not all(isinstance(s, str) and s for s in stops):
        raise RequestProblem(400, "stop must be a text, or up to four of them, none empty.", param="stop")
    return tuple(stops)


def _message(place: int, message: Json) -> ServedMessage:
    """A message, whose content is a text or a list of typed parts."""
    where = f"messages[{place}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RequestProblem(400, f"{where} must be an object with a role.", param=where)
    content = message.get("content")
    if content is None:
        return ServedMessage(message["role"], "")
    if isinstance(content, str):
        return ServedMessage(message["role"], content)
    texts = (
        [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    if (
        not isinstance(content, list)
        or not all(isinstance(text, str) for text in texts)
        or len(texts) < len(content)
    ):
        raise RequestProblem(
            400, f"{where}.content must be a text or a list of text parts; this server sees no pictures.",
            param=f"{where}.content",
        )  # fmt: skip
    return ServedMessage(message["role"], "\n".join(map(str, texts)))


class Fault(StrEnum):
    """What a real server does to its clients now and then."""

    RATE_LIMIT = "rate_limit"
    """429 with Retry-After."""
    SERVER_ERROR = "server_error"
    """500 with an OpenAI error body."""
    BAD_REQUEST = "bad_request"
    """400 with an OpenAI error body."""
    RESET = "reset"
    """The connection breaks before anything is sent."""
    TIMEOUT = "timeout"
    """Nothing is sent for `hang_s`."""
    SLOW_DRIP = "slow_drip"
    """The body comes a byte at a time over `hang_s`."""
    MALFORMED_JSON = "malformed_json"
    """A 200 whose body stops half-way."""
    EMPTY_CHOICES = "empty_choices"
    """A 200 without a choice."""
    NULL_CONTENT = "null_content"
    """A 200 whose message is null."""


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
