"""Yes-or-no questions about what a city is like: people, country, weather, sights, what it is known for.

Every rule takes the hidden city and the question and returns True, False, or None where it does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from sweet_rl.worlds.guess_my_city.oracle.table import WEATHER, City, Topic, cities, countries, topics
from sweet_rl.worlds.guess_my_city.oracle.words import Question, words_of

_OTHER_LANGUAGES: Final = (
    "Italian Dutch Swahili Hebrew Greek Polish Swedish Vietnamese Czech Serbian Bulgarian Danish Finnish "
    "Kazakh Mongolian Pashto Azerbaijani Nepali Khmer Tagalog Norwegian Catalan Hausa Yoruba Zulu "
    "Afrikaans Armenian"
)
_FAMILIES: Final = {
    "romance language": ("Spanish", "Portuguese", "French", "Italian", "Romanian"),
    "slavic language": ("Russian", "Ukrainian"),
    "germanic language": ("English", "German"),
}
_FAITHS: Final = {
    "Christianity": ("christian", "christianity"),
    "Catholicism": ("catholic", "catholicism", "roman catholic"),
    "Orthodoxy": ("orthodox", "orthodoxy"),
    "Islam": ("muslim", "islam", "islamic"),
    "Hinduism": ("hindu", "hinduism"),
    "Buddhism": ("buddhist", "buddhism"),
    "Shinto": ("shinto",),
    "Taoism": ("taoist", "taoism"),
    "Judaism": ("jewish", "judaism"),
    "Sikhism": ("sikh",),
    "Confucianism": ("confucianism",),
}
_FAITH_WORDS: Final = (
    "religion",
    "predominantly",
    "majority",
    "mostly",
    "people",
    "population",
    "practice",
    "country",
)
_FAITH_WORDS_TOO: Final = (
    "religious",
    "believe",
    "faith",
    "mainly",
    "predominant",
    "major",
    "city",
    "home",
    "community",
)
_KNOWN: Final = ("known for", "famous for", "renowned for", "known a", "home to", "popular for")
_WEATHER_WORDS: Final = {
    "hot": ("hot", "heat"),
    "cold": ("cold", "freezing", "harsh winter"),
    "snow": ("snow", "snowfall", "snowy"),
    "tropical": ("tropical", "tropic"),
    "humid": ("humid", "humidity"),
    "rainy": ("rain", "rainy", "wet", "rainfall", "rainy season"),
    "monsoon": ("monsoon",),
    "dry": ("dry", "arid"),
    "desert": ("desert climate", "desert"),
    "mild": ("mild", "moderate", "pleasant"),
    "mediterranean": ("mediterranean climate",),
    "temperate": ("temperate",),
    "seasons": ("four season", "four distinct season", "distinct season", "all four season"),
    "continental": ("continental",),
    "subtropical": ("subtropical",),
    "warm": ("warm",),
    "sunny": ("sunny", "sunshine"),
    "cool": ("cool",),
    "equatorial": ("equatorial",),
}
_ALSO: Final = {"warm": "hot", "rainy": "monsoon", "sunny": "desert", "seasons": "seasons"}
_LOCATION: Final = (
    "located",
    "situated",
    "landlocked",
    "coastal city",
    "climate",
    "weather",
    "lie on",
    "surrounded",
)
_TIES: Final = ("tie", "influence", "connection", "relation", "relationship", "link")
_COMMON: Final = 6
"""A word in the texts of more cities than this says nothing."""


def either_or(city: City, question: Question) -> str | None:
    """The half that holds: "On the coast or inland?", "northern or southern hemisphere?"."""
    if not question.has("or") or question.has("or not"):
        return None
    if question.has("inland", "landlocked") and question.has(
        "coast", "coastal", "coastline", "sea", "access"
    ):
        by_sea = city.land.coasts if question.has("in a country", "your country") else city.coast
        return "It is on the coast." if by_sea else "It is inland."
    ways = sum(question.has(way, f"{way}ern") for way in ("north", "south", "east", "west"))
    if ways > 1 and not question.has("hemisphere") and not question.names("city"):
        return f"It is in the {city.part.replace(' central', '').replace('central ', '')} of its country."
    if question.has("hemisphere") and question.has("northern") and question.has("southern"):
        return f"It is in the {'northern' if city.at[0] > 0 else 'southern'} hemisphere."
    return None


def is_about_people(city: City, question: Question) -> bool | None:
    """Whether a question about languages or religions is true; None if it is about neither."""
    if question.has("language", "speak", "spoken", "speaking", "mother tongue"):
        return _speaks(city, question)
    named = {faith for faith, words in _FAITHS.items() if question.has(*words)}
    if not named or not question.has(*_FAITH_WORDS, *_FAITH_WORDS_TOO) or question.has(*_KNOWN):
        return None
    if question.has("temple", "mosque", "church", "architecture", "landmark", "shrine"):
        return None
    return bool(named & set(city.land.religions))


def _speaks(city: City, question: Question) -> bool | None:
    for family, members in _FAMILIES.items():
        if question.has(family):
            return any(member in city.languages for member in members)
    named = _language_words() & set(question.words)
    if not named:
        return None
    return bool(named & {word for language in city.languages for word in words_of(language)})


@lru_cache(maxsize=1)
def _language_words() -> frozenset[str]:
    told = {language for city in cities().values() for language in city.languages}
    return frozenset(word for language in (*told, *_OTHER_LANGUAGES.split()) for word in words_of(language))


def is_about_country(city: City, question: Question) -> bool | None:
    """What can be asked of the country: government, what it hosted, riches, roads, money and flag."""
    for rule in (_governed, _hosted, _developed, _drives, _pays, _flies):
        if (answer := rule(city, question)) is not None:
            return answer
    return None


def _governed(city: City, question: Question) -> bool | None:
    if question.has(*_KNOWN, "palace", "ancient"):
        return None
    if question.has("monarchy", "king", "queen", "emperor", "royal family", "kingdom") and not question.names(
        "place"
    ):
        return city.land.government == "monarchy"
    if question.has("communist", "communism", "socialist"):
        return city.land.government == "communist state"
    if question.has("republic", "democracy") and not question.names("place"):
        return city.land.government == "republic"
    return None


def _hosted(city: City, question: Question) -> bool | None:
    if question.has("world cup") and not question.has("cricket", "rugby"):
        return "World Cup" in city.land.hosted
    if question.has("olympic") and question.has("your country", "in a country"):
        return "Olympics" in city.land.hosted
    return None


def _developed(city: City, question: Question) -> bool | None:
    if not question.has("country", "nation"):
        return None
    if question.has("developed", "rich", "wealthy", "first world"):
        return city.land.rich
    if question.has("developing", "poor", "third world"):
        return not city.land.rich
    return None


def _drives(city: City, question: Question) -> bool | None:
    for side in ("left", "right"):
        if question.has(f"{side} side of the road", f"drive on the {side}", f"{side} hand traffic"):
            return city.land.drive == side
    return None


def _pays(city: City, question: Question) -> bool | None:
    if not question.has("currency", "pay", "money", "euro"):
        return None
    known = {word for land in countries().values() for word in words_of(land.currency)} - {"new"}
    named = known & set(question.words)
    return bool(named & set(words_of(city.land.currency))) if named else None


def _flies(city: City, question: Question) -> bool | None:
    known = {colour for land in countries().values() for colour in land.flag}
    named = known & set(question.words)
    return named <= set(city.land.flag) if named and question.has("flag") else None


def is_sight(city: City, question: Question) -> bool | None:
    """Whether a sight that is named by its own name is here."""
    owners = question.names("sight")
    return city.key in owners if owners else None


def is_known_for(city: City, question: Question) -> bool | None:
    """The telling topics of the question, if there are any: any of them will do, with "and" as with "or"."""
    telling = _telling(question.names("topic"))
    if any(not topic.cities for topic in telling) and not question.has("country", "or"):
        return False
    if not telling or _is_location(question):
        return None
    if question.has(*_KNOWN) and any(place not in city.places for place in question.names("place")):
        return False
    holds = any(
        city.name in topic.cities
        for half in question.topics_by_half
        for topic in _telling(half) or [topics()[name] for name in half]
    )
    return None if not holds and question.has("near", "nearby", "close to") else holds


def is_general(city: City, question: Question) -> bool | None:
    """Topics that nearly every big city has."""
    named = question.names("topic")
    told = _telling(named) or [topics()[name] for name in named]
    if question.has(*_TIES) and (question.names("place") or question.names("adjective")):
        return None
    if not told or (_is_location(question) and not question.has("near", "nearby", "any")):
        return None
    return any(city.name in topic.cities for topic in told)


def _telling(names: Sequence[str]) -> list[Topic]:
    return [topics()[name] for name in names if not topics()[name].general]


def _is_location(question: Question) -> bool:
    return question.has(*_LOCATION) and not question.has(*_KNOWN)


def is_own_word(city: City, question: Question) -> bool | None:
    """A rare word from the table's texts: "stepwell" is Ahmedabad's, so it is not another city's."""
    owners = [_own_words()[word] for word in question.rest if word in _own_words()]
    if not owners or _is_location(question):
        return None
    return any(city.name in names for names in owners)


@lru_cache(maxsize=1)
def _own_words() -> Mapping[str, frozenset[str]]:
    """Rare words with the cities in whose sights, dishes, industries, festivals and fame they stand."""
    owners = defaultdict(set)
    for city in cities().values():
        for text in (*city.sights, *city.food, *city.work, *city.festivals, *city.famous):
            for word in words_of(text):
                owners[word].add(city.name)
    return {
        word: frozenset(names)
        for word, names in owners.items()
        if len(word) > 4 and len(names) <= _COMMON and word not in _NOISE
    }


_NOISE_WORDS: Final = (
    "large giant great world their little three eight local house people where called having being "
    "built after "
    "under above below which other place short small first river about state south north early years "
    "start kind "
    "region through within several country major western eastern system nearby hours center centre "
    "hundred floor "
    "mayor named capital across between street special season around sound white black green international"
)
_NOISE: Final = frozenset(_NOISE_WORDS.split())


def is_weather(city: City, question: Question) -> bool | None:
    """What the weather is like."""
    words = WEATHER[city.weather].words
    asked = [kind for kind, forms in _WEATHER_WORDS.items() if question.has(*forms)]
    if not asked:
        return None
    if question.has("winter") and "cold" in asked:
        asked = ["cold"]
    elif question.has("summer") and "hot" in asked:
        asked = ["hot"]
    held = [kind in words or _ALSO.get(kind) in words for kind in asked]
    return any(held) if question.has("or") else all(held)


def is_unknown_name(city: City, question: Question) -> bool | None:
    """A guess with a name that no table holds: not this city, whose names are all known."""
    del city
    guess = (
        len(question.words) <= 8
        and question.words[:1] == ("is",)
        and question.has("home", "it", "the answer")
    )
    return False if guess and question.unknown and not question.names("topic") else None
