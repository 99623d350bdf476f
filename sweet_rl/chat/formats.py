"""How a dialogue becomes the one prompt string that a model reads, and that is recorded as `input`.

Two formats: the chat template of a model's tokenizer, and a plain one that needs no packages, for scripted
policies and for servers whose tokenizer is not at hand. Neither calls a model.

Published behaviour: docs/published/sweet_rl.md#agent, #in-episodes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sweet_rl.chat.names import model_path, tell_of_search
from sweet_rl.errors import UsageError, first_line, missing_package
from sweet_rl.types import Message, digest

_LOG = logging.getLogger(__name__)
_PROBE = "A line that no template writes by itself."


class ChatFormat(Protocol):
    """Turns messages into a prompt that ends where the assistant is about to speak."""

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt string, special tokens written out."""
        ...


class PlainChat:
    r"""A format that needs no tokenizer: `### role:` headers, blank lines, an open assistant header.

    `[Message("user", "Hi")]` becomes `"### user:\nHi\n\n### assistant:\n"`. Contents are written as they
    are: text that looks like a header is not escaped.

    Args:
        begin_token: written first. Servers add a model's begin-of-text token themselves; a model in process
            that was trained with one needs it here.
    """

    def __init__(self, begin_token: str = "") -> None:
        self._begin_token = begin_token

    def render(self, messages: Sequence[Message]) -> str:
        """The dialogue under headings, then the open heading of the assistant."""
        entries = "".join(f"### {message.role}:\n{message.content}\n\n" for message in messages)
        return f"{self._begin_token}{entries}### assistant:\n"


class TokenizerChat:
    """The chat template that ships with a model.

    A template that refuses a system message or drops it silently is found out once, here, by rendering a
    probe; for such a model the system text becomes the beginning of the first user message, followed by a
    blank line (`folds_system`).

    Args:
        tokenizer: a transformers tokenizer.

    Raises:
        UsageError: it has no chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.chat_template:
            raise UsageError(
                f"The tokenizer of {tokenizer.name_or_path!r} has no chat template. Put a "
                "chat_template.jinja into the model's folder, use an instruction-tuned model, or choose the "
                "plain chat format."
            )
        self.tokenizer = tokenizer
        self.folds_system = not self._takes_system()

    @classmethod
    def from_pretrained(cls, model: str | Path) -> TokenizerChat:
        """The chat format of a model folder, or of a name on the hub.

        Raises:
            UsageError: transformers is missing, or there is no such tokenizer, or it has no chat template.
        """
        return cls(load_tokenizer(model))

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt string; begins with the begin-of-text token if the template writes one.

        Raises:
            UsageError: the template refuses these messages.
        """
        if self.folds_system:
            messages = fold_system(messages)
        try:
            return self._apply(messages)
        except _template_error() as error:
            roles = ", ".join(message.role for message in messages)
            raise UsageError(
                f"The chat template of {self.tokenizer.name_or_path!r} refuses a dialogue with the roles "
                f"{roles}: {error}. Choose the plain chat format or another model."
            ) from error

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a rendered prompt; no token is added."""
        ids: list[int] = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        return ids

    def writes_begin_token(self, prompt: str) -> bool:
        """Whether the prompt begins with the begin-of-text token, so that no other one is added."""
        begin: str | None = self.tokenizer.bos_token
        return bool(begin) and prompt.startswith(str(begin))

    def _takes_system(self) -> bool:
        try:
            return _PROBE in self._apply([Message("system", _PROBE), Message("user", "Hi.")])
        except _template_error():
            return False

    def _apply(self, messages: Sequence[Message]) -> str:
        prompt: str = self.tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in messages],
            add_generation_prompt=True,
            tokenize=False,
        )
        return prompt


class InstructedChat:
    """A model's chat template with the same system prompt before every dialogue, and room for so many tokens.

    Of a dialogue that is too long the oldest exchanges are left out, not the first message, which says what
    it is about, and not the last. Where these alone are too long, the prompt is, and a warning says so once.

    Args:
        chat: the template.
        system_prompt: verbatim; empty: none.
        max_context: tokens of a prompt at most.

    Raises:
        UsageError: they leave no room for a dialogue.
    """

    def __init__(self, chat: TokenizerChat, system_prompt: str, max_context: int) -> None:
        self._chat, self._system_prompt, self._max_context = chat, system_prompt, max_context
        self._told = False
        least = len(chat.encode(self._whole([Message("user", "?")])))
        if least > max_context:
            raise UsageError(
                f"max_context={max_context} has no room for a dialogue: with the instructions it begins with "
                f"{least} tokens in the chat template of {chat.tokenizer.name_or_path!r}. Raise it."
            )

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt string, which begins with the system prompt."""
        kept = list(messages)
        while True:
            text = self._whole(kept)
            length = len(self._chat.encode(text))
            if length <= self._max_context:
                return text
            if len(kept) <= 3:
                self._tell(length, messages[0])
                return text
            del kept[1:3]

    def _tell(self, length: int, first: Message) -> None:
        """Once, that of a prompt the beginning is not read."""
        if not self._told:
            _LOG.warning(
                "A dialogue that begins %r has %d tokens without its oldest exchanges, of which max_context "
                "reads the last %d: not the instructions. Raise it, or leave out such tasks. (Said once.)",
                first.content[:60],
                length,
                self._max_context,
            )
        self._told = True

    def _whole(self, messages: Sequence[Message]) -> str:
        return self._chat.render(with_system(self._system_prompt, messages))


def with_system(system_prompt: str, messages: Sequence[Message]) -> list[Message]:
    """The system prompt verbatim, unless it is empty, followed by the visible history."""
    return [*([Message("system", system_prompt)] if system_prompt else []), *messages]


def as_json(messages: Sequence[Message]) -> str:
    """What is recorded as the input of a model whose server renders the prompt: the messages it was sent."""
    plain = [{"role": message.role, "content": message.content} for message in messages]
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """The same dialogue without system role: its text opens the first user message."""
    match list(messages):
        case [Message(role="system") as system, Message(role="user") as first, *rest]:
            return [Message("user", f"{system.content}\n\n{first.content}"), *rest]
        case [Message(role="system") as system, *rest]:
            return [Message("user", system.content), *rest]
        case unchanged:
            return unchanged


def load_tokenizer(model: str | Path) -> Any:
    """The tokenizer of a model folder, or of a name on the hub.

    Raises:
        UsageError: transformers is missing, or there is no such tokenizer.
    """
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415 - seconds; only for those who use it
    except ImportError as error:
        raise missing_package("transformers", "transformers", needed_for="a model's chat template") from error
    tell_of_search(str(model))
    try:
        return AutoTokenizer.from_pretrained(model_path(model))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"No tokenizer could be loaded from {str(model)!r}: {_sentence(error)} Name a folder with "
            "tokenizer.json and tokenizer_config.json, or a model that is in the local cache or on the hub."
        ) from error


def tokenizer_digest(tokenizer: Any) -> str:
    """A fingerprint of a tokenizer's vocabulary: token ids mean the same where it is the same."""
    return digest(sorted(tokenizer.get_vocab().items()))


def _template_error() -> type[Exception]:
    from jinja2 import TemplateError  # noqa: PLC0415 - comes with transformers

    return TemplateError


def _sentence(error: Exception) -> str:
    line = first_line(error)
    return line if line.endswith((".", "!", "?")) else f"{line}."
