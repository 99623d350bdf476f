"""The rules of `questions.toml`: which question each one fits, and its answer for a city."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Final

from sweet_rl.worlds.guess_my_city.oracle.table import City, cities, phrases, read, topics
from sweet_rl.worlds.guess_my_city.oracle.words import Question, plain, words_of

Answer = str | bool | None
"""A sentence, yes or no, or None where a rule does not know."""

FUNCTIONS: Final[dict[str, Callable[[City, Question], Answer]]] = {}
"""What rules name in `by`: functions of the hidden city and the question."""

_FIELD: Final = re.compile(r"\{([^:}]+)(?::(\d))?\}")


@dataclass(frozen=True)
class Rule:
    """One rule; its fields are those that the head of `questions.toml` explains."""

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
        """Whether it is made for this question."""
        return (
            (not self.ask or question.has(self.ask))
            and (not self.also or question.has(self.also))
            and not (self.but and question.has(self.but))
            and (not self.named or any(map(question.names, self.named)))
            and not any(map(question.names, self.unnamed))
            and (not self.like or bool(re.search(self.like, question.text)))
            and not (self.unlike and re.search(self.unlike, question.text))
            and len(question.words) <= self.words
        )

    def answer(self, city: City, question: Question) -> Answer:
        """The answer to a question about a city; None where none is known."""
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
    """Names as people list them: "a, b and c"."""
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
    return {name: [_rule(**row) for row in rows] for name, rows in read("questions")["rules"].items()}


def _rule(named: str = "", unnamed: str = "", say: Any = (), **fields: Any) -> Rule:
    sentences = [say] if isinstance(say, str) else say
    pairs = [("", one) if isinstance(one, str) else (one[0], one[1]) for one in sentences]
    return Rule(phrases(named), phrases(unnamed), say=pairs, **fields)
