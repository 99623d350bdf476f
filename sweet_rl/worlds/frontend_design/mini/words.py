"""What pages speak about: lines of business and their wares, names of people, sentences that fit everywhere.

The words themselves are in `words.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Topic:
    """One line of business. `prices` are the lowest and the highest, in whole units of money."""

    about: str
    names: tuple[str, ...]
    slogans: tuple[str, ...]
    offer: str
    wares: tuple[str, ...]
    facts: tuple[str, ...]
    titles: tuple[str, ...]
    prices: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Words:
    """Every wording.

    `purposes` are those of each kind of page, by its name; `only_for` names the topics of kinds that do not
    suit them all.
    """

    topics: tuple[Topic, ...]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    streets: tuple[str, ...]
    towns: tuple[str, ...]
    roles: tuple[str, ...]
    days: tuple[str, ...]
    months: tuple[str, ...]
    remarks: tuple[str, ...]
    praise: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]
    actions: tuple[str, ...]
    metrics: tuple[str, ...]
    states: tuple[str, ...]
    plans: tuple[str, ...]
    thoughts: tuple[str, ...]
    styles: tuple[str, ...]
    wishes: tuple[str, ...]
    purposes: Mapping[str, tuple[str, ...]]
    only_for: Mapping[str, tuple[str, ...]]

    def topics_for(self, kind: str) -> tuple[Topic, ...]:
        """What a page of this kind can be about."""
        suited = self.only_for.get(kind)
        return tuple(topic for topic in self.topics if suited is None or topic.about in suited)


@cache
def words() -> Words:
    """The packaged words, read once."""
    data = json.loads((resources.files(__package__) / "words.json").read_text(encoding="utf-8"))
    topics = tuple(Topic(**_fixed(topic)) for topic in data.pop("topics"))
    by_kind: dict[str, Any] = {name: _fixed(data.pop(name)) for name in ("purposes", "only_for")}
    questions = tuple(map(tuple, data.pop("questions")))
    return Words(topics=topics, questions=questions, **by_kind, **_fixed(data))


def _fixed(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
