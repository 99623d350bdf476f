"""The embedded oracle of Guess My City: answers free questions about the hidden home town from a table.

It needs no model and keeps no state. It says what is true of the city, admits what it does not know, and
never names the city: a question for the name gets the world's refusal.

Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import UserContext, UserReply
from sweet_rl.worlds.guess_my_city.oracle import yes  # noqa: F401 - the functions that rules name
from sweet_rl.worlds.guess_my_city.oracle.rules import FUNCTIONS, Answer, answer, listed, names_it
from sweet_rl.worlds.guess_my_city.oracle.table import City, cities, phrases
from sweet_rl.worlds.guess_my_city.oracle.words import Question, plain, read_question, words_of

CANNOT: Final = "I can't answer that question."
"""The reply to agents that ask for the name instead of guessing it."""


def capital_of_own_place(city: City, question: Question) -> Answer:
    """Its country's capital by the country's name; of places in which it does not lie nothing is known."""
    if any(question.has(f"capital of {land}") for land in (city.land.name, *city.land.also)):
        return answer("capital_of_country", city, question)
    places = question.names("place")
    return "" if places and not city.places.intersection(places) else None


def sight_of_kind(city: City, question: Question) -> Answer:
    """At most two sights of the kind that is asked for: "What temple is there?"."""
    for kind in phrases("$sight"):
        if question.has(kind):
            padded = f" {' '.join(words_of(kind))} "
            if found := [sight for sight in city.sights if padded in f" {' '.join(words_of(sight))} "]:
                sights = [sight for sight in found if not names_it(city, sight)][:2]
                return f"There is {listed(sights)}." if sights else CANNOT
    return None


FUNCTIONS.update({one.__name__: one for one in (capital_of_own_place, sight_of_kind)})


NOT_SURE: Final = "I am not sure."
"""The reply to a question that is not understood, or to which the table has no answer."""


class CityOracle:
    """Who answers in Guess My City without a model (contract: `sweet_rl.contracts.User`).

    The hidden information of the task is the published "City, Country". One object serves any number of
    games.
    """

    name = "cities"

    async def reply(self, context: UserContext) -> UserReply:
        """Answer the agent's last message."""
        asked = context.messages[-1].content if context.messages else ""
        return UserReply(self.answer(context.hidden_information, asked))

    async def close(self) -> None:
        """Do nothing: the oracle is a table."""

    def answer(self, city: str, question: str) -> str:
        """One short sentence; deterministic."""
        return _answer(city_named(city), question)


def city_named(name: str) -> City:
    """The city of the table with this "City, Country"."""
    found = cities().get(name) or _by_plain_name().get(plain(name).replace(", ", ","))
    if found is None:
        raise UsageError(
            f"The city oracle knows the 91 cities of Guess My City, got {name!r}; give one of them as "
            "'City, Country', or another oracle for other cities."
        )
    return found


@lru_cache(maxsize=1)
def _by_plain_name() -> dict[str, City]:
    return {plain(key).replace(", ", ","): city for key, city in cities().items()}


@lru_cache(maxsize=65536)
def _answer(city: City, text: str) -> str:
    reply = _reply(city, text)
    return CANNOT if names_it(city, reply) else reply


def _reply(city: City, text: str) -> str:
    question = read_question(text)
    if not question.words:
        return NOT_SURE
    if question.open:
        reply = answer("open", city, question)
        return str(reply) if reply else _yes_or_no(city, question) if question.about_any else NOT_SURE
    return str(answer("either", city, question) or _yes_or_no(city, question))


def _yes_or_no(city: City, question: Question) -> str:
    found = answer("yes", city, question)
    if found is None:
        return NOT_SURE
    return "Yes." if found is not question.negated else "No."
