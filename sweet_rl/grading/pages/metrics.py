"""How much two pictures of pages agree: decoded, scaled to one width, compared by pixels and by elements.

Pages are mostly paper, so both measures of pixels look at what is *on* the paper: structure is weighed by contrast,
colour is counted as ink. Both of elements pair those of the two pages, best pairs first, with a credit that falls with
the distance. All are in [0, 1], 1 for equal pages, and symmetric, but for ties between pairs of elements.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from sweet_rl.browsers.page import Box, RenderedPage
from sweet_rl.records import replace_file

Pixels: TypeAlias = NDArray[np.float32]
"""Shape (height, width, 3), red, green, blue, each in [0, 1]."""

WIDTH = 256
"""Pixels of width that every picture is scaled to before pixels are compared."""

MAX_HEIGHT = 8 * WIDTH
"""What is below is not looked at: at 1366 pixels of width that is beyond 10,900 pixels."""

_MAX_PIXELS = 120_000_000
"""A picture that claims more is not decoded: a small file can hold a very large one."""


class BrokenPicture(Exception):
    """These bytes are no picture that can be decoded."""


def decode(data: bytes) -> Image.Image:
    """A picture in RGB; transparent parts are white, as in a browser's window."""
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


def scale(image: Image.Image) -> Pixels:
    """Scale to `WIDTH` pixels of width, both ways alike; what does not fill a last row is left out."""
    height = min(max(1, image.height * WIDTH // image.width), MAX_HEIGHT)
    shown = min(image.height, height * image.width / WIDTH)
    scaled = image.resize(
        (WIDTH, height), Image.Resampling.BOX, box=(0, 0, image.width, shown), reducing_gap=2.0
    )
    return _in_unit(np.asarray(scaled, np.uint8))


def look(picture: bytes, cache: Path | None = None, decoded: Image.Image | None = None) -> Pixels:
    """The scaled pixels of a picture file; kept in a folder of `cache`, so that it is decoded once."""
    if cache is None:
        return scale(decode(picture) if decoded is None else decoded)
    name = hashlib.sha256(_WAY + picture).hexdigest()[:32]
    path = cache.expanduser() / "looks" / name[:2] / f"{name}.zz"
    with suppress(OSError, ValueError, zlib.error):  # never kept, or damaged: zlib has a check sum
        return _in_unit(np.frombuffer(zlib.decompress(path.read_bytes()), np.uint8).reshape(-1, WIDTH, 3))
    pixels = look(picture, decoded=decoded)
    replace_file(path, [zlib.compress(np.round(pixels * 255).astype(np.uint8).tobytes(), 1)])
    return pixels


_WAY = f"box {WIDTH} {MAX_HEIGHT} Pillow {PIL.__version__}\0".encode()
"""What decides about the scaled pixels, besides the picture; change the word where `scale` changes."""


def _in_unit(scaled: NDArray[np.uint8]) -> Pixels:
    pixels: Pixels = scaled.astype(np.float32) / np.float32(255)
    return pixels


def continued(pixels: Pixels, height: int) -> Pixels:
    """The picture, continued in white to `height` rows."""
    if len(pixels) == height:
        return pixels
    below = np.ones((height - len(pixels), *pixels.shape[1:]), np.float32)
    return np.concatenate([pixels, below])


_WINDOW = 7
_C1 = 0.01**2
"""Keeps the comparison of brightness steady for dark windows (Wang et al. 2004, values in [0, 1])."""

_FLAT = 1e-3
"""A standard deviation below this is none: a quarter of a grey level."""

_SCALES = 3
_BLOCK = 4
_LEVELS = 8
_GREY = np.array([0.299, 0.587, 0.114], np.float32)

_KEPT_HEIGHTS = 2
"""Heights whose windows a picture keeps: its own, and that of what it was compared with last."""

_Plane = NDArray[np.float32]
_Values = NDArray[np.float64]


class PageView:
    """A scaled picture, the page that it shows where that is known, and what comparisons need of them, computed once."""

    def __init__(self, pixels: Pixels, page: RenderedPage | None = None) -> None:
        self.pixels = pixels
        self.elements = elements_of(page.boxes) if page is not None else None
        self._windows: dict[int, tuple[Windows, ...]] = {}

    @cached_property
    def ink(self) -> Pixels:
        """What white paper lacks, in blocks of 4 x 4 pixels; the last row of them is filled up with white."""
        whole = continued(self.pixels, len(self.pixels) + -len(self.pixels) % _BLOCK)
        sums = np.zeros((len(whole) // _BLOCK, whole.shape[1] // _BLOCK, 3), np.float32)
        for row, column in product(range(_BLOCK), repeat=2):
            sums += whole[row::_BLOCK, column::_BLOCK]
        ink: Pixels = (1 - sums / np.float32(_BLOCK**2)).astype(np.float32, copy=False)
        return ink

    @cached_property
    def palette(self) -> _Values:
        """Ink by colour: each pixel's ink is shared among the eight nearest of 8 x 8 x 8 colours."""
        rgb = self.pixels[::2, ::2].reshape(-1, 3)
        ink = (1 - rgb).sum(axis=1) / np.float32(3)
        place = rgb[ink > 0] * (_LEVELS - 1)
        lower = np.minimum(place.astype(np.intp), _LEVELS - 2)
        upper = place - lower
        reds, greens, blues = np.stack([1 - upper, upper]).transpose(2, 0, 1)
        reds = reds * ink[ink > 0]
        first = lower @ np.array([_LEVELS**2, _LEVELS, 1])
        palette = np.zeros(_LEVELS**3)
        for red, green, blue in product((0, 1), repeat=3):
            index = first + (red * _LEVELS**2 + green * _LEVELS + blue)
            share = reds[red] * greens[green] * blues[blue]
            palette += np.bincount(index, weights=share, minlength=_LEVELS**3)
        return palette

    def windows(self, height: int) -> tuple[Windows, ...]:
        """The windows of the grey picture at each scale, continued in white to this height in pixels."""
        known = self._windows.get(height)
        if known is None:
            plane: _Plane = continued(self.pixels, height) @ _GREY
            scales = [windows_of(plane)]
            while len(scales) < _SCALES:
                plane = _halved(plane)
                scales.append(windows_of(plane))
            known = tuple(scales)
            self._windows = dict([*self._windows.items(), (height, known)][-_KEPT_HEIGHTS:])
        return known


@dataclass(frozen=True, slots=True)
class Windows:
    """A grey picture, and the mean and variance of each of its windows."""

    plane: _Plane | _Values
    mean: _Values
    variance: _Values


def windows_of(plane: _Plane | _Values) -> Windows:
    """All whole windows of 7 x 7 pixels; a plane smaller than that is one window."""
    mean = _window_means(plane)
    return Windows(plane, mean, np.maximum(_window_means(plane * plane) - mean * mean, 0))


def structure(first: PageView, second: PageView) -> float:
    """Structural similarity of the grey pictures, weighed by contrast, averaged over three scales.

    At each scale (full, half, quarter): the similarity (Wang et al. 2004) of every 7 x 7 window, negative
    ones as 0, in a mean weighed by the larger of the two standard deviations. The constant that steadies
    contrast is 0: windows without contrast have no weight, and a page with nothing on it gets nothing. Where
    no window of either picture has contrast, only their brightness is compared.
    """
    height = max(len(first.pixels), len(second.pixels))
    scales = zip(first.windows(height), second.windows(height), strict=True)
    return float(np.mean([weighed_similarity(one, other) for one, other in scales]))


def colour(first: PageView, second: PageView) -> float:
    """Overlap of ink: where it is, and how much of each colour there is; the mean of both.

    Ink is what white paper lacks (1 minus red, green and blue). *Where*: in blocks of 4 x 4 pixels, the sum
    of the smaller ink over the sum of the larger one, for each channel. *How much*: pixels sorted into
    8 x 8 x 8 colours by weight of their ink (each shared among its nearest colours); smaller over larger
    again. An empty page has no ink, and nothing in common with any other.
    """
    rows = min(len(first.ink), len(second.ink))
    below = first.ink[rows:] if len(first.ink) > rows else second.ink[rows:]  # beside it there is only paper
    placed = _overlap([(first.ink[:rows], second.ink[:rows]), (below, np.zeros_like(below))])
    return (placed + _overlap([(first.palette, second.palette)])) / 2


def weighed_similarity(first: Windows, second: Windows) -> float:
    """The similarity of all windows at one scale, in a mean weighed by contrast."""
    deviations = [np.sqrt(one.variance) for one in (first, second)]
    weight = np.maximum(*[np.where(one < _FLAT, 0, one) for one in deviations])
    total = weight.sum()
    if total == 0:
        return float(np.clip(_brightness(first.mean, second.mean).mean(), 0, 1))
    uneven = np.ones(len(first.mean), bool)  # rows of windows that are more than paper alone, or black alone
    for plane in (first.plane, second.plane):
        low, high = (
            np.lib.stride_tricks.sliding_window_view(ends, min(_WINDOW, len(ends)))
            for ends in (plane.min(axis=1), plane.max(axis=1))
        )
        uneven &= (low.min(axis=1) < 1) & (high.max(axis=1) > 0)
    rows = np.flatnonzero(uneven)
    if len(rows) == 0:  # beside what is even nothing is alike
        return 0.0
    band = slice(rows[0], rows[-1] + 1)
    pixels = slice(rows[0], rows[-1] + _WINDOW)
    one, other = first.mean[band], second.mean[band]
    covariance = _window_means(first.plane[pixels] * second.plane[pixels]) - one * other
    variances = np.maximum(first.variance[band] + second.variance[band], _FLAT**2)
    similarity = np.clip(_brightness(one, other) * (2 * covariance / variances), 0, 1)
    return float(np.clip((similarity * weight[band]).sum() / total, 0, 1))


def _brightness(first: _Values, second: _Values) -> _Values:
    brightness: _Values = (2 * first * second + _C1) / (first * first + second * second + _C1)
    return brightness


def _window_means(plane: _Plane | _Values) -> _Values:
    """Means over all whole windows; a plane smaller than a window is one window."""
    height, width = (min(_WINDOW, size) for size in plane.shape)
    rows, columns = plane.shape
    across = _sums(plane.astype(np.float64).ravel(), width, step=1)  # the last ones of a row reach into
    sums = np.empty((rows - height + 1) * columns)  # the next row: they are cut off below
    sums[: len(sums) - width + 1] = _sums(across, height, step=columns)
    means: _Values = sums.reshape(-1, columns)[:, : columns - width + 1] / (height * width)
    return means


def _sums(values: _Values, count: int, *, step: int) -> _Values:
    """For each place the sum of `count` values, `step` apart."""
    length = len(values) - (count - 1) * step
    sums = values[:length].copy()
    for index in range(1, count):
        sums += values[index * step : index * step + length]
    return sums


def _halved(plane: _Plane) -> _Plane:
    """Means of 2 x 2 pixels; an odd last row or column is left out (unless it is all there is)."""
    if len(plane) == 1:
        plane = np.concatenate([plane, plane])
    even = plane[: len(plane) - len(plane) % 2, : plane.shape[1] - plane.shape[1] % 2]
    pairs = even[:, ::2] + even[:, 1::2]
    sums = pairs[::2] + pairs[1::2]
    halved: _Plane = sums / sums.dtype.type(4)
    return halved


def _overlap(pairs: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]]) -> float:
    """Sum of the smaller over sum of the larger; two times nothing is alike."""
    smaller = larger = 0.0
    for first, second in pairs:
        smaller += float(np.minimum(first, second).sum(dtype=np.float64))
        larger += float(np.maximum(first, second).sum(dtype=np.float64))
    return smaller / larger if larger > 0 else 1.0


_WORD = re.compile(r"\w+|[^\w\s]+")
_PICTURES = frozenset({"img", "svg", "picture", "video", "canvas", "iframe", "object", "embed"})
_CONTROLS = frozenset({"input", "button", "select", "textarea", "progress", "meter"})
_ROOTS = frozenset({"html", "body", "head"})

TEXT_REACH = 683.0
"""CSS pixels (half the published window's width) at which a text's place earns it nothing any more."""

BLOCK_REACH = 342.0
"""CSS pixels (a quarter of it) at which a block is no longer taken for the same one."""

_MOST = 1500
"""Elements of a page that are looked at, the largest first: pairs grow with the square."""


@dataclass(frozen=True, slots=True)
class Elements:
    """A page's texts and blocks, ready to be compared; one row each, (x, y, width, height) in CSS pixels."""

    words: tuple[Counter[str], ...]
    text_frames: NDArray[np.float64]
    kinds: NDArray[np.intp]
    block_frames: NDArray[np.float64]


def elements_of(boxes: Sequence[Box]) -> Elements:
    """What can be seen of a page's boxes: texts, and the blocks that show themselves.

    A block is a picture, a control, a text, or an area whose background is not that of what it stands on.
    """
    found = [(box, Counter(word.lower() for word in _WORD.findall(box.text))) for box in boxes if box.text]
    texts = sorted(((box, words) for box, words in found if words), key=lambda text: -len(text[0].text))[
        :_MOST
    ]
    blocks = [(kind, box) for box in boxes if (kind := _kind(box, boxes)) is not None]
    blocks = sorted(blocks, key=lambda block: -block[1].width * block[1].height)[:_MOST]
    text_frames, block_frames = (
        np.array([(box.x, box.y, box.width, box.height) for box in some], np.float64).reshape(-1, 4)
        for some in ([box for box, _ in texts], [box for _, box in blocks])
    )
    kinds = np.array([kind for kind, _ in blocks], np.intp)
    return Elements(tuple(words for _, words in texts), text_frames, kinds, block_frames)


def text_agreement(first: Elements, second: Elements) -> float:
    """Texts by their words and places.

    Texts are paired one to one; a pair's credit is the share of words in common (twice the common ones over
    all, as bags, without regard to case) times 1/2 + 1/2 (1 - distance / `TEXT_REACH`), so that half of it is
    for the place. The result is the mean credit, each text weighed by its words; unpaired texts have none.
    """
    sizes_1, sizes_2 = (np.array([bag.total() for bag in one.words], np.float64) for one in (first, second))
    total = sizes_1.sum() + sizes_2.sum()
    if total == 0:
        return 1.0
    places: dict[str, list[tuple[int, int]]] = {}
    for index, bag in enumerate(second.words):
        for word, count in bag.items():
            places.setdefault(word, []).append((index, count))
    # words that each text shares with each of the other page
    common = np.zeros((len(first.words), len(second.words)))
    for row, bag in enumerate(first.words):
        for word, count in bag.items():
            for column, other in places.get(word, ()):
                common[row, column] += min(count, other)
    pair_sizes = sizes_1[:, None] + sizes_2[None, :]
    credit = (
        2 * common / pair_sizes * (0.5 + 0.5 * _nearness(first.text_frames, second.text_frames, TEXT_REACH))
    )
    return _mean_credit(credit, pair_sizes, total)


def layout_agreement(first: Elements, second: Elements) -> float:
    """Blocks by kind, size and place.

    Blocks of one kind (text, picture, control, painted area) are paired one to one; a pair's credit is the
    smaller over the larger width, times the same of the heights, times 1 - distance of the top left corners /
    `BLOCK_REACH`. The result is the mean credit, each block weighed by the square root of its area.
    """
    weights_1, weights_2 = (  # in whole pixels, so that sums are exact
        np.maximum(1, np.round(np.sqrt(one.block_frames[:, 2] * one.block_frames[:, 3])))
        for one in (first, second)
    )
    total = weights_1.sum() + weights_2.sum()
    if total == 0:
        return 1.0
    sizes = np.ones((len(weights_1), len(weights_2)))
    for side in (2, 3):
        one, other = first.block_frames[:, side, None], second.block_frames[None, :, side]
        sizes *= np.minimum(one, other) / np.maximum(one, other)
    credit = sizes * _nearness(first.block_frames, second.block_frames, BLOCK_REACH)
    credit[first.kinds[:, None] != second.kinds[None, :]] = 0
    return _mean_credit(credit, weights_1[:, None] + weights_2[None, :], total)


def _mean_credit(credit: NDArray[np.float64], sizes: NDArray[np.float64], total: float) -> float:
    """Pair one to one, best credit first (of equal ones the larger pair), and average."""
    rows, columns = np.nonzero(credit)
    values, weights = credit[rows, columns], sizes[rows, columns]
    order = np.lexsort((-weights, -values))
    free_rows, free_columns = np.ones(credit.shape[0], bool), np.ones(credit.shape[1], bool)
    earned = 0.0
    for place in order:
        row, column = rows[place], columns[place]
        if free_rows[row] and free_columns[column]:
            free_rows[row] = free_columns[column] = False
            earned += values[place] * weights[place]
            if not free_rows.any() or not free_columns.any():
                break
    return min(1.0, earned / total)


def _nearness(first: NDArray[np.float64], second: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    """1 for the same top left corner, falling in a straight line to 0 at `reach`; for all pairs."""
    across = first[:, None, 0] - second[None, :, 0]
    down = first[:, None, 1] - second[None, :, 1]
    near: NDArray[np.float64] = np.clip(1 - np.hypot(across, down) / reach, 0, 1)
    return near


def _kind(box: Box, boxes: Sequence[Box]) -> int | None:
    """What a box shows: 0 text, 1 picture, 2 control, 3 painted area; None for what only holds others."""
    if box.width <= 0 or box.height <= 0 or box.tag in _ROOTS:
        return None
    if box.tag in _PICTURES:
        return 1
    if box.tag in _CONTROLS:
        return 2
    if box.text:
        return 0
    ground, parent = None, box.parent  # the colour that it stands on
    while ground is None and parent is not None:
        ground, parent = boxes[parent].background, boxes[parent].parent
    return 3 if box.background is not None and box.background != (ground or (255, 255, 255)) else None


PARTS = ("ssim", "colour", "text", "layout")
"""What `combined` is the mean of."""

WEIGHT_FREE = ("combined", *PARTS)

METRICS = ("clip", *WEIGHT_FREE)
"""All that can be a reward."""


def compare(answer: PageView, target: PageView) -> dict[str, float]:
    """Every metric without weights, each in [0, 1] and 1 for equal pages.

    Where the elements of the answer are not known, text and layout are 0.
    """
    if np.array_equal(answer.pixels, target.pixels):
        values = {"ssim": 1.0, "colour": 1.0}
    else:
        values = {"ssim": structure(answer, target), "colour": colour(answer, target)}
    if answer.elements is None or target.elements is None:
        values |= {"text": 0.0, "layout": 0.0}
    else:
        values["text"] = text_agreement(answer.elements, target.elements)
        values["layout"] = layout_agreement(answer.elements, target.elements)
    return {"combined": sum(values[name] for name in PARTS) / len(PARTS)} | values
