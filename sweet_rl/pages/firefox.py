"""Firefox."""

from __future__ import annotations

from sweet_rl.pages import browser as common
from sweet_rl.pages.settings import RenderSettings


async def start(settings: RenderSettings) -> common.Browser:
    """Start a browser."""
    raise NotImplementedError


def find() -> str:
    """The installed Firefox.

    Raises:
        UsageError: there is none.
    """
    return common.find_program(
        ("firefox-esr", "firefox"), (), install="apt-get install firefox-esr", wanted="Firefox"
    )
