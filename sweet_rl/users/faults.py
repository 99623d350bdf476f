"""Deliberate faults of the simulator server: delays and failures of replies.

Drawn from a seed and the request's number, so that a server with the same flags behaves the same way again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweet_rl.errors import UsageError
from sweet_rl.flags import listed


class Fault(StrEnum):
    """What a real server does to its clients now and then."""

    RATE_LIMIT = "rate_limit"
    """429 with Retry-After."""
    SERVER_ERROR = "server_error"
    """500 with an OpenAI error body."""
    BAD_REQUEST = "bad_request"
    """400 with an OpenAI error body."""
    RESET = "reset"
    """The connection breaks before anything is sent."""
    TIMEOUT = "timeout"
    """Nothing is sent for `hang_s`."""
    SLOW_DRIP = "slow_drip"
    """The body comes a byte at a time over `hang_s`."""
    MALFORMED_JSON = "malformed_json"
    """A 200 whose body stops half-way."""
    EMPTY_CHOICES = "empty_choices"
    """A 200 without a choice."""
    NULL_CONTENT = "null_content"
    """A 200 whose message is null."""


DEFAULT_FAULTS = tuple(fault for fault in Fault if fault is not Fault.BAD_REQUEST)


@dataclass(frozen=True, slots=True)
class FaultProfile:
    """How a server behaves.

    Args:
        latency_median_ms: median of the log-normal time that a reply takes; 0 for none.
        latency_sigma: standard deviation of its logarithm.
        fault_rate: share of requests that something happens to.
        faults: what may happen, all alike.
        hang_s: how long a hanging request is held.
        max_in_flight: requests in work at once; those beyond are turned away with 429. None for no limit.
        seed: where the draws come from.

    Raises:
        UsageError: a value that makes no sense; names the flag.
    """

    latency_median_ms: float = 0.0
    latency_sigma: float = 1.0
    fault_rate: float = 0.0
    faults: Sequence[Fault] = DEFAULT_FAULTS
    hang_s: float = 60.0
    max_in_flight: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fault_rate <= 1:
            raise UsageError(f"--fault_rate is a share from 0 to 1, got {self.fault_rate}.")
        if self.fault_rate and not self.faults:
            raise UsageError("--fault_rate is above 0, but --faults names none.")
        if self.max_in_flight is not None and self.max_in_flight < 1:
            raise UsageError(f"--max_in_flight must be at least 1, got {self.max_in_flight}.")
        if self.latency_median_ms < 0 or self.latency_sigma < 0 or self.hang_s < 0:
            raise UsageError("--latency_median_ms, --latency_sigma and --hang_s must not be negative.")

    def draw(self, request: int) -> tuple[float, Fault | None]:
        """Seconds of latency and the fault, if any, of the request with this number."""
        source = random.Random(self.seed * 1_000_003 + request)
        latency_s = 0.0
        if self.latency_median_ms > 0:
            mu = math.log(self.latency_median_ms / 1000)
            latency_s = source.lognormvariate(mu, self.latency_sigma)
        fault = source.choice(self.faults) if self.faults and source.random() < self.fault_rate else None
        return latency_s, fault


def parse_faults(names: str) -> tuple[Fault, ...]:
    """Faults from a comma list."""
    try:
        return tuple(map(Fault, listed(names)))
    except ValueError as error:
        raise UsageError(f"--faults: {error}. Known are {', '.join(Fault)}.") from None
