"""Yes-or-no questions about where a city lies: places and their parts, coasts, rivers, mountains, borders.

Every rule takes the hidden city and the question and returns True, False, or None where it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.rank import NEAR_KM
from sweet_rl.worlds.guess_my_city.oracle.table import City, cities
from sweet_rl.worlds.guess_my_city.oracle.words import Question, plain

Rule = Callable[[City, Question], bool | None]
"""What the city is asked, and whether it is so."""

_NEAR: Final = (
    "near",
    "nearby",
    "close to",
    "closest",
    "access",
    "proximity",
    "neighbor",
    "neighbour",
    "next to",
)
_WAY: Final = r"(?:north|south)(?:ern(?:most)?)?[ -]?(?:east|west)?(?:ern)?|(?:east|west)(?:ern(?:most)?)?"
_PART: Final = re.compile(
    rf"\b({_WAY}|central|center|centre|middle|heart)"
    r"(?: (?:part|region|side|area|coast|coastal area|coastal region|coastline|shore|half|tip|section|end"
    r"|corner)s?\b(?: of)?|(?= <)| of(?= <))"
)
_SIDE_OF: Final = re.compile(r"\b(north|south|east|west) of (?!the|your|its)")
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
_TIES: Final = ("tie", "influence", "influenced", "connection", "relation", "relationship")
_DIVISIONS: Final = (
    "province",
    "state",
    "region",
    "department",
    "prefecture",
    "district",
    "county",
    "governorate",
)
_DIVISION_OF: Final = tuple(f"{division} of" for division in _DIVISIONS)


def is_where(city: City, question: Question) -> bool | None:
    """All that the question says of the place: "on the eastern coast of China" is three things."""
    if _asks_part(question) and (part := _in_part(city, question)) is not True:
        return part
    answers = [rule(city, question) for rule in (_in_places, _at_water, _high_or_flat, _at_mountains)]
    known = [answer for answer in answers if answer is not None]
    if known:
        return all(known)
    return True if _asks_part(question) else None


def is_near(city: City, question: Question) -> bool | None:
    """Near another city of the list or to one side of it, near a border, near the equator."""
    if question.has("equator", "tropic of", "in the tropic"):
        return _at_equator(city, question)
    others = [cities()[key] for key in question.names("city") if key != city.key]
    if others and (found := _SIDE_OF.search(question.text)):
        return _lies(city, found[1], others[0])
    if question.has("border") and not question.names("water"):
        return _at_border(city, question)
    if not question.has(*_NEAR, "hour", "distance"):
        return None
    if others:
        return any(city.distance_km(other) < NEAR_KM for other in others)
    return False if question.names("elsewhere") and question.has("located") else None


def _at_equator(city: City, question: Question) -> bool:
    north = city.at[0]
    if question.has("north of the equator", "above the equator"):
        return north > 0
    if question.has("south of the equator", "below the equator"):
        return north < 0
    return abs(north) < (23.5 if question.has("tropic") else 10)


def _lies(city: City, side: str, other: City) -> bool:
    """Whether it lies to that side of another city."""
    (north, east), (its_north, its_east) = city.at, other.at
    return {"north": north > its_north, "south": north < its_north, "east": east > its_east}.get(
        side, east < its_east
    )


def _at_border(city: City, question: Question) -> bool | None:
    abroad = [place for place in question.names("place") if place not in city.places]
    near = {*city.border, *(city.land.neighbours if question.has("country") and not city.border else ())}
    if abroad:
        return any(place in near for place in abroad)
    return bool(city.border)


def _in_places(city: City, question: Question) -> bool | None:
    """Every place that is named, or with "or" any; a province that no table names is not one of its own."""
    if question.unknown and question.has(*_DIVISIONS) and not question.names("topic"):
        return False
    named = question.names("place")
    if not named or question.has(*_TIES):
        return None
    inside = [place in city.places for place in named]
    if question.has("was", "once", "former", "formerly", "used to") and not all(inside):
        return None  # the table knows nothing of the past
    return any(inside) if question.has("or") else all(inside)


def _marked(question: Question) -> str:
    """The question with "<" before the places that may follow a direction; no place has one in its name."""
    text = question.text
    for place in sorted(question.names("place"), key=len, reverse=True):
        name = plain(place)
        text = re.sub(rf"\b{re.escape(name)}\b", f"<{'' if re.match(_WAY, name) else name}", text)
    text = re.sub(r"<(north|south|east|west)", "<", text)
    text = re.sub(r"\b(?:middle|far|near) east\b", "", text)
    return re.sub(r"\b(in|of|within) (?:the|your|its|this) (country|nation)", r"\1 <country", text)


def _asks_part(question: Question) -> bool:
    return bool(_PART.search(_marked(question))) or question.has("hemisphere")


def _in_part(city: City, question: Question) -> bool | None:
    """Whether it lies in the asked part ("north-east") of the place that is named, or of its country."""
    if question.has("hemisphere"):
        return _hemisphere(city, question)
    found = _PART.search(_marked(question))
    places = question.names("place")
    if not found or any(place not in city.places for place in places):
        return False if found else None
    told = [city.positions[place] for place in places if place in city.positions]
    if places and not told:
        return None
    return _directions(found[1]) <= _directions(told[-1] if told else city.part)


def _directions(text: str) -> frozenset[str]:
    words = set(re.findall(r"north|south|east|west", text))
    if re.search(r"cent|middle|heart", text):
        words.add("central")
    return frozenset(words)


def _hemisphere(city: City, question: Question) -> bool | None:
    north, east = city.at
    ways = {"northern": north > 0, "southern": north < 0, "eastern": east > 0, "western": east < 0}
    asked = [holds for way, holds in ways.items() if question.has(way)]
    return any(asked) if asked else None


def _at_water(city: City, question: Question) -> bool | None:
    """Seas, rivers and lakes: those that are named, or any."""
    for rule in (_at_named_water, _inland, _on_island, _by_the_sea, _by_fresh_water, _at_shape):
        if (answer := rule(city, question)) is not None:
            return answer
    return None


def _of_country(question: Question) -> bool:
    return question.has(
        "is the country",
        "does the country",
        "in a country",
        "your country",
        "country that",
        "country with",
        "country have",
        "country has",
    )


def _at_named_water(city: City, question: Question) -> bool | None:
    named = {plain(water) for water in question.names("water")}
    if not named:
        return None
    ours = {*city.coast, *city.water, *(city.near if question.has(*_NEAR) else ())}
    if _of_country(question):
        ours |= set(city.land.coasts)
    return bool(named & {plain(water) for water in ours})


def _inland(city: City, question: Question) -> bool | None:
    if question.has("landlocked"):
        return not (city.land.coasts if question.has("country") else city.coast)
    if question.has("inland", "away from the coast", "away from the sea"):
        return not city.coast
    return None


def _on_island(city: City, question: Question) -> bool | None:
    if not question.has("island", "archipelago") or question.names("place"):
        return None
    return city.land.island and city.name != "Sydney"


def _by_the_sea(city: City, question: Question) -> bool | None:
    if not question.has(*_COAST):
        return None
    if _of_country(question):
        return bool(city.land.coasts)
    return bool(city.coast or (question.has(*_NEAR) and city.near))


def _by_fresh_water(city: City, question: Question) -> bool | None:
    if question.has("body of water", "water body", "major water"):
        return bool(city.coast or city.water)
    if question.has("river", "riverside", "riverbank"):
        return any("River" in water or water == "Bosphorus" for water in city.water)
    if question.has("lake"):
        return any("Lake" in water for water in city.water)
    return None


def _at_shape(city: City, question: Question) -> bool | None:
    if question.has("bay", "gulf"):
        return any(shape in water for water in (*city.coast, *city.water) for shape in ("Bay", "Gulf"))
    if question.has("peninsula") and not question.names("place"):
        return any("Peninsula" in place for place in (*city.within, *city.land.within))
    if question.has("delta") and not question.names("place"):
        return any("elta" in place for place in (*city.within, *city.water))
    return None


def _high_or_flat(city: City, question: Question) -> bool | None:
    if question.has("altitude", "elevation", "above sea level", "highland", "plateau"):
        return city.height < 200 if question.has("low", "lowland") else city.height >= 500
    if question.has("plain", "flat", "lowland"):
        return city.height < 200 and not city.mountains
    if question.has("desert"):
        return city.weather in ("desert", "coastal desert")
    return None


def _at_mountains(city: City, question: Question) -> bool | None:
    if named := question.names("mountain"):
        return any(plain(name) in plain(own) for name in named for own in city.mountains)
    if (
        question.unknown
        and question.has("mountain", "mountains")
        and question.has("located", "near", "range")
    ):
        return False
    if question.has("valley", "mountain", "mountainous", "foothill", "foot of", "hill", "hilly"):
        return bool(city.mountains)
    return None


def is_unknown_place(city: City, question: Question) -> bool | None:
    """A place that no table names is not where the city lies: its own places are all known."""
    del city
    located = question.has("located", "situated", "part of", *_DIVISION_OF)
    return False if located and question.unknown and not question.names("topic") else None


def is_of_country(city: City, question: Question) -> bool | None:
    """Whether it belongs to a people: "Is it a Chinese city?", "Are you Japanese?"."""
    named = question.names("adjective")
    if not named or not question.has("city", "home", "you", "it", "people") or question.has(*_TIES):
        return None
    return any(name == city.land.name or name in city.places for name in named)
