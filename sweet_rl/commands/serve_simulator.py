"""The simulator server as a command."""

from __future__ import annotations

from sweet_rl.errors import UsageError
from sweet_rl.users.faults import DEFAULT_FAULTS


def serve_simulator(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    api_key_var: str | None = None,
    latency_median_ms: float = 0.0,
    latency_sigma: float = 1.0,
    fault_rate: float = 0.0,
    faults: str = ",".join(DEFAULT_FAULTS),
    hang_s: float = 60.0,
    max_in_flight: int | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> None:
    """Serve the scripted human, and an echo, behind OpenAI endpoints.

    Models: scripted plays the human of Backend Programming, from the packaged prompt or from any that holds a
    Python function and a dialogue; echo repeats the last user message. Endpoints: /v1/chat/completions,
    /v1/completions, /v1/models, /health, and /stats with counters; docs/backend.md says what of the API they
    have. Latency and faults can be injected, to see how a client takes them.

    Args:
        host: address to listen at.
        port: port to listen at; 0 for any free one, which is printed.
        api_key_var: environment variable with the key that clients must send; default: none is asked for.
        latency_median_ms: median of the log-normal time that a reply takes, in milliseconds; 0 for none.
        latency_sigma: standard deviation of the logarithm of that time.
        fault_rate: share of requests that something happens to, from 0 to 1.
        faults: what may happen, separated by commas; bad_request is the one more that there is.
        hang_s: seconds that the faults timeout and slow_drip hold a request.
        max_in_flight: requests in work at once; those beyond are turned away with 429. Default: no limit.
        seed: decides about latencies and faults.
        quiet: print errors only.
    """
    import asyncio
    import os

    if api_key_var is not None and not os.environ.get(api_key_var):
        raise UsageError(f"--api_key_var {api_key_var}: this environment variable is not set, or is empty.")
    from sweet_rl.users.faults import FaultProfile, parse_faults
    from sweet_rl.users.server_process import serve
    from sweet_rl.worlds import world_of

    fault_profile = FaultProfile(
        latency_median_ms=latency_median_ms,
        latency_sigma=latency_sigma,
        fault_rate=fault_rate,
        faults=parse_faults(faults),
        hang_s=hang_s,
        max_in_flight=max_in_flight,
        seed=seed,
    )
    api_key = os.environ[api_key_var] if api_key_var is not None else None
    speakers = {"scripted": world_of("code").served_human()}
    asyncio.run(serve(speakers, fault_profile, host, port, api_key=api_key, quiet=quiet))
