"""Pre-training texts of our tiny models for a world; a large model needs none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from sweet_rl.types import Message


@dataclass(frozen=True, slots=True)
class Text:
    """A dialogue.

    Args:
        solution: stands before it as before the critic's texts, unless it is None.
        skipped: turns of the agent at the beginning that are context only: no loss is taken on them.
    """

    messages: tuple[Message, ...]
    solution: str | None = None
    skipped: int = 0


Ask: TypeAlias = Callable[[Sequence[Text], Sequence[str]], Sequence[Sequence[float]]]
"""What a model would say next: for each text that ends before an agent's turn, the log-probability (nats) that
the turn begins with the first token of each sentence."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured of a model; a gate where it has a bound."""

    name: str
    value: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def passed(self) -> bool:
        """Whether it is within its bounds; what is not a number is not."""
        return self.low <= self.value <= self.high

    @property
    def bounds(self) -> str:
        """What passes, in words; empty where it is no gate."""
        low = [f"at least {self.low:g}"] * (self.low > -math.inf)
        return " and ".join(low + [f"at most {self.high:g}"] * (self.high < math.inf))

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3f}" + (f" (has to be {self.bounds})" if self.bounds else "")


@dataclass(frozen=True, slots=True)
class Phase:
    """Some steps over one kind of text; only the agent's own words are learnt.

    Args:
        texts: makes them, without end, from what is drawn.
        learning_rate: of AdamW, its highest value; it ends at a third of it.
        muon_learning_rate: likewise of Muon, for the layers' matrices; None: AdamW for them, too.
        more: where gates have to pass: further steps at the last learning rate, again and again.
        limit: steps at most, with those.
    """

    name: str
    texts: Callable[[Random], Iterator[Text]]
    steps: int
    batch_size: int
    learning_rate: float
    muon_learning_rate: float | None = None
    more: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class School:
    """What an agent reads.

    Args:
        rules: the packaged prompt that stands before what it reads, and before its games.
        corpus: makes the texts that its tokenizer is learnt from.
        phases: in their order.
        sentences: stand in the corpus beside each text, so that the tokenizer knows them all.
        once: of these, what an agent should not say twice; each is one token.
        figures: measures the agent that has read; a phase with `more` goes on until all gates pass.
        card: what such an agent can and cannot do, for people; `{seed}` stands for its seed.
    """

    rules: str
    corpus: Callable[[], Iterator[Text]]
    phases: tuple[Phase, ...]
    sentences: Sequence[str] = ()
    once: Sequence[str] = ()
    figures: Callable[[Ask], Sequence[Figure]] | None = None
    card: str = ""
