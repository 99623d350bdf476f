"""The oracle of Twenty Questions without a model: a table, a reader of questions.

Published behaviour: docs/published/archer.md#twenty-questions.
"""

from __future__ import annotations

from sweet_rl.errors import EpisodeError
from sweet_rl.types import Failure, Message, StopReason, UserContext, UserReply
from sweet_rl.worlds.twenty_questions.oracle.facts import facts
from sweet_rl.worlds.twenty_questions.oracle.grammar import understand

YES, NO, INVALID = "Yes.", "No.", "Invalid Question."
"""The three published answers."""


def answer(name: str, question: str) -> str | None:
    """The answer to a question about the object of that name; None when there is no such object.

    "Yes.", "No.", or "Invalid Question." when it is no yes/no question or is not understood.
    """
    place = facts().find(name)
    if place is None:
        return None
    meaning = understand(question)
    if meaning is None:
        return INVALID
    return YES if meaning >> place & 1 else NO


class ObjectOracle:
    """Answers yes/no questions about one of the 157 objects; keeps no state, calls no model, never guesses.

    The object is `context.hidden_information` (any of its names), the question the last message.
    """

    name = "objects"

    async def reply(self, context: UserContext) -> UserReply:
        """One of "Yes.", "No." and "Invalid Question."."""
        question = context.messages[-1] if context.messages else Message("assistant", "")
        text = answer(context.hidden_information, question.content)
        if text is None:
            raise EpisodeError(
                StopReason.USER_FAILED,
                Failure(
                    "unknown_object",
                    f"The table has no object {context.hidden_information!r}; it has the 157 words of "
                    "Twenty Questions. Another oracle is needed for other words.",
                ),
            )
        return UserReply(text)

    async def close(self) -> None:
        """Do nothing: the oracle is a table."""
