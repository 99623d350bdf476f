"""The scripted human: answers the agent's questions from the hidden function, without a model.

It says what it knows in at most two sentences, admits what it does not know, and never recites the code.
Deterministic, and without state: what it has already told, it reads off the dialogue.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweet_rl.types import Message, UserContext, UserReply
from sweet_rl.users.scripted.facts import Fact, Topic, facts_of
from sweet_rl.users.scripted.guard import recites
from sweet_rl.users.scripted.questions import Intent, Question, questions_in
from sweet_rl.users.scripted.words import numbers_in, quotes_in, stems

MAX_REPLY = 400
"""Characters; the published world cuts replies there (spec §3.2)."""

_POINTED = frozenset({Topic.DEFAULT, Topic.EMPTY, Topic.ERROR, Topic.OTHERWISE, Topic.ROUND, Topic.CASE, Topic.ORDER})
"""Topics that a question is about even when it also names other things: "is the total rounded?"."""

_ABSENT = {
    Topic.ROUND: "No rounding is needed, as far as I know.",
    Topic.CASE: "I have no special wish about upper and lower case.",
    Topic.ORDER: "There is no sorting that I know of.",
    Topic.DEFAULT: "There is no default that I know of.",
    Topic.EMPTY: "I have no special rule for empty or missing input.",
    Topic.ERROR: "I have no special rule for bad input.",
}
_DONT_KNOW = (
    "I don't know about that.",
    "I'm not sure about that, sorry.",
    "I have no information on that.",
)
_NO_CODE = (
    "I don't have code to give you, I can only say how it should behave.",
    "I can't dictate the code, but ask me about any detail of how it should behave.",
)
_FINE = ("That sounds fine to me.", "Okay, go ahead.", "Sounds good.")
_ALL_TOLD = ("That's all I know about it.", "I think you have everything I know.")
_CLOSE = 0.6
"""A fact not told yet is preferred to a better one already told if its score is at least this share."""


class ScriptedHuman:
    """A simulated human that needs no model (contract: `sweet_rl.contracts.User`).

    It holds no state of an episode, so one object serves any number of them at once.
    """

    name = "scripted"

    async def reply(self, context: UserContext) -> UserReply:
        """Answer the agent's last message."""
        return UserReply(self.answer(context.problem_description, context.hidden_information, context.messages))

    async def close(self) -> None:
        """Nothing to free."""

    def answer(self, problem_description: str, hidden_information: str, messages: Sequence[Message]) -> str:
        """One or two sentences, at most 400 characters; never raises, whatever the texts are."""
        dialogue = _Dialogue.read(problem_description, hidden_information, messages)
        reply = " ".join(dialogue.sentences())
        if recites(reply, hidden_information, problem_description):
            reply = _NO_CODE[dialogue.turn % len(_NO_CODE)]
        return reply
