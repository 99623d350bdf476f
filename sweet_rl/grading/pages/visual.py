"""Compares two pictures pixel by pixel: structure and colour. Symmetric, in [0, 1], 1 for equal pictures.

Pages are mostly paper. A plain average over all pixels would find any two pages alike, an empty one included,
so both measures look at what is *on* the paper: structure is weighed by contrast, colour is counted as ink.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweet_rl.grading.pages.pictures import Pixels, same_height

_WINDOW = 7
_C1 = 0.01**2
"""Keeps the comparison of brightness steady for dark windows (Wang et al. 2004, values in [0, 1])."""

_FLAT = 1e-3
"""A standard deviation below this is none: a quarter of a grey level."""

_SCALES = 3
_LEVELS = 8
_GREY = np.array([0.299, 0.587, 0.114], np.float32)


def structure(first: Pixels, second: Pixels) -> float:
    """Structural similarity of the grey pictures, weighed by contrast, averaged over three scales.

    At each scale (full, half, quarter): the similarity (Wang et al. 2004) of every 7 x 7 window, negative
    ones as 0, in a mean weighed by the larger of the two standard deviations. The constant that steadies
    contrast is 0: windows without contrast have no weight, and a page with nothing on it gets nothing. Where
    no window of either picture has contrast, only their brightness is compared.
    """
    one, other = same_height(first, second)
    greys = one @ _GREY, other @ _GREY
    values = []
    for _ in range(_SCALES):
        values.append(_weighed_similarity(*greys))
        greys = _halved(greys[0]), _halved(greys[1])
    return float(np.mean(values))


def colour(first: Pixels, second: Pixels) -> float:
    """Overlap of ink: where it is, and how much of each colour there is; the mean of both.

    Ink is what white paper lacks (1 minus red, green and blue). *Where*: in blocks of 4 x 4 pixels, the sum
    of the smaller ink over the sum of the larger one, for each channel. *How much*: pixels sorted into
    8 x 8 x 8 colours by weight of their ink (each shared among its nearest colours); smaller over larger
    again. An empty page has no ink, and nothing in common with any other.
    """
    one, other = same_height(first, second)
    placed = _overlap(1 - _blocks(one), 1 - _blocks(other))
    return (placed + _overlap(_palette(one), _palette(other))) / 2


def _weighed_similarity(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    stacked = np.stack([first, second, first * first, second * second, first * second]).astype(np.float64)
    mean_1, mean_2, square_1, square_2, product = _window_means(stacked)
    variance_1 = np.maximum(square_1 - mean_1 * mean_1, 0)
    variance_2 = np.maximum(square_2 - mean_2 * mean_2, 0)
    covariance = product - mean_1 * mean_2
    brightness = (2 * mean_1 * mean_2 + _C1) / (mean_1 * mean_1 + mean_2 * mean_2 + _C1)
    weight = np.sqrt(np.maximum(variance_1, variance_2))
    weight[weight < _FLAT] = 0
    if not weight.any():
        return float(np.clip(brightness.mean(), 0, 1))
    shape = np.where(weight > 0, 2 * covariance / np.maximum(variance_1 + variance_2, _FLAT**2), 0)
    similarity = np.clip(brightness * shape, 0, 1)
    return float(np.clip((similarity * weight).sum() / weight.sum(), 0, 1))


def _window_means(planes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over all whole windows of each plane; a plane smaller than a window is one window."""
    height, width = (min(_WINDOW, size) for size in planes.shape[1:])
    sums = np.zeros((planes.shape[0], planes.shape[1] + 1, planes.shape[2] + 1))
    np.cumsum(np.cumsum(planes, axis=1), axis=2, out=sums[:, 1:, 1:])
    windows = (
        sums[:, height:, width:]
        - sums[:, :-height, width:]
        - sums[:, height:, :-width]
        + sums[:, :-height, :-width]
    )
    means: NDArray[np.float64] = windows / (height * width)
    return means


def _halved(plane: NDArray[np.float32]) -> NDArray[np.float32]:
    """Means of 2 x 2 pixels; an odd last row or column is left out (unless it is all there is)."""
    height, width = (max(2, size - size % 2) for size in plane.shape)
    even = np.pad(plane[:height, :width], [(0, height - min(height, len(plane))), (0, 0)], mode="edge")
    halved: NDArray[np.float32] = even.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
    return halved


def _blocks(pixels: Pixels, size: int = 4) -> Pixels:
    """Means of `size` x `size` pixels; the last row of blocks is filled up with white."""
    missing = -len(pixels) % size
    whole = np.pad(pixels, [(0, missing), (0, 0), (0, 0)], constant_values=1)
    height, width, channels = whole.shape
    cut = whole.reshape(height // size, size, width // size, size, channels)
    means: Pixels = cut.mean(axis=(1, 3))
    return means


def _palette(pixels: Pixels) -> NDArray[np.float64]:
    """Ink by colour: each pixel's ink is shared among the eight nearest of 8 x 8 x 8 colours."""
    rgb = pixels[::2, ::2].reshape(-1, 3)
    ink = (1 - rgb).mean(axis=1)
    rgb, ink = rgb[ink > 0], ink[ink > 0]
    place = rgb * (_LEVELS - 1)
    lower = np.minimum(place.astype(np.intp), _LEVELS - 2)
    upper_share = place - lower
    palette = np.zeros(_LEVELS**3)
    for corner in range(8):
        bits = np.array([corner >> 2 & 1, corner >> 1 & 1, corner & 1])
        share = np.where(bits, upper_share, 1 - upper_share).prod(axis=1) * ink
        index = (lower + bits) @ np.array([_LEVELS**2, _LEVELS, 1])
        palette += np.bincount(index, weights=share, minlength=_LEVELS**3)
    return palette


def _overlap(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """Sum of the smaller over sum of the larger; two times nothing is alike."""
    larger = float(np.maximum(first, second).sum(dtype=np.float64))
    return float(np.minimum(first, second).sum(dtype=np.float64)) / larger if larger > 0 else 1.0
