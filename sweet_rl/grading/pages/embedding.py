"""Pictures to vectors by a CLIP or SigLIP model, and the cosine of two of them.

Published behaviour: docs/published/sweet_rl.md#grading-pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sweet_rl.errors import UsageError, missing_package
from sweet_rl.network import without_hub_if_silent

ModelInput: TypeAlias = NDArray[np.float32]
"""One picture as the model is given it: shape (tiles, 3, height, width)."""

LongPage = Literal["center", "tile"]

_MOST_TILES = 16

Vector: TypeAlias = NDArray[np.float32]
"""Shape (dimensions,)."""


class Embedder(Protocol):
    """Pictures to vectors in two steps: the first may run in many threads, the second likes batches."""

    def prepare(self, image: Image.Image) -> ModelInput:
        """What the model is given of one picture in RGB."""

    def embed(self, pictures: Sequence[ModelInput]) -> list[Vector]:
        """One vector for each picture, in order; they need no particular length."""


def cosine(first: Vector, second: Vector) -> float:
    """Dot product of both vectors scaled to length 1, in torch's float32 as published, cut to [0, 1].

    Equal vectors give exactly 1. Below 0, where features of two pictures hardly ever are, is 0.
    """
    if np.array_equal(first, second):
        return 1.0
    return float(np.clip(np.dot(_of_length_1(first), _of_length_1(second)), np.float32(0), np.float32(1)))


class ClipEmbedder:
    """A CLIP or SigLIP model of transformers, in float32.

    Args:
        model: a folder or a hub name (published: openai/clip-vit-base-patch32).
        device: auto, cpu, cuda, cuda:1, ...
        batch_size: tiles in one forward pass at most.
        long_page: "center" is the model's own preprocessing, for CLIP the middle square (published). "tile" cuts the whole
            page into squares, 16 at most; the vector is the mean of theirs of length 1.

    Raises:
        UsageError: transformers is missing, or this is no model with picture features.
    """

    def __init__(
        self, model: str, *, device: str = "auto", batch_size: int = 32, long_page: LongPage = "center"
    ) -> None:
        try:
            import torch  # the metrics without weights do without
            from transformers import AutoImageProcessor, AutoModel
        except ImportError as error:
            raise missing_package(
                error.name or "transformers", "transformers", needed_for="--clip_model"
            ) from error
        self._torch, self._batch_size, self._long_page = torch, batch_size, long_page
        best = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = best if device == "auto" else device
        if not Path(model).exists():
            without_hub_if_silent()
        try:
            processors: Any = AutoImageProcessor
            models: Any = AutoModel
            self._processor = processors.from_pretrained(model, backend="pil")
            self._model = models.from_pretrained(model, dtype=torch.float32)
        except (OSError, ValueError, KeyError) as error:
            why = (
                str(error).splitlines()[0]
                if Path(model).exists()
                else "no such folder, nor in the local cache or on the hub"
            )
            raise UsageError(
                f"--clip_model {model!r} cannot be loaded ({why}). Give the "
                "folder of a CLIP or SigLIP model, or a hub name like openai/clip-vit-base-patch32."
            ) from error
        if not hasattr(self._model, "get_image_features"):
            raise UsageError(
                f"--clip_model {model!r} is not a CLIP or SigLIP model: it has no picture features."
            )
        self._model.to(self._device).eval()

    def prepare(self, image: Image.Image) -> ModelInput:
        """The model's own preprocessing of the picture or of its tiles."""
        images = squares(image) if self._long_page == "tile" else [image]
        return np.asarray(self._processor(images=images, return_tensors="np")["pixel_values"], np.float32)

    def embed(self, pictures: Sequence[ModelInput]) -> list[Vector]:
        """Vectors of all pictures, `batch_size` tiles at a time."""
        torch, vectors, found = self._torch, list[Vector](), list[Vector]()
        tiles = [tile for picture in pictures for tile in picture]
        for start in range(0, len(tiles), self._batch_size):
            batch = torch.from_numpy(np.stack(tiles[start : start + self._batch_size]))
            with torch.inference_mode():
                features = self._model.get_image_features(pixel_values=batch.to(self._device))
            features = getattr(features, "pooler_output", features)  # a plain tensor before transformers 5
            vectors.extend(features.float().cpu().numpy())
        left = iter(vectors)
        for picture in pictures:
            first, *more = (next(left) for _ in picture)
            units = [_of_length_1(vector) for vector in (first, *more)] if more else [first]
            found.append(np.mean(units, axis=0, dtype=np.float32) if more else first)
        return found


def squares(image: Image.Image) -> list[Image.Image]:
    """A page cut into squares as wide as it is (a wide one: as high), the last one ending with the page."""
    side, length = sorted(image.size)
    count = min(-(-length // side), _MOST_TILES)
    starts = [min(at * side, length - side) for at in range(count)]
    if count * side < length:  # evenly spread
        starts = [round(at * (length - side) / (count - 1)) for at in range(count)]
    boxes = [(0, start, side, start + side) for start in starts]
    if image.width > image.height:
        boxes = [(start, 0, start + side, side) for start in starts]
    return [image.crop(box) for box in boxes]


def _of_length_1(vector: Vector) -> Vector:
    # torch's rounding differs from numpy's in the last bit, which decides pairs that differ by the margin
    import torch  # as above

    single = torch.from_numpy(np.ascontiguousarray(vector, np.float32))
    unit: Vector = (single / single.norm().clamp_min(torch.finfo(torch.float32).tiny)).numpy()
    return unit
