"""Scripted customers of a shop, who know what they have seen: `random` is the floor, `careful` near the ceiling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ScriptedPolicy
from sweet_rl.types import Message, Observation, derive_seed
from sweet_rl.worlds.webshop.pages import shop_instruction

STRATEGIES: Final = ("random", "buyer", "careful")

_STOP_WORDS: Final = frozenset(
    """
        a am an and buy dollars find for i in is like looking lower m me need of please price than the to with
        would
    """.split()
)
_LOOK: Final = 2  # Turns that it takes to read a product's features and come back, or to open another product
_CLICKABLE: Final = re.compile(r"\[\[?([^\[\]\n]+)\]\]?")
_LISTED: Final = re.compile(r"\n\[([^\[\]\n]+)\] \n([^\n]*) \n\$([0-9]+(?:\.[0-9]+)?)")
_ROW_OF_OPTIONS: Final = re.compile(r"\n[^\[\]\n]+ ((?:\[\[?[^\[\]\n]+\]\]?)+)")
_WORD: Final = re.compile(r"(?<![\w.])\.*+\w++(?:\.++\w++)*+")
_PRICE: Final = re.compile(r"lower than ([0-9]+(?:\.[0-9]+)?)")


class ShopperPolicy(ScriptedPolicy):
    """A customer: `random` clicks anything, `buyer` buys the first product, `careful` compares up to three."""

    def __init__(self, strategy: str = "careful", *, max_turns: int = 10, system_prompt: str = "") -> None:
        super().__init__(system_prompt)
        if strategy not in STRATEGIES:
            raise UsageError(f"A shopper's strategy is one of {', '.join(STRATEGIES)}, got {strategy!r}.")
        self.name = f"{strategy} shopper"
        self._strategy = strategy
        self._max_turns = max_turns

    def _say(self, observation: Observation) -> str:
        seen = _look_back(observation.messages)
        searching = "[Search]" in seen.page
        if self._strategy == "random":
            rng = Random(derive_seed(observation.seed, observation.turn))
            if searching:
                return f"search[{rng.choice(_keywords(seen.instruction) or ['gift'])}]"
            labels = _CLICKABLE.findall(seen.page)
            return f"click[{rng.choice(labels)}]" if labels else "think[Where am I?]"
        if searching:
            return f"search[{' '.join(_keywords(seen.instruction)) or 'gift'}]"
        if self._strategy == "careful":
            return _compare(seen, self._max_turns - observation.turn)
        if "[Buy Now]" in seen.page:
            return "click[Buy Now]"
        return f"click[{seen.listed[0].asin}]" if seen.listed else "click[Back to Search]"


class _Listed(NamedTuple):
    asin: str
    title: str
    price: float


class _Seen(NamedTuple):
    """What a customer remembers: the product of the last `page`, what was `read` of each, the options `chosen`."""

    instruction: str
    page: str
    listed: Sequence[_Listed]
    asin: str
    read: Mapping[str, str]
    chosen: set[str]


def _look_back(messages: Sequence[Message]) -> _Seen:
    start = messages[0].content if messages else ""
    page, asin = start, ""
    listed: list[_Listed] = []
    read: dict[str, str] = {}
    chosen: set[str] = set()
    for action, answer in zip(messages[1::2], messages[2::2], strict=False):
        text, clicked = answer.content, action.content.removeprefix("click[").removesuffix("]")
        if text == f"You have clicked {clicked}.":
            chosen.add(clicked)
        if not text.startswith("\n"):  # the page is still the same
            continue
        page = text
        if "\nPage " in text or "[Search]" in text:
            listed = [_Listed(name, title, float(price)) for name, title, price in _LISTED.findall(text)]
            asin, chosen = "", set()
        elif clicked in {item.asin for item in listed}:
            asin = clicked
            read[asin] = text
        elif asin:
            read[asin] += text
    return _Seen((shop_instruction(start) or "").strip(), page, listed, asin, read, chosen)


def _compare(seen: _Seen, turns_left: int) -> str:
    """Read on, or look at another product, while something is missing and turns are left to buy then."""
    if not seen.listed:
        return "click[Back to Search]"

    def lacks(item: _Listed) -> float:
        """What was not opened may still have half of what its title does not mention."""
        missing = _missing(seen, item)
        return missing if item.asin in seen.read else missing / 2

    best = min(seen.listed, key=lacks)
    if "[Buy Now]" not in seen.page:
        return "click[< Prev]" if seen.asin else f"click[{best.asin}]"
    open_options = [value for value in _options(seen) if value not in seen.chosen]
    spare = turns_left - len(open_options) - 1
    here = next((item for item in seen.listed if item.asin == seen.asin), None)
    if here is not None and _missing(seen, here) and spare >= _LOOK and not seen.chosen:
        if "[Features]" in seen.page and seen.read[here.asin].count("[Back to Search]") == 1:
            return "click[Features]"
        if best != here:
            return "click[< Prev]"
    return f"click[{open_options[0]}]" if open_options else "click[Buy Now]"


def _missing(seen: _Seen, item: _Listed) -> int:
    """How much the instruction asks for, between commas and ands, that nothing known of a product says."""
    known = set(_WORD.findall(f"{item.title} {seen.read.get(item.asin, '')}".lower()))
    wishes = re.split(r", | and ", _PRICE.sub("", seen.instruction))
    limit = _PRICE.search(seen.instruction)
    too_dear = limit is not None and item.price > float(limit[1])
    return sum(not known.issuperset(_keywords(wish)) for wish in wishes) + too_dear


def _options(seen: _Seen) -> list[str]:
    """Of each row of options, the longest value that the instruction names."""
    wish = seen.instruction.lower()
    named: list[str] = []
    for row in _ROW_OF_OPTIONS.findall(seen.page):
        fitting = [
            value
            for value in _CLICKABLE.findall(row)
            if re.search(rf"(?<![\w-]){re.escape(value.lower())}(?![\w-]|\.\w)", wish)
        ]
        if fitting:
            named.append(max(fitting, key=len))
    return named


def _keywords(instruction: str) -> list[str]:
    """The words that say what is wanted, the price left out, each once."""
    words = _WORD.findall(_PRICE.sub("", instruction.lower()))
    return [word for word in dict.fromkeys(words) if word not in _STOP_WORDS]
