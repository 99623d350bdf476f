"""The oracle of good turns in the worlds of `extras`: what a step-level critic should find out by itself.

Used to measure critics and agents, never to train them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

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


@dataclass(frozen=True, slots=True)
class Habits:
    """What an agent does in dialogues, by the oracle.

    Args:
        useful_share: of its questions (0 to 1), those that were useful; None where it asked none.
        usual_share: of its questions, those about what is mostly charged for where they were asked.
        repetitions: repeated questions a dialogue.
        early: early answers a dialogue.
    """

    useful_share: float | None
    usual_share: float | None
    repetitions: float
    early: float


def habits(dialogues: Iterable[tuple[str, Sequence[Message]]]) -> Habits:
    """The habits of an agent."""
    count, usual = 0, list[bool]()
    verdicts: Counter[Verdict] = Counter()
    for solution, messages in dialogues:
        count += 1
        for place, message in enumerate(messages):
            if message.role == "assistant":
                verdicts[judge(solution, messages[:place], message.content)] += 1
                if extra := extras.asked_about(message.content):
                    usual.append(extra in extras.usual_for(messages[0].content))
    return Habits(
        verdicts[Verdict.USEFUL] / len(usual) if usual else None,
        fmean(usual) if usual else None,
        verdicts[Verdict.REPEATED] / count,
        verdicts[Verdict.EARLY] / count,
    )


def judge(solution: str, messages: Sequence[Message], turn: str) -> Verdict:
    """What a turn is worth after these messages."""
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
