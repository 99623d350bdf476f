"""Requests to OpenAI-compatible servers: pooled, paced, retried, counted, with classified failures.

`client` sends; `limiter` finds out how many at once; `retry` decides what can pass and how long to wait;
`urls` knows where, and how addresses may be seen; it alone is loaded without being asked for. What is asked and what
is made of the answer belongs to `sweet_rl.users` and `sweet_rl.policies`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sweet_rl.openai_client.urls import base_url_from, shown

if TYPE_CHECKING:
    from sweet_rl.openai_client.client import ChatReply, ClientStats, OpenAIClient
    from sweet_rl.openai_client.retry import RequestFailed, RetryPolicy, is_context_full

__all__ = [
    "ChatReply",
    "ClientStats",
    "OpenAIClient",
    "RequestFailed",
    "RetryPolicy",
    "base_url_from",
    "is_context_full",
    "shown",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "client" if "Client" in name or name == "ChatReply" else "retry"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
