"""Compares two pages by the browser's layout: words and blocks.

Both measures pair elements of the two pages, best pairs first, and give each pair a credit that falls with
the distance. In [0, 1], 1 for equal pages, symmetric but for ties between pairs; a page without elements has
nothing in common with another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweet_rl.browsers.page import Box

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
    common = np.zeros(
        (len(first.words), len(second.words))
    )  # words that each text shares with each of the other page
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
