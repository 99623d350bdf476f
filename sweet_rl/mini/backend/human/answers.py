"""Which fact answers which question, given what has been answered already."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property

from sweet_rl.mini.backend.human.facts import MAX_REPLY, Fact
from sweet_rl.mini.backend.human.questions import Question
from sweet_rl.mini.backend.human.topics import POINTED, SHAPES, VAGUE, Topic, phrases
from sweet_rl.mini.backend.human.words import numbers_in

_FIXED = POINTED | SHAPES | {Topic.RESULT}
"""Topics that stay, whatever words the function has."""

_ABSENT = {
    Topic.ROUND: "No rounding is needed, as far as I know.",
    Topic.CASE: "I have no special wish about upper and lower case.",
    Topic.ORDER: "There is no sorting that I know of.",
    Topic.DEFAULT: "There is no default that I know of.",
    Topic.EMPTY: "I have no special rule for empty or missing input.",
    Topic.ERROR: "I have no special rule for bad input.",
}
_BEYOND = phrases(
    "unit, units, currency, library, libraries, package, packages, python version, performance, complexity, "
    "time zone, timezone, framework, database, docstring, efficien*, memory"
)
"""What functions like these say nothing about."""

_CLOSE = 0.75
"""From this share of the best score on, a new fact goes before one given already, and a second may join."""
_TRIVIAL_NUMBERS = frozenset({0.0, 1.0})


class Answers:
    """What the human can say about one function, after its earlier replies.

    Args:
        facts: all facts of the function.
        earlier: the human's earlier replies, as one text.
        public: stems of the problem description: words that belong to the matter.
    """

    def __init__(self, facts: tuple[Fact, ...], earlier: str, public: frozenset[str]) -> None:
        self._facts, self._earlier, self._public = facts, earlier.casefold(), public

    def detail(self, question: Question) -> list[str]:
        """The sentences that answer a question, best first; empty when it cannot be answered."""
        if _is_beyond(question, self._vocabulary):
            return []
        pointed = self._pointed(question)
        absent = [_ABSENT[topic] for topic in sorted(pointed) if topic in _ABSENT]
        ranked = self._rank(question, pointed)
        if not ranked and not absent:
            ranked = self._rank(question, frozenset())
        if not ranked:
            return absent[:1]
        best_score, best = ranked[0]
        shapes = question.topics & best.topics & SHAPES
        fresh = [
            fact
            for score, fact in ranked
            if score >= _CLOSE * best_score and shapes <= fact.topics and not self._told(fact)
        ]
        if not fresh:
            return [_after(_opening(question, best, repeated=True), best)]
        also = [fact.text for fact in fresh[1:] if _adds_to(fresh[0], fact)]
        return [_after(_opening(question, fresh[0], repeated=False), fresh[0]), *also[:1]]

    def more(self) -> str | None:
        """One new fact, those with constants first; None when all have been given."""
        untold = [fact for fact in self._facts if not fact.parts and not self._told(fact)]
        weighty = [fact for fact in untold if _gives_constants(fact) and not fact.topics & SHAPES]
        return next((fact.text for fact in (*weighty, *untold)), None)

    def objection(self, proposal: str) -> str | None:
        """What a proposal seems to have forgotten; None when it mentions every constant."""
        numbers = numbers_in(proposal) | _TRIVIAL_NUMBERS
        for fact in self._facts:
            if fact.parts or fact.topics & SHAPES:
                continue
            unsaid = [text for text in fact.texts if text not in proposal and "[" not in text]
            if unsaid or not fact.numbers <= numbers:
                return _after("I can't judge it all, but keep in mind: ", fact)
        return None

    def _pointed(self, question: Question) -> frozenset[Topic]:
        """The topics to which an answer must keep; a limit only if the function has such a limit."""
        limits = question.topics & {Topic.MINIMUM, Topic.MAXIMUM}
        known = frozenset(limit for limit in limits if any(limit in fact.topics for fact in self._facts))
        return question.topics & POINTED | known

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
        topics = self._topics(question) - (VAGUE if foreign else frozenset())
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
            if topic in _FIXED or not words or not words <= self._vocabulary
        )

    def _score(self, question: Question, fact: Fact, topics: frozenset[Topic]) -> float:
        # fsum: the order of a set must not decide between two facts.
        words = math.fsum(self._rarity[word] for word in question.words & fact.words)
        words += 0.5 * math.fsum(self._rarity[word] for word in question.words & fact.head)
        constants = len(question.numbers & fact.numbers) + 1.5 * len(question.texts & fact.texts)
        score = words + constants + 0.8 * len(topics & fact.topics)
        if fact.topics & SHAPES and Topic.LABEL not in topics & fact.topics:
            score *= 0.7 if question.topics & SHAPES else 0.5
        return score if _gives_constants(fact) else 0.8 * score

    def _told(self, fact: Fact) -> bool:
        if fact.text.casefold() in self._earlier:
            return True
        if fact.parts and all(part.casefold() in self._earlier for part in fact.parts):
            return True
        return any(
            fact.text in other.parts and other.text.casefold() in self._earlier for other in self._facts
        )


def _is_beyond(question: Question, vocabulary: frozenset[str]) -> bool:
    return bool(_BEYOND.search(question.text)) and not question.subject & vocabulary


def _gives_constants(fact: Fact) -> bool:
    return bool(fact.numbers or fact.texts)


def _adds_to(first: Fact, second: Fact) -> bool:
    """Whether a second fact says something new, and gives away a constant with it."""
    if second.text in first.parts or first.text in second.parts or not _gives_constants(second):
        return False
    return not (second.numbers <= first.numbers and second.texts <= first.texts)


def _opening(question: Question, fact: Fact, *, repeated: bool) -> str:
    """A yes or a no where the question wants one and the fact decides it."""
    verdict = _verdict(question, fact) if question.polar else None
    if verdict is not None:
        return "Yes, " if verdict else "No, "
    return "As I said, " if repeated else ""


def _after(opening: str, fact: Fact) -> str:
    """The fact after an opening, if there is room for one."""
    if not opening or len(opening) + len(fact.text) > MAX_REPLY:
        return fact.text
    first = fact.text.split(" ", 1)[0]
    is_name = len(first) == 1 or first.startswith(('"', "'"))
    return opening + (fact.text if is_name else fact.text[:1].lower() + fact.text[1:])


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
