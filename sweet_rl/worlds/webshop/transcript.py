"""A visit to a shop as plain text for a model, and the goal on its first page.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sweet_rl.chat.transcripts import without_system
from sweet_rl.types import Message

_INSTRUCTION_BEGINS: Final = "Instruction:  \n"
_INSTRUCTION_ENDS: Final = "\n[Search]"
CLOSED: Final = "The turn limit was reached before this action: it did nothing."


class ShopTranscript:
    r"""WebShop: all pages and actions, then the instruction once more.

    A page is written as `"\nObservation:\n{page}"`, an action as `"\nAction:\n{action}"`. The instruction is
    found in the first page; at the end it survives when a model's reader cuts the text on the left. A first
    page without one gives no such ending. After the published turn limit (`CLOSED` as last page) the text
    is that of the visit before the last action, without such an ending.
    """

    def render(self, messages: Sequence[Message]) -> str:
        """The visit so far and, after `Instruction:`, the goal."""
        spoken = without_system(messages)
        closed = len(spoken) > 1 and spoken[-1].content == CLOSED
        if closed:
            spoken = spoken[:-2]
        transcript = "".join(
            f"\nAction:\n{message.content}"
            if message.role == "assistant"
            else f"\nObservation:\n{message.content}"
            for message in spoken
        )
        instruction = shop_instruction(spoken[0].content) if spoken else None
        return transcript if closed or instruction is None else f"{transcript}\nInstruction:\n{instruction}"


def shop_instruction(page: str) -> str | None:
    r"""What the start page of a shop asks for, a trailing blank included.

    It stands between `"Instruction:  \n"` and the last `"\n[Search]"`; None where the page has no such part.
    """
    _, found, rest = page.partition(_INSTRUCTION_BEGINS)
    instruction, ended, _ = rest.rpartition(_INSTRUCTION_ENDS)
    return instruction if found and ended else None
