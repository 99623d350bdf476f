"""Requests to OpenAI-compatible servers: pooled, paced, retried, counted, with classified failures.

`client` sends; `limiter` finds out how many at once; `retry` decides what can pass and how long to wait;
`replies` reads what comes back; `dialect` learns what a server takes; `urls` knows where. What is asked and what is made of the answer belongs to `sweet_rl.users` and
`sweet_rl.policies`.
"""

from sweet_rl.openai_client.client import ClientStats, OpenAIClient
from sweet_rl.openai_client.replies import ChatReply
from sweet_rl.openai_client.retry import RequestFailed, RetryPolicy
from sweet_rl.openai_client.urls import base_url_from

__all__ = [
    "ChatReply",
    "ClientStats",
    "OpenAIClient",
    "RequestFailed",
    "RetryPolicy",
    "base_url_from",
]
