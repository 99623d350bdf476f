"""Which failures of a request can pass, and how long to wait before the next attempt."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from sweet_rl.errors import UsageError
from sweet_rl.types import Failure

_KINDS = {400: "bad_request", 408: "timeout", 413: "bad_request", 422: "bad_request", 429: "rate_limited"}
_PASSING = {408, 409, 425, 429}


class RequestFailed(Exception):  # noqa: N818 - it is data for a row, not an error of the program
    """One request has failed for good; `failure` goes into the episode's row."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(f"{failure.kind}: {failure.detail}")

    def __reduce__(self) -> tuple[type[RequestFailed], tuple[Failure]]:
        return RequestFailed, (self.failure,)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a request is tried.

    Args:
        attempts: requests sent at most, the first one included.
        timeout_s: seconds that one attempt may take in all, so that a slow drip ends too.
        first_wait_s: longest wait before the second attempt; it doubles with each further one.
        max_wait_s: longest wait of our own choosing.
        max_retry_after_s: longest wait that a server may ask for.

    Raises:
        UsageError: no attempt, or no time for one.
    """

    attempts: int = 4
    timeout_s: float = 120.0
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    max_retry_after_s: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.timeout_s <= 0:
            raise UsageError(
                "A request needs at least 1 attempt and more than 0 seconds for it, "
                f"got {self.attempts} and {self.timeout_s:g} s."
            )

    def wait_s(self, failed_attempts: int, asked_s: float | None, source: random.Random) -> float:
        """Seconds to wait: exponential with jitter, but never less than the server asked for."""
        doublings = min(failed_attempts - 1, 64)  # beyond that a float overflows sooner or later
        longest = min(self.max_wait_s, self.first_wait_s * 2.0**doublings)
        own = longest * source.uniform(0.5, 1.0)
        return max(own, min(asked_s or 0.0, self.max_retry_after_s))


class AttemptFailed(Exception):  # noqa: N818 - caught by the client, which may try again
    """One attempt has failed. `can_pass` says whether another one may succeed."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        can_pass: bool,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.kind, self.detail, self.can_pass = kind, detail, can_pass
        self.status, self.retry_after_s = status, retry_after_s
        super().__init__(f"{kind}: {detail}")


def failed_status(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailed:
    """Sort an HTTP error: 408, 409, 425, 429 and 5xx can pass; what the request itself causes cannot."""
    message, code = _error_of(body)
    retry_after_s = _retry_after_s(headers)
    if code == "insufficient_quota":  # comes with 429, but waiting does not fill an account
        return AttemptFailed("quota", message, can_pass=False, status=status)
    kind = _KINDS.get(status, "server_error" if status >= 500 else "refused")
    can_pass = status in _PASSING or status >= 500
    return AttemptFailed(kind, message, can_pass=can_pass, status=status, retry_after_s=retry_after_s)


def _error_of(body: bytes, limit: int = 300) -> tuple[str, str]:
    """The server's own words and its error code, from an OpenAI error body or from whatever came instead."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        return str(error["message"])[:limit], str(error.get("code"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return " ".join(text.split())[:limit], ""


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header, which holds a number or an HTTP date."""
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
