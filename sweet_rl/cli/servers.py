"""Model servers as the flags give them: a client of a running server, or a new vLLM server."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sweet_rl.errors import UsageError
from sweet_rl.flags.models import VLLM, Requests
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.openai_client import OpenAIClient, RetryPolicy
    from sweet_rl.policies.vllm import VLLMServer


DEFAULT_KEY_VAR: Final = "OPENAI_API_KEY"


def retry_of(flags: Requests) -> RetryPolicy:
    """How often and how patiently a request is tried."""
    from sweet_rl.openai_client import RetryPolicy

    return RetryPolicy(
        attempts=flags.request_attempts,
        timeout_s=flags.request_timeout_s,
        patience_s=flags.request_patience_s,
        server_wait_s=flags.server_wait_s,
    )


def asked_with(flags: Any, role: str) -> dict[str, Any]:
    """Arguments of the client of a server that ROLE_request and ROLE_header say; `UsageError` where they cannot be read."""
    request, header = f"{role}_request", f"{role}_header"
    return {
        "request": fields_of(request, getattr(flags, request)),
        "headers": headers_of(header, getattr(flags, header)),
    }


def fields_of(flag: str, text: str | None) -> dict[str, Json]:
    """Fields of every request, from a flag that holds a JSON object."""
    try:
        fields: Json = json.loads(text) if text else {}
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        example = """'{"reasoning_effort": "low", "top_p": null}'"""
        raise UsageError(f"--{flag} is a JSON object such as {example}, got {text!r}.")
    return fields


def headers_of(flag: str, text: str | None) -> dict[str, str]:
    """Headers of every request, from a flag: `Name: value`, several on lines of their own; ${VARIABLES} are filled in."""
    headers = {}
    for line in (text or "").splitlines():
        name, colon, value = line.partition(":")
        value = os.path.expandvars(value.strip())
        if not colon or not re.fullmatch(r"[\w-]+", name.strip()) or not value.isascii():
            raise UsageError(
                f"--{flag} is a header such as 'X-Title: my run', got one that begins {line[:8]!r}."
            )
        if missing := re.search(r"\$\{(\w+)\}", value):
            raise UsageError(f"--{flag}: the environment variable {missing[1]} is not set.")
        headers[name.strip()] = value
    return headers


def key_in(named: str | None) -> str | None:
    """The key in the variable that a person named; without a name, in `DEFAULT_KEY_VAR`, if it is set."""
    key = os.environ.get(named or DEFAULT_KEY_VAR)
    if named and not (key or "").strip():
        state = "not set" if key is None else "empty"
        raise UsageError(
            f"The environment variable {named!r}, which must hold the server's key, is {state}: export it, "
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
    **more: Any,
) -> OpenAIClient:
    """A client of an external server, with the key from the environment; `more` are its further arguments."""
    from sweet_rl.openai_client import OpenAIClient

    key = os.environ.get(key_var or DEFAULT_KEY_VAR)  # stages have looked for it before (`key_in`)
    return OpenAIClient(
        urls, api_key=key, retry=retry_of(flags), max_connections=max_connections, named_by=named_by, **more
    )


def vllm_server(model: str, flags: VLLM) -> VLLMServer:
    """A vLLM server that is not started yet; its output while it loads goes to standard error."""
    from sweet_rl.policies.vllm import VLLMServer

    return VLLMServer(
        model,
        python=flags.vllm_python,
        tensor_parallel_size=flags.tensor_parallel_size,
        data_parallel_size=flags.data_parallel_size,
        args=shlex.split(flags.vllm_args),
        on_progress=lambda line: print(line, file=sys.stderr),
    )
