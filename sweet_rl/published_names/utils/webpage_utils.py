"""`sweet_rl.utils.webpage_utils`: pages found in texts and drawn (docs/export_and_credit.md).

Published behaviour: docs/published/sweet_rl.md#frontend-design.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
from pathlib import Path

from sweet_rl.browsers import Renderer, RenderFailed, open_renderer
from sweet_rl.browsers.page import extract_html, normalise_urls
from sweet_rl.interface.parts import wait_for
from sweet_rl.types import Failure


class Driver:
    """Stands for a browser. All drivers of a process share a few browsers, which end with the last driver."""

    _open: set[Driver] = set()  # noqa: RUF012 - of the class on purpose
    _renderer: Renderer | None = None
    _lock = threading.RLock()

    def __init__(self) -> None:
        with self._lock:
            if Driver._renderer is None:
                Driver._renderer = open_renderer()
                atexit.register(Driver._end)
            self._open.add(self)

    def render(self, html: str) -> bytes:
        """A page as a PNG; `RenderFailed` where it has no picture."""
        if not isinstance(html, str):
            raise RenderFailed(Failure("empty", f"a page is a text, got {html!r}"))
        renderer = Driver._renderer
        if renderer is None or self not in self._open:
            raise RuntimeError("This driver was quit: get_driver() gives a new one.")
        return wait_for(renderer.render(html), instead="Renderer.render").image

    def quit(self) -> None:
        """Draw no more; the last driver's browsers end."""
        with self._lock:
            self._open.discard(self)
            if not self._open:
                Driver._end()

    @classmethod
    def _end(cls) -> None:
        with cls._lock:
            renderer, cls._renderer = cls._renderer, None
            atexit.unregister(cls._end)
        if renderer is not None:
            wait_for(renderer.close(), instead="Renderer.close")


def get_driver() -> Driver:
    """What draws pages, until its `quit()`."""
    return Driver()


def render_full_html(driver: Driver, html_snippet: str, temp_path: str, env_id: int = 0) -> str | None:
    """Draw a page into a PNG file of that folder; its path, or None (and a warning) without a picture."""
    try:
        image = driver.render(html_snippet)
    except RenderFailed as error:
        warnings.warn(f"A page of environment {env_id} has no picture: {error}", stacklevel=2)
        return None
    folder = Path(temp_path).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{env_id}_{time.time_ns()}.png"
    path.write_bytes(image)
    return str(path)


def extract_html_snippet(paragraph: str) -> tuple[str, str | None]:
    """The text with its first page, wherever it stands, as `[SEE RENDERED HTML]`; and the page, or None."""
    return extract_html(paragraph)


def replace_urls(text: str) -> str:
    """The text with the published system's picture addresses in place of those whose content is random."""
    return normalise_urls(text)
