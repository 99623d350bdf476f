"""The tokenizer functions of the stages between sampling and pairs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from sweet_rl.chat import TurnFormat, load_tokenizer, tokenizer_digest
from sweet_rl.commands.agent_flags import Player
from sweet_rl.errors import UsageError
from sweet_rl.preferences.ranking import Encoding


class TokenizerFacts(NamedTuple):
    """What later stages must know of the sampler's tokenizer: its digest, and the text of its end token."""

    digest: str | None = None
    end_token: str | None = None


def end_id_of(tokenizer: Any) -> int:
    """The token that closes a turn: the chat template's, or eos_token where a template has none.

    Raises:
        UsageError: there is neither.
    """
    if tokenizer.chat_template:
        with suppress(UsageError):
            return TurnFormat.of(tokenizer).end_id
    if tokenizer.eos_token_id is None:
        raise UsageError(
            f"The end of a turn is unknown under the tokenizer of {tokenizer.name_or_path!r}: no chat "
            "template with an end token, no eos_token. Set eos_token in its tokenizer_config.json."
        )
    return int(tokenizer.eos_token_id)


def end_token_of(tokenizer: Any) -> str:
    """The end token as the text it decodes to, special tokens included."""
    return str(tokenizer.decode([end_id_of(tokenizer)], skip_special_tokens=False))


def encoding_of(name: str, *, needs_header: bool) -> Encoding:
    """The tokenizer of a model folder, as ranking needs it.

    Args:
        name: folder, or name on the hub.
        needs_header: published ranking puts the header of an assistant turn after every candidate.

    Raises:
        UsageError: no tokenizer; with `needs_header`, no chat template to read the header from.
    """
    tokenizer = load_tokenizer(name)
    header = TurnFormat.of(tokenizer).header_ids if needs_header else ()

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def encode_with_special(text: str) -> list[int]:
        ids: list[int] = tokenizer(text)["input_ids"]
        return ids

    return Encoding(
        encode=encode,
        encode_with_special=encode_with_special,
        header=tokenizer.decode(list(header), skip_special_tokens=False),
        header_length=len(header),
        end_id=end_id_of(tokenizer),
        digest=tokenizer_digest(tokenizer),
    )


def tokenizer_facts(agent: Player) -> TokenizerFacts:
    """Of the tokenizer that the flags name; nothing for a server whose tokenizer is not at hand."""
    name = agent.flags.tokenizer or (None if agent.engine() == "openai" else agent.model)
    if name is None:
        return TokenizerFacts()
    tokenizer = load_tokenizer(name)
    return TokenizerFacts(tokenizer_digest(tokenizer), end_token_of(tokenizer))
