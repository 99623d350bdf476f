"""Credit over HTTP: dialogues in, the advantage of every agent turn out, with what it was computed by.

`POST /credit` takes `{"dialogues": [{"hidden": text or null, "messages": [...]}, ...]}`; `GET /health` says
that the server is there. What is computed and its units: `sweet_rl.preferences.dialogue_credit`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from aiohttp import web
from aiohttp.typedefs import Handler

from sweet_rl.errors import DataError, ServiceError, SweetRLError
from sweet_rl.preferences.credit import View
from sweet_rl.preferences.dialogue_credit import DialogueCritic, hidden_of, messages_of
from sweet_rl.serving import Limits, guard
from sweet_rl.types import Json, Message


class CreditServer:
    """The application.

    Args:
        facts: what its numbers depend on, in every answer.
        host: what the server listens on: whose names it answers to.
    """

    def __init__(
        self,
        critic: DialogueCritic,
        facts: Mapping[str, Json],
        *,
        host: str = "127.0.0.1",
        limits: Limits | None = None,
    ) -> None:
        self._critic, self._facts = critic, dict(facts)
        self._host, self._limits = host, limits or Limits()
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[list[list[View]]] | None = None

    def application(self) -> web.Application:
        """The routes of the server, with limits, and errors as JSON."""
        app = web.Application(
            client_max_size=self._limits.body_bytes,
            middlewares=[_errors_as_json, guard(self._host, self._limits)],
        )
        app.router.add_post("/credit", self._credit)
        app.router.add_get("/health", self._health)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"} | self._facts)

    async def _credit(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(
                text=f"The Content-Type must be application/json, got {request.content_type}."
            )
        found = await self._views(*_read(await request.read()))
        advantages = [[view.advantage for view in views] for views in found]
        why = [[view.why for view in views] for views in found]
        return web.json_response({"advantages": advantages, "why": why} | self._facts)

    async def _views(
        self, hidden: Sequence[str | None], dialogues: Sequence[Sequence[Message]]
    ) -> list[list[View]]:
        """One request after the other; what a client began that has gone away is computed to its end."""
        async with self._lock:
            if self._running is not None:
                await asyncio.wait([self._running])
            self._running = asyncio.create_task(self._critic.views(hidden, dialogues))
            return await asyncio.shield(self._running)


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
