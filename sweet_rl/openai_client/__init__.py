"""Requests to OpenAI-compatible servers: pooled, paced, retried, counted, with classified failures.

`client` sends; `limiter` finds out how many at once; `retry` decides what can pass and how long to wait;
`urls` knows where. What is asked and what is made of the answer belongs to `sweet_rl.users` and
`sweet_rl.policies`.
"""

from sweet_rl.openai_client.client import ChatReply, ClientStats, OpenAIClient
from sweet_rl.openai_client.retry import RequestFailed, RetryPolicy, is_context_full
from sweet_rl.openai_client.urls import base_url_from

__all__ = [
    "ChatReply",
    "ClientStats",
    "OpenAIClient",
    "RequestFailed",
    "RetryPolicy",
    "base_url_from",
    "is_context_full",
]
