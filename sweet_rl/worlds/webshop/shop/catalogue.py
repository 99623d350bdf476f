"""The embedded shop's products, drawn from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sweet_rl.types import derive_seed
from sweet_rl.worlds.webshop.shop.vocabulary import BRANDS, CATEGORIES, COMPLAINTS, PRAISE, Category

_ASIN_LETTERS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Product:
    """Something that can be bought.

    `attributes` are what the reward counts; the title mentions some of them, the features all. `nouns`
    are the nouns of the title, lower-cased; `price` is in dollars; `rating` is out of 5.
    """

    asin: str
    title: str
    category: str
    kind: str
    audience: str
    nouns: frozenset[str]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    price: float
    description: str
    features: tuple[str, ...]
    reviews: tuple[str, ...]
    rating: float


def draw_catalogue(seed: int, products: int) -> tuple[Product, ...]:
    """All products, in an order that says nothing; the first ones are the same however many there are."""
    drawn: dict[str, Product] = {}
    for number in itertools.count():
        if len(drawn) == products:
            break
        rng = random.Random(derive_seed("shop", seed, number))
        product = _draw(rng, CATEGORIES[number % len(CATEGORIES)])
        drawn.setdefault(product.asin, product)
    return tuple(drawn.values())


def _draw(rng: random.Random, category: Category) -> Product:
    kind, brand = rng.choice(category.kinds), rng.choice(BRANDS)
    material, audience = rng.choice(category.materials), rng.choice(category.audiences)
    attributes = tuple(rng.sample(category.attributes, rng.randint(3, 5)))
    named = attributes[: rng.randint(1, len(attributes) - 1)]
    title = f"{brand} {material.title()} {kind.title()} for {audience.title()}, " + ", ".join(
        attribute.title() for attribute in named
    )
    return Product(
        asin="B" + "".join(rng.choice(_ASIN_LETTERS) for _ in range(9)),
        title=title,
        category=category.name,
        kind=kind,
        audience=audience,
        nouns=frozenset(f"{brand} {material} {kind} {audience}".lower().split()),
        attributes=attributes,
        options={
            name: tuple(sorted(rng.sample(values, rng.randint(2, min(5, len(values)))), key=values.index))
            for name, values in category.options.items()
        },
        price=round(round(rng.uniform(*category.prices)) - rng.choice((0.01, 0.05, 0.5)), 2),
        description=(
            f"{kind.capitalize()} of {material} by {brand}, made with {audience} in mind. "
            f"{_sentence(rng.choice(attributes))}"
        ),
        features=tuple(_sentence(attribute) for attribute in attributes),
        reviews=tuple(rng.sample(PRAISE, 2)) + tuple(rng.sample(COMPLAINTS, 1)),
        rating=rng.randint(30, 50) / 10,
    )


def _sentence(attribute: str) -> str:
    return f"{attribute.capitalize()}."
