"""Where the assistant's turns stand in a sequence of token ids, for any tokenizer with a chat template.

The published code knows Llama 3 only: a header of four tokens, an end token by its text.
Here header and end are read off the tokenizer's own template, once, by rendering probe dialogues.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sweet_rl.chat.formats import TokenizerChat
from sweet_rl.errors import UsageError
from sweet_rl.types import Message

_PROBES = (
    ("Hello there.", "Which one?"),
    ("42 or more", "def f(x):\n    return x"),
    ("(yes)", "I WANT TO ANSWER:\npass"),
    ("Bonjour", '"No" is fine'),
)
"""Texts that begin and end in different ways, so that what their surroundings share is the template's own."""


class Span(NamedTuple):
    """Positions `start` to `end` (exclusive) in a sequence of token ids."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TurnFormat:
    """What opens and closes an assistant turn, in token ids.

    `header_ids` stand before the turn's first token (Llama 3: start of header, "assistant", end of header,
    blank line; Mistral: the end of the instruction). `end_id` closes the turn, and may close those of other
    roles, too.
    """

    header_ids: tuple[int, ...]
    end_id: int

    @classmethod
    def of(cls, tokenizer: Any) -> TurnFormat:
        """Read the format off a tokenizer's chat template.

        Raises:
            UsageError: no chat template, or one under which a turn's beginning or end cannot be distinguished
                from its text (no tokens of its own).
        """
        chat = TokenizerChat(tokenizer)
        name = tokenizer.name_or_path
        befores: list[tuple[int, ...]] = []
        ends: set[int | None] = set()
        for question, text in _PROBES:
            before, after = _surroundings(chat, question, text)
            befores.append(before)
            ends.add(after)
        end = ends.pop()
        header = _without_lead(_common_suffix(befores), end, tokenizer)
        if ends or end is None:
            raise UsageError(
                f"The chat template of {name!r} closes an assistant turn with no token of its own, so its "
                "end cannot be found in token ids. Put the end token (for example eos_token) after the "
                "assistant's text in chat_template.jinja."
            )
        if not header:
            raise UsageError(
                f"The chat template of {name!r} opens an assistant turn with no tokens of its own, so its "
                "beginning cannot be found in token ids. Write a header before the assistant's text in "
                "chat_template.jinja."
            )
        return cls(header, end)

    def spans(self, ids: Sequence[int]) -> list[Span]:
        """All assistant turns, each with its end token; the last one runs to the end where it was cut.

        A header at the very end (an open prompt) has no turn yet and is left out.
        """
        found: list[Span] = []
        for start in self._starts(ids):
            if found and start < found[-1].end:  # a header inside a turn's text
                continue
            if start < len(ids):
                end = next((i + 1 for i in range(start, len(ids)) if ids[i] == self.end_id), len(ids))
                found.append(Span(start, end))
        return found

    def _starts(self, ids: Sequence[int]) -> Iterator[int]:
        width, header = len(self.header_ids), self.header_ids
        last = header[-1]
        for end in range(width, len(ids) + 1):
            if ids[end - 1] == last and tuple(ids[end - width : end]) == header:
                yield end


def _surroundings(chat: TokenizerChat, question: str, text: str) -> tuple[tuple[int, ...], int | None]:
    """Ids that stand between a user's text and an assistant's, and the id after the assistant's text."""
    opening = [Message("user", question)]
    prompt = chat.render(opening)
    whole = chat.render([*opening, Message("assistant", text), Message("user", question)])
    at = whole.find(text, whole.find(question) + len(question))
    prompt_ids = tuple(chat.encode(prompt))
    # What the policy is given is the prompt, then it writes: the header is how the prompt's ids end.
    if at < 0 or not whole.startswith(prompt.rstrip()):
        return prompt_ids, None
    asked = len(chat.encode(prompt[: prompt.find(question) + len(question)]))
    before = prompt_ids[min(asked, len(prompt_ids)) :]
    written = chat.encode(whole[: at + len(text)])
    closed = chat.encode(whole)
    end = closed[len(written)] if closed[: len(written)] == written else None
    return before, end if end in _own_tokens(chat.tokenizer) else None


def _own_tokens(tokenizer: Any) -> frozenset[int]:
    """Ids that no ordinary text turns into: special and added tokens."""
    added = tokenizer.get_added_vocab().values() if hasattr(tokenizer, "get_added_vocab") else ()
    return frozenset({*tokenizer.all_special_ids, *added})


def _common_suffix(sequences: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    length = 0
    for column in zip(*(sequence[::-1] for sequence in sequences), strict=False):
        if len(set(column)) > 1:
            break
        length += 1
    return sequences[0][len(sequences[0]) - length :]


def _without_lead(header: tuple[int, ...], end: int | None, tokenizer: Any) -> tuple[int, ...]:
    """Without what belongs to the user's turn: its end token, and blanks that may merge with its text."""
    while header and (header[0] == end or not tokenizer.decode(header[:1]).strip()):
        header = header[1:]
    return header
