"""How a world looks to a model that reads plain text: one string per observation.

An `Observation` holds messages: the world's (user) and the agent's (assistant). A
transcript writes them and ends where the agent is about to act; a system message at the beginning is skipped.
Worlds have further ones of their own.

Published behaviour: docs/published/archer.md#policy, #ten-words.
"""

from __future__ import annotations

from collections.abc import Sequence

from sweet_rl.types import Message


class WholeTranscript:
    """All messages, a line each; of use in any world."""

    def render(self, messages: Sequence[Message]) -> str:
        """Every message, with a line break behind it."""
        return "".join(f"{message.content}\n" for message in without_system(messages))


class LastObservation:
    """The world's last message only.

    For worlds that say the whole state each time: text adventures, Reflect-RL's.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The world's last message; empty when there is none."""
        replies = [message.content for message in messages if message.role == "user"]
        return replies[-1] if replies else ""


def without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """The dialogue behind a system message, if it begins with one."""
    return messages[1:] if messages and messages[0].role == "system" else messages
