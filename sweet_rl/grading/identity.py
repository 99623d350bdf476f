"""Which grader made a number: its name, the library's version, a digest of its code, and its settings."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from sweet_rl.types import Json
from sweet_rl.version import __version__

_HERE: Final = Path(__file__).parent
_CODE: Final[Mapping[str, tuple[str, ...]]] = {
    "tests": ("code.py", "expressions.py", "extraction.py", "hidden_tests.py", "sandbox/**/*.py"),
    "pages": ("pages/*.py",),
}
"""The files that decide about the grades of ours."""


def graded_with(grader: str, settings: Mapping[str, Json]) -> dict[str, Json]:
    """What rows say of a grader of ours, "tests" or "pages".

    Args:
        grader: its name.
        settings: of it.
    """
    return {"grader": grader, "sweet_rl": __version__, "digest": _digest(grader), **settings}


def graded_with_own(name: str, grader: object) -> dict[str, Json]:
    """What rows say of a grader from outside; without a digest where its source is in no file."""
    known: dict[str, Json] = {"grader": name, "sweet_rl": __version__}
    try:
        source = inspect.getsourcefile(type(grader))
        return known | ({"digest": _of_files([Path(source)])} if source else {})
    except (TypeError, OSError):
        return known


@cache
def _digest(grader: str) -> str:
    return _of_files(sorted(path for pattern in _CODE[grader] for path in _HERE.glob(pattern)))


def _of_files(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
