"""WebShop: find what an instruction asks for, and buy it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sweet_rl.command_line.listing import StageEntry
from sweet_rl.contracts import Env, Policy, User
from sweet_rl.flags import flag, no_flag
from sweet_rl.types import Json
from sweet_rl.worlds.base import Rows, World
from sweet_rl.worlds.options import AgentRequest, Options
from sweet_rl.worlds.webshop.transcript import ShopTranscript

STAGES: Final[Mapping[str, StageEntry]] = {
    "serve_shop": StageEntry(
        f"{__name__}.stages:serve_shop",
        "Serve the embedded shop: a small WebShop that needs no data and no download.",
    ),
}
"""What is typed behind `sweet-rl`."""


@dataclass(frozen=True, kw_only=True)
class WebShopOptions(Options):
    """Options of WebShop.

    Args:
        webshop_lower: the first session that is learned from.
        webshop_upper: behind the last of them; as many sessions from it on are measured on.
    """

    place: str | None = flag(
        None, "the address of a shop's server; default: the embedded shop.", aliases=("game_place",)
    )
    webshop_lower: int = no_flag(2000)
    webshop_upper: int = no_flag(2100)


class WebShop(World):
    """WebShop: find what an instruction asks for, and buy it; in a shop of ours, or behind a server."""

    name = "webshop"
    max_turns = 10
    options = WebShopOptions
    train_tasks, test_tasks = "webshop:train", "webshop:test"
    sources = ("webshop",)
    agents = ("careful", "buyer", "random")
    agent_prompt = "llm_agent_webshop_prompt.txt"
    archer_config = "archer_webshop"
    player_rules = (
        "Find what the instruction asks for and buy it: search[words] on the start page, click[what "
        "stands in brackets] on any other. You have {turns} actions."
    )
    stages = STAGES

    def succeeded(self, reward: float, row: Mapping[str, Json], options: Options) -> bool | None:
        """Whether what was bought is all that was wanted."""
        return reward >= 1

    def reward_range(self, options: Options) -> tuple[float | None, float | None]:
        """What was bought is worth 1 at most."""
        return 0.0, 1.0

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        """Sessions of a split or a range; `2000-2100@server` are a server's, with goals of its own."""
        from sweet_rl.worlds.webshop.tasks import webshop_split

        return webshop_split(where.removesuffix("@server"), server=where.endswith("@server"), limit=limit)

    @asynccontextmanager
    async def open(self, options: Options, user: User | None) -> AsyncIterator[Callable[[], Env]]:
        """Open visits to one shop, embedded or behind an address, and close it at the end."""
        from sweet_rl.worlds.webshop.env import WebShopEnv
        from sweet_rl.worlds.webshop.quirks import quirks_of
        from sweet_rl.worlds.webshop.shop import EmbeddedShop
        from sweet_rl.worlds.webshop.shops import HttpShop, LocalShop

        place = options.place if isinstance(options, WebShopOptions) else None
        shop: HttpShop | LocalShop
        shop = LocalShop(EmbeddedShop(compat=options.compat).get) if place is None else HttpShop(place)
        quirks = quirks_of(options.compat)
        try:
            yield lambda: WebShopEnv(shop, max_turns=self.turns(options), quirks=quirks)
        finally:
            await shop.close()

    async def make_agent(self, wanted: AgentRequest) -> Policy:
        """Three agents: one searches for the goal, one buys the first product, one acts at random."""
        from sweet_rl.worlds.webshop.agents import ShopperPolicy

        if wanted.name not in self.agents:
            raise self.no_agent(wanted.name)
        turns = self.turns(wanted.options)
        return ShopperPolicy(wanted.name, max_turns=turns, system_prompt=wanted.system_prompt)

    def training_tasks(self, options: Options) -> tuple[str, str]:
        """A range of sessions, and as many behind it; a server's have goals of its own."""
        shop = options if isinstance(options, WebShopOptions) else WebShopOptions()
        lower, upper = shop.webshop_lower, shop.webshop_upper
        where = "" if shop.place is None else "@server"
        return f"webshop:{lower}-{upper}{where}", f"webshop:{upper}-{2 * upper - lower}{where}"

    def transcript(self) -> ShopTranscript:
        """All pages and actions, and the instruction once more."""
        return ShopTranscript()


WORLD = WebShop()
