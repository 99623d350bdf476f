"""How pages are rendered, as flags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sweet_rl.chat.names import user_cache
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.pages.settings import RenderSettings

MAX_SIDE: Final = 8_192
"""Pixels; a larger window is a slip of the keyboard."""


@dataclass(frozen=True, kw_only=True)
class RenderFlags(Settings):
    """How pages are rendered."""

    browser: Literal["chromium", "firefox"] = flag("chromium", "what renders pages: chromium or firefox.")
    network: Literal["none", "allow"] = flag(
        "none",
        "none (pages get what the package ships), or allow (the published behaviour: pictures and grades depend "
        "on connectivity).",
    )
    allow_scripts: bool = flag(False, "run the scripts of pages.", shown="all")
    viewport: str = flag(
        "1366x768", "WIDTHxHEIGHT in pixels of the window that pages are laid out for.", shown="all"
    )
    page_timeout_s: float = flag(30.0, "seconds that one page may take.", above=0, shown="all")
    browsers: int = flag(2, "browsers at once.", at_least=1)
    render_cache: str = flag(
        "default",
        "folder that keeps rendered pages for other runs; default: in the user's cache; none: nothing is kept.",
        shown="all",
    )

    def check_together(self) -> None:
        """Whether window and cache are possible."""
        super().check_together()
        self._sides()
        self._cache()

    def rendering(self) -> RenderSettings:
        """The settings that the flags give."""
        from sweet_rl.pages import RenderSettings, Viewport

        return RenderSettings(
            browser=self.browser,
            network=self.network,
            allow_scripts=self.allow_scripts,
            viewport=Viewport(*self._sides()),
            page_timeout_s=self.page_timeout_s,
            browsers=self.browsers,
            cache=self._cache(),
        )

    def rendered_with(self) -> dict[str, Json]:
        """What decides about a picture besides its page, as rows and reports keep it."""
        return {
            "browser": self.browser,
            "network": self.network,
            "allow_scripts": self.allow_scripts,
            "viewport": "x".join(map(str, self._sides())),
        }

    def _sides(self) -> list[int]:
        found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", self.viewport)
        sides = [int(side) for side in found.groups()] if found else []
        if not sides or not all(1 <= side <= MAX_SIDE for side in sides):
            raise UsageError(
                f"--viewport must be WIDTHxHEIGHT in pixels, such as 1366x768, each at most {MAX_SIDE}; "
                f"got {self.viewport!r}."
            )
        return sides

    def _cache(self) -> Path | None:
        if self.render_cache == "none":
            return None
        if self.render_cache == "default":
            return user_cache() / "pages"
        folder = Path(self.render_cache).expanduser()
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"--render_cache must be a folder or none; {str(folder)!r} is a file.")
        return folder
