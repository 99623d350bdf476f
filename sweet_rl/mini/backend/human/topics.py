"""The topics of facts and questions, and the words by which each is recognised.

Phrases are written plainly: commas between them, `*` for any ending ("round*" is also "rounded").
"""

from __future__ import annotations

import re
from enum import StrEnum


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


SHAPES = frozenset({Topic.INPUT, Topic.OUTPUT})
"""What goes in and what comes out, as opposed to what happens in between."""

POINTED = frozenset(
    {Topic.DEFAULT, Topic.EMPTY, Topic.ERROR, Topic.OTHERWISE, Topic.ROUND, Topic.CASE, Topic.ORDER}
)
"""Topics that a question is about even when it names other things as well: "is the total rounded?"."""

VAGUE = frozenset({Topic.FORMULA, Topic.RESULT})
"""Topics that anybody may ask about anything: "how do I cook pasta?"."""


def phrases(listed: str) -> re.Pattern[str]:
    """A pattern for any of the phrases of a comma-separated list."""
    escaped = (re.escape(phrase.strip()) for phrase in listed.split(","))
    either = "|".join(phrase.replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for phrase in escaped)
    return re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)


SIGNS: dict[Topic, re.Pattern[str]] = {
    Topic.RESULT: phrases("the result is"),
    Topic.THRESHOLD: phrases("more than, less than, at least, at most, multiple of"),
    Topic.MINIMUM: re.compile(r", but at least\b"),
    Topic.MAXIMUM: re.compile(r", but at most\b|\bthe first \d+ (?:items|characters)\b"),
    Topic.MORE: phrases("go up, goes up, plus, multiplied, at the end of"),
    Topic.LESS: phrases("go down, goes down, minus, multiplied by 0*"),
    Topic.FORMULA: phrases(
        "plus, minus, times, divided, squared, to the power, go up, goes up, go down, goes down, "
        "multiplied, total, average, remainder, followed, joined, replaced, rounded, starts at"
    ),
    Topic.LABEL: re.compile(r"\bresult is [\"']|\"[^\"]*\" (?:if|otherwise|for)\b|I know the value"),
    Topic.EMPTY: phrases("empty, there is no, if there is none, None"),
    Topic.ERROR: phrases("raises, goes wrong, invalid*, error*, less than 0, at least 0"),
    Topic.OTHERWISE: phrases(
        "otherwise, in all other cases, is not, are not, has no, does not, if there is none"
    ),
    Topic.ROUND: phrases("rounded, whole number, decimal, decimals"),
    Topic.CASE: phrases("in lower case, in capitals, capital first, capitalised"),
    Topic.ORDER: phrases("sorted, reverse, highest first, lowest first"),
}
"""How a sentence about the function shows what it is about."""

TRIGGERS: dict[Topic, re.Pattern[str]] = {
    topic: phrases(listed)
    for topic, listed in {
        Topic.DEFAULT: (
            "default*, optional*, omit*, not provided, not given, not specified, not passed, left "
            "out, leave out"
        ),
        Topic.THRESHOLD: (
            "threshold*, limit*, cutoff*, cut-off*, boundar*, minimum, maximum, min, max, range, "
            "ranges, tier*, bracket*, criteri*, condition, conditions, exceed*, above, below, "
            "inclusive, at least, at most, cap, caps, capped, how long, how high, how low, how "
            "far, how big, how old, rule, rules, count as, considered, qualif*"
        ),
        Topic.MINIMUM: "minimum, min, smallest, lowest, at least, never less, never below, floor",
        Topic.MAXIMUM: (
            "maximum, max, cap, caps, capped, upper limit, largest, at most, truncat*, cut off, ceiling"
        ),
        Topic.MORE: (
            "bonus*, extra, increas*, add, added, adds, additional, surcharge*, gain*, reward*, append*"
        ),
        Topic.LESS: "discount*, subtract*, deduct*, penal*, reduc*, lose, decreas*, cheaper",
        Topic.FORMULA: (
            "formula*, calculat*, comput*, determin*, weight*, factor*, multipl*, rate, rates, "
            "percent*, combin*, derive*, how many, how much, how is, how are, how do, how does, "
            "how should, how would, how exactly, scor*, subtract*, divid*, adjust*, equation*, "
            "step, steps, logic, algorithm*"
        ),
        Topic.OUTPUT: "return*, output*, format*, type, give back, structure*, result look",
        Topic.RESULT: "return*, result, output*, outcome*",
        Topic.LABEL: (
            "label*, categor*, possible, option, options, message*, wording, string, strings, "
            "name, names, values, status*, level, levels, grade, grades, class*"
        ),
        Topic.INPUT: (
            "input*, param*, argument*, structure*, format*, type, key, keys, field, fields, "
            "column*, contain*, represent*, dictionar*, attribute*"
        ),
        Topic.EMPTY: (
            "empty, missing, none, null, blank, no items, no data, no values, no elements, no "
            "input, not found"
        ),
        Topic.ERROR: (
            "error*, exception*, invalid*, raise*, negative*, validat*, edge case, edge cases, fail, zero"
        ),
        Topic.OTHERWISE: (
            "otherwise, else, other cases, other values, other categories, other types, any "
            "other, default*, unknown, fallback, not match, doesn't match, rest, remaining, not "
            "in, unrecogni*, none of, not found"
        ),
        Topic.ROUND: "round*, decimal*, precision, integer*, whole number, float*",
        Topic.CASE: (
            "case sensitiv*, case-sensitiv*, case insensitiv*, case-insensitiv*, uppercase, upper "
            "case, upper-case, lowercase, lower case, lower-case, capitali*, capital letter*, "
            "letter case"
        ),
        Topic.ORDER: (
            "sort, sorts, sorted, sorting, ordering, order of, ascending, descending, "
            "alphabetical*, what order, which order, any order, specific order, particular order, "
            "same order"
        ),
    }.items()
}
"""The words of a question that name a topic."""
