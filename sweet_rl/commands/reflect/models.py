"""Models of the Reflect-RL stages: tiny ones made on the spot, and progress messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sweet_rl.algorithms.reflect.settings import ReflectSettings
from sweet_rl.tiny_models.reflect_models import TINY, make_reflect_model


class Teller:
    """Prints each sentence once: two models often have the same to say.

    Args:
        speaks: whether this process does; of several, the first.
    """

    def __init__(self, *, speaks: bool = True) -> None:
        self._speaks = speaks
        self._printed: set[str] = set()

    def __call__(self, sentence: str) -> None:
        """Print it, unless it was."""
        if self._speaks and sentence not in self._printed:
            print(sentence, flush=True)
        self._printed.add(sentence)


def with_tiny_models(
    settings: ReflectSettings,
    folder: Path,
    texts: Callable[[], Sequence[str]],
    labels: Sequence[str] = (),
) -> ReflectSettings:
    """The settings with folders where they say `tiny`; the models are made there."""
    if TINY not in {settings.model_name, settings.reflect_model_name}:
        return settings
    made = str(make_reflect_model(folder / TINY, seed=settings.seed, texts=texts(), labels=labels))
    return replace(
        settings,
        model_name=made if settings.model_name == TINY else settings.model_name,
        reflect_model_name=made if settings.reflect_model_name == TINY else settings.reflect_model_name,
    )
