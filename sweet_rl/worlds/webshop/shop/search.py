"""The embedded shop's search: SQLite's full-text index, ranked by BM25."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sweet_rl.worlds.webshop.shop.catalogue import Product

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
