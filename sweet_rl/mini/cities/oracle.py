"""The oracle of Guess My City without a model: answers free questions about the hidden home town from a table.

Which question gets which answer is in `questions.toml`; what no table can say is a function here, named by a rule's
`by`. Published behaviour: docs/published/archer.md#guess-my-city.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from typing import Any, Final

from sweet_rl.errors import UsageError
from sweet_rl.mini.cities import table
from sweet_rl.mini.cities.table import City, Question, cities, phrases, plain, read, topics, words_of
from sweet_rl.types import UserContext, UserReply

CANNOT: Final = "I can't answer that question."

NOT_SURE: Final = "I am not sure."

NEAR_KM: Final = 150

_COMMON: Final = 6  # A word in the texts of more cities than this says nothing

_LARGE: Final = frozenset((*table.CONTINENTS, "Southeast Asia", "Latin America"))
_PLAIN_TOPICS: Final = frozenset(("traffic", "history", "ancient", "skyscrapers"))
_RANKS: Final = (("second", "2nd"), ("third", "3rd"), ("fourth", "4th"), ("fifth", "5th"))
_SCALES: Final = {"million": 1.0, "m": 1.0, "thousand": 1e-3, "k": 1e-3, "billion": 1e3}
_NUMBER: Final = re.compile(r"\b(an? (?=[mb]illion)|\d[\d,]*(?:\.\d+)?) ?(million|thousand|billion|m\b|k\b)?")
_NUMBER_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORD: Final = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})(?= million| billion)")
_LETTER: Final = re.compile(r"\b(start|begin|end)s? with (?:an? |the )?(?:letter )?[\"'(]*([a-z])\b")
_WAY: Final = r"(?:north|south)(?:ern(?:most)?)?[ -]?(?:east|west)?(?:ern)?|(?:east|west)(?:ern(?:most)?)?"
_PART: Final = re.compile(
    rf"\b({_WAY}|central|center|centre|middle|heart)"
    r"(?: (?:part|region|side|area|coast|coastal area|coastal region|coastline|shore|half|tip|section|end"
    r"|corner)s?\b(?: of)?|(?= <)| of(?= <))"
)
_SIDE_OF: Final = re.compile(r"\b(north|south|east|west) of (?!the|your|its)")

Answer = str | bool | None  # A sentence, yes or no, or None where a rule does not know

_FIELD: Final = re.compile(r"\{([^:}]+)(?::(\d))?\}")


@dataclass(frozen=True)
class Rule:
    named: Sequence[str] = ()
    unnamed: Sequence[str] = ()
    ask: str = ""
    also: str = ""
    but: str = ""
    like: str = ""
    unlike: str = ""
    words: int = 1_000
    say: Sequence[tuple[str, str]] = ()
    holds: str = ""
    terms: str = ""
    one_of: str = ""
    each_of: str = ""
    by: str = ""
    rules: str = ""

    def fits(self, question: Question) -> bool:
        return (
            all(question.has(needed) for needed in (self.ask, self.also) if needed)
            and not (self.but and question.has(self.but))
            and (not self.named or any(map(question.names, self.named)))
            and not any(map(question.names, self.unnamed))
            and (not self.like or bool(re.search(self.like, question.text)))
            and not (self.unlike and re.search(self.unlike, question.text))
            and len(question.words) <= self.words
        )

    def answer(self, city: City, question: Question) -> Answer:
        if self.rules:
            return answer(self.rules, city, question)
        if self.by:
            return FUNCTIONS[self.by](city, question)
        if self.holds:
            return holds(self.holds, city)
        if self.one_of or self.each_of:
            return self._among(city, question)
        fitting = (say(text, city) for condition, text in self.say if holds(condition, city))
        return next((text for text in fitting if text is not None), None)

    def _among(self, city: City, question: Question) -> bool | None:
        """Whether the terms that the question names are among the city's; None where it names none."""
        field = self.one_of or self.each_of
        own: Iterable[str] = value(field, city)
        if self.terms:
            forms = read("questions")["terms"].get(self.terms, {})
            named = {term for term, listing in forms.items() if question.has(listing)}
            named.update(question.names(self.terms))
        else:
            named = set(question.words) & _all_words(field)
            own = [word for term in own for word in words_of(term)]
        if not named:
            return None
        return named.issubset(own) if self.each_of else not named.isdisjoint(own)


def answer(rules: str, city: City, question: Question) -> Answer:
    """What the first rule of a list says that fits the question and knows."""
    for rule in _rules()[rules]:
        if rule.fits(question) and (found := rule.answer(city, question)) is not None:
            return found
    return None


def holds(condition: str, city: City) -> bool:
    """Whether a condition on the city's fields ("coast or near", "height < 200") is true; an empty one is."""
    return any(all(_holds(part, city) for part in parts.split(" and ")) for parts in condition.split(" or "))


def _holds(part: str, city: City) -> bool:
    if part.startswith("not "):
        return not _holds(part[4:], city)
    field, _, rest = part.partition(" ")
    comparison, _, other = rest.partition(" ")
    if comparison in {"<", ">="}:
        compare = operator.lt if comparison == "<" else operator.ge
        return bool(compare(value(field, city)[0], float(other)))
    if comparison == "=":
        return any(str(one) in other.split(" | ") for one in value(field, city))
    return part != "never" and (not part or any(value(part, city)))


def say(text: str, city: City) -> str | None:
    """A template with the city's fields filled in; None where one of them is empty."""
    for field, most in _FIELD.findall(text):
        names = [name for name in value(field, city) if str(name) and not names_it(city, str(name))]
        if not names:
            return None
        text = _FIELD.sub(lambda _: listed(names[: int(most or 3)]), text, count=1)  # noqa: B023 - called at once
    return text


def listed(names: Sequence[Any]) -> str:
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def value(field: str, city: City) -> Sequence[Any]:
    """A field of the city or its country ("land.flag"), or what of it has a part ("water has Lake")."""
    path, _, part = field.partition(" has ")
    head, _, topic = path.partition(".")
    if head == "topic":
        return [city.name in topics()[topic].cities]
    found: Any = reduce(getattr, path.split("."), city)
    names = list(found) if isinstance(found, tuple | frozenset) else [found]
    return [name for name in names if part in name] if part else names


def names_it(city: City, text: str) -> bool:
    """Whether a text spells one of the city's names, within other words too, spaces and accents aside."""
    letters = plain(text).replace(" ", "")
    return any(plain(name).replace(" ", "") in letters for name in city.names)


@cache
def _all_words(field: str) -> frozenset[str]:
    """The words of what the field holds for any city, and of the languages that are spoken in none."""
    names = {name for city in cities().values() for name in value(field, city)}
    others = phrases(read("words")[field]) if field == "languages" else ()
    return frozenset(word for name in (*names, *others) for word in words_of(name)) - {"new"}


@cache
def _rules() -> Mapping[str, Sequence[Rule]]:
    def rule(named: str = "", unnamed: str = "", say: Any = (), **fields: Any) -> Rule:
        sentences = [say] if isinstance(say, str) else say
        pairs = [("", one) if isinstance(one, str) else (one[0], one[1]) for one in sentences]
        return Rule(phrases(named), phrases(unnamed), say=pairs, **fields)

    return {name: [rule(**row) for row in rows] for name, rows in read("questions")["rules"].items()}


def capital_of_own_place(city: City, question: Question) -> Answer:
    """Its country's capital by the country's name; of places in which it does not lie nothing is known."""
    if any(question.has(f"capital of {land}") for land in (city.land.name, *city.land.also)):
        return answer("capital_of_country", city, question)
    places = question.names("place")
    return "" if places and not city.places.intersection(places) else None


def sight_of_kind(city: City, question: Question) -> Answer:
    """At most two sights of the kind that is asked for: "What temple is there?"."""
    for kind in phrases("$sight"):
        if question.has(kind):
            padded = f" {' '.join(words_of(kind))} "
            if found := [sight for sight in city.sights if padded in f" {' '.join(words_of(sight))} "]:
                sights = [sight for sight in found if not names_it(city, sight)][:2]
                return f"There is {listed(sights)}." if sights else CANNOT
    return None


def is_spelled(city: City, question: Question) -> bool | None:
    if found := _LETTER.search(question.text):
        letters = city.name.lower()
        return letters[-1 if found[1] == "end" else 0] == found[2]
    if (count := re.search(r"\b(\d+) letters\b", question.text)) is not None:
        return len(city.name.replace(" ", "")) == int(count[1])
    return None


def is_guessed(city: City, question: Question) -> bool | None:
    return city.key in question.names("city") or None


def is_near_capital(city: City, question: Question) -> bool | None:
    del question
    heads = [other for other in cities().values() if other.capital and other.land is city.land]
    if city.capital or not heads:
        return False if city.capital else None
    return city.distance_km(heads[0]) < NEAR_KM


def is_capital_of_its_country(city: City, question: Question) -> bool:
    named = (*question.names("city"), *question.names("elsewhere"))
    return city.land.capital in {name.partition(",")[0] for name in named}


def is_capital_of_named(city: City, question: Question) -> bool:
    """Whether it is the capital of a place that the question names, or of a province in it."""
    named = question.names("place")
    whole = (city.land.name, *city.land.also)
    if _LARGE.issuperset(named):
        return city.capital and any(place in city.places for place in named)
    narrow = [place for place in named if place not in whole]
    if narrow or not question.has("$of_province"):
        own = {*city.heads, *(whole if city.capital else ())}
        own |= {name.removesuffix(" province").removesuffix(" state") for name in own}
        return any(place in own for place in narrow or named)
    return bool(city.heads) and not question.unknown


def is_as_populous(city: City, question: Question) -> bool | None:
    text = _NUMBER_WORD.sub(lambda word: str(_NUMBER_WORDS.index(word[1]) + 1), question.text)
    number = _NUMBER.search(text)
    if not number:
        return None
    people = city.land.people if question.has("country") else city.people
    count = 1.0 if number[1][0] == "a" else float(number[1].replace(",", ""))
    count *= _SCALES.get(number[2] or "", 1e-6)
    if question.has("$less"):
        return people < count
    return people > count if question.has("$more") else None


def is_largest(city: City, question: Question) -> bool | None:
    if question.names("topic") and not question.has("largest city, biggest city, city in"):
        return None
    places = question.names("place")
    if (places and not city.places.issuperset(places)) or question.unknown:
        return False
    if question.has("one of"):
        return city.people >= 1 and city.rank <= 15
    rank = next((rank for rank, words in enumerate(_RANKS, 2) if question.has(", ".join(words))), 1)
    if question.has("$of_province, world") or set(places) - {city.land.name, *city.land.also}:
        sure = city.rank == rank == 1 and not question.has("world") and set(places) & set(city.within)
        return True if sure else None
    return city.rank == rank


def is_plain(city: City, question: Question) -> Answer:
    """Plain adjectives: "Is it big?", "Is it a small town?", "Is it old?"."""
    return None if set(question.names("topic")) - _PLAIN_TOPICS else answer("plain", city, question)


def is_known_for(city: City, question: Question) -> bool | None:
    """The telling topics of the question, if there are any: any of them will do, with "and" as with "or"."""
    telling = _telling(question.names("topic"))
    if any(not topic.cities for topic in telling) and not question.has("country, or"):
        return False
    if not telling or _is_location(question):
        return None
    if question.has("$known") and not city.places.issuperset(question.names("place")):
        return False
    known = any(_has_any(city, half) for half in question.topics_by_half)
    return None if not known and question.has("near, nearby, close to") else known


def is_general(city: City, question: Question) -> bool | None:
    if question.has("$ties") and (question.names("place") or question.names("adjective")):
        return None
    if _is_location(question) and not question.has("near, nearby, any"):
        return None
    return _has_any(city, question.names("topic"))


def _has_any(city: City, names: Sequence[str]) -> bool:
    known = _telling(names) or [topics()[name] for name in names]
    return any(city.name in topic.cities for topic in known)


def _telling(names: Sequence[str]) -> list[table.Topic]:
    return [topics()[name] for name in names if not topics()[name].general]


def _is_location(question: Question) -> bool:
    return question.has("$location") and not question.has("$known")


def has_own_word(city: City, question: Question) -> bool | None:
    """A rare word from the table's texts: "stepwell" is Ahmedabad's, so it is not another city's."""
    owners = [_own_words()[word] for word in question.rest if word in _own_words()]
    if not owners or _is_location(question):
        return None
    return any(city.name in names for names in owners)


@cache
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
        if len(word) > 4 and len(names) <= _COMMON and word not in table.listed_words("not_telling")
    }


def is_to_the_side(city: City, question: Question) -> bool | None:
    found, others = _SIDE_OF.search(question.text), _other_cities(city, question)
    if not found or not others:
        return None
    (north, east), (its_north, its_east) = city.at, others[0].at
    if found[1] in ("north", "south"):
        return north > its_north if found[1] == "north" else north < its_north
    return east > its_east if found[1] == "east" else east < its_east


def is_near_city(city: City, question: Question) -> bool | None:
    others = _other_cities(city, question)
    return any(city.distance_km(other) < NEAR_KM for other in others) if others else None


def _other_cities(city: City, question: Question) -> list[City]:
    return [cities()[key] for key in question.names("city") if key != city.key]


def is_at_border(city: City, question: Question) -> bool:
    """Near a border, or the border of a country that is named."""
    abroad = [place for place in question.names("place") if place not in city.places]
    near = city.border or (city.land.neighbours if question.has("country") else ())
    return any(place in near for place in abroad) if abroad else bool(city.border)


def is_where(city: City, question: Question) -> Answer:
    """All that the question says of the place: "on the eastern coast of China" is three things."""
    asks_part = bool(_PART.search(_marked(question))) or question.has("hemisphere")
    if asks_part and (part := _in_part(city, question)) is not True:
        return part
    known = [
        found
        for rules in ("place", "water", "height", "mountain")
        if (found := answer(rules, city, question)) is not None
    ]
    return all(known) if known else asks_part or None


def is_in_places(city: City, question: Question) -> bool | None:
    """Every place that is named, or with "or" any; the table knows nothing of the past."""
    inside = [place in city.places for place in question.names("place")]
    if question.has("was, once, former, formerly, used to") and not all(inside):
        return None
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


def _in_part(city: City, question: Question) -> bool | None:
    """Whether it lies in the asked part ("north-east") of the place that is named, or of its country."""
    if question.has("hemisphere"):
        asked = [way for way in ("northern", "southern", "eastern", "western") if question.has(way)]
        return any(way in city.hemispheres for way in asked) if asked else None
    found = _PART.search(_marked(question))
    places = question.names("place")
    if not found or not city.places.issuperset(places):
        return False if found else None
    positions = [city.positions[place] for place in places if place in city.positions]
    if places and not positions:
        return None
    return _directions(found[1]) <= _directions(positions[-1] if positions else city.part)


def _directions(text: str) -> frozenset[str]:
    words = set(re.findall(r"north|south|east|west", text))
    if re.search(r"cent|middle|heart", text):
        words.add("central")
    return frozenset(words)


def is_at_water(city: City, question: Question) -> bool:
    """Whether it, or where that is asked its country, lies on a water that is named."""
    ours = {*city.waters, *(city.near if question.has("$near") else ())}
    if question.has("$of_country"):
        ours |= set(city.land.coasts)
    return not {plain(water) for water in question.names("water")}.isdisjoint(map(plain, ours))


def is_at_mountain(city: City, question: Question) -> bool:
    return any(plain(name) in plain(own) for name in question.names("mountain") for own in city.mountains)


FUNCTIONS: Final[Mapping[str, Callable[[City, Question], Answer]]] = {  # What rules name in `by`
    name: one for name, one in globals().items() if name.startswith(("is_", "has_", "capital_", "sight_"))
}


class CityOracle:
    """Answers questions about `context.hidden_information`, "City, Country" as published; keeps no state."""

    name = "cities"

    async def reply(self, context: UserContext) -> UserReply:
        asked = context.messages[-1].content if context.messages else ""
        return UserReply(self.answer(context.hidden_information, asked))

    async def close(self) -> None:
        """Nothing to free."""

    def answer(self, city: str, question: str) -> str:
        return _answer(city_named(city), question)


def city_named(name: str) -> City:
    asked = plain(name).replace(", ", ",")
    alike = (city for key, city in cities().items() if plain(key).replace(", ", ",") == asked)
    found = cities().get(name) or next(alike, None)
    if found is None:
        raise UsageError(
            f"The city oracle knows the 91 cities of Guess My City, got {name!r}; give one of them as "
            "'City, Country', or another oracle for other cities."
        )
    return found


@lru_cache(maxsize=65536)
def _answer(city: City, text: str) -> str:
    question = table.read_question(text)
    if not question.words:
        return NOT_SURE
    reply = answer("open" if question.open else "either", city, question)
    if not reply:
        found = answer("yes", city, question) if question.about_any or not question.open else None
        reply = NOT_SURE if found is None else "Yes." if found is not question.negated else "No."
    return CANNOT if names_it(city, str(reply)) else str(reply)
