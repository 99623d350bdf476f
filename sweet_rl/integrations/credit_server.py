"""Credit over HTTP: dialogues in, the advantage of every agent turn out, with what it was computed by.

`POST /credit` takes `{"dialogues": [{"hidden": text or null, "messages": [...]}, ...]}`; `GET /health` says that the server is
there. What is computed and its units: `sweet_rl.preferences.dialogue_credit`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from sweet_rl.errors import DataError, ServiceError, SweetRLError
from sweet_rl.preferences.credit import View
from sweet_rl.preferences.dialogue_credit import DialogueCritic, hidden_of, messages_of
from sweet_rl.serving import Limits, guard
from sweet_rl.types import Json, Message


def application(
    critic: DialogueCritic,
    facts: Mapping[str, Json],
    *,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
) -> web.Application:
    """The server; `facts` are what its numbers depend on, in every answer, `host` is whose names it answers to."""
    limits, lock = limits or Limits(), asyncio.Lock()
    running: set[asyncio.Task[list[list[View]]]] = set()

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", **facts})

    async def credit(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(
                text=f"The Content-Type must be application/json, got {request.content_type}."
            )
        hidden, dialogues = _read(await request.read())
        async with (
            lock
        ):  # one request after the other; what a client began that has gone away is computed to its end
            if running:
                await asyncio.wait(running)
            task = asyncio.create_task(critic.views(hidden, dialogues))
            running.clear()
            running.add(task)
            found = await asyncio.shield(task)
        advantages = [[view.advantage for view in views] for views in found]
        why = [[view.why for view in views] for views in found]
        return web.json_response({"advantages": advantages, "why": why, **facts})

    app = web.Application(
        client_max_size=limits.body_bytes, middlewares=[_errors_as_json, guard(host, limits)]
    )
    app.router.add_post("/credit", credit)
    app.router.add_get("/health", health)
    return app


def _read(body: bytes) -> tuple[list[str | None], list[list[Message]]]:
    """What a request asks about."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({error})", field="body") from error
    dialogues = asked.get("dialogues") if isinstance(asked, dict) else None
    if not isinstance(dialogues, list):
        raise DataError(
            "must be a list", field="dialogues", value=asked, repair='[{"hidden": "...", "messages": [...]}]'
        )
    hidden: list[str | None] = []
    messages: list[list[Message]] = []
    for place, one in enumerate(dialogues):
        name = f"dialogues[{place}]"
        if not isinstance(one, dict) or not isinstance(one.get("messages"), list):
            raise DataError("must be a list", field=f"{name}.messages", value=one)
        if "hidden" not in one:
            raise DataError("must be a text, or null", field=f"{name}.hidden", value="nothing")
        hidden.append(hidden_of(one["hidden"], f"{name}.hidden"))
        messages.append(messages_of(one["messages"], f"{name}.messages"))
    return hidden, messages


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Also for what never reaches a handler of ours: an unknown path, a wrong method, too large a body."""
    try:
        return await handler(request)
    except SweetRLError as error:
        status = 503 if isinstance(error, ServiceError) else 400
        return web.json_response({"error": str(error)}, status=status)
    except web.HTTPException as error:
        words = (error.text or error.reason).strip()
        return web.json_response({"error": words}, status=error.status)
