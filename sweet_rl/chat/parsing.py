"""Prompt strings back to messages, where a chat template lets that be done exactly.

What a template writes between contents is read off it by rendering a probe. A text is cut there, and the cut
is believed only if the template writes the same text again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sweet_rl.chat.formats import TokenizerChat
from sweet_rl.errors import UsageError
from sweet_rl.types import Message, Role

_PROBES = (
    Message("system", "qqsystemqq"),
    Message("user", "qqfirstqq"),
    Message("assistant", "qqanswerqq"),
    Message("user", "qqsecondqq"),
    Message("assistant", "qqlastqq"),
)


class UnparsableError(ValueError):
    """A text that the template does not write for any messages; `str(error)` says why, as a clause."""


class _Marks(NamedTuple):
    """What a template writes around contents. `system` stands before a system text and behind it."""

    begin: str
    to_assistant: str
    to_user: str
    end: str
    opens: str
    system: tuple[str, str] | None


class ChatParser:
    """The reverse of a tokenizer's chat template, for dialogues that alternate between user and assistant.

    Args:
        tokenizer: a transformers tokenizer.

    Raises:
        UsageError: no chat template, or one that writes a turn in different ways (one that drops the thoughts
            of earlier turns, for example), so that its texts cannot be taken apart.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        takes_system = not TokenizerChat(tokenizer).folds_system
        system, dialogue = _PROBES[:1], _PROBES[1:]
        begin, to_assistant, to_user, to_last, end = self._between(dialogue)
        if to_last != to_assistant or not (to_assistant.strip() and to_user.strip()):
            raise UsageError(
                f"The chat template of {tokenizer.name_or_path!r} does not write every turn alike, so its "
                "texts cannot be taken apart into messages. Export texts (without --conversational)."
            )
        opens = self.render(dialogue[:1], open_turn=True).partition(dialogue[0].content)[2]
        before, behind = self._between([*system, *dialogue])[:2] if takes_system else ("", "")
        self._marks = _Marks(
            begin, to_assistant, to_user, end, opens, (before, behind) if takes_system else None
        )

    def render(self, messages: Sequence[Message], *, open_turn: bool = False) -> str:
        """What the template writes; with `open_turn` up to where the assistant is about to speak."""
        text: str = self._tokenizer.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in messages],
            tokenize=False,
            add_generation_prompt=open_turn,
        )
        return text

    def parse(self, text: str, *, open_turn: bool = False) -> list[Message]:
        """The messages for which the template writes exactly this text.

        Args:
            text: begins where the template begins. Blanks behind the last turn's end are of no account.
            open_turn: it ends where the assistant is about to speak, not with a turn of the assistant.

        Raises:
            UnparsableError: there are none.
        """
        from jinja2 import TemplateError  # noqa: PLC0415 - comes with transformers

        problem = f"it does not begin as that does, with {self._marks.begin[:60]!r}"
        for with_system in (False, True):
            messages = self._cut(text, with_system=with_system, open_turn=open_turn)
            if messages is None:
                continue
            try:
                written = self.render(messages, open_turn=open_turn)
            except TemplateError as error:
                problem = f"the template refuses it: {error}"
                continue
            if written == text or (not open_turn and written.rstrip() == text.rstrip()):
                return messages
            at = len(common_beginning(written, text))
            problem = (
                f"at character {at} it has {text[at : at + 30]!r} where the template writes "
                f"{written[at : at + 30]!r}"
            )
        raise UnparsableError(problem)

    def _cut(self, text: str, *, with_system: bool, open_turn: bool) -> list[Message] | None:
        marks, messages = self._marks, list[Message]()
        begin = marks.begin
        if with_system:
            if marks.system is None:
                return None
            begin, behind = marks.system
            content, found, _ = text.removeprefix(begin).partition(behind)
            if not found:
                return None
            messages.append(Message("system", content))
            begin = f"{begin}{content}{behind}"
        if not text.startswith(begin):
            return None
        rest = text[len(begin) :]
        rest = rest.removesuffix(marks.opens) if open_turn else _without_end(rest, marks.end)
        role: Role = "user"
        while True:
            mark = marks.to_assistant if role == "user" else marks.to_user
            content, found, rest = rest.partition(mark)
            messages.append(Message(role, content))
            if not found:
                return messages
            role = "assistant" if role == "user" else "user"

    def _between(self, messages: Sequence[Message]) -> list[str]:
        """What stands before, between and behind the contents of probes, each of which stands there once."""
        rest, pieces = self.render(messages), list[str]()
        for message in messages:
            piece, _, rest = rest.partition(message.content)
            pieces.append(piece)
        return [*pieces, rest]


def common_beginning(first: str, second: str) -> str:
    """The longest text that both begin with."""
    pairs = zip(first, second, strict=False)
    return first[: next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))]


def _without_end(text: str, end: str) -> str:
    return text.removesuffix(end) if text.endswith(end) else text.rstrip().removesuffix(end.rstrip())
