"""Pictures as a vision-language model reads them: tokens in the text, and pixels beside it.

For models of the Qwen2-VL kind: a picture is scaled to a number of pixels that fits the limits and cut into
patches, `merge_size` squared of which are one token. All of a picture's tokens are the same one; what they
show comes in `pixel_values`, how they lie in `image_grid_thw`, both in the order of the tokens. The model
gives them positions on three axes by itself.

Pixels are made with Pillow on every machine, so that the same picture gives the same numbers everywhere.

Axes: P patches, D numbers of a patch, I pictures.

Published behaviour: docs/published/sweet_rl.md#in-training.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweet_rl.chat import model_path
from sweet_rl.errors import DataError, UsageError, first_line
from sweet_rl.training.pictures import Picture, Pictures
from sweet_rl.training.settings import DataSettings
from sweet_rl.types import digest

_KEPT = 64
"""Pictures whose patches stay in memory: at the published limits about 1.2 MB each."""


class Patches(NamedTuple):
    """Some pictures as a model is given them."""

    pixels_PD: np.ndarray
    grids_I3: np.ndarray
    """Patches in time (1), height and width."""


class Vision:
    """How a model's pictures become tokens and patches.

    Args:
        processor: a transformers image processor of the Qwen2-VL kind.
        token: the text of a picture's token, as the chat template writes it once for each picture.
        token_id: its id.
    """

    def __init__(self, processor: Any, *, token: str, token_id: int) -> None:
        self._processor = processor
        self._token, self.token_id = token, token_id
        self._patches = lru_cache(maxsize=_KEPT)(self._made)

    @classmethod
    def load(cls, model: str, tokenizer: Any, settings: DataSettings | None = None) -> Vision:
        """That of a model folder, or of a name on the hub; without settings with its own limits of pixels."""
        from transformers import AutoConfig, AutoImageProcessor

        try:
            config = AutoConfig.from_pretrained(model_path(model))
        except (OSError, ValueError) as error:
            raise UsageError(f"No model could be loaded from {model!r}: {first_line(error)}") from error
        token_id = getattr(config, "image_token_id", None)
        if token_id is None:
            raise UsageError(
                f"{model!r} ({config.model_type}) reads no pictures. Name a vision-language model of the "
                "Qwen2-VL kind, or pairs of texts."
            )
        name, options = model, dict[str, Any]()
        if settings is not None:
            name = settings.image_processor or model
            options["size"] = {"shortest_edge": settings.min_pixels, "longest_edge": settings.max_pixels}
        try:
            load: Any = AutoImageProcessor.from_pretrained
            processor = load(model_path(name), backend="pil", **options)
        except (OSError, ValueError, ImportError) as error:
            raise UsageError(
                f"No image processor could be loaded from {name!r}: {first_line(error)} Name a folder with "
                "preprocessor_config.json with --image_processor; it needs the package pillow."
            ) from error
        if not (hasattr(processor, "merge_size") and hasattr(processor, "get_number_of_image_patches")):
            raise UsageError(
                f"The image processor of {name!r} ({type(processor).__name__}) cuts pictures in a way that "
                "is not known here; models of the Qwen2-VL kind are."
            )
        return cls(processor, token=tokenizer.convert_ids_to_tokens(token_id), token_id=token_id)

    @classmethod
    def find(cls, model: str, tokenizer: Any) -> Vision | None:
        """The same; None for a model that reads no pictures, or that lacks an image processor."""
        try:
            return cls.load(model, tokenizer)
        except UsageError:
            return None

    @property
    def digest(self) -> str:
        """A fingerprint of what decides about pixels."""
        return digest({name: str(value) for name, value in self._processor.to_dict().items()})

    def tokens(self, picture: Picture) -> int:
        """How many tokens it takes."""
        try:
            patches = self._processor.get_number_of_image_patches(picture.height, picture.width, {})
        except ValueError as error:
            raise UsageError(
                f"A picture of {picture.width} x {picture.height} pixels cannot be read: {error}."
            ) from error
        tokens: int = patches // self._processor.merge_size**2
        return tokens

    def marks(self, text: str) -> int:
        """How many pictures a text shows."""
        return text.count(self._token)

    def expanded(self, text: str, pictures: Pictures, *, place: str) -> str:
        """The text with every picture's mark repeated as often as it has tokens."""
        pieces = text.split(self._token)
        if len(pieces) - 1 != len(pictures):
            raise DataError(
                f"has {len(pictures)} pictures and {len(pieces) - 1} marks {self._token!r} in a text",
                path=place,
                repair="Does the chat template write one for each picture? No text may hold it otherwise.",
            )
        if not pictures:
            return text
        marks = [self._token * self.tokens(picture) for picture in pictures]
        return "".join(itertools.chain.from_iterable(itertools.zip_longest(pieces, marks, fillvalue="")))

    def outside(self, ids: Sequence[int], pictures: Pictures, start: int, stop: int) -> Pictures:
        """The pictures that do not begin in `ids[start:stop]`."""
        if not pictures:
            return ()
        places = np.flatnonzero(np.asarray(ids) == self.token_id)
        begins = itertools.accumulate((self.tokens(picture) for picture in pictures[:-1]), initial=0)
        return tuple(
            picture
            for picture, at in zip(pictures, begins, strict=True)
            if at < len(places) and not start <= places[at] < stop
        )

    def complete(self, ids: Sequence[int], pictures: Pictures) -> bool:
        """Whether the ids hold all tokens of all pictures."""
        return sum(map(self.tokens, pictures)) == sum(token == self.token_id for token in ids)

    def patches(self, pictures: Sequence[Picture]) -> Patches:
        """All of them, in order; there must be one."""
        made = [self._patches(picture) for picture in pictures]
        return Patches(
            np.concatenate([patches.pixels_PD for patches in made]),
            np.concatenate([patches.grids_I3 for patches in made]),
        )

    def save(self, folder: Path) -> None:
        """Beside a model: preprocessor_config.json, with the limits that it was trained with."""
        self._processor.save_pretrained(folder)

    def _made(self, picture: Picture) -> Patches:
        made = self._processor(picture.decoded(), return_tensors="np")
        return Patches(np.asarray(made["pixel_values"], np.float32), np.asarray(made["image_grid_thw"]))
