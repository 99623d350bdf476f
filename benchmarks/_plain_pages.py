"""Grading pages with nothing shared and nothing kept: the plain arithmetic that ours is measured against.

Each picture is decoded and scaled whenever it is compared, and each comparison computes everything anew, for
the two floors as well. The definitions are those of docs/world_pages.md, written down directly.
`tests/grading/pages/test_shortcuts.py` holds ours to these numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sweet_rl.browsers.page import RenderedPage
from sweet_rl.grading.pages.metrics import black, decode, elements_of, layout_agreement, text_agreement

Pixels = NDArray[np.float32]

WIDTH, HIGHEST = 256, 2048
GREY = np.array([0.299, 0.587, 0.114], np.float32)


def plain_grades(
    answer: bytes, answer_page: RenderedPage, target: RenderedPage
) -> dict[str, dict[str, float]]:
    """The grades without weights of an answer and of both floors, by what is compared."""
    wanted, drawn = scaled(decode(target.image)), scaled(decode(answer))
    nothing = RenderedPage(b"", target.width, target.height)
    paper = scaled(Image.new("RGB", (target.width, target.height), "white"))
    return {
        "answer": _grades(drawn, answer_page, wanted, target),
        "black picture": _grades(scaled(black()), None, wanted, target),
        "blank page": _grades(paper, nothing, wanted, target),
    }


def _grades(
    pixels: Pixels, page: RenderedPage | None, wanted: Pixels, target: RenderedPage
) -> dict[str, float]:
    values = {"ssim": structure(pixels, wanted), "colour": colour(pixels, wanted), "text": 0.0, "layout": 0.0}
    if page is not None:
        one, other = elements_of(page.boxes), elements_of(target.boxes)
        values |= {"text": text_agreement(one, other), "layout": layout_agreement(one, other)}
    return {"combined": sum(values.values()) / 4} | values


def scaled(image: Image.Image) -> Pixels:
    height = min(max(1, image.height * WIDTH // image.width), HIGHEST)
    shown = min(image.height, height * image.width / WIDTH)
    box = (0, 0, image.width, shown)
    small = image.resize((WIDTH, height), Image.Resampling.BOX, box=box, reducing_gap=2.0)
    return np.asarray(small, dtype=np.float32) / np.float32(255)


def structure(first: Pixels, second: Pixels) -> float:
    greys = [pixels @ GREY for pixels in _same_height(first, second)]
    values = []
    for _ in range(3):
        values.append(_similarity(*greys))
        greys = [_halved(grey) for grey in greys]
    return float(np.mean(values))


def colour(first: Pixels, second: Pixels) -> float:
    one, other = _same_height(first, second)
    return (_overlap(1 - _blocks(one), 1 - _blocks(other)) + _overlap(_palette(one), _palette(other))) / 2


def _same_height(first: Pixels, second: Pixels) -> list[Pixels]:
    height = max(len(first), len(second))
    return [
        np.concatenate([one, np.ones((height - len(one), WIDTH, 3), np.float32)]) for one in (first, second)
    ]


def _similarity(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    planes = np.stack([first, second, first * first, second * second, first * second]).astype(np.float64)
    mean_1, mean_2, square_1, square_2, product = _window_means(planes)
    variance_1 = np.maximum(square_1 - mean_1 * mean_1, 0)
    variance_2 = np.maximum(square_2 - mean_2 * mean_2, 0)
    covariance = product - mean_1 * mean_2
    brightness = (2 * mean_1 * mean_2 + 1e-4) / (mean_1 * mean_1 + mean_2 * mean_2 + 1e-4)
    weight = np.sqrt(np.maximum(variance_1, variance_2))
    weight[weight < 1e-3] = 0
    if not weight.any():
        return float(np.clip(brightness.mean(), 0, 1))
    shape = np.where(weight > 0, 2 * covariance / np.maximum(variance_1 + variance_2, 1e-6), 0)
    similarity = np.clip(brightness * shape, 0, 1)
    return float(np.clip((similarity * weight).sum() / weight.sum(), 0, 1))


def _window_means(planes: NDArray[np.float64]) -> NDArray[np.float64]:
    height, width = (min(7, size) for size in planes.shape[1:])
    sums = np.zeros((planes.shape[0], planes.shape[1] + 1, planes.shape[2] + 1))
    np.cumsum(np.cumsum(planes, axis=1), axis=2, out=sums[:, 1:, 1:])
    windows = sums[:, height:, width:] - sums[:, :-height, width:]
    windows = windows - sums[:, height:, :-width] + sums[:, :-height, :-width]
    return np.asarray(windows / (height * width))


def _halved(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    height, width = (max(2, size - size % 2) for size in plane.shape)
    even = np.pad(plane[:height, :width], [(0, height - min(height, len(plane))), (0, 0)], mode="edge")
    return np.asarray(even.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3)))


def _blocks(pixels: Pixels) -> Pixels:
    whole = np.pad(pixels, [(0, -len(pixels) % 4), (0, 0), (0, 0)], constant_values=1)
    return np.asarray(whole.reshape(len(whole) // 4, 4, WIDTH // 4, 4, 3).mean(axis=(1, 3)))


def _palette(pixels: Pixels) -> NDArray[np.float64]:
    rgb = pixels[::2, ::2].reshape(-1, 3)
    ink = (1 - rgb).mean(axis=1)
    rgb, ink = rgb[ink > 0], ink[ink > 0]
    place = rgb * 7
    lower = np.minimum(place.astype(np.intp), 6)
    upper_share = place - lower
    palette = np.zeros(512)
    for corner in range(8):
        bits = np.array([corner >> 2 & 1, corner >> 1 & 1, corner & 1])
        share = np.where(bits, upper_share, 1 - upper_share).prod(axis=1) * ink
        palette += np.bincount((lower + bits) @ np.array([64, 8, 1]), weights=share, minlength=512)
    return palette


def _overlap(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    larger = float(np.maximum(first, second).sum(dtype=np.float64))
    return float(np.minimum(first, second).sum(dtype=np.float64)) / larger if larger > 0 else 1.0
