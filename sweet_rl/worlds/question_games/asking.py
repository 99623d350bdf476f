"""The question in an agent's text, and how a model that is an oracle is asked it.

The prompts of the published oracles are here; ours are packaged templates. Each game has its own `Asking`.

Published behaviour: docs/published/archer.md#ten-words.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.types import UserContext


@dataclass(frozen=True, slots=True)
class Asking:
    """How an oracle of one game is asked.

    Attributes:
        premise: what the models were fine-tuned to read before the question, with `{hidden}` for the hidden
            thing. Nothing stands between it and the question.
        max_new_tokens: of an answer.
        template: the packaged prompt for models that follow instructions.
        suffix: stands behind each question at the published gradio server, with nothing between.
    """

    premise: str
    max_new_tokens: int
    template: str
    suffix: str = ""

    def published(self, context: UserContext) -> str:
        """The published prompt for the question asked last."""
        return self.premise.replace("{hidden}", context.hidden_information) + question_of(context)


def question_of(context: UserContext) -> str:
    """What the agent asked last; empty before its first question."""
    replies = [message.content for message in context.messages if message.role == "assistant"]
    return replies[-1] if replies else ""


def decode_question(text: str) -> str:
    """The question in what a model wrote that was asked for `{"Question": "..."}`.

    It is the text behind the last `"Question":` up to its first question mark, which is added where there is
    none, without double quotes. So an empty text becomes "?".
    """
    question, _, _ = text.rpartition('"Question":')[2].partition("?")
    return f"{question}?".strip().replace('"', "")
