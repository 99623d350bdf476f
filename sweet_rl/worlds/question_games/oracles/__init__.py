"""Oracles of the question games: each is a `sweet_rl.contracts.User` that serves many games at once.

The games' own oracles answer from tables and need nothing. These are models: in this process
(`seq2seq`), behind any OpenAI-compatible server (`server`), behind the published gradio server (`gradio`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sweet_rl.contracts import User
from sweet_rl.errors import UsageError
from sweet_rl.worlds.question_games.asking import Asking

KINDS: Final = ("seq2seq", "openai", "gradio")

BASE_MODEL: Final = "google/flan-t5-small"
"""What the published weights were fine-tuned from."""

_WEIGHTS: Final = {".pt", ".pth", ".bin"}


def open_oracle(
    asking: Asking,
    kind: str,
    path: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    concurrency: int = 64,
    **client: Any,
) -> User:
    """Who answers."""
    if kind == "seq2seq":
        from sweet_rl.worlds.question_games.oracles.seq2seq import Seq2SeqOracle

        if Path(path).suffix in _WEIGHTS:
            return Seq2SeqOracle(asking, model or BASE_MODEL, weights=path, max_batch=concurrency)
        return Seq2SeqOracle(asking, path, max_batch=concurrency)
    if kind == "openai":
        if not model:
            raise UsageError(f"The server at {path!r} needs the name of a model: give one.")
        from sweet_rl.openai_client import OpenAIClient, base_url_from
        from sweet_rl.worlds.question_games.oracles.server import OpenAIOracle

        urls = base_url_from("", 0, path)
        asked = OpenAIClient(urls, api_key=api_key, max_connections=concurrency, **client)
        return OpenAIOracle(asking, asked, model)
    if kind == "gradio":
        from sweet_rl.worlds.question_games.oracles.gradio import GradioOracle

        return GradioOracle(asking, path, max_batch=concurrency)
    raise UsageError(f"An oracle is one of {', '.join(KINDS)} or embedded, got {kind!r}.")


__all__ = ["open_oracle"]
