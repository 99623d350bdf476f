"""The scripted player of Guess My City: asks what splits the remaining cities best, then guesses.

A city stays in play as long as the oracle would have given every answer about it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweet_rl.mini.cities.oracle import CityOracle
from sweet_rl.mini.cities.table import read
from sweet_rl.mini.objects.asker import answered
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Observation

QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    place: (f"Is your city in {place}?", f"Is your home town in {place}?", f"Is it located in {place}?")
    for place in read("asked")["places"]
} | {name: tuple(wordings) for name, wordings in read("asked")["questions"].items()}

_ORACLE: Final = CityOracle()


def make_player(_name: str, cities: Sequence[str], **how: Any) -> CityAsker:
    return CityAsker(cities, **how)


class CityAsker(ScriptedPolicy):
    """Asks by information gain, with the probability `skill`; guesses when one city or no time is left."""

    name = "asker"

    def __init__(
        self, cities: Sequence[str], *, skill: float = 1.0, max_turns: int = 20, system_prompt: str = ""
    ) -> None:
        super().__init__(system_prompt)
        self._answer, self._cities, self._skill, self._max_turns = _ORACLE.answer, cities, skill, max_turns

    def _say(self, observation: Observation) -> str:
        asked = list(answered(observation.messages))
        left = self._left(asked)
        rng = random.Random(f"{observation.seed}/{observation.turn}")  # the same turn asks the same
        turns_left = self._max_turns - observation.turn
        untried = [key for key, forms in QUESTIONS.items() if not {form for form, _ in asked} & set(forms)]
        if not (len(left) <= 2 or len(left) > 1 << max(turns_left - 1, 0) or not untried):
            if rng.random() >= self._skill:
                return rng.choice(QUESTIONS[rng.choice(untried)])
            gains = {}  # information in the answers, all cities being equally likely
            for key in untried:
                counts = Counter(self._answer(city, QUESTIONS[key][0]) for city in left)
                shares = [count / len(left) for count in counts.values()]
                gains[key] = -sum(share * math.log2(share) for share in shares)
            best = max(gains.values())
            if best:
                good = [key for key, gain in gains.items() if gain >= best - 1e-9]
                return rng.choice(QUESTIONS[rng.choice(good)])
        return f"Is your city {rng.choice(left).partition(',')[0]}?"

    def _left(self, asked: Sequence[tuple[str, str]]) -> list[str]:
        """The cities that would have given every answer; all that were not guessed, if no city would."""
        said = [question.rstrip("?. ").lower() for question, _ in asked]
        names = {city: f" {city.partition(',')[0].lower()}" for city in self._cities}
        possible = [city for city, name in names.items() if not any(one.endswith(name) for one in said)]
        fitting = [
            city
            for city in possible
            if all(self._answer(city, question) == reply for question, reply in asked)
        ]
        return fitting or possible or list(self._cities)
