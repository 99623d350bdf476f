"""A world as an OpenEnv server."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sweet_rl.command_line.stages import stage
from sweet_rl.commands.simulate_interactions import WORLD_OPTIONS
from sweet_rl.errors import missing_package
from sweet_rl.flags import flag
from sweet_rl.flags.common import Limit, Listening, Seeded, Tasks, WorldName
from sweet_rl.worlds import Options, first_for


@dataclass(frozen=True, kw_only=True)
class ServeEnvFlags(Listening, WorldName, Tasks, Limit, Seeded):
    """What is served."""

    human: str = flag(
        "auto",
        "who answers: auto (without human_url who needs no model), a server's model, module:ATTRIBUTE.",
    )
    human_url: str | None = flag(None, "base URL of the human's server.")
    sessions: int = flag(64, "clients at once.", at_least=1)


@stage(
    "world",
    defaults={"world": first_for("dialogue")},
    helps={"seed": "every episode's seed is derived from it."},
    options=WORLD_OPTIONS,
)
def serve_env(flags: ServeEnvFlags, options: Options, /) -> None:
    """Serve a world, with its human, as an OpenEnv environment: reset, step and state.

    A client sends what the agent says, {"text": ...}, and gets what it is told, the reward of the turn, and
    whether the episode is over. docs/doors/openenv.md has a client, and TRL's GRPO as one.

    The smallest run: serve_env code
    """
    import asyncio

    from sweet_rl.doors.opened import WorldChoice

    try:
        from sweet_rl.doors import openenv
    except ModuleNotFoundError as error:
        raise missing_package("openenv", "openenv", needed_for="serve_env") from error
    choice = WorldChoice(
        world=flags.world,
        tasks=flags.tasks,
        limit=flags.limit,
        human=flags.human,
        human_url=flags.human_url,
        seed=flags.seed,
        options=asdict(options),
    )
    asyncio.run(openenv.serve(choice, host=flags.host, port=flags.port, sessions=flags.sessions))
