"""Oracles of the question games: each is a `sweet_rl.contracts.User` that serves many games at once.

The games' own oracles answer from tables and need nothing. These are models: in this process
(`seq2seq`), behind any OpenAI-compatible server (`server`), behind the published gradio server (`gradio`).
"""

from __future__ import annotations

from sweet_rl.worlds.question_games.oracles.opening import open_oracle

__all__ = ["open_oracle"]
