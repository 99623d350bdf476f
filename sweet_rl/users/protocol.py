"""The OpenAI protocol as a server sees it: requests read and checked, replies and errors written.

Pure functions of JSON; what is said, and how late, is the business of `sweet_rl.users.server`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sweet_rl.types import Json


class RequestProblem(Exception):  # noqa: N818 - becomes a response
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
        """What is sent."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }


@dataclass(frozen=True, slots=True)
class Request:
    """What both kinds of completion ask for: a reply to each prompt, `n` times."""

    chat: bool
    model: str
    prompts: tuple[str, ...]
    n: int
    stream: bool


def read_chat(content: bytes) -> Request:
    """Body of /chat/completions; what is answered is the last user message.

    Raises:
        RequestProblem: 400; says which field is wrong.
    """
    body = _object(content)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestProblem(400, "messages must be a list with at least one message.", param="messages")
    said = [message for message in messages if isinstance(message, dict) and message.get("role") == "user"]
    prompt = _text_of(said[-1].get("content")) if said else None
    if prompt is None:
        raise RequestProblem(400, "messages must hold a user message with text.", param="messages")
    return _request(body, (prompt,), chat=True)


def read_completion(content: bytes) -> Request:
    """Body of /completions.

    Raises:
        RequestProblem: 400; says which field is wrong.
    """
    body = _object(content)
    prompt = body.get("prompt")
    given = prompt if isinstance(prompt, list) else [prompt]
    prompts = tuple(text for text in given if isinstance(text, str))
    if not prompts or len(prompts) < len(given):
        raise RequestProblem(
            400,
            "prompt must be a string or a list of strings; token ids have no meaning here.",
            param="prompt",
        )
    return _request(body, prompts, chat=False)


def reply_body(asked: Request, texts: Sequence[str | None], number: int) -> dict[str, Json]:
    """The reply to request `number`; None stands for null content. Usage counts words, not tokens."""
    choice: Callable[[int, str | None], dict[str, Json]] = _chat_choice if asked.chat else _text_choice
    prompt_tokens = sum(len(prompt.split()) for prompt in asked.prompts)
    completion_tokens = sum(len((text or "").split()) for text in texts)
    return {
        "id": f"chatcmpl-{number}" if asked.chat else f"cmpl-{number}",
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": int(time.time()),
        "model": asked.model,
        "choices": [choice(index, text) for index, text in enumerate(texts)],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def stream_body(reply: dict[str, Json]) -> bytes:
    """The same reply as server-sent events: one chunk with all the text, then the end mark."""
    chunk = {key: value for key, value in reply.items() if key != "usage"}
    if reply["object"] == "chat.completion":
        chunk["object"] = "chat.completion.chunk"
        chunk["choices"] = [
            {("delta" if key == "message" else key): value for key, value in choice.items()}
            for choice in reply["choices"]
        ]
    return b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"


def _object(content: bytes) -> dict[str, Json]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestProblem(400, f"The request body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestProblem(400, "The request body must be a JSON object.")
    return body


def _request(body: dict[str, Json], prompts: tuple[str, ...], *, chat: bool) -> Request:
    n = 1 if body.get("n") is None else body["n"]
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= 128:
        raise RequestProblem(400, "n must be a whole number from 1 to 128.", param="n")
    if not isinstance(body.get("model"), str):
        raise RequestProblem(400, "model must be a string.", param="model")
    return Request(chat, body["model"], prompts, n, bool(body.get("stream")))


def _text_of(content: Json) -> str | None:
    """The text of a message, which is a string or a list of typed parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _chat_choice(index: int, text: str | None) -> dict[str, Json]:
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}


def _text_choice(index: int, text: str | None) -> dict[str, Json]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}
