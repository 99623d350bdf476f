"""Names of models: `embedded` and `smollm2` are the library's own; a folder or hub name stands for itself."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from functools import cache
from pathlib import Path
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.network import without_hub_if_silent

_LOG = logging.getLogger(__name__)

EMBEDDED: Final = "embedded"
"""Stands for the packaged agent of the mini worlds wherever a model is asked for."""
SMOLLM2: Final = "smollm2"
"""Likewise for SmolLM2-135M-Instruct, which `fetch_model` puts into the user's cache (docs/real_model.md)."""
SMOLLM2_GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of that file, from which the folder is converted."""
FETCHED: Final = ".fetched.json"
"""In that folder: digests of its source and its files, with sizes and times. Hidden: no part of the model."""


def user_cache() -> Path:
    """The folder `sweet_rl` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweet_rl"


def folder_of(name: str | Path) -> Path | None:
    """The folder of a model with a name of ours, fetched or not; None for any other name."""
    if str(name) == EMBEDDED:
        return Path(__file__).parent.parent / "mini" / "agent"
    return user_cache() / "models" / SMOLLM2 if str(name) == SMOLLM2 else None


def model_path(model: str | Path) -> str:
    """What transformers and vLLM load for a name.

    Raises:
        UsageError: `smollm2` is not in the user's cache, or not as it was fetched.
    """
    folder = folder_of(model)
    if folder is not None and str(model) == SMOLLM2 and (problem := problem_of(folder)):
        raise UsageError(f"The model {SMOLLM2} {problem}. Fetch it with: sweet-rl fetch_model {SMOLLM2}")
    return str(folder or model)


def problem_of(folder: Path) -> str:
    """What keeps a folder from being the fetched model, as a clause; empty if nothing does."""
    try:
        fetched = json.loads((folder / FETCHED).read_text(encoding="utf-8"))
        if fetched["source"] != SMOLLM2_SHA256:
            return f"in {str(folder)!r} was converted from another file (SHA-256 {fetched['source']})"
        expected = fetched["files"]
        names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        if differing := sorted(names ^ expected.keys()):
            return f"in {str(folder)!r} has other files than were fetched ({differing[0]!r})"
        for name, then in expected.items():
            facts = (folder / name).stat()
            now = {"bytes": facts.st_size, "mtime": facts.st_mtime, "sha256": then["sha256"]}
            if now != then and _digest_of(folder / name, facts.st_size, facts.st_mtime) != then["sha256"]:
                return f"in {str(folder)!r} has changed since it was fetched ({name!r})"
    except FileNotFoundError:
        return f"is not in the user's cache ({str(folder)!r})"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"in {str(folder)!r} cannot be checked ({error})"
    return ""


def sha256_of(path: Path) -> str:
    """The digest of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _digest_of(path: Path, size: int, mtime: float) -> str:  # the same file is read once
    return sha256_of(path)


@cache
def tell_of_search(model: str) -> None:
    """Say, once, that a model is no folder here; the hub is asked once whether it is there, not for a minute."""
    if not Path(model_path(model)).is_dir():
        _LOG.warning("%s is no folder here: looking for it in the local cache and on the hub.", model)
        without_hub_if_silent()
