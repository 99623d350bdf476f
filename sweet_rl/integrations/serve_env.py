"""A world as an OpenEnv server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from sweet_rl.command_line.stages import stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import Listening
from sweet_rl.integrations.worlds import WorldChoice
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
