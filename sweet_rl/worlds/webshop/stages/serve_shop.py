"""The embedded shop as a command."""

from __future__ import annotations


def serve_shop(
    *,
    host: str = "127.0.0.1",
    port: int = 3000,
    products: int = 1000,
    seed: int = 0,
    compat: str = "fixed",
    quiet: bool = False,
) -> None:
    """Serve the embedded shop: a small WebShop that needs no data and no download.

    It has the five routes of WebShop, a generated catalogue, a search ranked by BM25, and the reward of the
    WebShop paper. Session fixed_N is sent for goal N: http://127.0.0.1:3000/fixed_2000 is where goal 2000
    begins. The same seed and number of products make the same shop.

    Args:
        host: address to listen at.
        port: port to listen at; 0 for any free one, which is printed.
        products: how many things there are to buy.
        seed: draws catalogue and goals.
        compat: how a purchase is compared with the goal: fixed, or published (by likeness, docs/webshop.md).
        quiet: print errors only.
    """
    import asyncio

    from sweet_rl.worlds.webshop.shop import EmbeddedShop
    from sweet_rl.worlds.webshop.shop.server import serve

    asyncio.run(serve(EmbeddedShop(seed, products, compat=compat), host, port, quiet=quiet))
