"""Counters of models in a record: by role, then by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sweet_rl.tracking import Usage
from sweet_rl.types import Json

_NUMBERS = ("requests", "retries", "failed_requests", "replies", "replies_without_usage", "reasoning_tokens")
_TOKENS = ("prompt_tokens", "completion_tokens")


def summed(usages: Iterable[Usage]) -> dict[str, dict[str, Json]]:
    """Of all models that were asked anything; tokens are null where no reply reported them.

    Who only asked a server which models it has asked none of them.
    """
    return added(
        {usage.role: {usage.model: _row(usage)}}
        for usage in usages
        if usage.requests and (usage.model or usage.replies)
    )


def added(parts: Iterable[Mapping[str, Mapping[str, Json]]]) -> dict[str, dict[str, Json]]:
    """The sums of several such tables. A number that is unknown in one of them is ignored."""
    totals: dict[str, dict[str, Json]] = {}
    for part in parts:
        for role, models in part.items():
            for model, row in models.items():
                old = totals.setdefault(role, {}).get(model)
                totals[role][model] = dict(row) if old is None else _plus(old, row)
    return totals


def _row(usage: Usage) -> dict[str, Json]:
    known = usage.replies > usage.uncounted or not usage.replies
    return {
        "requests": usage.requests,
        "retries": sum(usage.retries.values()),
        "failed_requests": sum(usage.failed.values()),
        "replies": usage.replies,
        "replies_without_usage": usage.uncounted,
        "prompt_tokens": usage.prompt_tokens if known else None,
        "completion_tokens": usage.completion_tokens if known else None,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _plus(one: Mapping[str, Json], other: Mapping[str, Json]) -> dict[str, Json]:
    both: dict[str, Json] = {name: one.get(name, 0) + other.get(name, 0) for name in _NUMBERS}
    for name in _TOKENS:
        known = [row[name] for row in (one, other) if row.get(name) is not None]
        both[name] = sum(known) if known else None
    return both
