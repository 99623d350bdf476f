"""The simulator server as a command."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sweet_rl.cli.stage import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.models import KeyVar
from sweet_rl.flags.shared import Listening, Quiet, Seeded, WorldName
from sweet_rl.users.protocol import DEFAULT_FAULTS
from sweet_rl.worlds import first_for, world_of


@dataclass(frozen=True, kw_only=True)
class SimulatorFlags(Listening, WorldName, KeyVar, Seeded, Quiet):
    """Latency and faults."""

    latency_median_ms: float = flag(
        0.0, "median of the log-normal time that a reply takes, in milliseconds; 0 for none.", at_least=0
    )
    latency_sigma: float = flag(1.0, "standard deviation of the logarithm of that time.", at_least=0)
    fault_rate: float = flag(
        0.0, "share of requests that something happens to, from 0 to 1.", at_least=0, at_most=1
    )
    faults: str = flag(
        ",".join(DEFAULT_FAULTS),
        "what may happen, separated by commas; bad_request is the one more that there is.",
    )
    hang_s: float = flag(60.0, "seconds that the faults timeout and slow_drip hold a request.", at_least=0)
    max_in_flight: int | None = flag(
        None,
        "requests in work at once; those beyond are turned away with 429. Default: no limit.",
        at_least=1,
    )


@stage(
    defaults={"world": first_for("dialogue")},
    helps={
        "world": "whose human is served: a world's name, or module:ATTRIBUTE.",
        "api_key_var": "environment variable with the key that clients must send; default: none is asked for.",
        "seed": "decides about latencies and faults.",
        "quiet": "print errors only.",
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
    from sweet_rl.users.protocol import FaultProfile, parse_faults
    from sweet_rl.users.server import serve

    fault_profile = FaultProfile(
        latency_median_ms=flags.latency_median_ms,
        latency_sigma=flags.latency_sigma,
        fault_rate=flags.fault_rate,
        faults=parse_faults(flags.faults),
        hang_s=flags.hang_s,
        max_in_flight=flags.max_in_flight,
        seed=flags.seed,
    )
    api_key = os.environ[named] if named is not None else None
    speakers = {"scripted": world_of(flags.world).served_human()}
    asyncio.run(serve(speakers, fault_profile, flags.host, flags.at_port, api_key=api_key, quiet=flags.quiet))
