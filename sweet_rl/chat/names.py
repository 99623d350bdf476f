"""Names of models: folders and hub names unchanged, and one name of the library's own."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

_LOG = logging.getLogger(__name__)

EMBEDDED = "embedded"
"""Stands for the packaged agent of the mini worlds wherever a model is asked for."""

EMBEDDED_FOLDER = Path(__file__).parent.parent / "tiny_models" / "agent"


def model_path(model: str | Path) -> str:
    """What transformers and vLLM load for a name."""
    return str(EMBEDDED_FOLDER if str(model) == EMBEDDED else model)


@cache
def tell_of_search(model: str) -> None:
    """Say, once, that a model is no folder here: without a network the search ends after a minute or two."""
    if not Path(model_path(model)).is_dir():
        _LOG.warning("%s is no folder here: looking for it in the local cache and on the hub.", model)
