"""A stand-in for the browser: quick, deterministic, and it fails where a test says so."""

import asyncio
import hashlib
import io
from html.parser import HTMLParser

from PIL import Image

from sweet_rl.browsers import Box, RenderedPage, RenderFailed
from sweet_rl.types import Failure

ROW = 16
WIDTH = 64


class FakeRenderer:
    """Each element with a text of its own becomes a row of one colour, 64 by 16 pixels, and a box.

    Two pages that share rows share these pixels; the colour of a row is a digest of its tag and text.

    Args:
        fails: for pages that contain the key, the kind of `RenderFailed` to raise ("timeout", ...).
        raises: for pages that contain the key, any other exception to raise.
        delay_s: how long each page takes.
    """

    def __init__(self, fails=None, raises=None, delay_s=0.0):
        self.fails, self.raises, self.delay_s = fails or {}, raises or {}, delay_s
        self.pages = []  # every page asked for, in order
        self.closed = False

    async def render(self, html):
        self.pages.append(html)
        await asyncio.sleep(self.delay_s)
        for part, error in self.raises.items():
            if part in html:
                raise error
        for part, kind in self.fails.items():
            if part in html:
                raise RenderFailed(Failure(kind, f"the test wants it for {part!r}"))
        return draw(html)

    async def close(self):
        self.closed = True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


def draw(html):
    """The picture and the boxes of a page."""
    parser = _Texts()
    parser.feed(html)
    parser.close()
    rows = parser.rows or [("html", "")]
    image = Image.new("RGB", (WIDTH, ROW * len(rows)), "white")
    boxes = []
    for index, (tag, text) in enumerate(rows):
        color = tuple(hashlib.sha256(f"{tag}\0{text}".encode()).digest()[:3]) if text else (255, 255, 255)
        image.paste(color, (0, index * ROW, WIDTH, (index + 1) * ROW))
        boxes.append(Box(tag, 0.0, float(index * ROW), float(WIDTH), float(ROW), text, background=color))
    out = io.BytesIO()
    image.save(out, "PNG")
    return RenderedPage(out.getvalue(), image.width, image.height, tuple(boxes))


class _Texts(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        while tag in self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        text = " ".join(data.split())
        if text and (not self.open or self.open[-1] not in {"style", "script", "title"}):
            self.rows.append((self.open[-1] if self.open else "html", text))
