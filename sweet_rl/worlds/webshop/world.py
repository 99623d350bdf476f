"""WebShop: an agent searches for the product of an instruction, and buys it; the reward is the shop's score
at the purchase.

It speaks to any server with the five routes, and to the embedded shop (`sweet_rl.mini.shop`) through the
same code. Goals of the embedded shop are known, and rows hold them as hidden information; a server's are
only on its start page. Published behaviour: docs/published/archer.md#webshop.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from sweet_rl.cli.stage import StageEntry
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.errors import DataError, EpisodeError, UsageError, no_such
from sweet_rl.flags import flag, group, no_flag
from sweet_rl.prompts import load_prompt
from sweet_rl.types import Json, StepResult, StopReason
from sweet_rl.worlds.base import BaseEnv, Rows, World, no_agent
from sweet_rl.worlds.options import AgentRequest, Archer, Options, Scores, TaskLists
from sweet_rl.worlds.webshop.pages import (
    CLOSED,
    Address,
    Page,
    PageKind,
    ShopTranscript,
    read_page,
    shop_instruction,
)

if TYPE_CHECKING:
    from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop, Shop

PUBLISHED_SESSIONS: Final = (2000, 2100)
SPLITS: Final = {"": PUBLISHED_SESSIONS, "train": PUBLISHED_SESSIONS, "test": (2100, 2200)}
"""Goals are drawn one by one, so that any other hundred is held out."""

SUBPAGES: Final = ("Description", "Features", "Reviews", "Attributes")
_BUTTONS: Final = frozenset({"Buy Now", "Back to Search", "< Prev", "Next >", *SUBPAGES})
MAX_QUERY_BYTES: Final = 2000
"""UTF-8 bytes of a query; percent-encoded three times as many, what every server's address line can hold."""
INVALID_ACTION: Final = "Invalid action!"


class Move(NamedTuple):
    """Where to go, and what the agent reads instead of the page there (None: the page)."""

    address: Address
    says: str | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """The visitor's page, its actions, and what is kept of earlier pages."""

    address: Address
    page: Page
    published: bool = False
    option_types: Mapping[str, str] = field(default_factory=dict)
    products: tuple[str, ...] = ()

    def after(self, address: Address, page: Page) -> Visit:
        """The visit after `page` was fetched. As published, products beyond the third can be clicked, and
        options of an earlier item on one that has none."""
        kept = self.option_types if self.published else {}
        products = page.products or self.products if self.published else page.shown
        return Visit(address, page, self.published, page.options or kept, products)

    def move(self, action: str) -> Move | None:
        """What an action does; None when it is invalid.

        As published, its argument is everything behind the bracket but the last character, whatever that
        is, and may be empty. Repaired: it ends at the last closing bracket; blanks around it do not count,
        nor slashes, which no shop's address can carry; an empty query is invalid.
        """
        verb, bracket, rest = action.partition("[")
        if not bracket or verb not in {"search", "click", "think"}:
            return None
        inner, closed, _ = rest.rpartition("]")
        argument = rest[:-1] if self.published else (inner if closed else rest).strip()
        if verb == "think":
            return Move(self.address, "OK.")
        if verb == "click":
            move = self.offers().get(argument)
            # as published, on a start or sub page a click on nothing fetches the page again
            refetches = self.published and self.address.kind in {PageKind.START, PageKind.SUB}
            return Move(self.address) if move is None and refetches and argument not in _BUTTONS else move
        if not self.published:
            argument = " ".join(argument.replace("/", " ").split())
            too_long = len(argument.encode("utf-8", "replace")) > MAX_QUERY_BYTES
            if too_long or not any(letter.isalnum() for letter in argument):
                return None
        if self.address.kind is not PageKind.START:
            return None
        return Move(replace(self.address, kind=PageKind.SEARCH, query=argument))

    def offers(self) -> dict[str, Move]:
        """What can be clicked here, and where it leads. As published, a button works where its kind of page
        may have it; but "Next >" never does, and "< Prev" never turns back a result page."""
        here = self.address
        items: dict[str, Move] = {}
        start = Address(PageKind.START, here.session, raw=here.raw)
        buttons = {"Back to Search": Move(start)} if here.kind is not PageKind.START else {}
        if here.kind is PageKind.SEARCH:
            items = {asin: Move(replace(here, kind=PageKind.ITEM, asin=asin)) for asin in self.products}
            if not self.published:
                buttons["Next >"] = Move(replace(here, page=here.page + 1))
                buttons["< Prev"] = Move(replace(here, page=here.page - 1))
        elif here.kind is PageKind.ITEM:
            for value, option_type in self.option_types.items():
                chosen = {**here.options, option_type: value}
                items[value] = Move(replace(here, options=chosen), f"You have clicked {value}.")
            buttons |= {name: Move(replace(here, kind=PageKind.SUB, subpage=name)) for name in SUBPAGES}
            buttons["< Prev"] = Move(replace(here, kind=PageKind.SEARCH, asin="", options={}))
            buttons["Buy Now"] = Move(replace(here, kind=PageKind.DONE))
        elif here.kind is PageKind.SUB:
            buttons["< Prev"] = Move(replace(here, kind=PageKind.ITEM, subpage=""))
        if not self.published:
            buttons = {name: move for name, move in buttons.items() if name in self.page.buttons}
        return items | buttons


class WebShopEnv(BaseEnv):
    """One visit of the session that the task's row names. The rows' further fields are `bought` (None before
    a purchase) and `instruction`. As published, an episode cut short has one turn more, which does
    nothing."""

    _instruction = ""
    _bought: dict[str, object] | None = None

    def __init__(self, shop: Shop, *, max_turns: int = 10, published: bool = False) -> None:
        super().__init__(max_turns + published)
        self._shop, self._published = shop, published

    async def opening(self) -> str:
        task, self._bought, self.answer = self.task, None, None
        session, wanted = task.extra.get("session"), task.extra.get("instruction")
        if not isinstance(session, str) or not session:
            raise DataError(
                "must be the name of a shop's session",
                field="session",
                value=session,
                repair='It looks like "fixed_2000"; the task source webshop:2000-2100 makes such tasks.',
            )
        address = Address(PageKind.START, session, raw=self._published)
        page = await self._fetch(address)
        self._instruction = shop_instruction(page.text) or ""
        if isinstance(wanted, str) and wanted.split() != self._instruction.split():
            raise DataError(
                f"is not what the shop asks for in this session ({self._instruction.strip()!r})",
                field="instruction",
                value=wanted,
                repair="These tasks are of another shop; those of a server are webshop:2000-2100@server.",
            )
        self._visit = Visit(address, page, self._published).after(address, page)
        return page.text

    def visible(self, action: str) -> str:
        return action.removesuffix("\n")

    async def turn(self, action: str) -> StepResult:
        """Search, click or think; anything else, or not possible here, is an invalid action."""
        closed = self._published and self.last_turn
        reply, score = CLOSED if closed else INVALID_ACTION, None
        if not closed and (move := self._visit.move(self.visible(action))) is not None:
            page = await self._fetch(move.address)
            reply = page.text if move.says is None else move.says
            if move.address.kind is PageKind.DONE:
                score = page.score or 0.0
                self._bought = {"asin": move.address.asin, "options": dict(move.address.options)}
                self.answer = str(self._bought)
            self._visit = self._visit.after(move.address, page)
        return self.respond(reply, score or 0.0, terminated=score is not None)

    async def _fetch(self, address: Address) -> Page:
        from sweet_rl.openai_client import RequestFailed

        try:
            read = partial(read_page, address=address, published=self._published)
            return await self._shop.fetch(address, read)
        except RequestFailed as error:
            raise EpisodeError(StopReason.WORLD_FAILED, error.failure) from error

    def info(self) -> dict[str, object]:
        return {"instruction": self._instruction, "bought": self._bought}


def webshop_tasks(
    lower: int = PUBLISHED_SESSIONS[0], upper: int = PUBLISHED_SESSIONS[1], *, shop: Any = None
) -> Rows:
    """Rows of the sessions `lower` to `upper` - 1; with the goals of an embedded shop, where one is given."""
    if not 0 <= lower < upper:
        raise UsageError(
            f"Sessions go from a first number to a greater one, got {lower} and {upper}. Write 2000-2100."
        )
    rows: Rows = []
    for number in range(lower, upper):
        session = f"fixed_{number}"
        row = {"task_id": f"webshop/{number}", "session": session}
        if shop is None:
            row["problem_description"] = f"Buy what the shop's first page asks for (session {session})."
            row |= dict.fromkeys(("ground_truth", "hidden_information"), "")
        else:
            goal = shop.goal(session)
            row |= {
                "problem_description": goal.instruction,
                "instruction": goal.instruction,
                "shop": shop.name,
            }
            row |= dict.fromkeys(("ground_truth", "hidden_information"), goal.to_json())
        rows.append(row)
    return rows


@group("Options of WebShop; evaluation takes as many sessions as training, from `webshop_upper` on")
class WebShopOptions(Options):
    place: str | None = flag(
        None, "address of a shop's server; default: the embedded shop.", aliases=("game_place",)
    )
    webshop_lower: int = no_flag(2000)
    webshop_upper: int = no_flag(2100)


def session_lists(options: Options) -> tuple[str, str]:
    """A range of sessions, and as many behind it; a server's have goals of its own."""
    shop = options if isinstance(options, WebShopOptions) else WebShopOptions()
    lower, upper = shop.webshop_lower, shop.webshop_upper
    where = "" if shop.place is None else "@server"
    return f"webshop:{lower}-{upper}{where}", f"webshop:{upper}-{2 * upper - lower}{where}"


class WebShop(World):
    """WebShop: find what an instruction asks for, and buy it; in a shop of ours, or behind a server."""

    name = "webshop"
    max_turns = 10
    options = WebShopOptions
    tasks = TaskLists("webshop:train", "webshop:test", drawn=session_lists)
    scores = Scores(lowest=0.0, highest=1.0)
    agents: ClassVar = {"careful": {}, "buyer": {}, "random": {}}
    archer = Archer(config="archer_webshop")
    system_prompt = load_prompt("llm_agent_webshop_prompt")
    player_rules = (
        "Find what the instruction asks for and buy it: search[words] on the start page, click[what "
        "stands in brackets] on any other. You have {turns} actions."
    )
    stages: ClassVar = {
        "serve_shop": StageEntry(
            "sweet_rl.mini.shop:serve_shop",
            "Serve the embedded shop: a small WebShop that needs no data and no download.",
        )
    }

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        return reward >= 1

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        split = where.removesuffix("@server")
        numbers = re.fullmatch(r"(\d{1,9})-(\d{1,9})", split)
        if numbers is None and split not in SPLITS:
            raise no_such("split of webshop", split, ("train", "test", "2000-2100"))
        lower, upper = (int(numbers[1]), int(numbers[2])) if numbers else SPLITS[split]
        if limit and lower < upper:
            upper = min(upper, lower + limit)
        if where.endswith("@server"):
            return webshop_tasks(lower, upper)
        shop = import_module("sweet_rl.mini.shop").EmbeddedShop()
        try:
            return webshop_tasks(lower, upper, shop=shop)
        finally:
            shop.close()

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop

        place = options.place if isinstance(options, WebShopOptions) else None
        shop: HttpShop | LocalShop
        if place is None:
            shop = LocalShop(import_module("sweet_rl.mini.shop").EmbeddedShop(compat=options.compat).get)
        else:
            shop = HttpShop(place)
        try:
            yield lambda: WebShopEnv(shop, max_turns=self.turns(options), published=options.published)
        finally:
            await shop.close()

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        if wanted.name not in self.agents:
            raise no_agent(self, wanted.name)
        shopper: Policy = import_module("sweet_rl.mini.shopper").ShopperPolicy(
            wanted.name, max_turns=self.turns(wanted.options), system_prompt=wanted.system_prompt
        )
        return shopper

    def transcript(self) -> ShopTranscript:
        return ShopTranscript()


WORLD = WebShop()
