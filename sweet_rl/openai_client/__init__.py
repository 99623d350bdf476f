"""Requests to OpenAI-compatible servers: pooled, paced, retried, counted, with classified failures.

`client` sends; `limiter` finds out how many at once; `retry` decides what can pass and how long to wait;
`replies` reads what comes back; `dialect` learns what a server takes; `urls` knows where, and how addresses may be
seen; it alone is loaded without being asked for. What is asked and what is made of the answer belongs to
`sweet_rl.users` and `sweet_rl.policies`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sweet_rl.openai_client.urls import base_url_from, shown

if TYPE_CHECKING:
    from sweet_rl.openai_client.client import ClientStats, OpenAIClient
    from sweet_rl.openai_client.replies import ChatReply
    from sweet_rl.openai_client.retry import RequestFailed, RetryPolicy

__all__ = [
    "ChatReply",
    "ClientStats",
    "OpenAIClient",
    "RequestFailed",
    "RetryPolicy",
    "base_url_from",
    "shown",
]

_PLACES = {"ChatReply": "replies", "ClientStats": "client", "OpenAIClient": "client"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES.get(name, 'retry')}"), name)
