"""Whether a service on the network answers: asked once and briefly, where its client would try for minutes."""

from __future__ import annotations

import logging
import os
import socket
from functools import cache
from urllib.parse import urlsplit


def silence(address: str) -> str:
    """What keeps a server from being reached, in words; empty where it answers, or where a proxy may know it."""
    from urllib.request import getproxies_environment  # slow to import, and rarely asked for

    if getproxies_environment().keys() & {"https", "http", "all"}:
        return ""
    server = urlsplit(address)
    try:
        port = server.port or (80 if server.scheme == "http" else 443)
        socket.create_connection((str(server.hostname), port), timeout=1.5).close()
    except OSError as error:
        return f"{server.hostname} cannot be reached ({error})"
    return ""


@cache
def without_hub_if_silent() -> str:
    """Where the hub cannot be reached, go on as with HF_HUB_OFFLINE=1, and say why. Call it before its clients are imported."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return ""
    why = "" if constants.HF_HUB_OFFLINE else silence(constants.ENDPOINT)
    if why:
        constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"] = True, "1"
        logging.getLogger(__name__).warning(
            "%s: only the local cache is looked at, as with HF_HUB_OFFLINE=1.", why
        )
    return why
