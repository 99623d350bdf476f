"""Pictures that messages name, and how a vision-language model reads them: tokens in the text, pixels beside it.

For models of the Qwen2-VL kind: a picture is scaled to a number of pixels that fits the limits and cut into
patches, `merge_size` squared of which are one token. All of a picture's tokens are the same one; what they
show comes in `pixel_values`, how they lie in `image_grid_thw`, both in the order of the tokens. The model
gives them positions on three axes by itself.

Pixels are made with Pillow on every machine, so that the same picture gives the same numbers everywhere. A picture is
a part of a message's content, in one of the usual spellings:

    {"type": "image", "image": SOURCE}, {"type": "image", "url": SOURCE} or {"type": "image", "path": SOURCE}
    {"type": "image_url", "image_url": {"url": SOURCE}}

SOURCE is a path, relative to the data file's folder or absolute (`file://` may precede it), or a data URL. Nothing is
fetched from the web.

Axes: P patches, D numbers of a patch, I pictures.

Published behaviour: docs/published/sweet_rl.md#in-training.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweet_rl.chat import model_path
from sweet_rl.errors import DataError, UsageError, first_line, missing_package
from sweet_rl.training.settings import DataSettings

if TYPE_CHECKING:
    from PIL import Image


_KEPT = 64  # pictures whose patches stay in memory: at the published limits about 1.2 MB each


class Vision:
    """How a model's pictures become tokens and patches."""

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
                f"The image processor of {name!r} ({type(processor).__name__}) is not Qwen2-VL's."
            )
        return cls(processor, token=tokenizer.convert_ids_to_tokens(token_id), token_id=token_id)

    @classmethod
    def find(cls, model: str, tokenizer: Any) -> Vision | None:
        """The same; None for a model that reads no pictures, or that lacks an image processor."""
        try:
            return cls.load(model, tokenizer)
        except UsageError:
            return None

    def tokens(self, picture: Picture) -> int:
        """How many tokens it takes."""
        try:
            patches = self._processor.get_number_of_image_patches(picture.height, picture.width, {})
        except ValueError as error:
            size = f"{picture.width} x {picture.height}"
            raise UsageError(f"A picture of {size} pixels cannot be read: {error}.") from error
        return int(patches // self._processor.merge_size**2)

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

    def patches(self, pictures: Sequence[Picture]) -> tuple[np.ndarray, np.ndarray]:
        """All of them, in order, as pixels [P, D] and grids [I, 3] of patches in time (1), height and width."""
        pixels, grids = zip(*map(self._patches, pictures), strict=True)
        return np.concatenate(pixels), np.concatenate(grids)

    def save(self, folder: Path) -> None:
        """Beside a model: preprocessor_config.json, with the limits that it was trained with."""
        self._processor.save_pretrained(folder)

    def _made(self, picture: Picture) -> tuple[np.ndarray, np.ndarray]:
        made = self._processor(picture.decoded(), return_tensors="np")
        return np.asarray(made["pixel_values"], np.float32), np.asarray(made["image_grid_thw"])


_FORMS = (
    'A picture is {"type": "image", "image": SOURCE}, with a path or a data URL (data:image/png;base64,...).'
)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: an absolute path or a data URL, a digest of its bytes, and its size in pixels."""

    source: str
    digest: str
    width: int
    height: int

    def decoded(self) -> Image.Image:
        """In RGB; transparent parts are white."""
        try:
            data = _bytes_of(self.source)
        except OSError as error:
            name = repr(self.source[:200])
            raise UsageError(f"The picture {name} cannot be read any more: {error.strerror}.") from error
        if _digest(data) != self.digest:
            raise UsageError(f"The picture {self.source[:200]!r} has changed since the run began.")
        return _decode(data)


Pictures = tuple[Picture, ...]  # those of one text, in the order in which they stand in it


class Gallery:
    """All pictures of some data. Each file or data URL is decoded once, however often it is named."""

    def __init__(self) -> None:
        self._by_source: dict[str, Picture] = {}

    def take(
        self, messages: Sequence[Any], *, path: str, line: int, field: str
    ) -> tuple[list[dict[str, Any]], Pictures]:
        """Messages as chat templates want them, pictures replaced by `{"type": "image"}`; and the pictures."""
        found: list[Picture] = []
        plain: list[dict[str, Any]] = []
        for number, message in enumerate(messages):
            content = message["content"]
            if isinstance(content, list):
                content = []
                for at, part in enumerate(message["content"]):
                    where = f"{field}[{number}].content[{at}]"
                    kind = part.get("type") if isinstance(part, Mapping) else None
                    if kind == "text" and isinstance(part.get("text"), str):
                        content.append({"type": "text", "text": part["text"]})
                        continue
                    wrong: Any = partial(DataError, path=path, line=line, field=where, value=part)
                    found.append(self._look(part, kind, message["role"], Path(path).parent, wrong))
                    content.append({"type": "image"})
            plain.append({**message, "content": content})
        return plain, tuple(found)

    def _look(
        self, part: Any, kind: Any, role: str, folder: Path, wrong: Callable[..., DataError]
    ) -> Picture:
        source = None
        if kind in {"image", "image_url"}:
            source = next((part[key] for key in ("image", "url", "path", "image_url") if part.get(key)), None)
            source = source.get("url") if isinstance(source, Mapping) else source
        if not isinstance(source, str):
            raise wrong("must be a text or a picture", repair=_FORMS)
        if role == "assistant":
            problem = "is a picture in the assistant's own turn, which has no log-probability"
            raise wrong(problem, repair="Put it into the message before, or leave it out.")
        if source.startswith(("http://", "https://")):
            repair = "Nothing is fetched: save it beside the data and name the file."
            raise wrong("is a picture on the web", repair=repair)
        if not source.startswith("data:"):
            source = str((folder / Path(source.removeprefix("file://")).expanduser()).absolute())
        key = source if len(source) < 4096 else _digest(source.encode())  # a data URL is held once
        if key not in self._by_source:
            try:
                data = _bytes_of(source)
                image = _decode(data)
            except OSError as error:
                repair = f"Paths are relative to the data's folder, {str(folder)!r}; put it there."
                raise wrong(f"is a picture that is not there ({error.strerror})", repair=repair) from error
            except ValueError as error:
                raise wrong(f"is a picture that cannot be read ({error})", repair=_FORMS) from error
            self._by_source[key] = Picture(source, _digest(data), image.width, image.height)
        return self._by_source[key]


def _bytes_of(source: str) -> bytes:
    if not source.startswith("data:"):
        return Path(source).read_bytes()
    head, comma, body = source.partition(",")
    if not comma or not head.endswith(";base64"):
        raise ValueError("the data URL has no ;base64, in it")
    return base64.b64decode(body, validate=True)


def _decode(data: bytes) -> Image.Image:
    """The picture; ValueError where it is none."""
    try:
        from sweet_rl.grading.pages.metrics import BrokenPicture, decode  # for those who have pictures
    except ImportError as error:
        raise missing_package("pillow", "pages", needed_for="data with pictures") from error
    try:
        return decode(data)
    except BrokenPicture as error:
        raise ValueError(f"it cannot be decoded: {error}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
