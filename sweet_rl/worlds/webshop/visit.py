"""One visit to a shop: how an action changes the visitor's state.

Pure decisions, no requests: an action becomes a `Move` (the address to fetch and what the visitor reads),
or None when it is invalid.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sweet_rl.worlds.webshop.address import Address, PageKind
from sweet_rl.worlds.webshop.page import Page
from sweet_rl.worlds.webshop.quirks import Quirks

SUBPAGES: Final = ("Description", "Features", "Reviews", "Attributes")
_BUTTONS: Final = frozenset({"Buy Now", "Back to Search", "< Prev", "Next >", *SUBPAGES})
MAX_QUERY_BYTES: Final = 2000
"""UTF-8 bytes of a query; percent-encoded three times as many, what every server's address line can hold."""

_OK: Final = "OK."


@dataclass(frozen=True, slots=True)
class Move:
    """Where to go, and what the agent reads instead of the page there (None: the page)."""

    address: Address
    says: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """The visitor's page, its actions, and what is kept of earlier pages."""

    address: Address
    page: Page
    option_types: Mapping[str, str] = field(default_factory=dict)
    products: tuple[str, ...] = ()

    def after(self, address: Address, page: Page, quirks: Quirks) -> Visit:
        """The visit after `page` was fetched."""
        kept = self.option_types if quirks.stale_options else {}
        products = page.products or self.products if quirks.hidden_products else page.shown
        return Visit(address, page, page.options or kept, products)

    def move(self, action: str, quirks: Quirks) -> Move | None:
        """What an action does; None when it is invalid."""
        verb, bracket, rest = action.partition("[")
        if not bracket or verb not in {"search", "click", "think"}:
            return None
        argument = _argument(rest, quirks)
        if verb == "think":
            return Move(self.address, _OK)
        if verb == "search":
            return self._search(argument, quirks)
        return self._click(argument, quirks)

    def _search(self, query: str, quirks: Quirks) -> Move | None:
        if not quirks.cut_by_position:
            query = " ".join(query.replace("/", " ").split())
            if not any(letter.isalnum() for letter in query):
                return None
            if len(query.encode("utf-8", "replace")) > MAX_QUERY_BYTES:
                return None
        if self.address.kind is not PageKind.START:
            return None
        return Move(replace(self.address, kind=PageKind.SEARCH, query=query))

    def _click(self, label: str, quirks: Quirks) -> Move | None:
        move = self.offers(quirks).get(label)
        refetches = quirks.unknown_click_refetches and self.address.kind in {PageKind.START, PageKind.SUB}
        if move is None and refetches and label not in _BUTTONS:
            return Move(self.address)
        return move

    def offers(self, quirks: Quirks) -> dict[str, Move]:
        """What can be clicked here, and where it leads."""
        here = self.address
        items: dict[str, Move] = {}
        start = Address(PageKind.START, here.session, raw=here.raw)
        buttons = {"Back to Search": Move(start)} if here.kind is not PageKind.START else {}
        if here.kind is PageKind.SEARCH:
            items = {asin: Move(replace(here, kind=PageKind.ITEM, asin=asin)) for asin in self.products}
            if not quirks.no_next_page:
                buttons["Next >"] = Move(replace(here, page=here.page + 1))
                buttons["< Prev"] = Move(replace(here, page=here.page - 1))
        elif here.kind is PageKind.ITEM:
            items = {value: self._choose(value, kind) for value, kind in self.option_types.items()}
            buttons |= {name: Move(replace(here, kind=PageKind.SUB, subpage=name)) for name in SUBPAGES}
            buttons["< Prev"] = Move(replace(here, kind=PageKind.SEARCH, asin="", options={}))
            buttons["Buy Now"] = Move(replace(here, kind=PageKind.DONE))
        elif here.kind is PageKind.SUB:
            buttons["< Prev"] = Move(replace(here, kind=PageKind.ITEM, subpage=""))
        if not quirks.unlisted_buttons:
            buttons = {name: move for name, move in buttons.items() if name in self.page.buttons}
        return items | buttons

    def _choose(self, value: str, option_type: str) -> Move:
        chosen = {**self.address.options, option_type: value}
        return Move(replace(self.address, options=chosen), f"You have clicked {value}.")


def _argument(rest: str, quirks: Quirks) -> str:
    """What stands between the brackets of `verb[rest`."""
    if quirks.cut_by_position:
        return rest[:-1]
    inner, bracket, _ = rest.rpartition("]")
    return (inner if bracket else rest).strip()
