"""A small shop of our own with the five routes of WebShop: a path in, a page out, without state between requests.

Catalogue and goals are drawn from a seed. Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import ast
import json
import math
import os
import random
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from html import escape
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from sweet_rl.cli.stage import stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Compatible, Listening, Quiet, Seeded
from sweet_rl.types import Compat, derive_seed

if TYPE_CHECKING:
    from aiohttp import web

    from sweet_rl.serving import Limits

SUBPAGES: Final = ("Description", "Features", "Reviews", "Attributes")
PAGE_SIZE: Final = 10
MAX_RESULTS: Final = 50
READY: Final = "Serving a shop at "
MAX_BODY_BYTES: Final = 2**16  # A shop is only read: no request has a body to speak of

_WORDS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_ASIN_LETTERS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_ASKED: Final = 0.85  # How often an option that a product has is asked for
_BEGINNINGS: Final = ("I'm looking for", "Please find me", "I would like to buy", "I need")
_ALIKE: Final = 85
_MAX_WORDS: Final = 60
_WORD: Final = re.compile(r"[^\W_]+")
# a word counts four times as much in the title as elsewhere
_RANKED: Final = "SELECT rowid FROM products WHERE products MATCH ? ORDER BY bm25(products, 4.0, 1.0, 1.0, 1.0), rowid LIMIT ?"
_FIXED: Final = re.compile(r"fixed_(\d{1,9})")
_MAX_OPTIONS_LENGTH: Final = 2000


@dataclass(frozen=True, slots=True)
class Product:
    """Something that can be bought; `attributes` are what the reward counts, `price` is in dollars, `rating` out of 5."""

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


@dataclass(frozen=True, slots=True)
class Goal:
    """What a buyer has in mind and says of it; `asin` is a product that is worth 1, `max_price` is in dollars."""

    instruction: str
    asin: str
    attributes: tuple[str, ...]
    options: Mapping[str, str]
    max_price: float

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


class NoSuchPage(LookupError):
    """An unknown path; the message says what is wrong with it."""


class EmbeddedShop:
    """Session `fixed_{n}` is sent for goal n, every other name for a goal that depends on the name alone."""

    def __init__(self, seed: int = 0, products: int = 1000, *, compat: Compat = "fixed") -> None:
        if products < 1:
            raise UsageError(f"A shop needs at least 1 product, got {products}.")
        if compat not in {"fixed", "published"}:
            raise UsageError(f"compat is 'fixed' or 'published', got {compat!r}.")
        self.seed, self.compat = seed, compat
        self.products = draw_catalogue(seed, products)
        self._by_asin = {product.asin: product for product in self.products}
        # one thread at a time asks: that of the event loop, whichever it is
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            "CREATE VIRTUAL TABLE products USING fts5"
            "(title, options, description, features, tokenize='porter unicode61')"
        )
        self._database.executemany(
            "INSERT INTO products (rowid, title, options, description, features) VALUES (?, ?, ?, ?, ?)",
            [
                (
                    n,
                    one.title,
                    " ".join(chain(*one.options.values())),
                    one.description,
                    " ".join(one.features),
                )
                for n, one in enumerate(self.products)
            ],
        )
        self._found = lru_cache(maxsize=4096)(self._ask)

    @property
    def name(self) -> str:
        return f"embedded:{self.seed}:{len(self.products)}"

    def goal(self, session: str) -> Goal:
        fixed = _FIXED.fullmatch(session)
        number = int(fixed[1]) if fixed else derive_seed("session", session)
        return draw_goal(self.seed, number, self.products)

    def product(self, asin: str) -> Product:
        if asin not in self._by_asin:
            raise NoSuchPage(f"there is no product {asin[:40]!r}")
        return self._by_asin[asin]

    def search(self, query: str) -> tuple[Product, ...]:
        """The products that have any of the words, best first, at most `MAX_RESULTS`."""
        return self._found(tuple(_WORD.findall(query.lower())[:_MAX_WORDS]))

    def _ask(self, words: tuple[str, ...]) -> tuple[Product, ...]:
        if not words:
            return ()
        matches = " OR ".join(f'"{word}"' for word in words)
        rows = self._database.execute(_RANKED, (matches, MAX_RESULTS))
        return tuple(self.products[number] for (number,) in rows)

    def get(self, path: str) -> str:
        """The page at a percent-encoded path, as HTML."""
        path = path.partition("?")[0].removeprefix("/")
        match [unquote(part) for part in path.split("/")]:
            case ["search_results", session, query, number] if query:
                found = self.search(query)
                if not re.fullmatch(r"[1-9]\d{0,5}", number):
                    raise NoSuchPage(f"{number[:40]!r} is no page number")
                return _result_page(self.goal(session), found, int(number))
            case ["item_page", session, asin, _, _, options]:
                return _item_page(self.goal(session), self.product(asin), _options(options))
            case ["item_sub_page", session, asin, _, _, subpage, _] if subpage in SUBPAGES:
                goal, product = self.goal(session), self.product(asin)
                alone = subpage == "Description"
                lines = [product.description] if alone else getattr(product, subpage.lower())
                text = "".join(f"<p>{escape(line)}</p>" for line in lines)
                return _page(_instruction(goal), _buttons(["Back to Search", "< Prev"]), text)
            case ["done", session, asin, options]:
                chosen, goal = _options(options), self.goal(session)
                reward = score(self.product(asin), chosen, goal, self.product(goal.asin), compat=self.compat)
                return _page(
                    "<h1>Thank you for your purchase!</h1>",
                    "<div><h3>Your code:</h3><pre>None</pre>",
                    f"<h3>Your score (min 0.0, max 1.0)</h3><pre>{reward}</pre></div>",
                )
            case [session] if session:
                return _page(
                    f"<h1>WebShop</h1>{_instruction(self.goal(session))}",
                    '<form><input type="text" name="search_query"><button type="submit">Search</button></form>',
                )
        raise NoSuchPage("this is none of the shop's five routes")

    def close(self) -> None:
        self._database.close()


def draw_catalogue(seed: int, products: int) -> tuple[Product, ...]:
    """All products, in an order that says nothing; the first ones are the same however many there are."""
    drawn: dict[str, Product] = {}
    for number in count():
        if len(drawn) == products:
            break
        rng = random.Random(derive_seed("shop", seed, number))
        category = _WORDS["categories"][number % len(_WORDS["categories"])]
        kind, brand = rng.choice(category["kinds"]), rng.choice(_WORDS["brands"])
        material, audience = rng.choice(category["materials"]), rng.choice(category["audiences"])
        attributes = tuple(rng.sample(category["attributes"], rng.randint(3, 5)))
        named = attributes[: rng.randint(1, len(attributes) - 1)]
        title = (
            f"{brand} {material.title()} {kind.title()} for {audience.title()}, {', '.join(named).title()}"
        )
        product = Product(
            asin="B" + "".join(rng.choice(_ASIN_LETTERS) for _ in range(9)),
            title=title,
            category=category["name"],
            kind=kind,
            audience=audience,
            nouns=frozenset(f"{brand} {material} {kind} {audience}".lower().split()),
            attributes=attributes,
            options={
                name: tuple(sorted(rng.sample(values, rng.randint(2, min(5, len(values)))), key=values.index))
                for name, values in category["options"].items()
            },
            price=round(round(rng.uniform(*category["prices"])) - rng.choice((0.01, 0.05, 0.5)), 2),
            description=(
                f"{kind.capitalize()} of {material} by {brand}, made with {audience} in mind. "
                f"{rng.choice(attributes).capitalize()}."
            ),
            features=tuple(f"{attribute.capitalize()}." for attribute in attributes),
            reviews=(*rng.sample(_WORDS["praise"], 2), *rng.sample(_WORDS["complaints"], 1)),
            rating=rng.randint(30, 50) / 10,
        )
        drawn.setdefault(product.asin, product)
    return tuple(drawn.values())


def draw_goal(seed: int, number: int, products: Sequence[Product]) -> Goal:
    """Goal `number` of a shop: a product, one to three of its attributes, most of its options."""
    rng = random.Random(derive_seed("goal", seed, number))
    product = rng.choice(products)
    attributes = tuple(rng.sample(product.attributes, rng.randint(1, min(3, len(product.attributes)))))
    options = {name: rng.choice(values) for name, values in product.options.items() if rng.random() < _ASKED}
    max_price = 10.0 * (math.floor(product.price / 10.0) + rng.randint(1, 3))
    kind = product.kind
    if kind not in _WORDS["without_article"]:
        kind = f"a{'n' * (kind[0] in 'aeio')} {kind}"
    thing = f"{kind} for {product.audience}, {' and '.join(attributes)}"
    chosen = "".join(f", {name}: {value}" for name, value in options.items())
    instruction = f"{rng.choice(_BEGINNINGS)} {thing}{chosen}, and price lower than {max_price:.2f} dollars"
    return Goal(instruction, product.asin, attributes, options, max_price)


def score(
    bought: Product, chosen: Mapping[str, str], goal: Goal, wanted: Product, *, compat: Compat = "fixed"
) -> float:
    """What a purchase is worth, in [0, 1]: the reward of the WebShop paper (Yao et al. 2022, section 2.3).

    r = r_type * (|U_att ∩ Y_att| + |U_opt ∩ Y_opt| + [y_price <= u_price]) / (|U_att| + |U_opt| + 1)

    with U the goal's attributes, options and highest price and Y the purchase's. The published server, from its
    first public commit on, counts attributes that are alike or in a text, and options like any chosen value.
    """
    if compat == "published":
        texts = [text.lower() for text in (bought.title, " ".join(bought.features), bought.description)]
        found = sum(
            any(token_set_ratio(attribute, other) > _ALIKE for other in bought.attributes)
            or any(attribute in text for text in texts)
            for attribute in goal.attributes
        ) + sum(
            any(token_set_ratio(value, other) > _ALIKE for other in chosen.values())
            for value in goal.options.values()
        )
    else:
        found = len(set(goal.attributes) & set(bought.attributes)) + sum(
            chosen.get(name) == value and value in bought.options.get(name, ())
            for name, value in goal.options.items()
        )
    found += bought.price <= goal.max_price
    return type_factor(bought, wanted) * found / (len(goal.attributes) + len(goal.options) + 1)


def type_factor(bought: Product, wanted: Product) -> float:
    """By the share of common nouns: 0; 0.1 below a tenth; 0.5 up to a fifth of another kind; else 1."""
    match = len(bought.nouns & wanted.nouns) / len(wanted.nouns)
    if match < 0.1:
        return 0.1 if match else 0.0
    if match <= 0.2 and bought.kind != wanted.kind and bought.category != wanted.category:
        return 0.5
    return 1.0


@lru_cache(maxsize=65_536)
def token_set_ratio(one: str, other: str) -> int:
    """That of thefuzz and RapidFuzz: the best ratio of the common words, alone and followed by those of either text."""
    words, others = (
        set(re.sub(r"[^\w]", " ", text.encode("ascii", "ignore").decode()).lower().split())
        for text in (one, other)
    )
    if not words or not others:
        return 0
    common = sorted(words & others)
    extended = [" ".join([*common, *sorted(rest)]) for rest in (words - others, others - words)]
    shared = " ".join(common)
    return max(ratio(shared, extended[0]), ratio(shared, extended[1]), ratio(*extended))


def ratio(one: str, other: str) -> int:
    if not one or not other:
        return 0
    row = [0] * (len(other) + 1)
    for letter in one:
        before = row
        row = [0]
        for place, theirs in enumerate(other):
            row.append(before[place] + 1 if letter == theirs else max(row[place], before[place + 1]))
    return round(200 * row[-1] / (len(one) + len(other)))


def _result_page(goal: Goal, products: Sequence[Product], page: int) -> str:
    items = "".join(
        f'<div><h4><a class="product-link" href="#">{product.asin}</a></h4>'
        f"<h4>{escape(product.title)}</h4><h5>${product.price:.2f}</h5></div>"
        for product in products[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    )
    turns = ["< Prev"] * (page > 1) + ["Next >"] * (page * PAGE_SIZE < len(products))
    head = f"<h3>Page {page} (Total results: {len(products)})</h3>"
    return _page(_instruction(goal), _buttons(["Back to Search"]), head, _buttons(turns), items)


def _item_page(goal: Goal, product: Product, chosen: Mapping[str, str]) -> str:
    parts = [_instruction(goal), _buttons(["Back to Search", "< Prev"])]
    for name, values in product.options.items():
        choices = "".join(
            f'<input type="radio" name="{escape(name)}"{" checked" * (chosen.get(name) == value)}>'
            f"<label>{escape(value)}</label>"
            for value in values
        )
        parts.append(f"<div><h4>{escape(name)}</h4>{choices}</div>")
    parts.append(f"<h2>{escape(product.title)}</h2><h4>Price: ${product.price:.2f}</h4>")
    return _page(*parts, f"<h4>Rating: {product.rating:.1f}</h4>", _buttons([*SUBPAGES, "Buy Now"]))


def _page(*parts: str) -> str:
    head = "<head><title>WebShop</title><style>label{border:1px solid}</style></head>"
    return f"<!DOCTYPE html><html>{head}<body>{''.join(parts)}</body></html>"


def _instruction(goal: Goal) -> str:
    return f"<div><h4>Instruction: <br>{escape(goal.instruction)}</h4></div>"


def _buttons(names: Iterable[str]) -> str:
    return "".join(f"<button>{escape(name)}</button>" for name in names)


def _options(text: str) -> dict[str, str]:
    """The options in an address: Python's text of a dict of strings."""
    if len(text) > _MAX_OPTIONS_LENGTH:
        raise NoSuchPage("the options are too long")
    try:
        options = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        options = None
    if not isinstance(options, dict) or not all(isinstance(part, str) for part in chain(*options.items())):
        raise NoSuchPage(f"{text[:40]!r} is no dict of options")
    return options


def application(shop: EmbeddedShop, host: str = "127.0.0.1", limits: Limits | None = None) -> web.Application:
    """Every GET goes to the shop; an unknown path is a 404."""
    from aiohttp import web

    from sweet_rl.serving import Limits, guard

    limits = limits or Limits(body_bytes=MAX_BODY_BYTES)

    async def get(request: web.Request) -> web.Response:
        try:
            html = shop.get(request.rel_url.raw_path)
        except NoSuchPage as error:
            return web.Response(status=404, text=str(error))
        return web.Response(text=html, content_type="text/html")

    app = web.Application(middlewares=[guard(host, limits)], client_max_size=limits.body_bytes)
    app.router.add_get("/{path:.*}", get)
    return app


@group("The shop")
class ShopFlags(Listening, Seeded, Compatible, Quiet):
    products: int = flag(1000, "number of products in the shop.", at_least=1)


@stage(
    defaults={"port": 3000},
    helps={
        "seed": "random seed of the catalogue and the goals.",
        "compat": "how a purchase is compared with the goal: fixed, or published (by similarity, docs/world_text_games.md).",
        "quiet": "print errors only.",
    },
)
def serve_shop(flags: ShopFlags, /) -> None:
    """Serve the embedded shop: a small WebShop that needs no data and no download.

    It has the five routes of WebShop, a generated catalogue, a search ranked by BM25, and the reward of the
    WebShop paper. Session fixed_N has goal N: http://127.0.0.1:3000/fixed_2000 is the start page of goal
    2000. The same seed and number of products give the same shop.
    """
    import asyncio

    from sweet_rl import serving

    def ready(actual: int) -> None:
        if not flags.quiet:
            print(f"{READY}http://{flags.host}:{actual} (pid {os.getpid()})", flush=True)

    limits = serving.Limits(body_bytes=MAX_BODY_BYTES)
    app = application(EmbeddedShop(flags.seed, flags.products, compat=flags.compat), flags.host, limits)
    asyncio.run(serving.serve(app, flags.host, flags.at_port, on_ready=ready, limits=limits))
