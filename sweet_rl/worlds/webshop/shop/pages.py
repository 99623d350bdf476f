"""The embedded shop's pages as HTML, with the elements that the published client reads.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from sweet_rl.worlds.webshop.shop.catalogue import Product

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
