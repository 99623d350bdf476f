"""How an agent of Reflect-RL samples tokens, and its choice; labels as tokens.

Published behaviour: docs/published/reflect_rl.md#two-models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from sweet_rl.chat.reflect_format import ACTION_MARKER
from sweet_rl.errors import UsageError
from sweet_rl.online.reflect.settings import ReflectSettings


class Chosen(NamedTuple):
    """What a policy did: the text, its places in the distribution, and what the model knew about it.

    `logprob` is the sum over tokens under the distribution that was sampled from, `entropy` the sum of its
    entropies, in nats.
    """

    text: str
    token_ids: tuple[int, ...]
    logprob: float
    entropy: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: temperature, top-p, top-k and their number."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 1

    @classmethod
    def of(cls, settings: ReflectSettings, *, reflection: bool = False) -> Sampling:
        """As the settings say, for actions or for reflections."""
        if not reflection:
            return cls(settings.temperature, settings.top_k, settings.top_p, settings.max_new_tokens)
        temperature = settings.reflect_temperature or settings.temperature
        return cls(temperature, settings.top_k, settings.top_p, settings.reflect_max_new_tokens)


def label_tokens(tokenizer: Any, labels: Sequence[str]) -> list[int]:
    """The token of each label behind the action marker."""
    before: list[int] = tokenizer(ACTION_MARKER, add_special_tokens=False)["input_ids"]
    found: dict[int, str] = {}
    for label in labels:
        ids = tokenizer(ACTION_MARKER + label, add_special_tokens=False)["input_ids"]
        alone = ids[: len(before)] == before and len(ids) == len(before) + 1
        if not alone or ids[-1] in found or ids[-1] == tokenizer.unk_token_id:
            raise UsageError(
                f"--shrink_head needs a token for every label, and this tokenizer has none for {label!r}. "
                "Take a model with such a tokenizer (gpt2), or a policy that writes no labels "
                "(--pointing_head, in fine-tuning too)."
            )
        found[ids[-1]] = label
    return list(found)


def draws_of(seed: int, sampling: Sampling) -> list[float]:
    """Uniform numbers from 0 to 1 that decide about the tokens of one text."""
    generator = torch.Generator().manual_seed(seed)
    drawn: list[float] = torch.rand(
        sampling.max_new_tokens, generator=generator, dtype=torch.float64
    ).tolist()
    return drawn
