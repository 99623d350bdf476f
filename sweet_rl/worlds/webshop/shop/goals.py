"""The goals of the embedded shop's customers, and the reward of a purchase."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

from sweet_rl.types import derive_seed
from sweet_rl.worlds.webshop.shop.catalogue import Product
from sweet_rl.worlds.webshop.shop.vocabulary import WITHOUT_ARTICLE


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


@dataclass(frozen=True, slots=True)
class Goal:
    """A product that a buyer has in mind, and what they say of it.

    `asin` is one product that is worth 1; others may be. `max_price` is in dollars.
    """

    instruction: str
    asin: str
    attributes: tuple[str, ...]
    options: Mapping[str, str]
    max_price: float

    def to_json(self) -> str:
        """The goal as a task's hidden text."""
        return json.dumps(asdict(self), ensure_ascii=False)


def draw_goal(seed: int, number: int, products: Sequence[Product]) -> Goal:
    """Goal `number` of a shop: a product, one to three of its attributes, most of its options."""
    rng = random.Random(derive_seed("goal", seed, number))
    product = rng.choice(products)
    attributes = tuple(rng.sample(product.attributes, rng.randint(1, min(3, len(product.attributes)))))
    options = {name: rng.choice(values) for name, values in product.options.items() if rng.random() < _ASKED}
    max_price = 10.0 * (math.floor(product.price / 10.0) + rng.randint(1, 3))
    return Goal(
        _say(rng, product, attributes, options, max_price), product.asin, attributes, options, max_price
    )


_ASKED: Final = 0.85
"""How often an option that a product has is asked for."""
_BEGINNINGS: Final = (
    "I'm looking for {thing}",
    "Please find me {thing}",
    "I would like to buy {thing}",
    "I need {thing}",
)


def _say(
    rng: random.Random,
    product: Product,
    attributes: Sequence[str],
    options: Mapping[str, str],
    max_price: float,
) -> str:
    kind = (
        product.kind
        if product.kind in WITHOUT_ARTICLE
        else f"a{'n' * (product.kind[0] in 'aeio')} {product.kind}"
    )
    thing = f"{kind} for {product.audience}, {' and '.join(attributes)}"
    chosen = "".join(f", {name}: {value}" for name, value in options.items())
    return (
        f"{rng.choice(_BEGINNINGS).format(thing=thing)}{chosen}, and price lower than {max_price:.2f} dollars"
    )


Matches = Callable[[Product, Mapping[str, str], Goal], int]
"""Of a purchase, the options chosen and a goal: how many of the goal's attributes and options it has."""


def score(
    bought: Product,
    chosen: Mapping[str, str],
    goal: Goal,
    wanted: Product,
    matches: Matches | None = None,
) -> float:
    """What a purchase is worth, in [0, 1]: the reward of the WebShop paper (Yao et al. 2022, section 2.3).

    r = r_type * (|U_att ∩ Y_att| + |U_opt ∩ Y_opt| + [y_price <= u_price]) / (|U_att| + |U_opt| + 1)

    with U the goal's attributes, options and highest price and Y the purchase's.
    """
    found = (matches or exact_matches)(bought, chosen, goal)
    fits = bought.price <= goal.max_price
    return type_factor(bought, wanted) * (found + fits) / (len(goal.attributes) + len(goal.options) + 1)


def exact_matches(bought: Product, chosen: Mapping[str, str], goal: Goal) -> int:
    """Equal texts; options that the product does not have count nothing."""
    attributes = len(set(goal.attributes) & set(bought.attributes))
    options = sum(
        chosen.get(name) == value and value in bought.options.get(name, ())
        for name, value in goal.options.items()
    )
    return attributes + options


def published_matches(bought: Product, chosen: Mapping[str, str], goal: Goal) -> int:
    """As the published shop's server counts, from its first public commit on.

    An attribute counts if one of the product's is alike, or if its text stands in the product's title,
    features or description; an option if any chosen value is alike, whatever its type. Alike is a
    `token_set_ratio` above 85: "red" and "dark red" are.
    """
    texts = [text.lower() for text in (bought.title, " ".join(bought.features), bought.description)]
    attributes = sum(
        any(_alike(attribute, other) for other in bought.attributes)
        or any(attribute in text for text in texts)
        for attribute in goal.attributes
    )
    options = sum(any(_alike(value, other) for other in chosen.values()) for value in goal.options.values())
    return attributes + options


def _alike(one: str, other: str) -> bool:
    return token_set_ratio(one, other) > _ALIKE


_ALIKE: Final = 85


def type_factor(bought: Product, wanted: Product) -> float:
    """The factor for the type of thing, 0, 0.1, 0.5 or 1 (WebShop paper, appendix on the reward).

    It compares the nouns of both titles: none in common is 0; below a tenth of the wanted ones is 0.1; up to
    a fifth is 0.5 unless kind or category agree; everything else is 1.
    """
    match = len(bought.nouns & wanted.nouns) / len(wanted.nouns)
    if match == 0:
        return 0.0
    if match < 0.1:
        return 0.1
    if match <= 0.2 and bought.kind != wanted.kind and bought.category != wanted.category:
        return 0.5
    return 1.0
