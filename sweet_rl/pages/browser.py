"""The shared part of Chromium and Firefox: contract, headers of a page, result."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sweet_rl.errors import UsageError
from sweet_rl.pages.assets import Asset, asset_for
from sweet_rl.pages.process import BrowserProcess
from sweet_rl.pages.settings import RenderSettings
from sweet_rl.pages.types import Box, RenderedPage, RenderFailed
from sweet_rl.types import Failure, Json

PAGE_URL = "http://page.invalid/"
"""Where pages believe to be: a name that cannot exist."""

MAX_BOXES = 2_000
MAX_TEXT = 500
MAX_PROBLEMS = 50

_PATIENCE_MS = 5_000
"""How long a page's fonts and pictures may take to decode."""


class Browser(Protocol):
    """One running browser, which renders some pages side by side."""

    @property
    def alive(self) -> bool:
        """Whether the browser's process still answers; False asks for a new one."""
        ...

    async def render(self, html: str) -> RenderedPage:
        """Render one page."""
        ...

    def memory_mb(self) -> float:
        """Memory of the browser's own processes, in MB."""
        ...

    async def kill(self) -> None:
        """End it at once, with all its processes."""
        ...


class Piped:
    """What both browsers are: a process that is driven over its pipe."""

    def __init__(self, process: BrowserProcess, settings: RenderSettings) -> None:
        self.process, self.settings = process, settings
        self.script = measure_script()

    @property
    def alive(self) -> bool:
        """Whether the connection to the process is open."""
        return not self.process.wire.closed.is_set()

    def memory_mb(self) -> float:
        """Memory of the process and its children, in MB."""
        return self.process.memory_mb()

    async def kill(self) -> None:
        """End the process, and wait for its end."""
        await self.process.kill()


class Problems:
    """What a page tried and was not given, each once, not without end."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    def add(self, problem: str) -> None:
        """Note one; after `MAX_PROBLEMS` the rest are left out."""
        if len(self._found) < MAX_PROBLEMS:
            self._found[problem[:300]] = None

    def sorted(self) -> tuple[str, ...]:
        """All of them, in an order that does not depend on which request was first."""
        return tuple(sorted(self._found))


def measure_script() -> str:
    """The expression that brings a page to rest and measures it."""
    script = (Path(__file__).parent / "measure.js").read_text()
    script = script[script.index("async") :]
    return f"({script.rstrip().rstrip(';')})({MAX_BOXES}, {MAX_TEXT}, {_PATIENCE_MS})"


def page_headers(settings: RenderSettings) -> dict[str, str]:
    """The headers that a page is served with: the browser itself then holds it in a box.

    `sandbox` forbids scripts, popups, forms, downloads, dialogues, `<meta refresh>`, storage and service
    workers.
    """
    policy = "sandbox allow-scripts" if settings.allow_scripts else "sandbox"
    if settings.network == "none":
        policy += "; connect-src 'none'; worker-src 'none'; object-src 'none'; webrtc 'block'"
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        "X-DNS-Prefetch-Control": "off",
        "Cache-Control": "no-store",
    }


def asset_headers(asset: Asset) -> dict[str, str]:
    """The headers that an asset is served with."""
    return {
        "Content-Type": asset.content_type,
        "Access-Control-Allow-Origin": "*",
        "Cache-Control": "no-store",
    }


def find_asset(url: str, page: str | None, problems: Problems) -> Asset | None:
    """What the address gives without network; noted where that is nothing, or something else."""
    asset = asset_for(url, page)
    if asset is None:
        problems.add(f"blocked {url}")
    elif asset.note:
        problems.add(asset.note)
    return asset


def height_of(measured: Json, settings: RenderSettings, problems: Problems) -> int:
    """How high the picture is to be, in pixels."""
    height = max(int(measured["height"]), 1)
    if height > settings.max_height:
        problems.add(f"cut at {settings.max_height} pixels of {height}")
    return min(height, settings.max_height)


def rendered(png: str, measured: Json, problems: Problems) -> RenderedPage:
    """The page from what the browser sent: the picture in base64, and the measured boxes."""
    image = base64.b64decode(png)
    if not image.startswith(b"\x89PNG") or len(image) < 24:
        raise RenderFailed(Failure("empty", f"the browser gave {len(image)} bytes that are no picture"))
    width, height = struct.unpack(">2I", image[16:24])
    boxes = tuple(_boxes(measured["boxes"], height))
    if len(measured["boxes"]) >= MAX_BOXES:
        problems.add(f"only the first {MAX_BOXES} elements have boxes")
    return RenderedPage(image, width, height, boxes, problems.sorted())


def parse_measured(text: Json) -> Json:
    """What `measure.js` says."""
    if not isinstance(text, str):
        raise RenderFailed(Failure("empty", "the page could not be measured"))
    return json.loads(text)


def find_program(names: Sequence[str], places: Sequence[str], *, install: str, wanted: str) -> str:
    """The path of an installed program."""
    found = next((place for place in places if Path(place).exists()), None)
    found = found or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise UsageError(
            f"Rendering pages needs {wanted}, and there is none on the PATH. Install it: {install}"
        )
    return found


def version_of(program: str) -> str:
    """What an installed browser says it is."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"{program} --version fails: {error}. Is the browser installed completely?"
        ) from error
    return done.stdout.strip()


def _boxes(rows: Json, height: int) -> list[Box]:
    """The boxes within the picture; one that has lost its parent to the cut is given the parent's parent."""
    places: dict[int, int | None] = {}
    boxes: list[Box] = []
    for index, (tag, x, y, width, tall, text, color, background, size, weight, parent) in enumerate(rows):
        above = None if parent is None else places[parent]
        places[index] = above if y >= height else len(boxes)
        if y >= height:
            continue
        fill = None if background is None else _color(background)
        boxes.append(Box(tag, x, y, width, tall, text, _color(color), fill, size, weight, above))
    return boxes


def _color(channels: Json) -> tuple[int, int, int]:
    red, green, blue = (int(channel) for channel in channels)
    return red, green, blue
