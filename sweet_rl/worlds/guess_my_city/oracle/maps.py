"""What a city answers about where it is: country and coast, waters and mountains, capital and rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.table import City
from sweet_rl.worlds.guess_my_city.oracle.words import Question, plain


def listed(names: Sequence[str]) -> str:
    """Names as people list them: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def names_it(city: City, text: str) -> bool:
    """Whether a text spells one of the city's names, within other words too, spaces and accents aside."""
    letters = plain(text).replace(" ", "")
    return any(plain(name).replace(" ", "") in letters for name in city.names)


def told(city: City, names: Sequence[str], most: int = 3) -> str:
    """The first of these names that do not give the city away, as people list them."""
    return listed([name for name in names if not names_it(city, name)][:most] or names[:1])


_LARGE: Final = ("Europe", "Asia")


def country(city: City) -> str:
    """Where it lies on the map: its country; for a city state, that it is one."""
    if city.land.name == city.name:
        return "It is a city and a country at the same time."
    if city.land.name == "Taiwan":
        return "It is on the island of Taiwan."
    name = {"UK": "the UK", "USA": "the USA", "Ethopia": "Ethiopia"}.get(city.land.name, city.land.name)
    if city.name == "Kinshaha":
        name = "the Democratic Republic of the Congo"
    return f"It is in {name}."


def neighbours(city: City) -> str:
    """A sentence about the countries that border the city's own."""
    if not city.land.neighbours:
        return "The country has no neighbours by land."
    return f"The country borders {told(city, city.land.neighbours)}."


def continent(city: City) -> str:
    """A sentence about the continent, of which Istanbul has two."""
    if city.land.name == "Turkey":
        return "It is in Europe and in Asia." if "Europe" in city.within else "It is in Asia."
    found = [
        place
        for place in ("Asia", "Europe", "Africa", "South America", "North America", "Oceania")
        if place in city.places
    ]
    return f"It is in {found[0]}."


def place(city: City) -> str:
    """Where in its country, and by which sea."""
    part = {"central": "centre"}.get(city.part, city.part.replace(" central", "").replace("central ", ""))
    if city.coast:
        return f"It is in the {part} of its country, on the coast."
    return f"It is in the {part} of its country, away from the coast."


def province(city: City) -> str:
    """The province, state or region it lies in."""
    found = [name for name in city.within if not names_it(city, name) and name not in _LARGE]
    return f"It is in {found[0]}." if found else place(city)


def rivers(city: City) -> str:
    """A sentence about the largest river; one that bears the city's name is not named."""
    found = [water for water in city.water if "River" in water]
    if not found:
        return "No large river runs through it."
    if names_it(city, found[0]):
        return "A river of the same name runs through it."
    return f"The {found[0].removesuffix(' delta')} runs through it."


def waters(city: City) -> str:
    """The sea, lake or river it lies on."""
    found = [water for water in (*city.coast, *city.water) if not names_it(city, water)]
    if not found:
        return "There is no large body of water."
    return f"It lies on the {found[0]}."


def seas(city: City) -> str:
    """The sea it lies on."""
    found = [sea for sea in city.coast if not names_it(city, sea)]
    return f"It lies on the {found[0]}." if found else "It does not lie on the sea."


def lakes(city: City) -> str:
    """A sentence about lakes in or near the city."""
    found = [water for water in city.water if "Lake" in water]
    return f"There is {told(city, found)}." if found else "There is no well-known lake."


def mountains(city: City) -> str:
    """A sentence about at most two mountains nearby."""
    if not city.mountains:
        return "There are no high mountains close by."
    return f"Close by there are {told(city, city.mountains, 2)}."


def height(city: City) -> str:
    """A sentence about the height above the sea, in metres."""
    return f"It lies about {city.height:.0f} metres above the sea."


def capital(city: City) -> str:
    """Whether it is a capital."""
    if city.capital:
        return "It is the capital of its country."
    if city.heads:
        return "It is not the capital of the country, but of its province."
    return "It is not a capital."


def hemisphere(city: City) -> str:
    """Which half of the world."""
    return f"It is in the {'northern' if city.at[0] > 0 else 'southern'} hemisphere."


def coordinates(city: City) -> str:
    """A sentence about latitude and longitude, in whole degrees."""
    north, east = (round(degrees) for degrees in city.at)
    up, right = "north" if north >= 0 else "south", "east" if east >= 0 else "west"
    return f"It lies about {abs(north)} degrees {up} and {abs(east)} degrees {right}."


def rank(city: City) -> str:
    """Its place by population in its country."""
    if city.rank == 1:
        return "It is the largest city of its country."
    ordinal = {2: "second", 3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth"}
    if city.rank in ordinal:
        return f"It is the {ordinal[city.rank]} largest city of its country."
    return f"By population it is number {city.rank} in its country."


_OF_COUNTRY: Final = re.compile(
    r"\bcapital(?: city)? of (?:(?:your|its|the|this|that|my|home's|home) )*(?:country|nation)\b"
    r"|\b(?:country|nation)(?:'s)? capital\b|\bnational capital\b"
)
_LARGEST: Final = re.compile(r"\b(?:largest|biggest|most populous|most populated) (?:city|town)\b|\brank\b")


def told_of_country(city: City, question: Question) -> str | None:
    """Its country's capital, or its own rank; None where neither is asked for."""
    lands = (city.land.name, *city.land.also)
    own = question.has("capital") and any(question.has(f"capital of {land}") for land in lands)
    if own or _OF_COUNTRY.search(question.text):
        return capital(city) if city.capital else f"The capital of the country is {city.land.capital}."
    return rank(city) if _LARGEST.search(question.text) else None


def is_elsewhere(city: City, question: Question) -> bool:
    """Whether the capital of a place is asked for in which the city does not lie."""
    places = question.names("place")
    return question.has("capital of") and bool(places) and not city.places.intersection(places)
