"""Servers for other people's trainers: a world as an OpenEnv environment, a critic's credit of every turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sweet_rl.cli.parse import Facets
from sweet_rl.cli.stage import stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import DataError, ServiceError, SweetRLError, missing_package
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer
from sweet_rl.flags.shared import Listening, Quiet
from sweet_rl.integrations.worlds import WorldChoice
from sweet_rl.types import Json, Message
from sweet_rl.worlds import Options, first_for

if TYPE_CHECKING:
    import asyncio

    from aiohttp import web
    from aiohttp.typedefs import Handler

    from sweet_rl.preferences.credit import DialogueCritic, View
    from sweet_rl.serving import Limits


@group("Address")
class Sessions(Listening):
    sessions: int = flag(64, "most clients at once.", at_least=1)
    session_idle_s: float = flag(3600, "seconds after which an idle client loses its session.", above=0)


@stage(
    "world",
    defaults={"world": first_for("dialogue")},
    helps={"seed": "random seed, from which each episode's seed is derived."},
    options=WORLD_OPTIONS,
)
def serve_env(flags: Sessions, choice: WorldChoice, options: Options, /) -> None:
    """Serve a world, with its human, as an OpenEnv environment: reset, step and state.

    A client sends the agent's text, {"text": ...}, and gets the reply, the reward of the turn, and whether
    the episode is over. docs/integrations.md#openenv-and-trl has a client, and trains with TRL's GRPO.

    The smallest run: sweet-rl serve_env code
    """
    import asyncio
    import logging
    import socket

    from sweet_rl.integrations.worlds import open_world
    from sweet_rl.serving import Limits, in_one_line, usable

    try:
        import uvicorn
        from openenv.core.env_server.http_server import create_fastapi_app
        from openenv.core.env_server.types import ConcurrencyConfig

        from sweet_rl.integrations.openenv import Guarded, Heard, Played, Say, WorldEnvironment, drop_slow
    except ModuleNotFoundError as error:
        raise missing_package("openenv", "openenv", needed_for="serve_env") from error

    async def serve() -> None:
        async with open_world(replace(choice, options=asdict(options))) as world:
            limits = {"max_concurrent_envs": flags.sessions, "session_timeout": flags.session_idle_s}
            at_once: Any = {"concurrency_config": ConcurrencyConfig(**limits), "state_cls": Played}
            app = create_fastapi_app(lambda: WorldEnvironment(world), Say, Heard, **at_once)
            guarded = Guarded(app, flags.host, Limits(), flags.session_idle_s)
            most = guarded.limits.body_bytes
            server = uvicorn.Server(uvicorn.Config(guarded, log_level="warning", ws_max_size=most))
            logging.getLogger("uvicorn.error").addFilter(in_one_line)
            with usable(flags.host, flags.at_port):
                listening = socket.create_server((flags.host, flags.at_port))
            place = f"http://{flags.host}:{listening.getsockname()[1]}"
            print(f"Serving {world.world.name} at {place}", flush=True)
            dropping = asyncio.create_task(drop_slow(server, guarded.limits.headers_s))
            await server.serve(sockets=[listening])
            dropping.cancel()

    asyncio.run(serve())


@group("Scores")
class ServeCreditFlags(Listening, Critic, Advantage, Tokenizer, Quiet):
    pass


def _facets(flags: Mapping[str, Any]) -> Facets:
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked}


@stage(
    "critic",
    defaults={"critic": REQUIRED, "request_timeout_s": 600.0},
    helps={
        "critic": "critic: a checkpoint folder, a hub name, smollm2, embedded, or its name on the server.",
        "reference_model": "reference model that the critic is compared with; default: the model it was "
        "trained from (recorded in its folder), or else the log-probabilities sent with "
        "the turns.",
        "tokenizer": "folder or name of the critic's tokenizer; default the critic's own.",
        "quiet": "print errors only.",
    },
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=_facets,
)
def serve_credit(flags: ServeCreditFlags, scorers: ScorerFlags, /) -> None:
    """Serve a critic: send dialogues and hidden information, get the advantage of every agent turn.

    POST /credit takes {"dialogues": [{"hidden": text or null, "messages": [...]}]} and returns {"advantages":
    [[...]], "why": [[...]]} with the digests of critic and reference. docs/export_and_credit.md#turn-credit
    has examples, also with other trainers.

    The smallest run: sweet-rl serve_credit path/to/critic
    """
    import asyncio
    from functools import cache

    from sweet_rl import serving
    from sweet_rl.chat import TokenizerChat
    from sweet_rl.cli.servers import key_in
    from sweet_rl.commands.rank_best_of_n import models_of, scorers_of
    from sweet_rl.preferences.credit import DialogueCritic, facts_of
    from sweet_rl.runs.facts import trained_from

    key_in(scorers.api_key_var)
    if flags.reference_model is None:
        flags = replace(flags, reference_model=trained_from(str(flags.critic)))
    facts = facts_of(str(flags.critic), flags.reference_model, flags.advantage)

    def ready(port: int) -> None:
        if not flags.quiet:
            print(f"Serving credit by {flags.critic} at http://{flags.host}:{port}/credit", flush=True)

    async def serve() -> None:
        name, base = str(flags.critic), flags.reference_model
        async with scorers_of(name, base, scorers) as opened:
            critic, reference = models_of(opened, name, base, flags.tokenizer)
            chat = cache(lambda: TokenizerChat.from_pretrained(flags.tokenizer or str(flags.critic)))
            scorer = DialogueCritic(critic, reference, chat, flags.advantage)
            app = credit_application(scorer, facts, host=flags.host)
            await serving.serve(app, flags.host, flags.at_port, on_ready=ready)

    asyncio.run(serve())


def credit_application(
    critic: DialogueCritic,
    facts: Mapping[str, Json],
    *,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
) -> web.Application:
    """Credit over HTTP, with what it was computed by (`facts`) and in which unit (`sweet_rl.preferences.credit`).

    `host` is whose names it answers to.
    """
    import asyncio

    from aiohttp import web

    from sweet_rl.serving import Limits, guard

    limits, lock = limits or Limits(), asyncio.Lock()
    running: set[asyncio.Task[list[list[View]]]] = set()

    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", **facts})

    async def credit(request: web.Request) -> web.Response:
        if (kind := request.content_type) != "application/json":
            raise web.HTTPUnsupportedMediaType(text=f"The Content-Type must be application/json, got {kind}.")
        hidden, dialogues = _read(await request.read())
        async with lock:  # one request after the other
            if running:  # what a client began that has gone away is computed to its end
                await asyncio.wait(running)
            task = asyncio.create_task(critic.views(hidden, dialogues))
            running.clear()
            running.add(task)
            found = await asyncio.shield(task)
        advantages = [[view.advantage for view in views] for views in found]
        why = [[view.why for view in views] for views in found]
        return web.json_response({"advantages": advantages, "why": why, **facts})

    @web.middleware
    async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Also for what never reaches a handler of ours: an unknown path, a wrong method, too large a body."""
        try:
            return await handler(request)
        except SweetRLError as error:
            status = 503 if isinstance(error, ServiceError) else 400
            return web.json_response({"error": str(error)}, status=status)
        except web.HTTPException as error:
            words = (error.text or error.reason).strip()
            return web.json_response({"error": words}, status=error.status)

    layers = [errors_as_json, guard(host, limits)]
    app = web.Application(client_max_size=limits.body_bytes, middlewares=layers)
    app.router.add_post("/credit", credit)
    app.router.add_get("/health", health)
    return app


def _read(body: bytes) -> tuple[list[str | None], list[list[Message]]]:
    """What a request asks about."""
    from sweet_rl.preferences.credit import hidden_of, messages_of

    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not JSON ({error})", field="body") from error
    dialogues = asked.get("dialogues") if isinstance(asked, dict) else None
    if not isinstance(dialogues, list):
        repair = '[{"hidden": "...", "messages": [...]}]'
        raise DataError("must be a list", field="dialogues", value=asked, repair=repair)
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
