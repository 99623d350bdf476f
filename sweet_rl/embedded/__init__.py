"""The embedded agent: a tiny Llama that can play the mini worlds, so that the pipeline runs on a laptop.

It lies in this package as a folder that transformers and vLLM load like any other;
`scripts/make_embedded_agent.py` makes it, or one with another seed, from nothing (docs/mini.md).
"""

from pathlib import Path

EMBEDDED = "embedded"
"""The name that stands for the packaged folder wherever a model is asked for."""

FOLDER = Path(__file__).parent / "agent"


def model_path(model: str) -> str:
    """The folder of the embedded agent for its name; any other model as it is."""
    return str(FOLDER) if model == EMBEDDED else model
