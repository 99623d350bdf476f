"""The scripted player of Guess My City: asks what splits the remaining cities best, then guesses.

It plays with an oracle as a function of city and question, the same it will be answered by: a city stays in
play as long as it would have given every answer so far. It never learns which city is hidden.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Message, Observation

QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    place: (f"Is your city in {place}?", f"Is your home town in {place}?", f"Is it located in {place}?")
    for place in (
        *("Asia", "Europe", "Africa", "South America", "North America", "the Middle East"),
        *("East Asia", "South Asia", "Southeast Asia", "Eastern Europe", "Western Europe", "North Africa"),
        *("China", "India", "Indonesia", "Japan", "Brazil", "Pakistan", "Colombia", "South Korea", "Egypt"),
        *("Turkey", "Iran", "the USA", "Northeast China", "East China", "North China", "West Java", "Java"),
        *("Shandong", "Liaoning", "Punjab", "South India", "North India", "Western India", "Honshu"),
    )
} | {
    "capital": ("Is it the capital of its country?", "Is your city a national capital?"),
    "province": ("Is it the capital of a province?", "Is your city a provincial capital?"),
    "coast": ("Is it on the coast?", "Does your city lie by the sea?"),
    "river": ("Is there a river?", "Does a river run through your city?"),
    "mountains": ("Are there mountains near your city?", "Is it near mountains?"),
    "high": ("Is it at a high altitude?", "Does it lie at a high elevation?"),
    "north": ("Is it in the northern part of its country?", "Is your city in the north of its country?"),
    "south": ("Is it in the southern part of its country?", "Is your city in the south of its country?"),
    "east": ("Is it in the eastern part of its country?", "Is your city in the east of its country?"),
    "west": ("Is it in the western part of its country?", "Is your city in the west of its country?"),
    "largest": ("Is it the largest city of its country?", "Is your city the largest in its country?"),
    "five": ("Do more than 5 million people live there?", "Does it have over 5 million people?"),
    "ten": ("Do more than 10 million people live there?", "Does it have over 10 million people?"),
    "three": ("Do more than 3 million people live there?", "Does it have over 3 million people?"),
    "snow": ("Does it snow there in winter?", "Does your city get snow?"),
    "tropical": ("Is the weather tropical?", "Does your city have tropical weather?"),
    "southern": ("Is it in the southern hemisphere?", "Does it lie in the southern hemisphere?"),
    "spanish": ("Do people speak Spanish?", "Is Spanish spoken there?"),
    "islam": ("Is the main religion Islam?", "Are most people Muslim?"),
    "beaches": ("Is it known for its beaches?", "Is your city famous for beaches?"),
    "port": ("Is it known for its port?", "Is your city famous for its port?"),
    "film": ("Is it known for its film industry?", "Is your city known for making films?"),
    "technology": ("Is it known for technology?", "Is your city famous for technology?"),
    "cars": ("Is it known for making cars?", "Is your city known for its car industry?"),
    "textiles": ("Is it known for textiles?", "Is your city famous for textiles?"),
    "palaces": ("Is it known for a palace?", "Is your city famous for a palace?"),
    "temples": ("Is it known for its temples?", "Is your city famous for temples?"),
    "spicy": ("Is it known for spicy food?", "Is your city famous for spicy food?"),
}
"""What is asked, in the wordings that the seed chooses from."""


class CityAsker(ScriptedPolicy):
    """Asks by information gain and guesses when one city is left, or when guessing is all there is time for.

    Args:
        answer: what the oracle says of a city ("City, Country") to a question, `CityOracle.answer`.
        skill: probability of the best question; otherwise a random one that was not asked yet.
        max_turns: the game's; the asker starts to guess when the candidates outnumber what is left.
    """

    name = "asker"

    def __init__(
        self,
        answer: Callable[[str, str], str],
        cities: Sequence[str],
        *,
        skill: float = 1.0,
        max_turns: int = 20,
        system_prompt: str = "",
    ) -> None:
        super().__init__(system_prompt)
        if not 0 <= skill <= 1:
            raise UsageError(f"skill is a probability from 0 to 1, got {skill}.")
        if not cities:
            raise UsageError("The city asker needs cities to choose from, got none.")
        self._answer = answer
        self._cities = tuple(cities)
        self._skill = skill
        self._max_turns = max_turns

    def _say(self, observation: Observation) -> str:
        asked = _exchanges(observation.messages)
        left = self._left(asked)
        rng = random.Random(f"{observation.seed}/{observation.turn}")  # the same turn asks the same
        turns_left = self._max_turns - observation.turn
        open_keys = [key for key, forms in QUESTIONS.items() if not {form for form, _ in asked} & set(forms)]
        if len(left) <= 2 or len(left) > 1 << max(turns_left - 1, 0) or not open_keys:
            return f"Is your city {rng.choice(left).partition(',')[0]}?"
        if rng.random() >= self._skill:
            return rng.choice(QUESTIONS[rng.choice(open_keys)])
        gains = {key: self._bits(QUESTIONS[key][0], left) for key in open_keys}
        best = max(gains.values())
        if best == 0:
            return f"Is your city {rng.choice(left).partition(',')[0]}?"
        return rng.choice(QUESTIONS[rng.choice([key for key, gain in gains.items() if gain >= best - 1e-9])])

    def _left(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The cities that would have given every answer; all that were not guessed, if no city would."""
        ruled_out = {city for question, _ in asked for city in self._cities if _guesses(question, city)}
        possible = [city for city in self._cities if city not in ruled_out]
        fitting = [
            city
            for city in possible
            if all(self._answer(city, question) == reply for question, reply in asked)
        ]
        return fitting or possible or list(self._cities)

    def _bits(self, question: str, cities: Sequence[str]) -> float:
        """Information in the answer to a question, all cities being equally likely."""
        counts = Counter(self._answer(city, question) for city in cities)
        total = len(cities)
        return -sum(count / total * math.log2(count / total) for count in counts.values())


def _guesses(question: str, city: str) -> bool:
    return question.rstrip("?. ").lower().endswith(f" {city.partition(',')[0].lower()}")


def _exchanges(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """(question, answer) pairs of the dialogue so far."""
    pairs = []
    for question, answer in pairwise(messages):
        if question.role == "assistant" and answer.role == "user":
            pairs.append((question.content.strip(), answer.content.strip()))
    return pairs
