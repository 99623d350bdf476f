"""The metrics that need no model, and their combination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sweet_rl.browsers.page import RenderedPage
from sweet_rl.grading.pages.elements import Elements, elements_of, layout_agreement, text_agreement
from sweet_rl.grading.pages.pictures import Pixels
from sweet_rl.grading.pages.visual import Canvas, colour, structure

PARTS = ("ssim", "colour", "text", "layout")
"""What `combined` is the mean of."""

WEIGHT_FREE = ("combined", *PARTS)

METRICS = ("clip", *WEIGHT_FREE)
"""All that can be a reward."""


@dataclass(frozen=True, slots=True)
class PageView:
    """A page as the metrics see it; `elements` is None where the content of the picture is unknown."""

    look: Canvas
    elements: Elements | None


def view_of(pixels: Pixels, page: RenderedPage | None) -> PageView:
    """A scaled picture, and the rendered page that it shows, where it is known."""
    return PageView(Canvas(pixels), elements_of(page.boxes) if page is not None else None)


def compare(answer: PageView, target: PageView) -> dict[str, float]:
    """Every metric without weights, each in [0, 1] and 1 for equal pages.

    Where the elements of the answer are not known, text and layout are 0.
    """
    values = _of_pixels(answer.look, target.look)
    if answer.elements is None or target.elements is None:
        values |= {"text": 0.0, "layout": 0.0}
    else:
        values["text"] = text_agreement(answer.elements, target.elements)
        values["layout"] = layout_agreement(answer.elements, target.elements)
    return with_combined(values)


def with_combined(values: Mapping[str, float]) -> dict[str, float]:
    """The values with `combined`, the plain mean of the parts, before them."""
    return {"combined": sum(values[name] for name in PARTS) / len(PARTS)} | dict(values)


def _of_pixels(answer: Canvas, target: Canvas) -> dict[str, float]:
    if answer.pixels.shape == target.pixels.shape and np.array_equal(answer.pixels, target.pixels):
        return {"ssim": 1.0, "colour": 1.0}
    return {"ssim": structure(answer, target), "colour": colour(answer, target)}
