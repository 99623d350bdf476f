"""Topics of pages: lines of business and their products, names of people, generic sentences.

The words themselves are in `words.json`. `prices` of a topic are the lowest and the highest, in whole units
of money; `purposes` are those of each kind of page, by its name; `only_for` names the topics of kinds that
do not suit them all.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def words() -> dict[str, Any]:
    """The packaged words, read once."""
    found: dict[str, Any] = json.loads((resources.files(__package__) / "words.json").read_text("utf-8"))
    return found


def topics_for(kind: str) -> list[dict[str, Any]]:
    """What a page of this kind can be about."""
    suited = words()["only_for"].get(kind)
    return [topic for topic in words()["topics"] if suited is None or topic["about"] in suited]
