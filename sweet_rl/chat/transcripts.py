r"""How the worlds of ArCHer look to a model that reads plain text: one string per observation.

An `Observation` holds messages: what the world said (user) and what the agent did (assistant). The formats
here write them as the published environments do, to the character, and end where the agent is about to act.
None of them knows a world; a system message at the beginning is skipped.

Published behaviour: docs/published/archer.md#policy, #twenty-questions, #guess-my-city, #webshop,
#detective, #ten-words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweet_rl.chat.formats import ChatFormat
from sweet_rl.errors import UsageError
from sweet_rl.types import Message

OBSERVATION_SLOT: Final = "{obs}"
"""Where a template takes the observation."""

_INSTRUCTION_BEGINS: Final = "Instruction:  \n"
_INSTRUCTION_ENDS: Final = "\n[Search]"


class QuestionTranscript:
    r"""Question games: the opening line, then a line for each question.

    `["Questions:\n", "Is it alive?", "Yes."]` becomes `"Questions:\nIs it alive? Yes.\n"`. A question
    that has no answer yet is written with nothing behind it.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The game so far: the opening, then a line for each question with its answer."""
        spoken = _without_system(messages)
        opening = "".join(message.content for message in spoken[:1])
        return opening + "".join(
            message.content if message.role == "assistant" else f" {message.content}\n"
            for message in spoken[1:]
        )


class ShopTranscript:
    r"""WebShop: all pages and actions, then the instruction once more.

    A page is written as `"\nObservation:\n{page}"`, an action as `"\nAction:\n{action}"`. The instruction is
    found in the first page; at the end it survives when a model's reader cuts the text on the left. A first
    page without one gives no such ending.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The visit so far and, behind `Instruction:`, what is wanted."""
        spoken = _without_system(messages)
        transcript = "".join(
            f"\nAction:\n{message.content}"
            if message.role == "assistant"
            else f"\nObservation:\n{message.content}"
            for message in spoken
        )
        instruction = shop_instruction(spoken[0].content) if spoken else None
        return transcript if instruction is None else f"{transcript}\nInstruction:\n{instruction}"


class LastObservation:
    """What the world said last, and nothing of what was before.

    For worlds that say the whole state each time: text adventures, Reflect-RL's.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The last thing the world said; empty when it has said nothing."""
        said = [message.content for message in messages if message.role == "user"]
        return said[-1] if said else ""


@dataclass(frozen=True, slots=True)
class TemplatedTranscript:
    """A transcript inside an instruction, for models that follow instructions.

    Args:
        template: holds `{obs}` where the transcript goes; other braces are ordinary text.
        inner: writes the transcript.

    Raises:
        UsageError: the template has no `{obs}`.
    """

    template: str
    inner: ChatFormat

    def __post_init__(self) -> None:
        if OBSERVATION_SLOT not in self.template:
            raise UsageError(
                f"The template has no {OBSERVATION_SLOT}, so the game would never be seen. Put it where the "
                "questions and answers belong."
            )

    def render(self, messages: Sequence[Message]) -> str:
        """The template with the transcript in it."""
        return self.template.replace(OBSERVATION_SLOT, self.inner.render(messages))


TRANSCRIPTS: Final[dict[str, type[ChatFormat]]] = {
    "twenty_questions": QuestionTranscript,
    "guess_my_city": QuestionTranscript,
    "webshop": ShopTranscript,
    "detective": LastObservation,
    "lantern": LastObservation,
    "dangerous_taxi": LastObservation,
    "auto_explore": LastObservation,
    "alfworld": LastObservation,
}
"""The published text of each world, by its task type."""


def transcript_of(task_type: str) -> ChatFormat:
    """The format that writes a world's published text.

    Raises:
        UsageError: the world has no text of its own; lists those that have.
    """
    if task_type not in TRANSCRIPTS:
        raise UsageError(
            f"{task_type!r} has no transcript format. Those that have: {', '.join(sorted(TRANSCRIPTS))}."
        )
    return TRANSCRIPTS[task_type]()


def shop_instruction(page: str) -> str | None:
    r"""What the start page of a shop asks for, a trailing blank included.

    It stands between `"Instruction:  \n"` and the last `"\n[Search]"`; None where the page has no such part.
    """
    _, found, rest = page.partition(_INSTRUCTION_BEGINS)
    instruction, ended, _ = rest.rpartition(_INSTRUCTION_ENDS)
    return instruction if found and ended else None


def _without_system(messages: Sequence[Message]) -> Sequence[Message]:
    return messages[1:] if messages and messages[0].role == "system" else messages
