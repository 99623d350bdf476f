"""Which city is the oracle's home town? It answers freely.

Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from sweet_rl.contracts import User
from sweet_rl.types import Compat
from sweet_rl.worlds.question_games.env import (
    MAX_TURNS,
    QuestionGameEnv,
    as_it_is,
    says_name,
    without_tail,
    words_of,
)

REFUSAL = "I can't answer that question."
"""The reply in place of an answer that gives the city away."""


def guesses_city(question: str, names: Sequence[str], others: Iterable[Sequence[str]]) -> bool:
    """Whether a question names the city, and no other one that could be meant.

    What else it says does not matter, nor whether it is a question at all. The published
    test counts a question that lists all cities as the right guess; naming two is no guess here.
    """
    if not says_name(question, names):
        return False
    own = {"".join(words_of(name)) for name in names}
    return not any(
        says_name(question, city) for city in others if own.isdisjoint("".join(words_of(n)) for n in city)
    )


def guesses_city_published(question: str, city: str) -> bool:
    """The published test: the name occurs somewhere in the question."""
    return city.lower() in without_tail(question).lower()


MAX_ANSWER_CHARACTERS: Final = 500
"""Of a free answer; more is cut, by the repaired rules."""


class GuessMyCityEnv(QuestionGameEnv):
    """Which city is the oracle's home town? It answers freely.

    Solved when a question names the city, whatever the answer. An answer that names it is replaced by
    `REFUSAL`. The repaired rules look for whole words, know the city's other names, and do not take
    a list of cities for a guess; the published ones look for the name anywhere in the text.

    Args:
        cities: all names of every city that may be hidden (`city_names()` of the tasks): a question
            that names two cities is no guess. Without them any question that names the right one is.
    """

    _no_answer = REFUSAL

    def __init__(
        self,
        oracle: User,
        *,
        cities: Collection[Sequence[str]] = (),
        max_turns: int = MAX_TURNS,
        compat: Compat = "fixed",
        read_action: Callable[[str], str] = as_it_is,
        stop_on_user_failure: bool = True,
    ) -> None:
        super().__init__(
            oracle,
            max_turns=max_turns,
            compat=compat,
            read_action=read_action,
            stop_on_user_failure=stop_on_user_failure,
        )
        self._cities = cities

    def _judge(self, question: str, reply: str) -> tuple[str, bool]:
        if self._published:
            city = self._task.hidden_information.split(",")[0].lower()
            leaks = city in reply.lower()
            named = guesses_city_published(question, city)
        else:
            leaks = says_name(reply, self._names)
            named = guesses_city(question, self._names, self._cities)
            reply = " ".join(reply.split())[:MAX_ANSWER_CHARACTERS]  # one line of the transcript
        return REFUSAL if leaks else reply, named
