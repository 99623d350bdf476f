"""Python functions for open questions: a sight by its kind, and the capital of a place by its name."""

from __future__ import annotations

from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.rules import FUNCTIONS, Answer, answer, listed, names_it
from sweet_rl.worlds.guess_my_city.oracle.table import City, phrases
from sweet_rl.worlds.guess_my_city.oracle.words import Question, words_of

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
