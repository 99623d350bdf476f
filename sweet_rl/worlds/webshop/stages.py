"""The embedded shop as a command."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, Listening, Quiet, Seeded


@dataclass(frozen=True, kw_only=True)
class ShopFlags(Listening, Seeded, Compatible, Quiet):
    """The shop."""

    products: int = flag(1000, "how many things there are to buy.", at_least=1)


@stage(
    defaults={"port": 3000},
    helps={
        "seed": "draws catalogue and goals.",
        "compat": "how a purchase is compared with the goal: fixed, or published (by likeness, docs/webshop.md).",
        "quiet": "print errors only.",
    },
)
def serve_shop(flags: ShopFlags, /) -> None:
    """Serve the embedded shop: a small WebShop that needs no data and no download.

    It has the five routes of WebShop, a generated catalogue, a search ranked by BM25, and the reward of the
    WebShop paper. Session fixed_N is sent for goal N: http://127.0.0.1:3000/fixed_2000 is where goal 2000
    begins. The same seed and number of products make the same shop.
    """
    import asyncio

    from sweet_rl.worlds.webshop.shop import EmbeddedShop
    from sweet_rl.worlds.webshop.shop.server import serve

    shop = EmbeddedShop(flags.seed, flags.products, compat=flags.compat)
    asyncio.run(serve(shop, flags.host, flags.at_port, quiet=flags.quiet))
