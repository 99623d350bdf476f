"""Yes-or-no questions about which city it is, whose capital it is, and how large.

Every rule takes the hidden city and the question and returns True, False, or None where it does not know.
"""

from __future__ import annotations

import re
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.table import City, cities
from sweet_rl.worlds.guess_my_city.oracle.words import Question

NEAR_KM: Final = 150
"""Two cities within this distance are near each other."""

_NEAR: Final = ("near", "close to", "distance", "neighbor", "neighbour", "proximity", "next to")
_CONTINENTS: Final = frozenset(
    {
        "Asia",
        "Europe",
        "Africa",
        "South America",
        "North America",
        "Oceania",
        "Southeast Asia",
        "Latin America",
    }
)
_PLAIN_TOPICS: Final = frozenset({"traffic", "history", "ancient", "skyscrapers"})
_SIDES: Final = ("north of", "south of", "east of", "west of", "northern", "southern", "eastern", "western")
_KNOWN: Final = ("known for", "famous for")
_RANKS: Final = {"second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "fifth": 5, "5th": 5}
_LARGEST: Final = ("largest", "biggest", "most populous", "most populated", "most-populous")
_PROVINCE: Final = (
    "province",
    "state",
    "provincial",
    "regional",
    "department",
    "region",
    "prefecture",
    "governorate",
)
_SCALES: Final = {"million": 1.0, "m": 1.0, "thousand": 1e-3, "k": 1e-3, "billion": 1e3}
_NUMBER: Final = re.compile(r"\b(an? (?=[mb]illion)|\d[\d,]*(?:\.\d+)?) ?(million|thousand|billion|m\b|k\b)?")
_NUMBER_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORD: Final = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})(?= million| billion)")
_LETTER: Final = re.compile(r"\b(start|begin|end)s? with (?:an? |the )?(?:letter )?[\"'(]*([a-z])\b")
_LESS: Final = ("less than", "under", "below", "fewer than", "smaller than")
_MORE: Final = (
    "more than",
    "over",
    "above",
    "exceed",
    "greater than",
    "larger than",
    "at least",
    "bigger than",
)
_OTHER_CAPITALS: Final = (
    "ancient capital",
    "former capital",
    "economic capital",
    "cultural capital",
    "capital region",
    "financial capital",
    "fashion capital",
    "historical capital",
    "business capital",
    "commercial capital",
    "capital area",
    "tech capital",
)


_ITS_CAPITAL: Final = re.compile(
    r"is (?:(?:the )?capital(?: city)? of (?:your|its|the|home's) country|(?:your|its) country's capital)\b"
)


def is_guess(city: City, question: Question) -> bool | None:
    """Whether a city that the question names is this one."""
    named = (*question.names("city"), *question.names("elsewhere"))
    if city.key in named:
        return True
    if (
        not named
        or question.has("capital", *_NEAR, *_SIDES)
        or question.names("topic")
        or question.has(*_KNOWN)
    ):
        return None
    if question.has("in the state of", "in the province of", "in the region of", "located in"):
        return None if question.names("place") else False
    return False


def is_spelled(city: City, question: Question) -> bool | None:
    """First and last letters, and how many."""
    if found := _LETTER.search(question.text):
        letters = city.name.lower()
        return letters[-1 if found[1] == "end" else 0] == found[2]
    if (count := re.search(r"\b(\d+) letters\b", question.text)) is not None:
        return len(city.name.replace(" ", "")) == int(count[1])
    return None


def is_state_of_its_own(city: City, question: Question) -> bool | None:
    """City states, municipalities under the central government, ancient capitals."""
    if question.has("city state", "sovereign", "independent nation", "state of its own", "it a country"):
        return city.land.name == city.name
    if question.has("municipality", "direct controlled", "directly under"):
        return city.name in ("Beijing", "Shanghai", "Tianjin", "Chongqing")
    if question.has("four ancient capital", "four great ancient", "former capital of china"):
        return city.name in ("Beijing", "Nanjing", "Xian")
    if question.has("autonomous", "special administrative"):
        return False
    return None


def is_capital(city: City, question: Question) -> bool | None:
    """Whether it is a capital, of its country or of what is named."""
    if not question.has("capital") or question.has(*_OTHER_CAPITALS):
        return None
    if question.has(*_NEAR):
        return _near_capital(city)
    named = {name.partition(",")[0] for name in (*question.names("city"), *question.names("elsewhere"))}
    if named and _ITS_CAPITAL.match(question.text):
        return city.land.capital in named
    return _heads_named(city, question) if question.names("place") else _heads_any(city, question)


def _near_capital(city: City) -> bool | None:
    """Near the capital; None where that is not in the list, and a capital is not near itself."""
    heads = [other for other in cities().values() if other.capital and other.land is city.land]
    if city.capital or not heads:
        return False if city.capital else None
    return city.distance_km(heads[0]) < NEAR_KM


def _heads_any(city: City, question: Question) -> bool:
    if question.has(*_PROVINCE):
        return bool(city.heads) and not question.unknown
    if question.has("capital of", "capital city of") and question.unknown:
        return False
    return city.capital


def _heads_named(city: City, question: Question) -> bool:
    named = question.names("place")
    whole = (city.land.name, *city.land.also)
    if set(named) <= _CONTINENTS:
        return city.capital and any(place in city.places for place in named)
    narrow = [place for place in named if place not in whole]
    if narrow or not question.has(*_PROVINCE):
        return any(place in _heads(city) for place in narrow or named)
    return bool(city.heads) and not question.unknown


def _heads(city: City) -> frozenset[str]:
    """What it is the capital of, by every name."""
    own = {*city.heads, *((city.land.name, *city.land.also) if city.capital else ())}
    return frozenset(own | {name.removesuffix(" province").removesuffix(" state") for name in own})


def is_population(city: City, question: Question) -> bool | None:
    """More or fewer people than a number, many people or few."""
    if not question.has("people", "population", "inhabitant", "resident", "million", "populated", "populous"):
        return None
    people = city.land.people if question.has("country") else city.people
    text = _NUMBER_WORD.sub(lambda word: str(_NUMBER_WORDS.index(word[1]) + 1), question.text)
    if number := _NUMBER.search(text):
        value = float(number[1].replace(",", "") if number[1][0] != "a" else 1) * _SCALES.get(
            number[2] or "", 1e-6
        )
        if question.has(*_LESS):
            return people < value
        return people > value if question.has(*_MORE) else None
    if question.has("large", "big", "high", "densely", "dense") and not question.has(*_LARGEST):
        return city.people >= 1
    return city.people < 1 if question.has("small", "low") else None


def is_big_or_old(city: City, question: Question) -> bool | None:
    """Plain adjectives: "Is it big?", "Is it a small town?", "Is it old?"."""
    if len(question.words) > 7 or set(question.names("topic")) - _PLAIN_TOPICS:
        return None
    if question.has("big", "large", "huge"):
        return city.people >= 1
    if question.has("small", "little", "tiny"):
        return city.people < 1
    if question.has("rich", "wealthy"):
        return city.land.rich
    if question.has("poor"):
        return not city.land.rich
    young = bool(re.search(r"\b(?:1[89]|20)\d\d\b", city.since)) and "as " not in city.since
    return _aged(question, young=young)


def _aged(question: Question, *, young: bool) -> bool | None:
    if question.has("old", "very old"):
        return not young
    return young if question.has("new", "young") else None


def is_largest(city: City, question: Question) -> bool | None:
    """Its place by population in its country."""
    if not question.has(*_LARGEST):
        return None
    if question.names("topic") and not question.has("largest city", "biggest city", "city in"):
        return None
    places = question.names("place")
    if (places and not all(place in city.places for place in places)) or question.unknown:
        return False
    if question.has("one of"):
        return city.people >= 1 and city.rank <= 15
    rank = next((value for word, value in _RANKS.items() if question.has(word)), 1)
    if any(place not in (city.land.name, *city.land.also) for place in places) or question.has(
        *_PROVINCE, "world"
    ):
        sure = city.rank == rank == 1 and not question.has("world") and set(places) & set(city.within)
        return True if sure else None
    return city.rank == rank
