"""The tokenizer of an agent, as later stages must know it."""

from __future__ import annotations

from typing import NamedTuple

from sweet_rl.chat import load_tokenizer, tokenizer_digest
from sweet_rl.commands.agent_flags import Player
from sweet_rl.preferences.ranking import end_token_of


class TokenizerFacts(NamedTuple):
    """What later stages must know of the sampler's tokenizer: its digest, and the text of its end token."""

    digest: str | None = None
    end_token: str | None = None


def tokenizer_facts(agent: Player) -> TokenizerFacts:
    """Of the tokenizer that the flags name; nothing for a server whose tokenizer is not at hand."""
    name = agent.flags.tokenizer or (None if agent.engine() == "openai" else agent.model)
    if name is None:
        return TokenizerFacts()
    tokenizer = load_tokenizer(name)
    return TokenizerFacts(tokenizer_digest(tokenizer), end_token_of(tokenizer))
