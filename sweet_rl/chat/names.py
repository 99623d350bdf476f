"""Names of models: folders and hub names unchanged, and one name of the library's own."""

from __future__ import annotations

from pathlib import Path

EMBEDDED = "embedded"
"""Stands for the packaged agent of the mini worlds wherever a model is asked for."""

EMBEDDED_FOLDER = Path(__file__).parent.parent / "tiny_models" / "agent"


def model_path(model: str | Path) -> str:
    """What transformers and vLLM load for a name."""
    return str(EMBEDDED_FOLDER if str(model) == EMBEDDED else model)
