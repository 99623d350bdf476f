"""Our messages as those of inspect_ai, and back."""

from __future__ import annotations

from pathlib import Path

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    ContentText,
)

from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Message

_KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def theirs(message: Message) -> ChatMessage:
    """A message of ours, thoughts included."""
    thoughts = message.thoughts if isinstance(message, AgentTurn) else None
    if thoughts is None:
        return _KINDS[message.role](content=message.content)
    parts = [ContentReasoning(reasoning=thoughts), ContentText(text=message.content)]
    return _KINDS[message.role](content=parts)


def ours(one: ChatMessage, path: Path) -> Message:
    """The text of a message of theirs, in which pictures and the like are named, and its thoughts."""
    if one.role == "tool" or getattr(one, "tool_calls", None):
        raise DataError("has calls of tools, which are no dialogue of texts", path=path, field="messages")
    parts = [ContentText(text=one.content)] if isinstance(one.content, str) else one.content
    thoughts = [part.reasoning for part in parts if isinstance(part, ContentReasoning)]
    said = "\n".join(
        part.text if isinstance(part, ContentText) else f"[{part.type}]"
        for part in parts
        if not isinstance(part, ContentReasoning)
    )
    if one.role == "assistant":
        return AgentTurn("assistant", said, output=said, thoughts="\n\n".join(thoughts) or None)
    return Message(one.role, said)
