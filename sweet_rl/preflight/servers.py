"""Servers of models: whether they answer, offer the named model, and support the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sweet_rl.errors import SweetRLError
from sweet_rl.openai_client import OpenAIClient, RequestFailed, RetryPolicy, shown
from sweet_rl.preflight.findings import Finding, fine, missing, warn
from sweet_rl.types import Json

_ONCE: Final = RetryPolicy(attempts=1, timeout_s=8, patience_s=8)

_PICTURE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAAAAABXZoBIAAAAFElEQVR42mP4jwcwjEqOSo5KwgAA0FYNHp/Mo7cAAAAA"
    "SUVORK5CYII="
)
"""White, of 28 x 28 pixels."""


@dataclass(frozen=True, slots=True)
class Server:
    """An external server, and what the run will ask of it.

    Attributes:
        what: whose it is.
        urls: each is looked at.
        model: its name there; "auto" for the first that is offered.
        key: that it asks for; None for none.
        max_tokens: of a reply, as the run will ask for.
        prompt: what is asked, like what the run will ask.
        pictures: how many a message will have.
        chat: messages are sent; else a prompt.
        start: the line that starts it.
        late: it is not needed at once.
    """

    what: str
    urls: Sequence[str]
    model: str
    key: str | None = field(default=None, repr=False)
    max_tokens: int = 4096
    prompt: str = "Say yes."
    pictures: int = 0
    chat: bool = True
    start: str = ""
    late: bool = False


async def look_at_servers(servers: Sequence[Server]) -> list[Finding]:
    """All of them at once: what each offers, and one small request to each."""
    asked = [_look(server, url) for server in servers for url in server.urls]
    return list(await asyncio.gather(*asked))


async def _look(server: Server, url: str) -> Finding:
    try:
        client = OpenAIClient([url], api_key=server.key, retry=_ONCE)
    except SweetRLError as error:
        return missing(server.what, str(error), "correct the variable with the key")
    try:
        seen = await asyncio.wait_for(_ask(server, client, url), timeout=2 * _ONCE.timeout_s)
    except (SweetRLError, RequestFailed, TimeoutError) as error:
        seen = missing(server.what, _words(url, error), server.start)
    finally:
        await client.close()
    if seen.level == "wrong" and server.late:
        return warn(seen.what, f"{seen.seen} (it is asked in the last stages)", seen.repair)
    return seen


async def _ask(server: Server, client: OpenAIClient, url: str) -> Finding:
    model, offered, url = server.model, list[str](), shown(url)
    try:
        offered = [str(one.get("id")) for one in await client.models()]
    except SweetRLError:
        if model == "auto":
            raise  # a server need not list its models where one is named
    if model == "auto":
        if not offered:
            return missing(server.what, f"{url} offers no model", server.start)
        model = offered[0]
    elif offered and model not in offered:
        seen = f"{url} offers {', '.join(offered)}, and not {model!r}"
        return missing(server.what, seen, "name what it offers, or start the other one")
    if server.chat:
        await client.chat(_message(server, model))
    else:
        await client.complete({"model": model, "prompt": server.prompt, "max_tokens": 1})
    sees = f" and takes {server.pictures} pictures" if server.pictures else ""
    return fine(server.what, f"{model} answers at {url}{sees}")


def _message(server: Server, model: str) -> Mapping[str, Json]:
    content: Json = server.prompt
    if server.pictures:
        picture = {"type": "image_url", "image_url": {"url": _PICTURE}}
        content = [{"type": "text", "text": content}, *[picture] * server.pictures]
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": server.max_tokens,
        "temperature": 0,
    }


def _words(url: str, error: BaseException) -> str:
    url = shown(url)
    if isinstance(error, RequestFailed):
        failure = error.failure
        status = f" {failure.status}" if failure.status else ""
        return f"{url} did not answer a small request ({failure.kind}{status}: {failure.detail})"
    return str(error).partition(" Correct the address")[0] or f"{url} does not answer in time"
