"""The similarity of two short texts, as the published shop measures it: from 0 to 100."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=65_536)
def token_set_ratio(one: str, other: str) -> int:
    """The `token_set_ratio` of the packages thefuzz and RapidFuzz.

    Words are compared as sets, in lower case and without punctuation: those in common alone, and followed by
    those of either text. The best of the three ratios counts, so that a text whose words are all in the other
    one is worth 100.
    """
    words, others = (set(_words(text)) for text in (one, other))
    if not words or not others:
        return 0
    common = sorted(words & others)
    extended = [" ".join([*common, *sorted(rest)]) for rest in (words - others, others - words)]
    shared = " ".join(common)
    return max(ratio(shared, extended[0]), ratio(shared, extended[1]), ratio(*extended))


def ratio(one: str, other: str) -> int:
    """Twice the length of the longest common subsequence, in hundredths of both lengths."""
    if not one or not other:
        return 0
    row = [0] * (len(other) + 1)
    for letter in one:
        before = row
        row = [0]
        for place, theirs in enumerate(other):
            row.append(before[place] + 1 if letter == theirs else max(row[place], before[place + 1]))
    return round(200 * row[-1] / (len(one) + len(other)))


def _words(text: str) -> list[str]:
    return re.sub(r"[^\w]", " ", text.encode("ascii", "ignore").decode()).lower().split()
