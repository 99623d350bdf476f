"""The embedded shop: a path in, a page out, without state between requests.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Final
from urllib.parse import unquote

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.webshop.shop.catalogue import Product, draw_catalogue
from sweet_rl.worlds.webshop.shop.goals import Goal, draw_goal, exact_matches, published_matches, score

SUBPAGES: Final = ("Description", "Features", "Reviews", "Attributes")
PAGE_SIZE: Final = 10


def start_page(instruction: str) -> str:
    """The first page of a visit: the goal, and the search box."""
    return _page(
        f"<h1>WebShop</h1>{_instruction(instruction)}",
        '<form><input type="text" name="search_query"><button type="submit">Search</button></form>',
    )


def result_page(instruction: str, products: Sequence[Product], page: int) -> str:
    """Page `page`, from 1, of what a search has found."""
    shown = products[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    items = "".join(
        f'<div><h4><a class="product-link" href="#">{product.asin}</a></h4>'
        f"<h4>{escape(product.title)}</h4><h5>${product.price:.2f}</h5></div>"
        for product in shown
    )
    turns = [*(["< Prev"] if page > 1 else []), *(["Next >"] if page * PAGE_SIZE < len(products) else [])]
    return _page(
        _instruction(instruction),
        _buttons(["Back to Search"]),
        f"<h3>Page {page} (Total results: {len(products)})</h3>",
        _buttons(turns),
        items,
    )


def item_page(instruction: str, product: Product, chosen: Mapping[str, str]) -> str:
    """One product: its options, its price, what more there is to read."""
    options = "".join(
        f"<div><h4>{escape(name)}</h4>" + "".join(_option(name, value, chosen) for value in values) + "</div>"
        for name, values in product.options.items()
    )
    return _page(
        _instruction(instruction),
        _buttons(["Back to Search", "< Prev"]),
        options,
        f"<h2>{escape(product.title)}</h2><h4>Price: ${product.price:.2f}</h4>",
        f"<h4>Rating: {product.rating:.1f}</h4>",
        _buttons([*SUBPAGES, "Buy Now"]),
    )


def sub_page(instruction: str, product: Product, name: str) -> str:
    """What there is to read about a product under one of `SUBPAGES`."""
    lines: Mapping[str, Sequence[str]] = {
        "Description": [product.description],
        "Features": product.features,
        "Reviews": product.reviews,
        "Attributes": product.attributes,
    }
    text = "".join(f"<p>{escape(line)}</p>" for line in lines[name])
    return _page(_instruction(instruction), _buttons(["Back to Search", "< Prev"]), text)


def done_page(score: float) -> str:
    """The page that ends a visit and shows the score."""
    return _page(
        "<h1>Thank you for your purchase!</h1>",
        "<div><h3>Your code:</h3><pre>None</pre>",
        f"<h3>Your score (min 0.0, max 1.0)</h3><pre>{score}</pre></div>",
    )


def _page(*parts: str) -> str:
    head = "<head><title>WebShop</title><style>label{border:1px solid}</style></head>"
    return f"<!DOCTYPE html><html>{head}<body>{''.join(parts)}</body></html>"


def _instruction(text: str) -> str:
    return f"<div><h4>Instruction: <br>{escape(text)}</h4></div>"


def _buttons(names: Iterable[str]) -> str:
    return "".join(f"<button>{escape(name)}</button>" for name in names)


def _option(name: str, value: str, chosen: Mapping[str, str]) -> str:
    checked = " checked" if chosen.get(name) == value else ""
    return f'<input type="radio" name="{escape(name)}"{checked}><label>{escape(value)}</label>'


MAX_RESULTS: Final = 50
_MAX_WORDS: Final = 60
_WORD: Final = re.compile(r"[^\W_]+")
_RANKED: Final = """
    SELECT rowid FROM products WHERE products MATCH ?
    ORDER BY bm25(products, 4.0, 1.0, 1.0, 1.0), rowid LIMIT ?
"""
"""A word counts four times as much in the title as elsewhere."""


class SearchIndex:
    """Products by words.

    Args:
        products: in an order that breaks ties.
    """

    def __init__(self, products: Iterable[Product]) -> None:
        self._products = tuple(products)
        # one thread at a time asks: that of the event loop, whichever it is
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            "CREATE VIRTUAL TABLE products USING fts5"
            "(title, options, description, features, tokenize='porter unicode61')"
        )
        self._database.executemany(
            "INSERT INTO products (rowid, title, options, description, features) VALUES (?, ?, ?, ?, ?)",
            (
                (
                    number,
                    product.title,
                    " ".join(value for values in product.options.values() for value in values),
                    product.description,
                    " ".join(product.features),
                )
                for number, product in enumerate(self._products)
            ),
        )
        self._search = lru_cache(maxsize=4096)(self._ask)

    def search(self, query: str) -> tuple[Product, ...]:
        """The products that have any of the words, best first, at most `MAX_RESULTS`."""
        return self._search(tuple(_WORD.findall(query.lower())[:_MAX_WORDS]))

    def close(self) -> None:
        """Close the in-memory database; nothing is searched afterwards."""
        self._database.close()

    def _ask(self, words: tuple[str, ...]) -> tuple[Product, ...]:
        if not words:
            return ()
        matches = " OR ".join(f'"{word}"' for word in words)
        rows = self._database.execute(_RANKED, (matches, MAX_RESULTS))
        return tuple(self._products[number] for (number,) in rows)


_FIXED: Final = re.compile(r"fixed_(\d{1,9})")
_MAX_OPTIONS_LENGTH: Final = 2000


class NoSuchPage(LookupError):
    """An unknown path; the message says what is wrong with it."""


class EmbeddedShop:
    """A shop with a catalogue of its own and the published routes.

    Session `fixed_{n}` is sent for goal n, every other name for a goal that depends on the name alone.

    Args:
        compat: how attributes and options of a purchase are compared with those of the goal: "fixed" or
            "published" (`goals.score`).
    """

    def __init__(self, seed: int = 0, products: int = 1000, *, compat: Compat = "fixed") -> None:
        if products < 1:
            raise UsageError(f"A shop needs at least 1 product, got {products}.")
        if compat not in {"fixed", "published"}:
            raise UsageError(f"compat is 'fixed' or 'published', got {compat!r}.")
        self.seed = seed
        self._matches = published_matches if compat == "published" else exact_matches
        self.products = draw_catalogue(seed, products)
        self._by_asin = {product.asin: product for product in self.products}
        self._index = SearchIndex(self.products)
        self._goals: dict[str, Goal] = {}

    @property
    def name(self) -> str:
        """Says which shop this is: two of one name are the same."""
        return f"embedded:{self.seed}:{len(self.products)}"

    def goal(self, session: str) -> Goal:
        """The goal of a session: the product it is sent for."""
        goal = self._goals.get(session)
        if goal is None:
            fixed = _FIXED.fullmatch(session)
            number = int(fixed[1]) if fixed else derive_seed("session", session)
            goal = draw_goal(self.seed, number, self.products)
            if len(self._goals) < _KEPT_GOALS:
                self._goals[session] = goal
        return goal

    def product(self, asin: str) -> Product:
        """The product of that number."""
        if asin not in self._by_asin:
            raise NoSuchPage(f"there is no product {asin[:40]!r}")
        return self._by_asin[asin]

    def search(self, query: str) -> tuple[Product, ...]:
        """Products that a search finds, best first."""
        return self._index.search(query)

    def get(self, path: str) -> str:
        """The page at a percent-encoded path, as HTML."""
        path = path.partition("?")[0].removeprefix("/")
        match [unquote(part) for part in path.split("/")]:
            case ["search_results", session, query, number] if query:
                found = self.search(query)
                return result_page(self._says(session), found, _page_number(number))
            case ["item_page", session, asin, _, _, options]:
                return item_page(self._says(session), self.product(asin), _options(options))
            case ["item_sub_page", session, asin, _, _, subpage, _] if subpage in SUBPAGES:
                return sub_page(self._says(session), self.product(asin), subpage)
            case ["done", session, asin, options]:
                return done_page(self._score(session, asin, _options(options)))
            case [session] if session:
                return start_page(self._says(session))
        raise NoSuchPage("this is none of the shop's five routes")

    def close(self) -> None:
        """Close the search index; no page can be asked for afterwards."""
        self._index.close()

    def _says(self, session: str) -> str:
        return self.goal(session).instruction

    def _score(self, session: str, asin: str, chosen: dict[str, str]) -> float:
        goal = self.goal(session)
        return score(self.product(asin), chosen, goal, self.product(goal.asin), self._matches)


_KEPT_GOALS: Final = 100_000


def _page_number(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise NoSuchPage(f"{text[:40]!r} is no page number")
    return int(text)


def _options(text: str) -> dict[str, str]:
    """The options in an address: Python's text of a dict of strings."""
    if len(text) > _MAX_OPTIONS_LENGTH:
        raise NoSuchPage("the options are too long")
    try:
        options = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        options = None
    if not isinstance(options, dict) or not all(
        isinstance(part, str) for entry in options.items() for part in entry
    ):
        raise NoSuchPage(f"{text[:40]!r} is no dict of options")
    return options
