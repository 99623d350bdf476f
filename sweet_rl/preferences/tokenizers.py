"""A model's tokenizer as the stages between sampling and pairs need it: the end of a turn, texts to ids."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sweet_rl.chat import TurnFormat, load_tokenizer, tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.preferences.ranking import Encoding


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
    return encoding_by(load_tokenizer(name), needs_header=needs_header)


def encoding_by(tokenizer: Any, *, needs_header: bool = False) -> Encoding:
    """The same of a tokenizer that is loaded.

    Raises:
        UsageError: it has no end token; with `needs_header`, no chat template.
    """
    header = TurnFormat.of(tokenizer).header_ids if needs_header else ()

    def encode(text: str) -> list[int]:
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
        header=tokenizer.decode(list(header), skip_special_tokens=False),
        header_length=len(header),
        end_id=end_id_of(tokenizer),
        digest=tokenizer_digest(tokenizer),
        decode=decode,
    )
