"""Server addresses, from what a person typed."""

from __future__ import annotations

from urllib.parse import urlsplit

from sweet_rl.errors import UsageError


def base_url_from(hostname: str, port: int, base_url: str | None = None) -> list[str]:
    """Base URLs from flags: `base_url` (several are separated by commas), else `http://HOST:PORT/v1`.

    Raises:
        UsageError: not an http or https URL, or one with a password in it.
    """
    urls = [url.strip().rstrip("/") for url in (base_url or f"http://{hostname}:{port}/v1").split(",")]
    for url in urls:
        if "@" in url:  # it would be shown in messages
            raise UsageError("A base URL must not hold a user name or key; keys come from the environment.")
        if not _is_http(url):
            raise UsageError(f"A base URL looks like http://host:8000/v1, got {url!r}.")
    return urls


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is not a number
    except ValueError:
        return False
    path_repeats = "//" in parts.path  # a whole URL was given where a host name belongs
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and not path_repeats
