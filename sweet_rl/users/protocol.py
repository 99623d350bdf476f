"""The OpenAI protocol as a server sees it: requests read and checked, replies and errors written, faults drawn.

A token is a word here, with the white space before it: that is what `max_tokens` counts, and `usage`.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group, listed
from sweet_rl.flags.shared import Seeded
from sweet_rl.types import Json

MAX_CHOICES: Final = 1024
"""Choices of one request: prompts times n."""

_KNOWN: Final = frozenset(
    """model n stop max_tokens stream stream_options temperature top_p top_k min_p seed user presence_penalty frequency_penalty
    repetition_penalty metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention
    parallel_tool_calls reasoning_effort verbosity""".split()
)
"""Fields of a request; from `temperature` on without effect: replies are not sampled, and nothing is kept."""

_NEUTRAL: Final[Mapping[str, tuple[Json, ...]]] = {
    "logprobs": (False,), "top_logprobs": (0,), "tools": ([],), "tool_choice": ("none", "auto"), "functions": ([],),
    "function_call": ("none", "auto"), "response_format": ({"type": "text"},), "modalities": (["text"],),
    "logit_bias": ({},), "echo": (False,), "suffix": ("",), "best_of": (1,),
}  # fmt: skip
"""Not supported: accepted with a value that asks for nothing."""

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


class Request(NamedTuple):
    """What both kinds of completion ask for: a reply to each prompt, `n` times."""

    chat: bool  # messages came; they are one prompt
    model: str
    prompts: list[list[ServedMessage]]  # chats, or texts as chats of one message
    n: int
    stop: list[str]  # texts before which a reply ends
    max_tokens: int | None  # words at most
    stream: bool
    usage_in_stream: bool  # a last piece holds the usage


def read_request(content: bytes, *, chat: bool) -> Request:
    """Body of /chat/completions, or of /completions."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestProblem(400, f"The request body is not JSON: {error}") from error
    _require(isinstance(body, dict), "The request body must be a JSON object.")
    body = {name: value for name, value in body.items() if value is not None}
    given = body.pop("messages" if chat else "prompt", None)
    limit = "max_completion_tokens" if chat and "max_completion_tokens" in body else "max_tokens"
    if chat:
        problem = "messages must be a list with at least one message."
        _require(given and isinstance(given, list), problem, "messages")
        prompts = [[_message(f"messages[{place}]", message) for place, message in enumerate(given)]]
    else:
        asked = given if isinstance(given, list) else [given]
        problem = "prompt must be a string or a list of strings; token ids have no meaning here."
        _require(asked and all(isinstance(text, str) for text in asked), problem, "prompt")
        prompts = [[ServedMessage("user", text)] for text in asked]
    for name, value in body.items():
        if name in _NEUTRAL:
            _require(value in _NEUTRAL[name], f"{name} is not supported by this server; leave it out.", name)
        else:
            _require(name in _KNOWN or name == limit, f"Unrecognized request argument supplied: {name}", name)
    _require(isinstance(body.get("model"), str), "model must be a string.", "model")
    for name, most in (("n", 128), (limit, 2**31)):
        fits = type(body.get(name, 1)) is int and 1 <= body.get(name, 1) <= most
        _require(fits, f"{name} must be a whole number from 1 to {most}.", name)
    n, stops = body.get("n", 1), body.get("stop", [])
    _require(n * len(prompts) <= MAX_CHOICES, f"n times the prompts must be at most {MAX_CHOICES}.", "n")
    both = limit != "max_tokens" and "max_tokens" in body
    _require(not both, "max_tokens and max_completion_tokens exclude each other.", "max_tokens")
    stops = [stops] if isinstance(stops, str) else stops
    texts = isinstance(stops, list) and len(stops) <= 4 and all(one and isinstance(one, str) for one in stops)
    _require(texts, "stop must be a text, or up to four of them, none empty.", "stop")
    stream, options = body.get("stream", False), body.get("stream_options", {})
    problem = "stream_options is an object, and only allowed with stream."
    _require(isinstance(options, dict) and (stream or not options), problem, "stream_options")
    usage = options.get("include_usage", False)
    for name, value in (("stream", stream), ("stream_options.include_usage", usage)):
        _require(isinstance(value, bool), f"{name} must be true or false.", name)
    return Request(chat, body["model"], prompts, n, stops, body.get(limit), stream, usage)


def _require(holds: object, message: str, param: str | None = None) -> None:
    if not holds:
        raise RequestProblem(400, message, param)


def _message(where: str, message: Json) -> ServedMessage:
    """A message, whose content is a text or a list of typed parts."""
    fits = isinstance(message, dict) and isinstance(message.get("role"), str)
    _require(fits, f"{where} must be an object with a role.", where)
    content: Json = "" if message.get("content") is None else message["content"]
    if not isinstance(content, str):
        parts = content if isinstance(content, list) else [None]
        texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
        problem = f"{where}.content must be a text or a list of text parts; this server sees no pictures."
        _require(all(isinstance(text, str) for text in texts), problem, f"{where}.content")
        content = "\n".join(map(str, texts))
    return ServedMessage(message["role"], content)


def reply_body(asked: Request, texts: Sequence[str | None], number: int) -> dict[str, Json]:
    """The reply to request `number`, each text as far as it may go; None is null content."""
    choices: list[dict[str, Json]] = []
    given = 0
    for index, text in enumerate(texts):
        said, reason = text, "stop"
        if said is not None:
            said = said[: min((at for stop in asked.stop if (at := said.find(stop)) >= 0), default=len(said))]
            words = _TOKEN.findall(said)
            if asked.max_tokens is not None and len(words) > asked.max_tokens:
                said, reason = "".join(words[: asked.max_tokens]), "length"
            given += len(said.split())
        body = {"message": {"role": "assistant", "content": said}} if asked.chat else {"text": said}
        choices.append({"index": index, **body, "logprobs": None, "finish_reason": reason})
    read = sum(len(message.text.split()) for prompt in asked.prompts for message in prompt)
    return {
        "id": f"chatcmpl-{number}" if asked.chat else f"cmpl-{number}",
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": int(time.time()),
        "model": asked.model,
        "choices": choices,
        "usage": {"prompt_tokens": read, "completion_tokens": given, "total_tokens": read + given},
    }


def stream_body(asked: Request, reply: Mapping[str, Json]) -> bytes:
    """The same reply as server-sent events: a piece for each word, why it ends, the usage if wanted."""
    head = {name: value for name, value in reply.items() if name not in {"usage", "choices"}}
    head |= {"object": "chat.completion.chunk"} if asked.chat else {}
    usage: dict[str, Json] = {"usage": None} if asked.usage_in_stream else {}
    events: list[dict[str, Json]] = []
    for choice in reply["choices"]:
        text = choice["message"]["content"] if asked.chat else choice["text"]
        parts: list[dict[str, Json]] = [{"text": word} for word in (*_TOKEN.findall(text or ""), "")]
        if asked.chat:
            deltas: list[dict[str, Json]] = [{"role": "assistant", "content": None if text is None else ""}]
            deltas += [{"content": part["text"]} for part in parts[:-1]]
            parts = [{"delta": delta} for delta in (*deltas, {})]
        frame = {"index": choice["index"], "logprobs": None, "finish_reason": None}
        parts[-1]["finish_reason"] = choice["finish_reason"]
        events += [head | {"choices": [frame | part]} | usage for part in parts]
    if asked.usage_in_stream:
        events.append(head | {"choices": [], "usage": reply["usage"]})
    return "".join([f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]).encode()


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


@group("Latency and faults")
class FaultProfile(Seeded):
    latency_median_ms: float = flag(
        0.0, "median of the log-normal latency of a reply, in milliseconds; 0: no latency.", at_least=0
    )
    latency_sigma: float = flag(1.0, "standard deviation of the latency's logarithm.", at_least=0)
    fault_rate: float = flag(0.0, "share of requests that get a fault.", at_least=0, at_most=1)
    faults: str = flag(
        ",".join([fault for fault in Fault if fault != "bad_request"]),
        "faults that may be injected, separated by commas; bad_request is available, too.",
    )
    hang_s: float = flag(60.0, "seconds for which the faults timeout and slow_drip stall.", at_least=0)
    max_in_flight: int | None = flag(
        None, "requests served at once; more are refused with 429. Default: no limit.", at_least=1
    )

    def check_together(self) -> None:
        if not self._kinds and self.fault_rate:
            raise UsageError("--fault_rate is above 0, but --faults names none.")

    @cached_property
    def _kinds(self) -> tuple[Fault, ...]:
        try:
            return tuple(map(Fault, listed(self.faults)))
        except ValueError as error:
            raise UsageError(f"--faults: {error}. Known faults: {', '.join(Fault)}.") from None

    def draw(self, request: int) -> tuple[float, Fault | None]:
        """Seconds of latency and the fault, if any, of the request with this number."""
        source, median_s = random.Random(self.seed * 1_000_003 + request), self.latency_median_ms / 1000
        latency_s = source.lognormvariate(math.log(median_s), self.latency_sigma) if median_s > 0 else 0.0
        return latency_s, source.choice(self._kinds) if source.random() < self.fault_rate else None
