"""Model servers as the flags give them: a client of a running server, or a new vLLM server."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sweet_rl.errors import UsageError
from sweet_rl.flags.models import VLLM, Requests

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient, RetryPolicy
    from sweet_rl.policies.vllm_server import VLLMServer


DEFAULT_KEY_VAR: Final = "OPENAI_API_KEY"


def retry_of(flags: Requests) -> RetryPolicy:
    """How often and how patiently a request is tried."""
    from sweet_rl.openai_client import RetryPolicy

    patience_s = getattr(flags, "request_patience_s", RetryPolicy().patience_s)
    return RetryPolicy(
        attempts=flags.request_attempts, timeout_s=flags.request_timeout_s, patience_s=patience_s
    )


def key_in(named: str | None) -> str | None:
    """The key in the variable that a person named; without a name, in `DEFAULT_KEY_VAR`, if it is set."""
    key = os.environ.get(named or DEFAULT_KEY_VAR)
    if named and not (key or "").strip():
        state = "not set" if key is None else "empty"
        raise UsageError(
            f"The environment variable {named!r}, which is to hold the server's key, is {state}: export it, "
            "or leave the flag out for a server that needs no key."
        )
    return key


def client_of(
    urls: Sequence[str],
    flags: Requests,
    *,
    key_var: str | None,
    named_by: str,
    max_connections: int = 1000,
) -> OpenAIClient:
    """A client of an external server, with the key from the environment."""
    from sweet_rl.openai_client import OpenAIClient

    key = os.environ.get(key_var or DEFAULT_KEY_VAR)  # stages have looked for it before (`key_in`)
    return OpenAIClient(
        urls, api_key=key, retry=retry_of(flags), max_connections=max_connections, named_by=named_by
    )


def vllm_server(model: str, flags: VLLM) -> VLLMServer:
    """A vLLM server that is not started yet; its output while it loads goes to standard error."""
    from sweet_rl.policies.vllm_server import VLLMServer

    return VLLMServer(
        model,
        python=flags.vllm_python,
        tensor_parallel_size=flags.tensor_parallel_size,
        data_parallel_size=flags.data_parallel_size,
        args=shlex.split(flags.vllm_args),
        on_progress=lambda line: print(line, file=sys.stderr),
    )
