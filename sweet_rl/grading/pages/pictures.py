"""Pictures as the metrics see them: decoded, in RGB, scaled to one width.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

import io
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels: TypeAlias = NDArray[np.float32]
"""Shape (height, width, 3), red, green, blue, each in [0, 1]."""

Scaled: TypeAlias = NDArray[np.uint8]
"""A picture of `WIDTH` pixels of width; shape (height, WIDTH, 3), each 0 to 255."""

WIDTH = 256
"""Pixels of width that every picture is scaled to before pixels are compared."""

MAX_HEIGHT = 8 * WIDTH
"""What is below is not looked at: at 1366 pixels of width that is beyond 10,900 pixels."""

_MAX_PIXELS = 120_000_000
"""A picture that claims more is not decoded: a small file can hold a very large one."""


class BrokenPicture(Exception):
    """These bytes are no picture that can be decoded."""


def decode(data: bytes) -> Image.Image:
    """A picture in RGB; transparent parts are white, as in a browser's window.

    Raises:
        BrokenPicture: says why.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise BrokenPicture(f"{image.width} x {image.height} pixels are too many")
            image.load()
            if image.has_transparency_data:
                drawn = image.convert("RGBA")
                paper = Image.new("RGBA", drawn.size, "white")
                return Image.alpha_composite(paper, drawn).convert("RGB")
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BrokenPicture(str(error) or type(error).__name__) from error


def black() -> Image.Image:
    """The replacement for an answer without a picture."""
    return Image.new("RGB", (224, 224), "black")


def blank(width: int, height: int) -> Image.Image:
    """A white picture of this size in pixels, as of a page with nothing on it."""
    return Image.new("RGB", (width, height), "white")


def scale(image: Image.Image) -> Scaled:
    """Scale to `WIDTH` pixels of width, both ways alike; what does not fill a last row is left out."""
    height = min(max(1, image.height * WIDTH // image.width), MAX_HEIGHT)
    shown = min(image.height, height * image.width / WIDTH)
    scaled = image.resize(
        (WIDTH, height), Image.Resampling.BOX, box=(0, 0, image.width, shown), reducing_gap=2.0
    )
    return np.asarray(scaled, np.uint8)


def pixels_of(scaled: Scaled) -> Pixels:
    """The same as numbers in [0, 1]."""
    pixels: Pixels = scaled.astype(np.float32) / np.float32(255)
    return pixels


def continued(pixels: Pixels, height: int) -> Pixels:
    """The picture, continued in white to `height` rows."""
    if len(pixels) == height:
        return pixels
    below = np.ones((height - len(pixels), *pixels.shape[1:]), np.float32)
    return np.concatenate([pixels, below])
