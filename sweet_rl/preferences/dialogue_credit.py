"""Credit for anyone's dialogues: hidden information and messages in, an advantage for each agent turn out.

The arithmetic is that of `sweet_rl.preferences.credit`: of a turn of L tokens the advantage is
(1/L) * [log critic(a | h, hidden) - log reference(a | h)], in nats per token (SWEET-RL, arXiv 2503.15478,
equation 3; `paper`: the reference is given the hidden information, too). Here messages in chat form become
the turns that it scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sweet_rl.chat import ChatFormat
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import (
    Advantage,
    Crediting,
    OwnTurn,
    View,
    check_reference,
    credited,
    own_turn,
)
from sweet_rl.preferences.ranking import Model
from sweet_rl.preferences.trajectory_pairs import TurnKey
from sweet_rl.records import message_from_row
from sweet_rl.types import AgentTurn, Json, Message

Dialogue: TypeAlias = Sequence[Message | Mapping[str, Json]]
"""Our messages, or those of chat APIs: `{"role": ..., "content": ...}`."""


def messages_of(dialogue: Dialogue, name: str = "dialogue") -> list[Message]:
    """The messages of a dialogue; an assistant's may bring `token_ids`, `logprobs` and `finish_reason`."""
    given: Any = dialogue
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DataError("must be a list of messages", field=name, value=dialogue)
    messages = [_message(entry, f"{name}[{place}]") for place, entry in enumerate(dialogue)]
    for place, message in enumerate(messages):
        _check_text(message.content, f"{name}[{place}].content")
        if place == 0 and message.role == "assistant" and not getattr(message, "input", ""):
            repair = "Put what it was asked before it, or its prompt in `input`."
            raise DataError("is a turn of the agent behind nothing", field=f"{name}[0]", repair=repair)
    return messages


def hidden_of(value: Json, name: str) -> str | None:
    """What a critic is told."""
    if not isinstance(value, str | None):
        problem = "must be a text, or null (None) for a critic that was trained without hidden information"
        raise DataError(problem, field=name, value=value)
    _check_text(value or "", name)
    return value


def turns_of(
    number: int, hidden: str | None, messages: Sequence[Message], chat: Callable[[], ChatFormat]
) -> list[OwnTurn]:
    """The agent's turns as they are scored, in order.

    Args:
        messages: the dialogue, with the system message that the agent was given, if any.
        chat: renders the prompt of turns that do not bring the one that their model was given (`input`).
    """
    turns: list[OwnTurn] = []
    for place, message in enumerate(messages):
        if message.role != "assistant":
            continue
        taken = message
        if not isinstance(taken, AgentTurn):
            taken = AgentTurn("assistant", message.content, output=message.content)
        if not taken.input:
            taken = replace(taken, input=chat().render(messages[:place]))
        turns.append(own_turn(("", number, len(turns)), taken, hidden or ""))
    return turns


class DialogueCritic:
    """A critic, and what it is compared with, that are asked about dialogues.

    Args:
        reference: that it is compared with; None: with the log-probabilities that the turns bring.
        chat: renders the prompts of turns that bring none, as the critic reads them.
    """

    def __init__(
        self,
        critic: Model,
        reference: Model | None,
        chat: Callable[[], ChatFormat],
        advantage: Advantage = "released",
    ) -> None:
        self.critic, self.reference, self.advantage = critic, reference, advantage
        self._chat = chat

    async def views(
        self, hidden: Sequence[str | None], dialogues: Sequence[Sequence[Message]]
    ) -> list[list[View]]:
        """What the critic says of every agent turn, dialogue by dialogue."""
        if len(hidden) != len(dialogues):
            raise UsageError(f"{len(hidden)} pieces of hidden information for {len(dialogues)} dialogues.")
        given = enumerate(zip(hidden, dialogues, strict=True))
        turns = [turns_of(number, told, one, self._chat) for number, (told, one) in given]
        found: dict[TurnKey, View | None] = {}
        for tells in (True, False):
            asked = [
                turn
                for told, own in zip(hidden, turns, strict=True)
                if (told is not None) is tells
                for turn in own
            ]
            check_reference(asked, self.critic, self.reference)
            what = Crediting(hidden=tells, without_hidden=not tells, advantage=self.advantage)
            for one in await credited(asked, self.critic, self.reference, what):
                found[one.key] = one.hidden if tells else one.without_hidden
        return [[found[turn.key] or View() for turn in own] for own in turns]


def _message(entry: Message | Mapping[str, Json], name: str) -> Message:
    if isinstance(entry, Message):
        return entry
    if not isinstance(entry, Mapping):
        raise DataError(
            "must be a message", field=name, value=entry, repair='Like {"role": "user", "content": "..."}.'
        )
    if entry.get("tool_calls") or entry.get("role") == "tool":
        raise DataError(
            "has calls of tools, which are no dialogue of texts",
            field=name,
            repair="A critic reads texts: leave it out, or write it as text.",
        )
    row = {**entry, "content": _text(entry.get("content"), name)}
    return message_from_row({"input": "", **row} if row.get("role") == "assistant" else row, name)


def _check_text(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        repair = "Replace half surrogates, as by text.encode(errors='replace').decode()."
        raise DataError("is no text that can be tokenised", field=name, value=text, repair=repair) from error


def _text(content: Json, name: str) -> Json:
    """A content of parts, as chat APIs have it, as one text."""
    if not isinstance(content, list):
        return content
    for part in content:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            raise DataError(
                "has a part that is no text",
                field=f"{name}.content",
                value=part,
                repair="A critic reads texts: pictures cannot be shown to it here.",
            )
    return "".join(part["text"] for part in content)
