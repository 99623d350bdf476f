"""The oracle of good turns in the worlds of `extras`: what a step-level critic should find out by itself.

Used to measure critics and agents, never to train them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds.backend_programming.mini import extras


class Verdict(StrEnum):
    """What one agent turn was. The good ones are `USEFUL` and `RIGHT`."""

    USEFUL = "useful question"
    """About an extra that costs something and was not known."""
    USELESS = "useless question"
    """About an extra that is free."""
    REPEATED = "repeated question"
    NEEDLESS = "needless question"
    """Asked although everything was known."""
    RIGHT = "right answer"
    EARLY = "early answer"
    """Handed in before everything was known, with turns left to ask."""
    FORCED = "incomplete last answer"
    """Handed in before everything was known, in the last turn: the questions before it were the mistake."""
    WRONG = "miscopied answer"
    """Everything was known, and the answer is wrong all the same."""
    OTHER = "neither question nor answer"

    @property
    def good(self) -> bool:
        """Whether the turn was worth taking."""
        return self in {Verdict.USEFUL, Verdict.RIGHT}


def judge(solution: str, messages: Sequence[Message], turn: str) -> Verdict:
    """What a turn is worth after these messages.

    Args:
        solution: the hidden function (`Task.ground_truth`).
        messages: the dialogue before the turn, from the request on.
        turn: what the agent says.
    """
    asked = {extras.asked_about(message.content) for message in messages if message.role == "assistant"}
    known = extras.named_amounts([message.content for message in messages[1:] if message.role == "user"])
    complete = len(known) == extras.CHARGED
    if ANSWER_MARKER in turn:
        if not complete:
            taken = sum(message.role == "assistant" for message in messages)
            return Verdict.FORCED if taken == extras.MAX_TURNS - 1 else Verdict.EARLY
        return Verdict.RIGHT if turn == f"{ANSWER_MARKER}\n{solution}" else Verdict.WRONG
    extra = extras.asked_about(turn)
    if extra is None:
        return Verdict.OTHER
    if complete:
        return Verdict.NEEDLESS
    if extra in asked:
        return Verdict.REPEATED
    return Verdict.USEFUL if f'"{extra}"' in solution else Verdict.USELESS
