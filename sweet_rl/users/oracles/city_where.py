"""Yes-or-no questions about where a city lies: places, parts of places, coasts, rivers, mountains, borders, size.

Every function takes the hidden city and the question and returns True, False, or None where it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sweet_rl.users.oracles.city_table import City, cities, countries
from sweet_rl.users.oracles.city_words import Question, plain

NEAR_KM: Final = 150
"""Two cities within this distance are near each other."""

_DIRECTION: Final = re.compile(
    r"\b(north|south|east|west|central|centre|center)(?:ern|ernmost)? ?(east|west)?(?:ern)?\b"
)
_PART: Final = re.compile(
    r"\b((?:north|south)(?:ern)? ?(?:east|west)(?:ern)?|(?:north|south|east|west)(?:ern)?|central|(?:center|centre|middle|heart))"
    r" (?:part|region|side|area|coast|shore|half|tip|section|portion|end|corner|coastal area|coastal region)?s?"
)
_RANKS: Final = {"second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "fifth": 5, "5th": 5}


def is_guess_of(city: City, question: Question) -> bool | None:
    """Whether the question names a city as the answer, and whether it is this one."""
    named = [*question.names("city"), *question.names("elsewhere")]
    if not named or question.has(
        "capital", "near", "close to", "distance", "neighbor", "neighbour", "proximity"
    ):
        return None
    if city.key in named:
        return None if _mere_province(city, question) else True
    if question.has("known for", "famous for") or question.names("topic"):
        return None
    if any(city.name in plain_name(place) for place in named for plain_name in (_key_name,)):
        return True
    return False


def _key_name(key: str) -> str:
    return key.partition(",")[0]


def _mere_province(city: City, question: Question) -> bool:
    return question.has("province of", "state of", "region of") and not any(
        city.name in place for place in city.places
    )


def is_capital(city: City, question: Question) -> bool | None:
    """Questions about capitals."""
    if not question.has("capital"):
        return None
    if question.has(
        "ancient capital", "former capital", "economic capital", "cultural capital", "capital region"
    ):
        return None
    if question.has(
        "financial capital", "fashion capital", "historical capital", "capital under", "business capital"
    ):
        return None
    if question.has("near", "close to") and not question.has("capital of", "is home the capital"):
        return None
    named = [place for place in question.names("place") if place not in ("Capital District",)]
    named = [place for place in named if not question.has("capital") or place]
    if named:
        heads = {*city.heads, *((city.land.name, *city.land.also) if city.capital else ())}
        heads |= {name.removesuffix(" province").removesuffix(" state") for name in heads}
        narrow = [place for place in named if place not in (city.land.name, *city.land.also)]
        if question.has("province", "state", "department", "governorate") and not narrow:
            return bool(city.heads)
        return any(place in heads for place in narrow or named)
    if question.has("province", "state", "provincial", "regional", "department", "region", "prefecture"):
        return bool(city.heads)
    if question.proper and question.has("capital of") and not question.has("its", "country"):
        return False
    return city.capital


def is_size(city: City, question: Question) -> bool | None:
    """Questions about its rank and its population."""
    text = question.text
    if number := re.search(r"(\d[\d,.]*) ?(million|thousand|billion|m\b)?", text):
        if (answer := _more_or_less(city, question, number)) is not None:
            return answer
    if not question.has("largest", "biggest", "most populou", "most populated", "second most", "third most"):
        if question.has("population", "populated", "populou", "people") and question.has(
            "large", "big", "high"
        ):
            return city.people >= 1
        return None
    if question.has("city", "home") is False or question.names("topic") and not question.has("city", "home"):
        return None
    places = question.names("place")
    if places and not any(place in city.places for place in places):
        return False
    if question.has("one of the"):
        return city.people >= 1 and city.rank <= 15
    rank = next((value for word, value in _RANKS.items() if question.has(word)), 1)
    whole = (city.land.name, *city.land.also)
    if any(place not in whole for place in places) or question.has("province", "state", "region", "world"):
        if rank == 1 and city.rank == 1 and any(place in city.within for place in places):
            return True
        return None
    return city.rank == rank


def _more_or_less(city: City, question: Question, number: re.Match[str]) -> bool | None:
    digits = number[1].rstrip(".,").replace(",", "")
    if digits.count(".") > 1:
        return None
    scale = {"million": 1.0, "m": 1.0, "thousand": 1e-3, "billion": 1e3}.get(number[2] or "", 1e-6)
    value = float(digits) * scale
    people = city.land.people if question.has("country") else city.people
    if not question.has("people", "population", "inhabitant", "resident", "million"):
        return None
    if question.has("less than", "under", "below", "fewer than", "smaller than"):
        return people < value
    if question.has(
        "more than", "over", "above", "exceed", "greater than", "larger than", "at least", "bigger than"
    ):
        return people > value
    return None


def is_where(city: City, question: Question) -> bool | None:
    """Questions about places, parts, coasts, waters, mountains: all that is named must hold (with "or": any)."""
    join: Callable[[Sequence[bool]], bool] = any if question.has("or") else all
    waters = _at_water(city, question)
    places = _in_places(city, question)
    parts = _in_part(city, question)
    mountains = _at_mountains(city, question)
    known = [answer for answer in (waters, places, parts, mountains) if answer is not None]
    if not known:
        return _near_city(city, question)
    del join
    return all(known)


def _in_places(city: City, question: Question) -> bool | None:
    named = question.names("place")
    if not named:
        return None
    if question.has("border", "bordering", "borders"):
        near = {*city.border, *(city.land.neighbours if question.has("country") else ())}
        elsewhere = [place for place in named if place not in city.places]
        return any(place in near for place in elsewhere) if elsewhere else None
    if question.has("part of") and question.has("formerly", "once", "former"):
        return None
    inside = [place in city.places for place in named]
    return any(inside) if question.has("or") else all(inside)


def _in_part(city: City, question: Question) -> bool | None:
    """Whether it lies in the asked part ("north-east") of the place that is named, or of its country."""
    text = question.text
    found = _PART.search(text)
    if question.has("hemisphere"):
        return _hemisphere(city, question)
    if not found or question.has("middle east", "far east"):
        return None
    rest = text[found.end() :]
    asked = _directions(found[1])
    if not re.match(r"\s*(?:of|in|within)?\s*(?:the |your |its |this )?", rest):
        return None
    places = [place for place in question.names("place") if place in city.positions]
    if not places and question.names("place"):
        return None
    if not places and not re.search(r"\b(?:country|nation)\b|\b(?:part|region|side|half|coast)\b", text):
        return None
    lies = city.positions[places[-1]] if places else city.part
    return asked <= _directions(lies)


def _directions(text: str) -> frozenset[str]:
    words = set(re.findall(r"north|south|east|west", text))
    if re.search(r"cent|middle|heart", text):
        words.add("central")
    return frozenset(words)


def _hemisphere(city: City, question: Question) -> bool | None:
    north, east = city.at
    for word, holds in (("north", north > 0), ("south", north < 0), ("east", east > 0), ("west", east < 0)):
        if question.has(f"{word}ern hemisphere", f"{word} hemisphere"):
            return holds
    return None


_COAST: Final = (
    "coast",
    "coastal",
    "sea",
    "ocean",
    "seaside",
    "shore",
    "coastline",
    "oceanfront",
    "waterfront",
    "seashore",
)
_RIVER: Final = ("river", "riverside", "riverbank")


def _at_water(city: City, question: Question) -> bool | None:
    country = question.has("country") and not question.has(
        "part of the country", "coast of the country", "its country"
    )
    if named := question.names("water"):
        near = question.has("near", "close to", "access", "proximity", "border", "closest")
        ours = {*city.waters, *(city.near if near else ()), *(city.land.coasts if country else ())}
        return any(_same_water(water, own) for water in named for own in ours)
    if question.has("landlocked"):
        inland = not (city.land.coasts if question.has("country") else city.coast)
        return (
            None if question.has("coast", "coastal", "coastline", "access") and question.has("or") else inland
        )
    if question.has("inland") and not question.has(*_COAST):
        return not city.coast
    if question.has("coastline", "coast", "sea", "ocean") and country:
        return bool(city.land.coasts)
    if question.has("island") and not question.names("place"):
        if country:
            return city.land.island
        return bool(city.land.island or {"Java", "Sumatra"} & city.places) and "Sydney" != city.name
    if question.has("body of water", "bodies of water", "water body", "waterway"):
        return bool(city.waters)
    if question.has(*_COAST):
        close = question.has("near", "close to", "proximity", "by")
        return bool(city.coast or (close and city.near))
    if question.has(*_RIVER):
        return any("River" in water or water in ("Bosphorus",) for water in city.water)
    if question.has("lake") and question.has("near", "on a", "located", "by a", "shore"):
        return any("Lake" in water for water in city.water)
    if question.has("bay", "gulf") and question.has("located", "near"):
        return any(word in water for water in city.waters for word in ("Bay", "Gulf"))
    if question.has("peninsula"):
        return any("Peninsula" in place for place in city.within)
    if question.has("delta"):
        return any("elta" in place for place in (*city.places, *city.water))
    return None


def _same_water(one: str, other: str) -> bool:
    return plain(one) == plain(other)


def _at_mountains(city: City, question: Question) -> bool | None:
    if named := question.names("mountain"):
        return any(plain(name) in plain(own) for name in named for own in city.mountains)
    if question.has("altitude", "elevation", "above sea level", "highland", "plateau"):
        if question.has("low", "lowland"):
            return city.height < 200
        return city.height >= 500
    if question.has("valley", "surrounded by mountain", "mountainous", "foothill", "foot of") or (
        question.has("mountain", "mountain range", "hill", "hilly")
        and question.has("near", "located", "close to", "at the base", "surrounded", "any", "have", "in the")
    ):
        return bool(city.mountains)
    if question.has("desert") and question.has("located", "near", "region"):
        return city.weather in ("desert", "coastal desert")
    if question.has("plain", "flat"):
        return city.height < 200 and not city.mountains
    return None


def _near_city(city: City, question: Question) -> bool | None:
    if not question.has(
        "near", "close to", "neighbor", "neighbour", "proximity", "distance", "next to", "hour"
    ):
        return None
    others = [cities()[key] for key in question.names("city") if key != city.key]
    if others:
        return any(city.distance_km(other) < NEAR_KM for other in others)
    if question.has("border", "another country"):
        return bool(city.border)
    return None


def is_border(city: City, question: Question) -> bool | None:
    """Whether a border is near ("Is it near the border of another country?")."""
    if not question.has("border") or question.names("water"):
        return None
    if question.names("place") and not all(place in city.places for place in question.names("place")):
        return None
    return bool(city.border)


def is_state_of_its_own(city: City, question: Question) -> bool | None:
    """City states, municipalities under the central government, autonomous regions."""
    if question.has("city state", "sovereign", "independent nation"):
        return city.land.name == city.name
    if question.has("municipality", "direct controlled", "directly under"):
        return city.name in ("Beijing", "Shanghai", "Tianjin", "Chongqing")
    if question.has("autonomou", "special administrative"):
        return False
    if question.has("ancient capitals", "four great ancient"):
        return city.name in ("Beijing", "Nanjing", "Xian")
    return None


def unknown_place(city: City, question: Question) -> bool | None:
    """A capitalised place that no table names is not where the city lies: its own places are all known."""
    del city
    located = question.has(
        "located", "situated", "in the state", "in the province", "part of", "lie", "live in"
    )
    if located and question.proper and not question.names("topic"):
        return False
    return None


def is_in_its_country(city: City, question: Question) -> bool | None:
    """ "Is it a Chinese city?", "Are you Japanese?"."""
    named = question.names("adjective")
    if not named or not question.has("city", "home", "you", "it", "people"):
        return None
    return any(city.land.name == name or name in city.places for name in named)


def country_names() -> frozenset[str]:
    """Every name of every country of the list."""
    return frozenset(name for land in countries().values() for name in (land.name, *land.also))
