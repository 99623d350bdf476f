"""Which fact answers which question, given what has been told already."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from sweet_rl.users.scripted.facts import Fact, Topic
from sweet_rl.users.scripted.questions import Intent, Question

_POINTED = frozenset(
    {Topic.DEFAULT, Topic.EMPTY, Topic.ERROR, Topic.OTHERWISE, Topic.ROUND, Topic.CASE, Topic.ORDER}
)
"""Topics that a question is about even when it names other things as well: "is the total rounded?"."""

_SHAPES = frozenset({Topic.INPUT, Topic.OUTPUT})
_FIXED_TOPICS = _POINTED | _SHAPES | {Topic.RESULT}
"""Topics that stay, whatever words the function has."""

_VAGUE_TOPICS = frozenset({Topic.FORMULA, Topic.RESULT})
"""Topics that anybody may ask about anything: "how do I cook pasta?"."""

_ABSENT = {
    Topic.ROUND: "No rounding is needed, as far as I know.",
    Topic.CASE: "I have no special wish about upper and lower case.",
    Topic.ORDER: "There is no sorting that I know of.",
    Topic.DEFAULT: "There is no default that I know of.",
    Topic.EMPTY: "I have no special rule for empty or missing input.",
    Topic.ERROR: "I have no special rule for bad input.",
}
_BEYOND = re.compile(
    r"\b(units?|currency|librar(?:y|ies)|packages?|python version|performance|complexity|time ?zones?|frameworks?"
    r"|databases?|docstrings?|efficien\w+|memory)\b",
    re.IGNORECASE,
)
"""What functions like these say nothing about."""

_CLOSE = 0.75
"""A fact not told yet is preferred to a better one already told from this share of its score on."""
_ALSO = 0.75
"""A second fact joins the answer from this share of the first one's score on."""
_TRIVIAL_NUMBERS = frozenset({0.0, 1.0})


class Answers:
    """What the human can say about one function, after what has been said.

    Args:
        facts: all facts of the function.
        said: the human's earlier replies, as one text.
        public: stems of the problem description: words that belong to the matter.
    """

    def __init__(self, facts: tuple[Fact, ...], said: str, public: frozenset[str]) -> None:
        self._facts, self._said, self._public = facts, said.casefold(), public

    def detail(self, question: Question) -> list[str]:
        """The sentences that answer a question, best first; empty when it cannot be answered."""
        if _is_beyond(question, self._vocabulary):
            return []
        pointed = question.topics & _POINTED
        limits = question.topics & {Topic.MINIMUM, Topic.MAXIMUM}
        pointed |= frozenset(limit for limit in limits if any(limit in fact.topics for fact in self._facts))
        ranked = self._rank(question, pointed)
        if not ranked:
            return [_ABSENT[topic] for topic in sorted(pointed) if topic in _ABSENT][:1]
        best_score, best = ranked[0]
        fresh = [fact for score, fact in ranked if score >= _CLOSE * best_score and not self._told(fact)]
        if not fresh:
            return [_lead(question, best, repeated=True)]
        also = [
            fact.text
            for score, fact in ranked
            if score >= _ALSO * best_score and fact in fresh[1:] and _adds_to(fresh[0], fact)
        ]
        return [_lead(question, fresh[0], repeated=False), *also[:1]]

    def more(self) -> str | None:
        """One fact not told yet, those with constants first; None when everything has been told."""
        untold = [fact for fact in self._facts if not fact.parts and not self._told(fact)]
        weighty = [
            fact for fact in untold if _constants(fact) and not fact.topics & {Topic.INPUT, Topic.OUTPUT}
        ]
        return next((fact.text for fact in (*weighty, *untold)), None)

    def missing(self, proposal: str, numbers: frozenset[float], texts: frozenset[str]) -> str | None:
        """The first fact not told whose constants a proposal does not mention; None when there is none."""
        for fact in self._facts:
            if fact.parts or fact.topics & _SHAPES or self._told(fact):
                continue
            absent = {number for number in fact.numbers - _TRIVIAL_NUMBERS if number not in numbers}
            unquoted = {
                text for text in fact.texts if text not in texts and text not in proposal and "[" not in text
            }
            if absent or unquoted:
                return _lower(fact.text)
        return None

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset().union(*(fact.words for fact in self._facts))

    @cached_property
    def _rarity(self) -> dict[str, float]:
        """Inverse document frequency of each word among the facts."""
        counts = Counter(word for fact in self._facts for word in fact.words)
        return {word: math.log(1 + len(self._facts) / count) for word, count in counts.items()}

    def _rank(self, question: Question, pointed: frozenset[Topic]) -> list[tuple[float, Fact]]:
        foreign = bool(question.subject) and not question.subject & (self._vocabulary | self._public)
        topics = self._topics(question) - (_VAGUE_TOPICS if foreign else frozenset())
        scored = []
        for fact in self._facts:
            if pointed and not fact.topics & pointed:
                continue
            score = self._score(question, fact, topics)
            if score > 0:
                scored.append((score, fact))
        return sorted(scored, key=lambda pair: -pair[0])

    def _topics(self, question: Question) -> frozenset[Topic]:
        """The topics, without those whose word is a word of the function: there "extra" means its `extra`."""
        return frozenset(
            topic
            for topic, words in question.triggers.items()
            if topic in _FIXED_TOPICS or not words or not words <= self._vocabulary
        )

    def _score(self, question: Question, fact: Fact, topics: frozenset[Topic]) -> float:
        words = sum(self._rarity[word] for word in question.words & fact.words)
        words += 0.5 * sum(self._rarity[word] for word in question.words & fact.head)
        constants = len(question.numbers & fact.numbers) + 1.5 * len(question.texts & fact.texts)
        score = words + constants + 0.8 * len(topics & fact.topics)
        if fact.topics & _SHAPES:
            score *= 0.7 if question.topics & _SHAPES else 0.5
        return score if _constants(fact) else 0.8 * score

    def _told(self, fact: Fact) -> bool:
        if fact.text.casefold() in self._said:
            return True
        if fact.parts and all(part.casefold() in self._said for part in fact.parts):
            return True
        return any(fact.text in other.parts and other.text.casefold() in self._said for other in self._facts)


def _is_beyond(question: Question, vocabulary: frozenset[str]) -> bool:
    return bool(_BEYOND.search(question.text)) and not question.subject & vocabulary


def _constants(fact: Fact) -> bool:
    return bool(fact.numbers or fact.texts)


def _adds_to(first: Fact, second: Fact) -> bool:
    """Whether a second fact says something new, and gives away a constant with it."""
    if second.text in first.parts or first.text in second.parts or not _constants(second):
        return False
    return not (second.numbers <= first.numbers and second.texts <= first.texts)


def _lead(question: Question, fact: Fact, *, repeated: bool) -> str:
    """The fact, after a "yes" or "no" where the question wants one and the fact decides it."""
    verdict = _verdict(question, fact) if question.polar else None
    if verdict is not None:
        return f"{'Yes' if verdict else 'No'}, {_lower(fact.text)}"
    return f"As I said, {_lower(fact.text)}" if repeated else fact.text


def _verdict(question: Question, fact: Fact) -> bool | None:
    if question.edge and not question.numbers:
        return fact.inclusive
    if question.numbers and fact.numbers:
        if question.numbers <= fact.numbers:
            return True
        return None if question.numbers & fact.numbers else False
    if question.texts and question.texts <= fact.texts:
        return True
    if Topic.ROUND in question.topics & fact.topics:
        return True
    return None


def _lower(text: str) -> str:
    first = text.split(" ", 1)[0]
    return text if len(first) == 1 or first.startswith(('"', "'")) else text[:1].lower() + text[1:]
