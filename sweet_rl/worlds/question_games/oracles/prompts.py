"""How the published oracles are asked. Ours are asked by packaged templates.

Published behaviour: docs/published/archer.md#twenty-questions, #guess-my-city.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import UserContext


@dataclass(frozen=True, slots=True)
class Asking:
    """How an oracle of one game is asked.

    Attributes:
        premise: what the models were fine-tuned to read before the question, with `{hidden}` for the hidden
            thing. Nothing stands between it and the question.
        max_new_tokens: of an answer.
        template: the packaged prompt for models that follow instructions.
    """

    premise: str
    max_new_tokens: int
    template: str

    def published(self, context: UserContext) -> str:
        """The published prompt for the question asked last."""
        return self.premise.replace("{hidden}", context.hidden_information) + question_of(context)


ASKING: Final = {
    "twenty_questions": Asking("The object is {hidden}.", 16, "oracle_twenty_questions_prompt"),
    "guess_my_city": Asking("Your home town is {hidden}.", 64, "oracle_guess_my_city_prompt"),
}
"""By the world's name; the premises and lengths are the published ones."""


def asking_of(game: str) -> Asking:
    """How an oracle of this game is asked.

    Raises:
        UsageError: it is no question game.
    """
    if game not in ASKING:
        raise UsageError(f"{game!r} has no oracle. The question games are {', '.join(sorted(ASKING))}.")
    return ASKING[game]


def question_of(context: UserContext) -> str:
    """What the agent asked last; empty before its first question."""
    said = [message.content for message in context.messages if message.role == "assistant"]
    return said[-1] if said else ""
