"""Pre-training texts of our tiny models for a world; a large model needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from sweet_rl.types import Message


@dataclass(frozen=True, slots=True)
class Text:
    """A dialogue; `solution` comes before it as in the critic's texts, unless it is None."""

    messages: tuple[Message, ...]
    solution: str | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Some steps over one kind of text.

    Args:
        name: of the phase.
        texts: makes them, without end, from what is drawn.
        steps: of the optimizer.
        batch_size: texts of a step.
        learning_rate: its highest value.
        all_tokens: the person's words, too, are to be predicted.
    """

    name: str
    texts: Callable[[Random], Iterator[Text]]
    steps: int
    batch_size: int
    learning_rate: float
    all_tokens: bool


@dataclass(frozen=True, slots=True)
class School:
    """What an agent reads.

    Args:
        rules: the packaged prompt that stands before what it reads, and before its games.
        corpus: makes the texts that its tokenizer is learnt from.
        phases: in their order.
        sentences: stand in the corpus beside each text, so that the tokenizer knows them all.
    """

    rules: str
    corpus: Callable[[], Iterator[Text]]
    phases: tuple[Phase, ...]
    sentences: Sequence[str] = ()
