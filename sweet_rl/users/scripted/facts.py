"""A hidden function as facts, each one sentence that a person might say.

The function is parsed, never run, and what cannot be said in plain words is left out.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from sweet_rl.users.scripted import shapes
from sweet_rl.users.scripted.english import Speaker
from sweet_rl.users.scripted.nouns import sentence
from sweet_rl.users.scripted.scope import scope_of
from sweet_rl.users.scripted.statements import Reader, Said
from sweet_rl.users.scripted.words import numbers_in, quotes_in, stems

_MAX_SOURCE = 50_000
_MAX_NODES = 20_000
_MAX_SENTENCE = 390
"""Characters: a reply is cut at 400 (spec §3.2)."""


class Topic(StrEnum):
    """What a fact is about, and what a question asks for."""

    DEFAULT = "default"
    INPUT = "input"
    OUTPUT = "output"
    RESULT = "result"
    THRESHOLD = "threshold"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    MORE = "more"
    LESS = "less"
    FORMULA = "formula"
    LABEL = "label"
    EMPTY = "empty"
    ERROR = "error"
    OTHERWISE = "otherwise"
    ROUND = "round"
    CASE = "case"
    ORDER = "order"


_TOPIC_SIGNS: dict[Topic, re.Pattern[str]] = {
    Topic.RESULT: re.compile(r"\bthe result is\b"),
    Topic.THRESHOLD: re.compile(r"\b(more than|less than|at least|at most|first \d+|last \d+|multiple of)\b"),
    Topic.MINIMUM: re.compile(r", but at least\b"),
    Topic.MAXIMUM: re.compile(r", but at most\b|\bthe first \d+ (items|characters)\b"),
    Topic.MORE: re.compile(r"\bgo(es)? up\b|\bplus\b|\bmultiplied\b|\bend of\b"),
    Topic.LESS: re.compile(r"\bgo(es)? down\b|\bminus\b|\bmultiplied by 0\b"),
    Topic.FORMULA: re.compile(
        r"\b(plus|minus|times|divided|squared|power|(goe?s?|go) (up|down)|multiplied|total|average|remainder"
        r"|followed|joined|replaced|rounded)\b|\bstarts at\b"
    ),
    Topic.LABEL: re.compile(r"\bresult is (\"|')|\"[^\"]*\" (if|otherwise|for)\b|I know the value"),
    Topic.EMPTY: re.compile(r"\bempty\b|\bthere is no\b|\bif there is none\b|\bNone\b"),
    Topic.ERROR: re.compile(r"\braises\b|\bgoes wrong\b|[Ii]nvalid|[Ee]rror|\b(less than|at least) 0\b"),
    Topic.OTHERWISE: re.compile(r"\botherwise\b|\bin all other cases\b", re.IGNORECASE),
    Topic.ROUND: re.compile(r"\brounded\b|\bwhole number\b|\bdecimals?\b"),
    Topic.CASE: re.compile(r"\bin lower case\b|\bin capitals\b|\bcapital first\b|\bcapitalised\b"),
    Topic.ORDER: re.compile(r"\bsorted\b|\breverse\b|\bhighest first\b|\blowest first\b"),
}
_HEAD = re.compile(
    r"(?:^|, )(?:by default )?(the [^,\"]+?) (?:is|are|goes|go|starts|becomes?)\b(?! more| less| at )",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence, and what is needed to find it.

    `head` are the words for what it decides ("the fee" in "if …, the fee goes up"); `parts` are the sentences that
    this one sums up; `numbers` and `texts` are the constants it gives away.
    """

    text: str
    topics: frozenset[Topic]
    words: frozenset[str]
    head: frozenset[str]
    numbers: frozenset[float]
    texts: frozenset[str]
    parts: tuple[str, ...] = ()

    @property
    def inclusive(self) -> bool | None:
        """Whether the edge of its threshold counts; None when it has none, or several of different kinds."""
        included = bool(re.search(r"\bat (least|most)\b", self.text))
        excluded = bool(re.search(r"\b(more|less) than\b", self.text))
        return None if included == excluded else included


@lru_cache(maxsize=1024)
def facts_of(source: str) -> tuple[Fact, ...]:
    """The facts of a hidden function, in the order of its source; none if it is no Python that can be parsed."""
    try:
        said = [pair for function in _functions(source) for pair in _say(function)]
    except RecursionError:
        return ()
    facts: dict[str, Fact] = {}
    for clause, topics in said:
        text = sentence(clause.text)
        if len(text) <= _MAX_SENTENCE and text not in facts:
            facts[text] = _fact(text, topics, tuple(sentence(part) for part in clause.parts))
    return tuple(facts.values())


def _functions(source: str) -> list[ast.FunctionDef]:
    if len(source) > _MAX_SOURCE:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's code
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        return []
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _say(function: ast.FunctionDef) -> Iterator[tuple[Said, frozenset[Topic]]]:
    scope = scope_of(function)
    speaker = Speaker(scope.kinds, scope.indexes)
    for default in shapes.defaults(function, speaker):
        yield Said(default), frozenset({Topic.DEFAULT})
    for said in Reader(speaker, function).read(function.body):
        yield said, frozenset()
    for shape in shapes.inputs(function, scope):
        yield Said(shape), frozenset({Topic.INPUT})
    if result := shapes.result(function, speaker):
        yield Said(result), frozenset({Topic.OUTPUT})


def _fact(text: str, topics: frozenset[Topic], parts: tuple[str, ...]) -> Fact:
    signs = {topic for topic, sign in _TOPIC_SIGNS.items() if sign.search(text)}
    heads = _HEAD.findall(text)
    conditional = text.startswith(("If ", "For "))
    head = stems(heads[-1 if conditional else 0]) if heads else frozenset()
    return Fact(text, topics | signs, stems(text), head, numbers_in(text), quotes_in(text), parts)
