"""The embedded shop: a path in, a page out, without state between requests.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import ast
import re
from typing import Final
from urllib.parse import unquote

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat, derive_seed
from sweet_rl.worlds.webshop.shop import pages
from sweet_rl.worlds.webshop.shop.catalogue import Product, draw_catalogue
from sweet_rl.worlds.webshop.shop.goals import Goal, draw_goal, exact_matches, published_matches, score
from sweet_rl.worlds.webshop.shop.search import SearchIndex

_FIXED: Final = re.compile(r"fixed_(\d{1,9})")
_MAX_OPTIONS_LENGTH: Final = 2000


class NoSuchPage(LookupError):
    """An unknown path; the message says what is wrong with it."""


class EmbeddedShop:
    """A shop with a catalogue of its own and the published routes.

    Session `fixed_{n}` is sent for goal n, every other name for a goal that depends on the name alone.

    Args:
        seed: draws catalogue and goals.
        products: how many there are.
        compat: how attributes and options of a purchase are compared with those of the goal: "fixed" or
            "published" (`goals.score`).

    Raises:
        UsageError: no products, or no such `compat`.
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
                return pages.result_page(self._says(session), found, _page_number(number))
            case ["item_page", session, asin, _, _, options]:
                return pages.item_page(self._says(session), self.product(asin), _options(options))
            case ["item_sub_page", session, asin, _, _, subpage, _] if subpage in pages.SUBPAGES:
                return pages.sub_page(self._says(session), self.product(asin), subpage)
            case ["done", session, asin, options]:
                return pages.done_page(self._score(session, asin, _options(options)))
            case [session] if session:
                return pages.start_page(self._says(session))
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
