"""The WebShop world: an agent searches for the product of an instruction, and buys it.

It speaks to any server with the five routes, the published one's included, and to the embedded shop
(`webshop.shop`) through the same code. The reward is 0 until something is bought, then the shop's score.

A visit's decisions are pure: an action becomes a `Move` (the address to fetch and what the visitor reads),
or None when it is invalid.

Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from sweet_rl.errors import DataError, EpisodeError
from sweet_rl.openai_client import RequestFailed
from sweet_rl.types import Message, Observation, StepResult, StopReason, Task
from sweet_rl.worlds.webshop.page import Address, Page, PageKind, read_page
from sweet_rl.worlds.webshop.quirks import FIXED, Quirks
from sweet_rl.worlds.webshop.shops import Shop
from sweet_rl.worlds.webshop.transcript import CLOSED, shop_instruction

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


INVALID_ACTION = "Invalid action!"
MAX_TURNS = 10


class WebShopEnv:
    """One visit. The task's row names the shop's session (`"session": "fixed_2000"`).

    The first observation is the start page, with the instruction in it; later ones what the shop says to an
    action. The row's further fields: `bought` (asin and options, None before a purchase) and `instruction`.
    """

    def __init__(self, shop: Shop, *, max_turns: int = MAX_TURNS, quirks: Quirks = FIXED) -> None:
        self._shop = shop
        self._max_turns = max_turns
        self._quirks = quirks
        self._done = True
        self._steps = 0
        self._instruction = ""
        self._bought: dict[str, object] | None = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Enter the shop."""
        self._task, self._seed = task, seed
        self._done, self._steps, self._bought = True, 0, None
        address = Address(PageKind.START, _session_of(task), raw=self._quirks.raw_addresses)
        page = await self._fetch(address)
        self._instruction = shop_instruction(page.text) or ""
        _same_instruction(task, self._instruction)
        self._visit = Visit(address, page).after(address, page, self._quirks)
        self._messages = [Message("user", page.text)]
        self._done = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """Search, click or think; anything else, or not possible here, is an invalid action."""
        content = action.removesuffix("\n")
        if self._done:
            return StepResult(content, action, None, terminated=True, info=self._info())
        if self._quirks.late_limit and self._steps >= self._max_turns:
            self._messages += [Message("assistant", content), Message("user", CLOSED)]
            return self._cut_short(content, action)
        self._steps += 1
        move = self._visit.move(content, self._quirks)
        reply = INVALID_ACTION
        score: float | None = None
        if move is not None:
            page = await self._fetch(move.address)
            reply = page.text if move.says is None else move.says
            if move.address.kind is PageKind.DONE:
                score = page.score or 0.0
                self._bought = {"asin": move.address.asin, "options": dict(move.address.options)}
            self._visit = self._visit.after(move.address, page, self._quirks)
        self._messages += [Message("assistant", content), Message("user", reply)]
        if score is not None:
            return self._sold(content, action, score)
        if self._steps >= self._max_turns and not self._quirks.late_limit:
            return self._cut_short(content, action)
        return StepResult(content, action, self._observe(), reward=0.0, info=self._info())

    async def close(self) -> None:
        """Nothing to free: the shop outlives the episode."""

    async def _fetch(self, address: Address) -> Page:
        try:
            return await self._shop.fetch(address, partial(read_page, address=address, quirks=self._quirks))
        except RequestFailed as error:
            self._done = True
            raise EpisodeError(StopReason.WORLD_FAILED, error.failure) from error

    def _sold(self, content: str, action: str, score: float) -> StepResult:
        self._done = True
        return StepResult(
            content,
            action,
            self._observe(),
            reward=score,
            terminated=True,
            stop_reason=StopReason.ENDED,
            answer=str(self._bought),
            info=self._info(),
        )

    def _cut_short(self, content: str, action: str) -> StepResult:
        self._done = True
        return StepResult(
            content,
            action,
            self._observe(),
            reward=0.0,
            truncated=True,
            stop_reason=StopReason.TURN_LIMIT,
            info=self._info(),
        )

    def _info(self) -> dict[str, object]:
        return {"instruction": self._instruction, "bought": self._bought}

    def _observe(self) -> Observation:
        return Observation(self._task.task_id, tuple(self._messages), self._seed)


def _session_of(task: Task) -> str:
    session = task.extra.get("session")
    if not isinstance(session, str) or not session:
        raise DataError(
            "must be the name of a shop's session",
            field="session",
            value=session,
            repair='It looks like "fixed_2000"; the task source webshop:2000-2100 makes such tasks.',
        )
    return session


def _same_instruction(task: Task, found: str) -> None:
    """Refuse tasks of one shop in another one: their answers would be wrong."""
    wanted = task.extra.get("instruction")
    if isinstance(wanted, str) and wanted.split() != found.split():
        raise DataError(
            f"is not what the shop asks for in this session ({found.strip()!r})",
            field="instruction",
            value=wanted,
            repair="These tasks are of another shop. Sessions of a server whose goals are unknown are "
            "webshop:2000-2100@server.",
        )
