"""Problems of the mini benchmark, and twelve families of small functions from which they are drawn."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

Arguments: TypeAlias = tuple[Any, ...]

_FAMILIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_LEVELS = ("bronze", "silver", "gold", "ruby", "guest", "regular", "friend", "star", "classic", "plus")
_NAMES = (
    "Amber", "Bell", "Cloud", "Dune", "Ember", "Field", "Grove", "Harbour", "Island", "Juniper",
    "Kite", "Lagoon",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """One drawn function; its hidden constants (`rules`) decide its split."""

    source: str
    request: str
    rules: Arguments
    inputs: tuple[Arguments, ...]

    @property
    def signature(self) -> str:
        return self.source.partition("\n")[0].removeprefix("def ").removesuffix(":")

    @property
    def calls(self) -> list[str]:
        name = self.signature.partition("(")[0]
        return [f"{name}({', '.join(map(repr, arguments))})" for arguments in self.inputs]


Family: TypeAlias = Callable[[Random], Problem]
"""Draws a problem. All its randomness comes from the generator it is given."""


def _half(rng: Random, low: int, high: int) -> int | float:
    value = rng.randint(2 * low, 2 * high) / 2
    return int(value) if value.is_integer() else value


def _kind(family: str, rng: Random) -> dict[str, Any]:
    kind: dict[str, Any] = rng.choice(_FAMILIES[family]["kinds"])
    return kind


def _problem(
    family: str, rng: Random, words: dict[str, Any], rules: dict[str, Any], inputs: Iterable[Any]
) -> Problem:
    """A problem with these words and rules; an input that is no tuple is the only argument."""
    source = _FAMILIES[family]["source"].format(**words | rules)
    request = rng.choice(_FAMILIES[family]["requests"]).format(**words)
    flat = [part for rule in rules.values() for part in (rule if isinstance(rule, list) else [rule])]
    calls = tuple(each if isinstance(each, tuple) else (each,) for each in inputs)
    return Problem(source, request, tuple(flat), calls)


def parcel(rng: Random) -> Problem:
    """A base price for the zone, extra for each unit above a free weight, and a cap."""
    kind = _kind("parcel", rng)
    first, second = rng.sample(kind["zones"], 2)
    prices = rng.sample(range(3, 16), 3)
    free, rate = rng.randint(3, 14), _half(rng, 1, 6)
    cap = max(prices) + rng.randint(10, 30)
    other = rng.choice([name for name in kind["zones"] if name not in (first, second)])
    inputs = (
        (free, first), (free + 1, first), (free + 2, second), (free - 0.5, second), (1, other),
        (free + 3, other), (free + rng.randint(40, 60), first), (free + 4, first), (2, second),
        (free + 1, other),
    )  # fmt: skip
    rules = {"first": first, "second": second, "prices": prices, "free": free, "rate": rate, "cap": cap}
    return _problem("parcel", rng, kind, rules, inputs)


def grade(rng: Random) -> Problem:
    """A bonus, a penalty for each fault, and four grades."""
    kind = _kind("grade", rng)
    labels = [kind["words"][index] for index in sorted(rng.sample(range(len(kind["words"])), 4))]
    bonus, cost = rng.randint(1, 9), rng.randint(2, 7)
    low = rng.randint(35, 50)
    middle = low + rng.randint(9, 18)
    top = middle + rng.randint(9, 18)
    inputs = (
        (top - bonus, 0), (top - bonus - 1, 0), (middle - bonus, 0), (middle - bonus - 1, 0),
        (low - bonus, 0), (low - bonus - 1, 0), (top - bonus + cost, 1), (top - bonus + 2 * cost - 1, 2),
        (low - bonus + 3 * cost, 3), (low - bonus + 2 * cost - 1, 2),
    )  # fmt: skip
    words = kind | {"penalties": kind["penalty"].replace("_", " ")}
    rules = {"labels": labels, "bonus": bonus, "cost": cost, "low": low, "middle": middle, "top": top}
    return _problem("grade", rng, words, rules, inputs)


def label(rng: Random) -> Problem:
    """Upper or lower case, words joined by a sign, a fill for few words, a prefix, a greatest length."""
    kind = _kind("label", rng)
    case = rng.choice(("lower", "upper"))
    joint = rng.choice(("-", "_", ".", "+", "/", "~"))
    fill = rng.choice("xyzqk") + str(rng.randint(2, 99))
    prefix = rng.choice(("id", "no", "it", "my", "new", "ref")) + rng.choice(("#", ":", "=", "@"))
    few, length = rng.randint(2, 4), rng.randint(11, 24)

    def title(count: int) -> str:
        return " ".join(rng.sample(_NAMES, count))

    inputs = (
        rng.choice(_NAMES), title(few - 1), title(few), title(few + 1), title(8), title(7).swapcase(),
        f"  {title(2)} ", f"{title(1)}   {title(1)}", "A b C d"[: 2 * few - 3], "a B c D"[: 2 * few - 1],
    )  # fmt: skip
    rules = {"case": case, "joint": joint, "fill": fill, "prefix": prefix, "few": few, "length": length}
    return _problem("label", rng, kind, rules, inputs)


def results(rng: Random) -> Problem:
    """Points for high values, a penalty for low ones, and a bonus for a long list."""
    kind = _kind("results", rng)
    low = rng.randint(4, 20)
    high = low + rng.randint(5, 30)
    gain, loss, many, bonus = rng.randint(3, 12), rng.randint(1, 6), rng.randint(4, 6), rng.randint(13, 40)
    middle = (low + high) // 2
    inputs: tuple[list[int], ...] = (
        [high], [high - 1, high, high], [low, low - 1], [low - 1, low - 1, low - 2],
        [middle] * (many - 1) + [high + 2], [middle] * (many - 2) + [high],
        [low - 1, high + 5, high, high], [low] * many + [low - 3], [high] * (many + 1), [],
    )  # fmt: skip
    rules = {"low": low, "high": high, "gain": gain, "loss": loss, "many": many, "bonus": bonus}
    return _problem("results", rng, kind, rules, inputs)


def loyalty(rng: Random) -> Problem:
    """Points for money, a bonus for many visits, and three levels; gives a tuple."""
    kind = _kind("loyalty", rng)
    per, often, bonus = rng.randint(2, 9), rng.randint(4, 15), rng.randint(10, 60)
    middle = rng.randint(30, 80)
    top = middle + rng.randint(40, 120)
    levels = rng.sample(_LEVELS, 3)
    inputs = (
        (top * per, 1), (top * per - 1, often - 1), (middle * per, 0), (middle * per - 1, 2),
        ((top - bonus) * per, often), ((top - bonus) * per - per, often), (3 * per + 1, often - 1),
        (3 * per + 1, often), (2 * top * per + per - 1, often + 3), (per - 1, 0),
    )  # fmt: skip
    rules = {"per": per, "often": often, "bonus": bonus, "middle": middle, "top": top, "levels": levels}
    return _problem("loyalty", rng, kind, rules, inputs)


def ready_time(rng: Random) -> Problem:
    """Minutes for each item, more for a large order, and a word when it is too late; gives a clock time."""
    kind = _kind("ready_time", rng)
    start, each = rng.randint(5, 25), rng.randint(3, 9)
    many, more = rng.randint(4, 9), rng.randint(10, 40)
    closing = rng.randint(190, 240) * 5
    late = rng.choice(("tomorrow", "next day", "come back tomorrow", "not today"))
    last = closing - start - each
    inputs = (
        (last, 1), (last + 1, 1), (480, many), (rng.randint(430, 600), many + 1),
        (rng.randint(600, 800), many + 3), (closing - rng.randint(5, 20), 2), (600 - start - 2 * each, 2),
        (rng.randint(361, 420), many - 1), (655 - start - 3 * each, 3), (0, 1),
    )  # fmt: skip
    words = kind | {"the_time": f"the {kind['when'].replace('_', ' ')}"}
    rules = {"start": start, "each": each, "many": many, "more": more, "closing": closing, "late": late}
    return _problem("ready_time", rng, words, rules, inputs)


def shortlist(rng: Random) -> Problem:
    """Dictionaries within two limits, as a sorted list of names, cut to a few; gives a list."""
    kind = _kind("shortlist", rng)
    label, price, quality = (rng.choice(kind[field]) for field in ("labels", "prices", "qualities"))
    most, least = rng.randint(30, 180), rng.randint(3, 12)
    few, extra = rng.randint(2, 4), rng.randint(3, 20)
    order = rng.choice(("", ", reverse=True"))
    names = ["Ash", "Birch", "Cedar", "Elm", "Fir", "Lime", "Oak", "Pine"]
    rng.shuffle(names)
    edge = most - extra

    def rows(*entries: tuple[int, int]) -> list[dict[str, object]]:
        pairs = zip(names, entries, strict=False)
        return [{label: chosen, price: cost, quality: good} for chosen, (cost, good) in pairs]

    inputs = (
        rows((edge, least), (edge + 1, least), (edge, least - 1)),
        rows((edge + 1, least + 2), (5, least)), rows((edge, least - 1), (8, least + 1), (edge, least)),
        rows(*[(9, least + 2)] * (few + 1)), rows(*[(edge - 1, least + 1)] * (few + 3)),
        rows((edge - 2, least + 1), (edge + 5, least + 3), (edge, least + 5), (4, least)),
        rows((edge + 2, least), (6, least - 2)), rows(*[(7, least - 1)] * 2, *[(7, least)] * (few - 1)),
        rows((edge + 1, least), (edge + 1, least), (edge, least)),
        rows((1, least - 1), (edge, least), (1, least), (edge + 1, 99)),
    )  # fmt: skip
    rules = {"label": label, "price": price, "quality": quality}
    rules |= {"most": most, "least": least, "few": few, "extra": extra, "order": order}
    return _problem("shortlist", rng, kind, rules, inputs)


def bill(rng: Random) -> Problem:
    """A fixed part, two rates with a step between them, a discount, and a minimum."""
    kind = _kind("bill", rng)
    step, low, high = rng.randint(20, 90), _half(rng, 1, 3), _half(rng, 4, 8)
    fixed, discount = rng.randint(4, 25), rng.randint(3, 15)
    least = fixed + rng.randint(5, 15)
    inputs = (
        (step, False), (step + 1, False), (step + 10, True), (step - 1, True), (step // 2 + 15, False),
        (0, False), (0, True), (step + rng.randint(20, 60), False), (step + 3, True), (step - 2, False),
    )  # fmt: skip
    words = kind | {"used": kind["usage"].replace("_", " ")}
    rules = {"step": step, "low": low, "high": high, "fixed": fixed, "discount": discount, "minimum": least}
    return _problem("bill", rng, words, rules, inputs)


def readings(rng: Random) -> Problem:
    """Counts of three groups, leaving out values below a limit; gives a dictionary."""
    kind = _kind("readings", rng)
    labels = rng.choice(kind["names"])
    broken = rng.randint(1, 9)
    low = broken + rng.randint(6, 25)
    high = low + rng.randint(6, 40)
    inputs = (
        [broken, broken - 1, low], [low - 1, low, high], [high, high + 1],
        [broken - 1, high + 1, high + 9], [low - 2, low - 1, broken],
        [low + 2, high - 1, high + 5, broken + 1], [broken - 1], [high + 3, high + 1, low + 1],
        [low] * rng.randint(4, 6) + [high + 1], [broken] * rng.randint(4, 6) + [low],
    )  # fmt: skip
    rules = {"labels": labels, "broken": broken, "low": low, "high": high}
    return _problem("readings", rng, kind, rules, inputs)


def amount(rng: Random) -> Problem:
    """A rate and a base, less below some limit, rounded to one decimal, with a smallest amount."""
    kind = _kind("amount", rng)
    # No fives: the rounded numbers stay clear of ties, where the order of a sum would decide.
    rate = rng.randint(1, 6) + rng.choice((12, 13, 17, 23, 27, 34, 38, 42, 46, 63, 67, 74, 86)) / 100
    base = rng.randint(10, 40)
    limit, less = rng.randint(3, 15), rng.randint(12, 45)
    least = rng.randint(46, 60)
    inputs = (
        (71, limit), (71, limit - 1), (10 * rng.randint(10, 14) + 1, limit + 1),
        (10 * rng.randint(14, 19) + 3, 1), (0, 1), (1, limit), (10 * rng.randint(9, 11) + 2, limit - 2),
        (10 * rng.randint(20, 30) + 4, limit), (10 * rng.randint(6, 8) + 6, limit + 5), (83, limit - 1),
    )  # fmt: skip
    rules = {"rate": rate, "base": base, "limit": limit, "less": less, "least": least}
    return _problem("amount", rng, kind, rules, inputs)


def shares(rng: Random) -> Problem:
    """Something is added to a total, by group size, and each pays a rounded part; gives a dictionary."""
    kind = _kind("shares", rng)
    each, added = rng.choice(kind["labels"])
    large, small_fee, large_fee = rng.randint(4, 9), rng.randint(2, 9), rng.randint(11, 25)
    least = rng.randint(5, 12)
    inputs = (
        (large * 20, large), (large * 20, large - 1), (rng.randint(200, 300) * 2, large + 1),
        (rng.randint(40, 90), 2), (101, 3), (0, large + 2), (1, 3), (1000, 7),
        (rng.randint(500, 900), large), (77.5, 1),
    )  # fmt: skip
    rules = {"each": each, "added": added, "large": large}
    rules |= {"small_fee": small_fee, "large_fee": large_fee, "least": least}
    return _problem("shares", rng, kind, rules, inputs)


def word_game(rng: Random) -> Problem:
    """Points for each letter, more for a special one, a bonus for length, more for the right beginning."""
    kind = _kind("word_game", rng)
    special, first = rng.sample("bcdfghjklmnpqrstvwxz", 2)
    each, extra, start = rng.randint(1, 5), rng.randint(2, 15), rng.randint(3, 20)
    long, bonus = rng.randint(5, 8), rng.randint(6, 30)
    inputs = (
        first + "a" * (long - 1), "a" * (long + 1), special + "e" * (long - 1), (special + "o") * long,
        first.upper() + "i", special.upper() * 2 + "u", "e" * long + first, first + special + first,
        "ea" * rng.randint(2, 4) + special, "",
    )  # fmt: skip
    rules = {"special": special, "first": first, "each": each, "extra": extra, "start": start}
    rules |= {"long": long, "bonus": bonus}
    return _problem("word_game", rng, kind, rules, inputs)


ALL = (
    parcel, grade, label, results, loyalty, ready_time, shortlist, bill, readings, amount, shares, word_game,
)  # fmt: skip
