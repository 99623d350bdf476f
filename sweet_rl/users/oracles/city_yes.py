"""Yes-or-no questions about what a city is like: people, country, weather, sights, what it is known for.

Every function takes the hidden city and the question and returns True, False, or None where it does not know.
"""

from __future__ import annotations

from typing import Final

from sweet_rl.users.oracles.city_table import WEATHER, City, countries, topics
from sweet_rl.users.oracles.city_words import Question, words_of

_LANGUAGES: Final = frozenset(
    {language for land in countries().values() for language in land.languages}
    | set(
        "Italian Dutch Swahili Hebrew Greek Polish Swedish Vietnamese Malay Kurdish Javanese Sundanese Tamil Telugu".split()
    )
    | set(
        "Kannada Marathi Gujarati Punjabi Sindhi Cantonese Catalan Nepali Khmer Tagalog Norwegian Thai Hokkien".split()
    )
    | set(
        "Cantonese Serbian Bulgarian Czech Finnish Danish Kazakh Mongolian Pashto Azerbaijani Slavic Betawi Batak".split()
    )
)
_FAMILIES: Final = {
    "romance language": ("Spanish", "Portuguese", "French", "Italian", "Romanian"),
    "slavic language": ("Russian", "Ukrainian"),
    "germanic language": ("English", "German"),
}
_FAITHS: Final = {
    "christian": "Christianity",
    "christianity": "Christianity",
    "catholic": "Catholicism",
    "catholicism": "Catholicism",
    "orthodox": "Orthodoxy",
    "muslim": "Islam",
    "islam": "Islam",
    "islamic": "Islam",
    "hindu": "Hinduism",
    "hinduism": "Hinduism",
    "buddhist": "Buddhism",
    "buddhism": "Buddhism",
    "shinto": "Shinto",
    "taoism": "Taoism",
    "taoist": "Taoism",
    "jewish": "Judaism",
    "judaism": "Judaism",
    "sikh": "Sikhism",
    "confucianism": "Confucianism",
}
_FAITH_WORDS: Final = (
    "religion",
    "predominantly",
    "majority",
    "mostly",
    "people",
    "population",
    "practice",
    "religiou",
    "country",
    "believe",
    "faith",
    "mainly",
)
_WEATHER_WORDS: Final = {
    "hot": ("hot", "heat"),
    "cold": ("cold", "freezing", "harsh winter", "cold winter"),
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
    "seasons": ("four season", "four distinct season", "distinct season", "season"),
    "continental": ("continental",),
    "subtropical": ("subtropical",),
    "warm": ("warm",),
    "sunny": ("sunny", "sunshine"),
    "cool": ("cool",),
    "equatorial": ("equatorial",),
}
_IMPLIED: Final = {"warm": "hot", "rainy": "monsoon", "subtropical": "subtropical", "sunny": "desert"}
_CULTURES: Final = ("cuisine", "food", "culture", "music", "festival", "tradition")


def either_or(city: City, question: Question) -> str | None:
    """ "On the coast or inland?", "North or south?": the half that holds."""
    if not question.has("or") or question.has("or not"):
        return None
    if question.has("inland", "landlocked") and question.has(
        "coast", "coastal", "coastline", "sea", "access", "near the coast"
    ):
        scope = city.land.coasts if question.has("country") else city.coast
        return "It is on the coast." if scope else "It is inland."
    if question.has(
        "northern hemisphere", "northern or southern", "northern or the southern"
    ) and question.has("hemisphere"):
        return f"It is in the {'northern' if city.at[0] > 0 else 'southern'} hemisphere."
    return None


def is_about_people(city: City, question: Question) -> bool | None:
    """Languages and religions."""
    if question.has("language", "speak", "spoken", "speaking", "mother tongue"):
        spoken = {word for language in city.languages for word in words_of(language)}
        for family, members in _FAMILIES.items():
            if question.has(family):
                return any(member in city.languages for member in members)
        named = {word for language in _LANGUAGES for word in words_of(language)} & set(question.words)
        if named:
            return bool(named & spoken)
    named = {faith for word, faith in _FAITHS.items() if question.has(word)}
    if named and question.has(*_FAITH_WORDS) and not question.names("topic_of_sights"):
        if question.has("temple", "mosque", "church", "architecture", "landmark", "known for", "famous for"):
            return None
        return bool(named & set(city.land.religions))
    return None


def is_about_country(city: City, question: Question) -> bool | None:
    """What can be asked of the country: government, hosting, driving, riches, neighbours, currency, flag."""
    land = city.land
    if question.has("monarchy", "king", "queen", "emperor", "royal family", "kingdom") and not question.has(
        "queen of sheba"
    ):
        if question.names("topic") and question.has("known for", "famous for", "palace"):
            return None
        return land.government == "monarchy"
    if question.has("republic", "democracy") and not question.names("place"):
        return land.government == "republic"
    if question.has("communist", "communism", "socialist"):
        return land.government == "communist state"
    if question.has("world cup") and not question.has("cricket"):
        return "World Cup" in land.hosted
    if question.has("country", "nation"):
        if question.has("olympic"):
            return "Olympics" in land.hosted
        if question.has("developed", "rich", "wealthy", "first world"):
            return land.rich
        if question.has("developing", "poor", "third world"):
            return not land.rich
        if question.has("european union", "eu"):
            return "European Union" in land.within
    if question.has("left side", "drive on the left", "on the left"):
        return land.drive == "left"
    if question.has("right side", "drive on the right", "on the right"):
        return land.drive == "right"
    if question.has("currency", "pay with", "money", "use the euro", "euro"):
        own = set(words_of(land.currency))
        named = {word for other in countries().values() for word in words_of(other.currency)} & set(
            question.words
        )
        return bool(named & own) if named else None
    if question.has("flag"):
        colours = {word for other in countries().values() for word in other.flag} & set(question.words)
        return colours <= set(land.flag) if colours else None
    return None


def is_sight(city: City, question: Question) -> bool | None:
    """Whether a sight that is named by its own name is here."""
    owners = question.names("sight")
    return city.key in owners if owners else None


def is_known_for(city: City, question: Question) -> bool | None:
    """The telling topics of the question, if there are any: "or" and "and" both mean any of them."""
    telling = [topics()[name] for name in question.names("topic") if not topics()[name].general]
    if not telling or _is_location(question):
        return None
    places = [place for place in question.names("place") if place not in city.places]
    if places and question.has("known for", "famous for"):
        return False
    return any(city.name in topic.cities for topic in telling)


def _is_location(question: Question) -> bool:
    return question.has(
        "located",
        "situated",
        "landlocked",
        "coastal city",
        "on the coast",
        "near the coast",
        "climate",
        "weather",
    ) and not question.has("known for", "famous for", "known a")


def is_general(city: City, question: Question) -> bool | None:
    """Topics that nearly every big city has, and dishes or works of its own that the question names."""
    own = {
        word for text in (*city.food, *city.work, *city.famous) for word in words_of(text) if len(word) > 4
    }
    general = [topics()[name] for name in question.names("topic")]
    if not general:
        return True if own & set(question.words) else None
    if _is_location(question):
        return None
    return any(city.name in topic.cities for topic in general)


def is_weather(city: City, question: Question) -> bool | None:
    """What the weather is like."""
    words = WEATHER[city.weather].words
    asked = [kind for kind, forms in _WEATHER_WORDS.items() if question.has(*forms)]
    if question.has("known for", "famous for") or not asked:
        return None
    if "cold" in asked and question.has("winter") or "hot" in asked and question.has("summer"):
        asked = ["cold"] if question.has("winter") else ["hot"]
    held = [kind in words or _IMPLIED.get(kind) in words for kind in asked]
    return any(held) if question.has("or") else all(held)


def unknown_name(city: City, question: Question) -> bool | None:
    """ "Is it X?" with a name that no table holds: not this city, whose names are all known."""
    del city
    short = len(question.words) <= 8 and question.words[:1] == ("is",)
    if short and question.proper and question.has("home", "it", "the answer") and not question.names("topic"):
        return False
    return None
