"""What a city answers to "What ...?" and "Tell me ...": one template sentence from the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle import maps as city_map
from sweet_rl.worlds.guess_my_city.oracle.maps import listed, told
from sweet_rl.worlds.guess_my_city.oracle.table import WEATHER, City, topics
from sweet_rl.worlds.guess_my_city.oracle.words import Question, words_of


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def weather(city: City) -> str:
    """What the weather is like."""
    return WEATHER[city.weather].says


def language(city: City) -> str:
    """A sentence about the languages that are spoken."""
    return f"People speak {told(city, city.languages)}."


def population(city: City) -> str:
    """How many people live there, rounded."""
    if city.people < 1:
        return f"About {round(city.people * 1000 / 50) * 50} thousand people live here."
    number = (
        f"{city.people:.0f}" if city.people >= 10 or city.people == int(city.people) else f"{city.people:.1f}"
    )
    return f"About {number} million people live here."


def religion(city: City) -> str:
    """A sentence about the religion of most people."""
    if not city.land.religions:
        return "Religion plays almost no public part here."
    if city.name == "Addis Ababa":
        return "Most people are Orthodox Christians; there are many Muslims, too."
    return f"The main religion is {city.land.religions[0]}."


def cuisine(city: City) -> str:
    """A sentence about the food that people like."""
    return f"People like {told(city, city.food)}."


def sights(city: City) -> str:
    """What visitors come to see."""
    return f"Visitors see {told(city, city.sights)}."


def fame(city: City) -> str:
    """What it is famous for."""
    return f"It is famous for {told(city, city.famous)}."


def work(city: City) -> str:
    """A sentence about the main industries."""
    return f"The main industries are {told(city, city.work)}."


def transport(city: City) -> str:
    """A sentence about public and private transport."""
    if city.name in topics()["metro"].cities:
        return "People take the metro, buses, cabs and cars."
    return "People take buses, minibuses, motorcycles and cars."


def festivals(city: City) -> str:
    """A sentence about festivals of the city, else of its country."""
    if city.festivals:
        return f"People celebrate {told(city, city.festivals)}."
    return f"People celebrate {_HOLIDAYS.get(city.land.name, 'the usual holidays of their country')}."


_HOLIDAYS: Final = {
    "China": "the Chinese New Year",
    "Taiwan": "the Lunar New Year",
    "South Korea": "the Lunar New Year and Chuseok",
    "Indonesia": "Eid and Independence Day",
    "Pakistan": "Eid",
    "Egypt": "Ramadan and Eid",
    "Iraq": "Ramadan and Eid",
    "Bangladesh": "Eid and the Bengali New Year",
    "Morocco": "Ramadan and Eid",
    "Turkey": "Eid and Republic Day",
    "India": "Diwali and Holi",
    "Iran": "Nowruz",
    "Japan": "summer festivals and New Year",
}


def sports(city: City) -> str:
    """What people play and watch."""
    return f"People like {told(city, city.land.sports, 2)}."


def dress(city: City) -> str:
    """What people wear on special days."""
    return f"The traditional dress is {city.land.dress}."


def music(city: City) -> str:
    """What people sing, play and dance."""
    return f"People love {city.land.music}."


def history(city: City) -> str:
    """A sentence about the time that its history goes back to."""
    return f"Its history goes back to {city.since}."


def money(city: City) -> str:
    """A sentence about the currency."""
    return f"People pay with the {city.land.currency}."


def government(city: City) -> str:
    """How the country is governed."""
    return f"The country is a {city.land.government}."


def flag(city: City) -> str:
    """The colours of the country's flag."""
    return f"The flag is {listed(city.land.flag)}."


def clock(city: City) -> str:
    """A sentence about the time zone of the country."""
    return f"Its time zone is {city.land.utc}."


def drive(city: City) -> str:
    """The side of the road."""
    return f"People drive on the {city.land.drive}."


def airport(city: City) -> str:
    """Whether planes land there; what the airport is called the table does not know."""
    if city.name in _NO_AIRPORT:
        return "It has no international airport of its own."
    return "It has an international airport."


_NO_AIRPORT: Final = frozenset({"Yokohama", "Bogor", "Sukabumi", "Zibo", "Malang", "Cirebon", "Kanpur"})


def universities(_city: City) -> str:
    """All of the 91 have some; what they are called the table does not know."""
    return "There are several universities."


def nickname(city: City) -> str:
    """What people call it for love."""
    return f"People call it {city.nickname}." if city.nickname else "It has no well-known nickname."


_Answers = Sequence[tuple[tuple[str, ...], Callable[[City], str]]]

_ANSWERS: Final[_Answers] = (
    (("language", "speak", "spoken", "tongue"), language),
    (
        ("population", "how many people", "how big", "inhabitant", "how large", "how many inhabitant"),
        population,
    ),
    (("religion", "faith", "religious practice", "believe"), religion),
    (("climate", "weather", "temperature", "season", "rainfall", "how hot", "how cold", "degree"), weather),
    (("currency", "money"), money),
    (("cuisine", "food", "dish", "eat", "drink", "culinary", "dessert", "specialty", "delicacy"), cuisine),
    (("time zone", "timezone"), clock),
    (("flag",), flag),
    (("side of the road", "drive"), drive),
    (("elevation", "altitude", "above sea level", "how high"), city_map.height),
    (("hemisphere",), city_map.hemisphere),
    (("latitude", "longitude", "coordinate"), city_map.coordinates),
    (("nickname", "nicknamed"), nickname),
    (("airport",), airport),
    (("university", "college"), universities),
    (("hint",), fame),
    (
        (
            *("border", "neighboring country", "neighbouring country", "neighbor", "neighbour"),
            *("country are near", "country near", "country are close", "country close", "nearby country"),
            *("surrounding country", "next to your country", "surround"),
        ),
        city_map.neighbours,
    ),
    (("country", "nation"), city_map.country),
    (("continent",), city_map.continent),
    (("capital",), city_map.capital),
    (
        ("province", "state", "region", "department", "district is home", "prefecture", "island"),
        city_map.province,
    ),
    (("transport", "transportation", "get around", "commute", "subway", "metro"), transport),
    (
        (
            "industry",
            "economy",
            "economic",
            "economic activity",
            "business",
            "work",
            "product",
            "produce",
            "export",
        ),
        work,
    ),
    (("festival", "celebration", "celebrate", "celebrated", "holiday", "event", "carnival"), festivals),
    (("sport", "team", "play", "club", "for fun", "free time", "hobby"), sports),
    (("music", "dance", "song", "instrument"), music),
    (("clothing", "attire", "wear", "dress", "worn", "costume", "fashion", "garment"), dress),
    (("river", "waterway"), city_map.rivers),
    (("lake",), city_map.lakes),
    (("mountain", "mountain range", "hill"), city_map.mountains),
    (("sea", "ocean", "coast", "port"), city_map.seas),
    (("body of water", "bodies of water", "water"), city_map.waters),
    (("government", "political", "ruler", "king"), government),
    (
        ("geographical location", "location", "located", "where", "geography", "part of the country"),
        city_map.place,
    ),
    (("known for", "famous for", "significance", "special", "unique", "proud"), fame),
    (
        (
            "landmark",
            "attraction",
            "tourist",
            "site",
            "sight",
            "sightseeing",
            "place to visit",
            "monument",
            *("visit", "visited", "see"),
        ),
        sights,
    ),
    (("history", "historical", "founded", "established", "how old", "age", "ancient"), history),
)
"""Words of a question, the more telling first, and what answers it."""

_VAGUE: Final[_Answers] = (
    (
        (
            "architecture",
            "architectural",
            "building",
            "famous place",
            "famous thing",
            "cultural",
            "culture",
            "natural",
        ),
        sights,
    ),
    (
        (
            *("like", "describe", "about home", "interesting", "stand out", "known", "famous", "fame"),
            *("renowned", "noted", "recognised", "recognized", "popular", "associated", "reputation"),
            *("kind of city", "sort of city", "type of city", "kind of home", "type of home", "distinctive"),
        ),
        fame,
    ),
)
"""Likewise, where nothing more telling was found."""

CANNOT: Final = "I can't answer that question."
"""What is said to those who ask for the name instead of guessing it."""

_NAME_WORDS: Final = (
    *("name", "named", "called", "call", "spell", "spelled", "spelling", "letter", "rhyme", "demonym"),
    *("initial", "anagram", "abbreviation", "abbreviated", "formerly", "translate", "translation"),
    *("pronounce", "pronounced", "what city", "which city", "what town", "which town"),
)
_PEOPLE: Final = (
    *("mayor", "president", "prime minister", "leader", "person", "celebrity", "actor", "actress", "singer"),
    *("writer", "author", "artist", "footballer", "saint", "born"),
)
"""No person is in the table."""

_SUPERLATIVE: Final = re.compile(
    r"\b(?:tallest|longest|highest|largest|biggest|deepest|oldest) (?!city|town|home)\w+ (?:in|of) "
    r"(?:your|its|the) (?:country|nation|continent)\b"
)
_OF_THE_COUNTRY: Final = re.compile(
    r"(?<!name )(?<!part )\b(?:of|in|from|by) (?:your|its|the|this|that|home's) (?:country|nation)\b"
)
_ONLY_HOME: Final = re.compile(
    r"^\W*(?:(?:so|ok|okay|please|tell me|say|give me) )*(?:what|which|where|who)?(?:'s| is| was)? ?"
    r"home(?:'s)?(?: in \w+)?\W*$"
)


_KIND_WORDS: Final = (
    "temple|museum|bridge|market|palace|tower|mosque|park|square|cathedral|church|street|garden|castle|beach|"
    "statue|shrine|stadium|opera house|fort|wall|island|tomb|mausoleum|monastery|zoo|theatre|pagoda|"
    "gate|bazaar|"
    "hotel|library|fountain|monument|pyramid|volcano|mall|avenue|pier|promenade|harbour|pillar|ruin|"
    "cave|festival"
)
_KINDS: Final = tuple(" ".join(words_of(kind)) for kind in _KIND_WORDS.split("|"))


def what(city: City, question: Question) -> str | None:
    """The sentence that answers, or None where the table has nothing about it.

    What it is called, in part or in another language, is not told: `CANNOT`.
    """
    if (answer := city_map.told_of_country(city, question)) is not None:
        return answer
    if city_map.is_elsewhere(city, question) or question.has(*_PEOPLE) or _SUPERLATIVE.search(question.text):
        return None
    return _of_city(city, question)


def _of_city(city: City, question: Question) -> str | None:
    kinds = [kind for kind in _KINDS if question.has(kind)]
    for kind in kinds:
        if found := [sight for sight in city.sights if f" {kind} " in f" {' '.join(words_of(sight))} "]:
            return f"There is {told(city, found, 2)}."
    if kinds and not {"festival", "island"} & set(kinds) and not question.has(*_GENERAL):
        return None
    if (answer := _first_of(_ANSWERS, city, question)) is not None:
        return answer
    if question.has(*_NAME_WORDS) or _ONLY_HOME.search(question.text):
        return CANNOT
    return _first_of(_VAGUE, city, question)


def _first_of(answers: _Answers, city: City, question: Question) -> str | None:
    """The first that answers; "of your country" does not ask which country it is."""
    skipped = city_map.country if _OF_THE_COUNTRY.search(question.text) else None
    fitting = (answer for words, answer in answers if answer is not skipped and question.has(*words))
    return next((answer(city) for answer in fitting), None)


_GENERAL: Final = (
    "landmark",
    "monument",
    "attraction",
    "site",
    "climate",
    "language",
    "population",
    "cuisine",
    "religion",
    "known for",
    "country",
    "architecture",
)
