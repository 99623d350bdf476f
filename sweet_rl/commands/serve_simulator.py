"""The simulator server as a command."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sweet_rl.cli.stage import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags.models import KeyVar
from sweet_rl.flags.shared import Listening, Quiet, WorldName
from sweet_rl.users.protocol import FaultProfile
from sweet_rl.worlds import first_for, world_of


@dataclass(frozen=True, kw_only=True)
class SimulatorFlags(FaultProfile, Listening, WorldName, KeyVar, Quiet):
    """Latency and faults."""


@stage(
    defaults={"world": first_for("dialogue")},
    helps={
        "world": "whose human is served: a world's name, or module:ATTRIBUTE.",
        "api_key_var": "environment variable with the key that clients must send; default: none is asked for.",
    },
)
def serve_simulator(flags: SimulatorFlags, /) -> None:
    """Serve the scripted human, and an echo, behind OpenAI endpoints.

    Models: scripted plays the human of a world, from its packaged prompt or from any that shows what that human
    has to know (by default: a Python function and a dialogue); echo repeats the last user message. Endpoints: /v1/chat/completions,
    /v1/completions, /v1/models, /health, and /stats with counters; docs/backend.md says what of the API they
    have. Latency and faults can be injected, to see how a client takes them.
    """
    import asyncio

    named = flags.api_key_var
    if named is not None and not os.environ.get(named):
        raise UsageError(f"--api_key_var {named}: this environment variable is not set, or is empty.")
    from sweet_rl.users.server import serve

    api_key = os.environ[named] if named is not None else None
    world = world_of(flags.world)
    speakers = {"scripted": world.user.served(world.name)}
    asyncio.run(serve(speakers, flags, flags.host, flags.at_port, api_key=api_key, quiet=flags.quiet))
