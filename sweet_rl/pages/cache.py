"""A disk cache of rendered pages.

Each has two files under the digest of everything that decides about its picture: `.png`, which a person can
open, and `.json` with its boxes, written last, which names the picture's digest. Any of them may be deleted
at any time.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from sweet_rl.pages.types import Box, RenderedPage
from sweet_rl.records import replace_file


def load(folder: Path, key: str) -> RenderedPage | None:
    """The page of this key; None where it was never kept, or where its files are damaged."""
    picture, facts = _paths(folder, key)
    try:
        image, found = picture.read_bytes(), json.loads(facts.read_bytes())
        if found["sha256"] != hashlib.sha256(image).hexdigest():
            return None
        boxes = tuple(
            Box(**box | {name: _color(box[name]) for name in ("color", "background")})
            for box in found["boxes"]
        )
        return RenderedPage(image, found["width"], found["height"], boxes, tuple(found["problems"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(folder: Path, key: str, page: RenderedPage) -> None:
    """Keep a page."""
    picture, facts = _paths(folder, key)
    found = {
        "sha256": hashlib.sha256(page.image).hexdigest(),
        "width": page.width,
        "height": page.height,
        "problems": page.problems,
        "boxes": [asdict(box) for box in page.boxes],
    }
    replace_file(picture, [page.image])
    replace_file(facts, [json.dumps(found, separators=(",", ":")).encode()])


def _paths(folder: Path, key: str) -> tuple[Path, Path]:
    stem = folder / key[:2] / key
    return stem.with_suffix(".png"), stem.with_suffix(".json")


def _color(channels: list[int] | None) -> tuple[int, int, int] | None:
    if channels is None:
        return None
    red, green, blue = channels
    return red, green, blue
