"""What servers answer: replies and errors in the forms in which they come, read into one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sweet_rl.openai_client.retries import AttemptFailed, retry_after_s
from sweet_rl.thoughts import split_thoughts
from sweet_rl.types import FinishReason, Json

_REASONS: Final[Mapping[str, FinishReason]] = {
    word: reason
    for reason, words in (
        (FinishReason.STOP, "stop eos eos_token end_turn stop_sequence stop_token complete"),
        (FinishReason.LENGTH, "length max_tokens max_output_tokens max_length model_length model_context_window_exceeded"),
        (FinishReason.REFUSED, """refusal content_filter content_filtered guardrail_intervened safety sensitive recitation
            blocklist prohibited_content spii"""),
        (FinishReason.TOOL_CALLS, "tool_calls tool_use function_call malformed_function_call"),
    )
    for word in words.split()
}  # fmt: skip
"""`finish_reason` as OpenAI, Anthropic, Google, Mistral, Cohere, TGI and others write it, in lower case."""

_FAULTS: Final = frozenset(
    "error load abort aborted cancelled canceled failed insufficient_system_resource network_error".split()
)
"""Reasons for which a reply ended because of the server: it was loading, shutting down, out of resources."""

_CONTEXT_FULL: Final = re.compile(
    r"(?i)context[ _]?(length|window|size|limit)|tokens_limit_reached|max_prompt_tokens"
    r"|(prompt|input|message|conversation|text)s?\b[^.]{0,40} too (long|large)|too many (input |prompt )?tokens"
    r"|reduce the length of|input token count|range of input length"
    r"|maximum (prompt|input|sequence) length|max_(model|seq|input)_len"
    r"|`?inputs`? (tokens \+|must have less than)|(prompt|input)\b[^.]{0,60}tokens?\b[^.]{0,40}exceed"
)
_TAGS: Final = re.compile(r"<(style|script).*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL)
_RATE: Final = re.compile(r"(?i)per (minute|day|hour)|rate.?limit|\bTPM\b")
_UNPAID: Final = re.compile(r"(?i)insufficient[_ ](quota|balance|credits?|funds)|credit balance")
_WORDS: Final = "error errors message msg detail details fieldViolations description reason metadata raw exception".split()
"""Where an error's sentences stand, in the order in which they are read."""

_KINDS: Final = {408: "timeout", 429: "rate_limited"} | dict.fromkeys((400, 413, 422), "bad_request")
_PASSING: Final = {408, 409, 425, 429}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The first choice of a chat completion: the model's reply, or the words of its refusal, and the reasoning before it.

    `sent` are the messages as the server took them, where that is not as they were given (see `Dialect`).
    """

    content: str
    finish_reason: FinishReason
    thoughts: str | None = None
    sent: list[dict[str, Json]] | None = None


@dataclass(frozen=True, slots=True)
class ServerError:
    """What a server says is wrong: its sentences, its codes, and the fields of the request that it points at."""

    words: str
    codes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


def failed_status(status: int, headers: Mapping[str, str], body: Json) -> AttemptFailed:
    """Sort an error: 408, 409, 425, 429 and 5xx can pass; what the request itself causes cannot."""
    error = server_error(body)
    said = " ".join((error.words, *error.codes))
    can_pass = status in _PASSING or status >= 500
    kind = _KINDS.get(status, "server_error" if status >= 500 else "refused")
    if status != 429 and _CONTEXT_FULL.search(said) and not _RATE.search(said):
        kind, can_pass = "context_full", False
    elif status == 402 or (status < 500 and _UNPAID.search(said)):
        kind, can_pass = "quota", False  # may come with 429, but waiting does not fill an account
    detail = error.words[:300]
    if location := headers.get("Location"):
        place = re.sub(r"/(chat/completions|completions|models)/?$", "", location)
        detail = f"it redirects to {place}: if that is the server, give that address. {detail}".strip()
    waits_s = retry_after_s(headers)
    return AttemptFailed(kind, detail, can_pass=can_pass, status=status, retry_after_s=waits_s, error=error)


def server_error(body: Json) -> ServerError:
    """An error in any of the forms that servers give it: OpenAI's, pydantic's, a list, a text, a page."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    words: list[str] = []
    codes: list[str] = []
    fields: list[str] = []

    def read(value: Json) -> None:
        if isinstance(value, str):
            inner = _json_in(value)
            if inner is not None:
                read(inner)
            elif text := " ".join(_TAGS.sub(" ", value).split()):
                # it is printed: no control of a terminal
                words.append("".join(filter(str.isprintable, text)))
        elif isinstance(value, list | tuple):
            for one in value:
                read(one)
        elif isinstance(value, dict):
            place = value.get("loc")
            named = [".".join(map(str, place))] if isinstance(place, list | tuple) else []
            named += [value[name] for name in ("param", "field") if isinstance(value.get(name), str)]
            fields.extend(named)
            codes.extend(str(value[name]) for name in ("code", "type", "error_type") if value.get(name))
            before = len(words)
            for name in _WORDS:
                if value.get(name):
                    read(value[name])
            if isinstance(place, list | tuple) and len(words) > before:
                words[before] = f"{named[0]}: {words[before]}"

    read(body)
    return ServerError("; ".join(dict.fromkeys(words)), tuple(codes), tuple(fields))


def _json_in(text: str) -> Json:
    """The object or list that a text is, as JSON or as Python writes it; None where it is neither."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        found = ast.literal_eval(text.strip()[:10000])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def body_of(content: bytes) -> dict[str, Json]:
    """The object of a successful response."""
    if content.lstrip()[:1] == b"<":
        said = server_error(content).words[:200]
        raise AttemptFailed("malformed_reply", f"a web page came, no JSON: {said!r}")
    streamed = content.lstrip().startswith((b"data:", b"event:", b":"))
    data = _joined(content.decode()) if streamed else json.loads(content)
    if b"\\ud" in content.lower():
        data = _readable(data)
    data = data[0] if isinstance(data, list) and len(data) == 1 else data
    if not data.get("choices") and data.get("error"):
        raise _failed_within(data["error"])
    return dict(data)


def _failed_within(error: Json) -> AttemptFailed:
    """An error that came with the status of a success."""
    code = str(error.get("code") or error.get("status") if isinstance(error, dict) else "")
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else 500
    if "unexpected endpoint" in str(error).lower():  # LM Studio
        status = 404
    return failed_status(status, {}, {"error": error})


def _joined(text: str) -> dict[str, Json]:
    """The whole reply of a server that sends it in pieces, unasked."""
    whole: dict[str, Json] = {}
    choices: dict[int, dict[str, Json]] = {}
    for line in text.splitlines():
        piece = line.removeprefix("data:").strip()
        if not line.startswith("data:") or piece == "[DONE]":
            continue
        chunk = json.loads(piece)
        whole |= {name: value for name, value in chunk.items() if value is not None and name != "choices"}
        for choice in chunk.get("choices") or ():
            known = choices.setdefault(choice.get("index") or 0, {"text": "", "message": {}})
            known["text"] += choice.get("text") or ""
            for name, value in (choice.get("delta") or {}).items():
                known["message"][name] = value if name == "role" else known["message"].get(name, "") + value
            known["finish_reason"] = choice.get("finish_reason") or known.get("finish_reason")
    if choices and not all(choice.get("finish_reason") or "[DONE]" in text for choice in choices.values()):
        raise ValueError("the stream ends in the middle of a reply")
    return whole | {"choices": list(choices.values())}


def _readable(value: Json) -> Json:
    """The same JSON, the replacement character in place of lone surrogates, which no tokenizer takes."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_readable(one) for one in value]
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    return value


def read_texts(data: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The choices of a text completion; `finish_reason` becomes a `FinishReason`."""
    choices = []
    for choice in _choices(data):
        reason = _finish(choice)
        text = choice.get("text")
        if text is None or (not text and reason is FinishReason.OTHER):
            raise AttemptFailed("empty_reply", f"the text of a choice is {text!r}")
        choices.append({**choice, "finish_reason": reason})
    return choices


def read_chat(data: Mapping[str, Json], *, any_reply: bool) -> ChatReply:
    """The first choice of a chat completion."""
    choice = _choices(data)[0]
    reason, message = _finish(choice), choice["message"]
    if message is None:
        raise AttemptFailed("empty_reply", "the message is null")
    text, aside, refusal = _parts(message)
    spoken = split_thoughts(text or "")
    thoughts, content = aside or spoken.thoughts, spoken.text
    empty = not content.strip()
    if refusal:
        content, reason = refusal if empty else content, FinishReason.REFUSED
    elif empty and (message.get("tool_calls") or message.get("function_call")):
        reason = FinishReason.TOOL_CALLS
    elif not empty and reason is FinishReason.TOOL_CALLS:
        reason = FinishReason.OTHER  # it spoke as well
    nothing = empty and not thoughts
    if nothing and (reason is FinishReason.OTHER or (text is None and reason is FinishReason.STOP)):
        said = f"the content is {'null' if text is None else 'empty'} (finish_reason {choice.get('finish_reason')})"
        raise AttemptFailed("empty_reply", said)
    if any_reply:
        return ChatReply(content, reason, thoughts)
    kind = why = ""
    if reason is FinishReason.REFUSED:
        kind, why = "model_refused", f"the model or its provider's filter refused to reply: {content[:200]!r}"
    elif reason is FinishReason.TOOL_CALLS:
        kind, why = "tool_call", "the model called a tool instead of writing a text"
    elif nothing:
        kind, why = "empty_reply", f"the model wrote nothing (finish_reason {reason})"
    elif empty:
        why = f"the model wrote thoughts, no answer (finish_reason {reason}); where its tokens were used up, allow more of them"
        kind, why = "only_thoughts", f"{why}. It ends: {(thoughts or '')[-100:]!r}"
    if kind:
        raise AttemptFailed(kind, why, can_pass=False)
    return ChatReply(content, reason, thoughts)


def _choices(data: Mapping[str, Json]) -> list[dict[str, Json]]:
    choices = data["choices"]
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise TypeError("choices is not a list of objects")
    if not choices:
        raise AttemptFailed("empty_reply", "the list of choices is empty")
    return choices


def _finish(choice: Mapping[str, Json]) -> FinishReason:
    """Why the reply ended; one that ended because of the server is no reply, whatever it holds."""
    if choice.get("error"):
        raise _failed_within(choice["error"])
    said = str(choice.get("finish_reason") or "").lower()
    if said in _FAULTS:
        raise AttemptFailed("server_error", f"the server broke the reply off (finish_reason {said})")
    return _REASONS.get(said, FinishReason.OTHER)


def _parts(message: Mapping[str, Json]) -> tuple[str | None, str | None, str | None]:
    """Text, thoughts and refusal of a message; None for what it has not. Contents may come in parts."""
    content, refusal = message.get("content"), message.get("refusal")
    fields = ("reasoning_content", "reasoning")  # vLLM's and DeepSeek's; OpenRouter's and newer vLLMs'
    thoughts = [next((text for text in map(message.get, fields) if isinstance(text, str)), "")]
    if content is None or isinstance(content, str):
        text = content
    else:
        texts: list[str] = []
        for part in content if isinstance(content, list) else [content]:
            kind = "text" if isinstance(part, str) else str(part.get("type", "text"))
            if "text" in kind:
                texts.extend(_texts(part))
            elif "think" in kind or "reason" in kind:
                thoughts.extend(_texts(part))
            elif kind == "refusal":
                refusal = refusal or part["refusal"]
            elif "tool" not in kind:
                raise TypeError(f"a part of the content has the unknown type {kind!r}")
        text = "".join(texts)
    return text, "\n\n".join(filter(str.strip, thoughts)) or None, refusal


def _texts(value: Json) -> Iterator[str]:
    """All texts in a part of a content, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for name in ("text", "thinking", "reasoning", "summary", "content"):
            yield from _texts(value.get(name))
