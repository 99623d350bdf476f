"""A model's tokenizer as the stages between sampling and pairs need it: the end of a turn, texts to ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweet_rl.chat import TokenizerChat, TurnTemplate, load_tokenizer, tokenizer_digest
from sweet_rl.chat.formats import read_back
from sweet_rl.chat.turns import turn_end
from sweet_rl.errors import UsageError
from sweet_rl.preferences.ranking import Encoding


def end_token_of(tokenizer: Any) -> str:
    """The text of the token that ends a turn: the chat template's, or eos_token where it writes none.

    Raises:
        UsageError: there is neither.
    """
    if not (end := turn_end(tokenizer)):
        raise UsageError(
            f"The end of a turn is unknown under the tokenizer of {tokenizer.name_or_path!r}: no chat "
            "template with an end token, no eos_token. Set eos_token in its tokenizer_config.json."
        )
    return end


def encoding_of(name: str, *, needs_header: bool) -> Encoding:
    """The tokenizer of a model folder, as ranking needs it.

    Args:
        name: folder, or name on the hub.
        needs_header: published ranking puts the header of an assistant turn after every candidate.

    Raises:
        UsageError: no tokenizer; with `needs_header`, no chat template to read the header from.
    """
    return encoding_by(load_tokenizer(name), needs_header=needs_header)


def encoding_by(tokenizer: Any, *, needs_header: bool = False) -> Encoding:
    """The same of a tokenizer that is loaded.

    Raises:
        UsageError: it has no end token; with `needs_header`, no chat template.
    """
    chat = TokenizerChat(tokenizer) if tokenizer.chat_template else None
    header = TurnTemplate(TokenizerChat(tokenizer)).header if needs_header else ""

    def encode(text: str) -> list[int]:
        if chat is not None and (given := read_back(text)) is not None:  # as training writes it, too
            text = given[0] + chat.render(given[1])
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def encode_with_special(text: str) -> list[int]:
        ids: list[int] = tokenizer(text)["input_ids"]
        return ids

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return Encoding(
        encode=encode,
        encode_with_special=encode_with_special,
        header=header,
        header_length=len(encode(header)),
        end_ids=tuple(encode(end_token_of(tokenizer))),
        digest=tokenizer_digest(tokenizer),
        decode=decode,
    )
