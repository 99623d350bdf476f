"""Requests to OpenAI-compatible servers: pooled, paced, retried, counted, with classified failures.

`client` sends; `retries` says what is tried again, when, and how many at once; `replies` reads what comes back;
`dialect` learns what a server takes. Addresses are read here; the modules are loaded when they are needed.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.openai_client.client import ClientStats, OpenAIClient
    from sweet_rl.openai_client.replies import ChatReply
    from sweet_rl.openai_client.retries import RequestFailed, RetryPolicy

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
    return getattr(importlib.import_module(f"{__name__}.{_PLACES.get(name, 'retries')}"), name)


_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}+://)([^\s\"'`<>\\,/?#]*)([^\s\"'`<>\\,]*)")
_SECRET: Final = re.compile(
    r"""secret|token|passw|credential|api[-_.]?key|(?<![a-z])(key|auth|sk|pk|hf|ghp|gsk|xai)([-_=:]|$)
    |[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}  # a UUID
    |[a-z0-9]{20}|(?<![a-z0-9])(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{10}  # words that no person wrote""",
    re.IGNORECASE | re.VERBOSE,
)
_PLAIN: Final = frozenset({"api-version", "api_version", "version", "model", "deployment", "region"})
"""Parameters of a query that are shown with their values; any other's value may be a key."""


def base_url_from(hostname: str, port: int, base_url: str | None = None) -> list[str]:
    """Base URLs from flags: `base_url` (several are separated by commas), else `http://HOST:PORT/v1`."""
    urls = [url.strip().rstrip("/") for url in (base_url or f"http://{hostname}:{port}/v1").split(",")]
    for url in urls:
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises where it is not a number
        except ValueError:
            parts = urlsplit("")
        if "@" in parts.netloc or (hostname and "@" in hostname):
            problem = "A base URL must not hold a user name or password; keys come from the environment."
            raise UsageError(problem)
        path_repeats = "//" in parts.path  # a whole URL was given where a host name belongs
        if parts.scheme not in {"http", "https"} or not parts.hostname or path_repeats:
            raise UsageError(f"A base URL looks like http://host:8000/v1, got {shown(url)!r}.")
    return urls


def shown(text: str) -> str:
    """An address, or a text with addresses in it, as it may be stored, printed and raised: without secrets.

    Passwords, parts of a path that look like keys, and all values of a query but those of versions, models and
    regions are `[secret]`.
    """
    return _ADDRESS.sub(_without_secrets, text) if "://" in text else text


def _without_secrets(address: re.Match[str]) -> str:
    scheme, place, rest = address.groups()
    if "@" in place:
        place = f"[secret]@{place.rpartition('@')[2]}"
    if not scheme.lower().startswith(("http", "ws")):
        return f"{scheme}{place}{rest}"
    whole = rest.rstrip(".;:!)}")
    path, query, values = [*re.split(r"([?#])", whole, maxsplit=1), "", ""][:3]
    parts = path.split("/")
    for number, (before, part) in enumerate(zip(["", *parts], parts, strict=False)):
        if part and (_SECRET.search(part) or re.fullmatch("(api[-_]?)?keys?|tokens?", before, re.I)):
            parts[number] = "[secret]"
    pairs = [value.partition("=") for value in re.split("[&;#]", values)] if query else []
    kept = [
        f"{name}={value}" if name.lower() in _PLAIN else f"{name}=[secret]" if equals else "[secret]"
        for name, equals, value in pairs
    ]
    return f"{scheme}{place}{'/'.join(parts)}{query}{'&'.join(kept)}{rest[len(whole) :]}"
