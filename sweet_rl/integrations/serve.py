"""Servers for other people's trainers: a world as an OpenEnv environment, a critic's credit of every turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sweet_rl.command_line.stages import Facets, stage
from sweet_rl.commands.rank_best_of_n import ScorerFlags
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import missing_package
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.common import Listening, Quiet
from sweet_rl.flags.models import SERVED, Advantage, Critic, Tokenizer
from sweet_rl.integrations.choice import WorldChoice
from sweet_rl.worlds import Options, first_for


@dataclass(frozen=True, kw_only=True)
class Sessions(Listening):
    """Where it listens."""

    sessions: int = flag(64, "clients at once.", at_least=1)
    session_idle_s: float = flag(3600, "seconds until a client that says nothing loses its session.", above=0)


@stage(
    "world",
    defaults={"world": first_for("dialogue")},
    helps={"seed": "every episode's seed is derived from it."},
    options=WORLD_OPTIONS,
)
def serve_env(flags: Sessions, choice: WorldChoice, options: Options, /) -> None:
    """Serve a world, with its human, as an OpenEnv environment: reset, step and state.

    A client sends what the agent says, {"text": ...}, and gets what it is told, the reward of the turn, and
    whether the episode is over. docs/integrations/openenv.md has a client, and TRL's GRPO as one.

    The smallest run: serve_env code
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
            app = create_fastapi_app(
                lambda: WorldEnvironment(world),
                Say,
                Heard,
                concurrency_config=ConcurrencyConfig(
                    max_concurrent_envs=flags.sessions, session_timeout=flags.session_idle_s
                ),
                state_cls=Played,
            )
            guarded = Guarded(app, flags.host, Limits(), flags.session_idle_s)
            most = guarded.limits.body_bytes
            server = uvicorn.Server(uvicorn.Config(guarded, log_level="warning", ws_max_size=most))
            logging.getLogger("uvicorn.error").addFilter(in_one_line)
            with usable(flags.host, flags.at_port):
                listening = socket.create_server((flags.host, flags.at_port))
            print(
                f"Serving {world.world.name} at http://{flags.host}:{listening.getsockname()[1]}", flush=True
            )
            dropping = asyncio.create_task(drop_slow(server, guarded.limits.headers_s))
            await server.serve(sockets=[listening])
            dropping.cancel()

    asyncio.run(serve())


@dataclass(frozen=True, kw_only=True)
class ServeCreditFlags(Listening, Critic, Advantage, Tokenizer, Quiet):
    """Scores."""


def _facets(flags: Mapping[str, Any]) -> Facets:
    asked = {"nobody"} if flags["engine"] == "transformers" else {"server"}
    return {"engine": {flags["engine"]}, "asked": asked}


@stage(
    "critic",
    defaults={"critic": REQUIRED, "request_timeout_s": 600.0},
    helps={
        "critic": "the critic: a checkpoint folder, a hub name, smollm2, embedded, or the name under which a server offers it.",
        "reference_model": "what the critic is compared with; default: the model that it was trained from, as the record in its folder says, else the log-probabilities that turns bring.",
        "tokenizer": "folder or name of the critic's tokenizer; default the critic's own.",
        "quiet": "print errors only.",
    },
    only={"base_url": SERVED, "api_key_var": SERVED},
    facets=_facets,
)
def serve_credit(flags: ServeCreditFlags, scorers: ScorerFlags, /) -> None:
    """Serve a critic: dialogues and hidden information in, the advantage of every agent turn out.

    POST /credit takes {"dialogues": [{"hidden": text or null, "messages": [...]}]} and gives {"advantages":
    [[...]], "why": [[...]]} with the digests of critic and reference. docs/integrations/credit.md has examples, and
    trainers that learn from it.

    The smallest run: serve_credit path/to/critic
    """
    import asyncio
    from functools import cache

    from sweet_rl import serving
    from sweet_rl.chat import TokenizerChat
    from sweet_rl.command_line.servers import key_in
    from sweet_rl.commands.crediting import facts_of, models_of
    from sweet_rl.integrations.credit_server import application
    from sweet_rl.preferences.dialogue_credit import DialogueCritic
    from sweet_rl.runs.reading import trained_from

    key_in(scorers.api_key_var)
    if flags.reference_model is None:
        flags = replace(flags, reference_model=trained_from(str(flags.critic)))
    facts = facts_of(flags)

    def ready(port: int) -> None:
        if not flags.quiet:
            print(f"Serving credit by {flags.critic} at http://{flags.host}:{port}/credit", flush=True)

    async def serve() -> None:
        async with models_of(flags, scorers) as (critic, reference):
            chat = cache(lambda: TokenizerChat.from_pretrained(flags.tokenizer or str(flags.critic)))
            app = application(
                DialogueCritic(critic, reference, chat, flags.advantage), facts, host=flags.host
            )
            await serving.serve(app, flags.host, flags.at_port, on_ready=ready)

    asyncio.run(serve())
