"""A world as an OpenEnv server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from sweet_rl.command_line.stages import stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.doors.choice import WorldChoice
from sweet_rl.errors import missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import Listening
from sweet_rl.worlds import Options, first_for


@dataclass(frozen=True, kw_only=True)
class Sessions(Listening):
    """Where it listens."""

    sessions: int = flag(64, "clients at once.", at_least=1)


@stage(
    "world",
    defaults={"world": first_for("dialogue")},
    helps={"seed": "every episode's seed is derived from it."},
    options=WORLD_OPTIONS,
)
def serve_env(flags: Sessions, choice: WorldChoice, options: Options, /) -> None:
    """Serve a world, with its human, as an OpenEnv environment: reset, step and state.

    A client sends what the agent says, {"text": ...}, and gets what it is told, the reward of the turn, and
    whether the episode is over. docs/doors/openenv.md has a client, and TRL's GRPO as one.

    The smallest run: serve_env code
    """
    import asyncio
    import socket

    from sweet_rl.doors.opened import open_world
    from sweet_rl.serving import usable

    try:
        import uvicorn
        from openenv.core.env_server.http_server import create_fastapi_app

        from sweet_rl.doors.openenv import Heard, Played, Say, WorldEnvironment
    except ModuleNotFoundError as error:
        raise missing_package("openenv", "openenv", needed_for="serve_env") from error

    async def serve() -> None:
        async with open_world(replace(choice, options=asdict(options))) as world:
            app = create_fastapi_app(
                lambda: WorldEnvironment(world),
                Say,
                Heard,
                max_concurrent_envs=flags.sessions,
                state_cls=Played,
            )
            with usable(flags.host, flags.at_port):
                listening = socket.create_server((flags.host, flags.at_port))
            print(
                f"Serving {world.world.name} at http://{flags.host}:{listening.getsockname()[1]}", flush=True
            )
            await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listening])

    asyncio.run(serve())
