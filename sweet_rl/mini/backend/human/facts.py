"""A hidden function as facts, each one sentence that a person might say.

The function is parsed, never run, and what has no plain wording is left out.

Published behaviour: docs/published/sweet_rl.md#backend-programming.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sweet_rl.mini.backend.human import shapes
from sweet_rl.mini.backend.human.english import Speaker
from sweet_rl.mini.backend.human.nouns import sentence
from sweet_rl.mini.backend.human.scope import scope_of
from sweet_rl.mini.backend.human.statements import Reader, Statement
from sweet_rl.mini.backend.human.topics import SIGNS, Topic
from sweet_rl.mini.backend.human.words import numbers_in, quotes_in, stems

_MAX_SOURCE = 50_000
_MAX_NODES = 20_000
MAX_REPLY = 400
"""Characters of a reply; the published world cuts it there."""


_HEAD = re.compile(
    r"(?:^|, )(?:by default )?(the [^,\"]+?) (?:is|are|goes|go|starts|becomes?)\b(?! more| less| at )",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence, with the words that find it.

    `head` are the words for what it decides ("the fee" in "if …, the fee goes up"); `parts` are the sentences
    that this one sums up; `numbers` and `texts` are the constants it gives away.
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
    """The facts of a hidden function, in the order of its source; none if it is no Python."""
    try:
        statements = [pair for function in _functions(source) for pair in _say(function)]
    except RecursionError:
        return ()
    facts: dict[str, Fact] = {}
    for clause, topics in statements:
        text = sentence(clause.text)
        if len(text) <= MAX_REPLY and text not in facts:
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


def _say(function: ast.FunctionDef) -> Iterator[tuple[Statement, frozenset[Topic]]]:
    scope = scope_of(function)
    speaker = Speaker(scope)
    for default in shapes.defaults(function, speaker):
        yield Statement(default), frozenset({Topic.DEFAULT})
    for statement in Reader(speaker, function).read(function.body):
        yield statement, frozenset()
    for shape in shapes.inputs(function, scope):
        yield Statement(shape), frozenset({Topic.INPUT})
    if result := shapes.result(function, speaker):
        yield Statement(result), frozenset({Topic.OUTPUT})


def _fact(text: str, topics: frozenset[Topic], parts: tuple[str, ...]) -> Fact:
    signs = {topic for topic, sign in SIGNS.items() if sign.search(text)}
    heads = _HEAD.findall(text)
    conditional = text.startswith(("If ", "For "))
    head = stems(heads[-1 if conditional else 0]) if heads else frozenset()
    return Fact(text, topics | signs, stems(text), head, numbers_in(text), quotes_in(text), parts)
