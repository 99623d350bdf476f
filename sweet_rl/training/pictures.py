"""Pictures that messages name: found, checked once, reported with their line if unusable. No torch.

A picture is a part of a message's content, in one of the usual spellings:

    {"type": "image", "image": SOURCE}, {"type": "image", "url": SOURCE} or {"type": "image", "path": SOURCE}
    {"type": "image_url", "image_url": {"url": SOURCE}}

SOURCE is a path, relative to the data file's folder or absolute (`file://` may precede it), or a data URL.
Nothing is fetched from the web. What tokens a picture becomes is known to `sweet_rl.training.vision`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.errors import DataError, UsageError, missing_package

if TYPE_CHECKING:
    from PIL import Image

_KEYS = ("image", "url", "path", "image_url")
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
            raise UsageError(
                f"The picture {self.source[:200]!r} cannot be read any more: {error.strerror}."
            ) from error
        if _digest(data) != self.digest:
            raise UsageError(
                f"The picture {self.source[:200]!r} has changed since the run began. Start it again; "
                "pictures must stay as they are while a run reads them."
            )
        return _decode(data)


Pictures = tuple[Picture, ...]
"""Those of one text, in the order in which they stand in it."""


class Gallery:
    """All pictures of some data. Each file or data URL is decoded once, however often it is named."""

    def __init__(self) -> None:
        self._by_source: dict[str, Picture] = {}

    def take(
        self, messages: Sequence[Any], *, path: str, line: int, field: str
    ) -> tuple[list[dict[str, Any]], Pictures]:
        """Messages as chat templates want them, pictures replaced by `{"type": "image"}`; and the pictures.

        Args:
            messages: objects with role and content, a text or a list of parts.
        """
        found: list[Picture] = []

        def wrong(problem: str, where: str, value: Any, repair: str) -> DataError:
            return DataError(problem, path=path, line=line, field=where, value=value, repair=repair)

        def part_of(part: Any, where: str, role: Any) -> dict[str, Any]:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind == "text" and isinstance(part.get("text"), str):
                return {"type": "text", "text": part["text"]}
            source = _source(part) if kind in {"image", "image_url"} else None
            if source is None:
                raise wrong("must be a text or a picture", where, part, _FORMS)
            if role == "assistant":
                raise wrong(
                    "is a picture in the assistant's own turn, which has no log-probability",
                    where,
                    source,
                    "Put it into the message before, or leave it out.",
                )
            try:
                found.append(self._look(source, Path(path).parent))
            except _UselessError as useless:
                raise wrong(useless.problem, where, source, useless.repair) from useless
            return {"type": "image"}

        plain: list[dict[str, Any]] = []
        for number, message in enumerate(messages):
            where = f"{field}[{number}]"
            content = message.get("content") if isinstance(message, Mapping) else None
            if not isinstance(content, str | list) or not isinstance(message.get("role"), str):
                raise wrong("must be a message with role and content", where, message, _FORMS)
            if isinstance(content, list):
                content = [
                    part_of(part, f"{where}.content[{at}]", message["role"])
                    for at, part in enumerate(content)
                ]
            plain.append({**message, "content": content})
        return plain, tuple(found)

    def _look(self, source: str, folder: Path) -> Picture:
        if not source.startswith("data:"):
            if source.startswith(("http://", "https://")):
                raise _UselessError(
                    "is a picture on the web",
                    "Nothing is fetched: save it beside the data and name the file.",
                )
            source = str((folder / Path(source.removeprefix("file://")).expanduser()).absolute())
        key = source if len(source) < 4096 else _digest(source.encode())  # a data URL is held once
        known = self._by_source.get(key)
        if known is None:
            known = self._by_source[key] = _looked_at(source, folder)
        return known


class _UselessError(Exception):
    """Why a picture cannot be used, as a clause, and what to do."""

    def __init__(self, problem: str, repair: str) -> None:
        self.problem, self.repair = problem, repair
        super().__init__(problem)


def _source(part: Mapping[str, Any]) -> str | None:
    value = next((part[key] for key in _KEYS if part.get(key)), None)
    if isinstance(value, Mapping):
        value = value.get("url")
    return value if isinstance(value, str) else None


def _looked_at(source: str, folder: Path) -> Picture:
    try:
        data = _bytes_of(source)
    except OSError as error:
        raise _UselessError(
            f"is a picture that is not there ({error.strerror})",
            f"Paths are relative to the data's folder, {str(folder)!r}; put it there, or name it in full.",
        ) from error
    except ValueError as error:
        raise _UselessError(f"is a data URL that cannot be read ({error})", _FORMS) from error
    image = _decode(data)
    return Picture(source, _digest(data), image.width, image.height)


def _bytes_of(source: str) -> bytes:
    if not source.startswith("data:"):
        return Path(source).read_bytes()
    head, comma, body = source.partition(",")
    if not comma or not head.endswith(";base64"):
        raise ValueError("it has no ;base64, in it")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _decode(data: bytes) -> Image.Image:
    try:
        from sweet_rl.grading.pages.pictures import (  # for those who have pictures
            BrokenPicture,
            decode,
        )
    except ImportError as error:
        raise missing_package("pillow", "pages", needed_for="data with pictures") from error
    try:
        return decode(data)
    except BrokenPicture as error:
        raise _UselessError(
            f"is a picture that cannot be decoded ({error})", "Make it again, or leave the row out."
        ) from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
