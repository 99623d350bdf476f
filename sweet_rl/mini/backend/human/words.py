"""Words for matching a question to a fact: stems, numbers and quoted texts."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'(?!\w)|`([^`]*)`|“([^“”]*)”")
_ENDINGS = ("ations", "ation", "ingly", "ings", "ing", "ies", "edly", "ed", "es", "ly", "s", "e", "y")

_STOP_WORDS = """
a about above across actually after again agent all also always am an and any anything are as ask at
based be because been before being below between both but by calculate calculated calculation can case
cases clarify code come could consider considered correct describe details did do does done each either
else exactly example explain expect expected first for from function functions further get give given go
going good had handle handled handles happen happens has have having he help here hi how i if in include
information into is it its just kind know let like look make many may me mean might more most much must
my need needed needs no not now of ok on one only or other otherwise our out over particular please
provide python questions question quick really right same say see share should so some something
specific specify sure take taken takes tell than thank thanks that the their them then there these they
thing things this those to too two under understand up us use used user uses using value values want was
way we well were what when where whether which while who why will with within without word would write
yes you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that carry no meaning here: any question about any function may have them."""


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The word without its ending, so that "rounded", "rounding" and "round" meet."""
    word = word.lower()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def stems(text: str) -> frozenset[str]:
    """Stems of the words of a text that carry meaning; identifiers are taken apart."""
    words = _WORD.findall(_CAMEL.sub(" ", text.replace("_", " ")))
    return frozenset(stem(word) for word in words if word.lower() not in STOP_WORDS)


def numbers_in(text: str) -> frozenset[float]:
    """The numbers of a text; digits inside words do not count."""
    return frozenset(float(number) for number in _NUMBER.findall(text))


def quotes_in(text: str) -> frozenset[str]:
    """What a text quotes, in any kind of quotation marks."""
    return frozenset("".join(groups) for groups in _QUOTED.findall(text))
