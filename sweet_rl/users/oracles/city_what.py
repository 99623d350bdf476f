"""What a city answers to "What ...?" and "Tell me ...": one template sentence from the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sweet_rl.users.oracles.city_table import WEATHER, City, topics
from sweet_rl.users.oracles.city_words import Question, words_of


def listed(names: Sequence[str]) -> str:
    """Names as people list them: "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def weather(city: City) -> str:
    """What the weather is like."""
    return WEATHER[city.weather].says


def language(city: City) -> str:
    """What people speak."""
    return f"People speak {listed(city.languages[:3])}."


def population(city: City) -> str:
    """How many people live there, rounded."""
    if city.people < 1:
        return f"About {round(city.people * 1000 / 50) * 50} thousand people live here."
    number = (
        f"{city.people:.0f}" if city.people >= 10 or city.people == int(city.people) else f"{city.people:.1f}"
    )
    return f"About {number} million people live here."


def religion(city: City) -> str:
    """What most people believe."""
    if not city.land.religions:
        return "Religion plays almost no public part here."
    if city.name == "Addis Ababa":
        return "Most people are Orthodox Christians; there are many Muslims, too."
    return f"The main religion is {listed(city.land.religions[:1])}."


def cuisine(city: City) -> str:
    """What people eat."""
    return f"People like {listed(city.food[:3])}."


def sights(city: City) -> str:
    """What visitors come to see."""
    return f"Visitors see {listed(city.sights[:3])}."


def fame(city: City) -> str:
    """What it is famous for."""
    return f"It is famous for {listed(city.famous[:3])}."


def work(city: City) -> str:
    """What people live on."""
    return f"The main industries are {listed(city.work[:3])}."


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


def continent(city: City) -> str:
    """Which continent."""
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


_LARGE: Final = ("Europe", "Asia")


def province(city: City) -> str:
    """The province, state or region it lies in."""
    told = [name for name in city.within if city.name not in name and name not in _LARGE]
    return f"It is in {told[0]}." if told else place(city)


def rivers(city: City) -> str:
    """Its rivers."""
    found = [water for water in city.water if "River" in water]
    if not found:
        return "No large river runs through it."
    if city.name in found[0]:
        return "A river of the same name runs through it."
    return f"The {found[0].removesuffix(' delta')} runs through it."


def waters(city: City) -> str:
    """The sea, lake or river it lies on."""
    found = [water for water in (*city.coast, *city.water) if city.name not in water]
    if not found:
        return "There is no large body of water."
    return f"It lies on the {found[0]}."


def seas(city: City) -> str:
    """The sea it lies on."""
    told = [sea for sea in city.coast if city.name not in sea]
    return f"It lies on the {told[0]}." if told else "It does not lie on the sea."


def mountains(city: City) -> str:
    """The mountains around it."""
    if not city.mountains:
        return "There are no high mountains close by."
    return f"Close by there are {listed(city.mountains[:2])}."


def lakes(city: City) -> str:
    """Its lakes."""
    found = [water for water in city.water if "Lake" in water]
    return f"There is {listed(found)}." if found else "There is no well-known lake."


def transport(city: City) -> str:
    """How people get about."""
    if city.name in topics()["metro"].cities:
        return "People take the metro, buses, taxis and cars."
    return "People take buses, minibuses, motorcycles and cars."


def festivals(city: City) -> str:
    """What is celebrated."""
    if city.festivals:
        return f"People celebrate {listed(city.festivals)}."
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
    return f"People like {listed(city.land.sports[:2])}."


def dress(city: City) -> str:
    """What people wear on special days."""
    return f"The traditional dress is {city.land.dress}."


def music(city: City) -> str:
    """What people sing, play and dance."""
    return f"People love {city.land.music}."


def history(city: City) -> str:
    """How old it is."""
    return f"Its history goes back to {city.since}."


def money(city: City) -> str:
    """What people pay with."""
    return f"People pay with the {city.land.currency}."


def government(city: City) -> str:
    """How the country is governed."""
    return f"The country is a {city.land.government}."


def capital(city: City) -> str:
    """Whether it is a capital."""
    if city.capital:
        return "It is the capital of its country."
    if city.heads:
        return "It is not the capital of the country, but of its province."
    return "It is not a capital."


def flag(city: City) -> str:
    """The colours of the country's flag."""
    return f"The flag is {listed(city.land.flag)}."


def clock(city: City) -> str:
    """The country's time zone."""
    return f"Its time zone is {city.land.utc}."


def drive(city: City) -> str:
    """The side of the road."""
    return f"People drive on the {city.land.drive}."


def neighbours(city: City) -> str:
    """The countries around."""
    if not city.land.neighbours:
        return "The country has no neighbours by land."
    return f"The country borders {listed(city.land.neighbours[:3])}."


def height(city: City) -> str:
    """Metres above the sea."""
    return f"It lies about {city.height:.0f} metres above the sea."


def called(city: City) -> str:
    """Its name: the world's leak guard has to hide this one."""
    return f"My city is called {city.name}."


def nearby(city: City) -> str:
    """How far the sea is, for want of a better answer."""
    return place(city)


_ANSWERS: Final[Sequence[tuple[tuple[str, ...], Callable[[City], str]]]] = (
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
    (("elevation", "altitude", "above sea level", "how high"), height),
    (("nickname", "hint"), fame),
    (
        (
            "name of home",
            "what city",
            "which city",
            "home called",
            "home name",
            "what is home",
            "name of the city",
        ),
        called,
    ),
    (("border", "neighboring country", "neighbouring country", "neighbor", "neighbour"), neighbours),
    (("country", "nation"), country),
    (("continent",), continent),
    (("capital",), capital),
    (("province", "state", "region", "department", "district is home", "prefecture", "island"), province),
    (("transport", "transportation", "get around", "commute", "subway", "metro"), transport),
    (("industry", "economy", "economic", "economic activity", "business", "work", "product", "export"), work),
    (("festival", "celebration", "celebrate", "celebrated", "holiday", "event", "carnival"), festivals),
    (("sport", "team", "play"), sports),
    (("music", "dance", "song", "instrument"), music),
    (("clothing", "attire", "wear", "dress", "worn", "costume", "fashion", "garment"), dress),
    (("river",), rivers),
    (("lake",), lakes),
    (("mountain", "mountain range", "hill"), mountains),
    (("sea", "ocean", "coast"), seas),
    (("body of water", "bodies of water", "water"), waters),
    (("government", "political", "ruler", "king"), government),
    (("geographical location", "location", "located", "where", "geography", "part of the country"), place),
    (("known for", "famous for", "significance", "special", "nickname", "called", "unique", "proud"), fame),
    (
        (
            "landmark",
            "attraction",
            "tourist",
            "site",
            "sightseeing",
            "place to visit",
            "monument",
            "visit",
            "see",
        ),
        sights,
    ),
    (("history", "historical", "founded", "how old", "age", "ancient"), history),
    (("architecture", "architectural", "building", "famous", "cultural", "culture", "natural"), sights),
    (("like", "describe", "more about"), fame),
)
"""Words of a question, the more telling first, and what answers it."""

_KIND_WORDS: Final = (
    "temple|museum|bridge|market|palace|tower|mosque|park|square|cathedral|church|street|garden|castle|beach|"
    "statue|shrine|stadium|opera house|fort|wall|island|tomb|mausoleum|monastery|zoo|theatre|pagoda|"
    "gate|bazaar|"
    "hotel|library|fountain|monument|pyramid|volcano|mall|avenue|pier|promenade|harbour|pillar|ruin|"
    "cave|festival"
)
_KINDS: Final = tuple(" ".join(words_of(kind)) for kind in _KIND_WORDS.split("|"))


def what(city: City, question: Question) -> str | None:
    """The sentence that answers, or None where the table has nothing about it."""
    if question.has("name of home", "home called", "is home s name"):
        return called(city)
    kinds = [kind for kind in _KINDS if question.has(kind)]
    for kind in kinds:
        if found := [sight for sight in city.sights if f" {kind} " in f" {' '.join(words_of(sight))} "]:
            return f"There is {listed(found[:2])}."
    if kinds and not {"festival", "island"} & set(kinds) and not question.has(*_GENERAL):
        return None
    for words, answer in _ANSWERS:
        if question.has(*words):
            return answer(city)
    return None


_GENERAL: Final = (
    "landmark",
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
