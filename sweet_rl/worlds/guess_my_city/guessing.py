"""What counts as naming the city. Pure functions of text.

Ours is the default of the world; the published rule, whose name ends in `_published`, gives the published
results to the character.

Published behaviour: docs/published/archer.md#guess-my-city, #deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sweet_rl.worlds.question_games.words import says_name, without_tail, words_of

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
