"""The embedded oracle of Guess My City: answers free questions about the hidden home town from a table.

It needs no model and keeps no state. It says what is true of the city, admits what it does not know, and names the
city only when it is asked for the name (which the world then hides; ArCHer spec §9.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.types import UserContext, UserReply
from sweet_rl.users.oracles import city_what, city_where, city_yes
from sweet_rl.users.oracles.city_table import City, cities
from sweet_rl.users.oracles.city_words import Question, plain, read_question

NOT_SURE: Final = "I am not sure."
"""What is said to a question that is not understood, or to which the table has no answer."""

_YES_NO: Final[Sequence[Callable[[City, Question], bool | None]]] = (
    city_where.is_state_of_its_own,
    city_where.is_guess_of,
    city_where.is_capital,
    city_where.is_size,
    city_yes.is_about_people,
    city_yes.is_about_country,
    city_yes.is_sight,
    city_yes.is_known_for,
    city_where.is_border,
    city_where.is_where,
    city_yes.is_weather,
    city_where.is_in_its_country,
    city_yes.is_general,
    city_where.unknown_place,
    city_yes.unknown_name,
)
"""In this order; the first that knows decides."""


class CityOracle:
    """Who answers in Guess My City without a model (contract: `sweet_rl.contracts.User`).

    The hidden information of the task is the published "City, Country". One object serves any number of games.
    """

    name = "cities"

    async def reply(self, context: UserContext) -> UserReply:
        """Answer the agent's last message.

        Raises:
            UsageError: the hidden city is none of the 91.
        """
        asked = context.messages[-1].content if context.messages else ""
        return UserReply(self.answer(context.hidden_information, asked))

    async def close(self) -> None:
        """Nothing to free."""

    def answer(self, city: str, question: str) -> str:
        """One short sentence; deterministic.

        Args:
            city: one of the 91, "City, Country".
            question: what the agent said, in English.

        Raises:
            UsageError: `city` is none of the 91.
        """
        return _answer(city_named(city), question)


def city_named(name: str) -> City:
    """The city of the table with this "City, Country".

    Raises:
        UsageError: there is none.
    """
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
def _answer(city: City, said: str) -> str:
    question = read_question(said)
    if not question.words:
        return NOT_SURE
    if question.open:
        return _kept(city, question, city_what.what(city, question) or NOT_SURE)
    if (either := city_yes.either_or(city, question)) is not None:
        return either
    for knows in _YES_NO:
        if (answer := knows(city, question)) is not None:
            return "Yes." if answer is not question.negated else "No."
    return NOT_SURE


def _kept(city: City, question: Question, text: str) -> str:
    """The text, unless it names the city without having been asked for the name."""
    if city.name.lower() in text.lower() and text != city_what.called(city):
        return NOT_SURE
    del question
    return text
