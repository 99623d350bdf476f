"""The embedded shop over HTTP: the five routes of WebShop, as HTML."""

from __future__ import annotations

import os
from typing import Final

from aiohttp import web

from sweet_rl import serving
from sweet_rl.serving import Limits, guard
from sweet_rl.worlds.webshop.shop.shop import EmbeddedShop, NoSuchPage

READY: Final = "Serving a shop at "
LIMITS: Final = Limits(body_bytes=2**16)
"""A shop is only read: no request has a body to speak of."""


def application(shop: EmbeddedShop, host: str = "127.0.0.1", limits: Limits = LIMITS) -> web.Application:
    """Every GET goes to the shop; an unknown path is a 404."""

    async def get(request: web.Request) -> web.Response:
        try:
            html = shop.get(request.rel_url.raw_path)
        except NoSuchPage as error:
            return web.Response(status=404, text=str(error))
        return web.Response(text=html, content_type="text/html")

    app = web.Application(middlewares=[guard(host, limits)], client_max_size=limits.body_bytes)
    app.router.add_get("/{path:.*}", get)
    return app


async def serve(
    shop: EmbeddedShop, host: str, port: int, *, quiet: bool = False, limits: Limits = LIMITS
) -> None:
    """Serve until SIGINT or SIGTERM; prints one line once requests are accepted."""

    def ready(actual: int) -> None:
        if not quiet:
            print(f"{READY}http://{host}:{actual} (pid {os.getpid()})", flush=True)

    await serving.serve(application(shop, host, limits), host, port, on_ready=ready, limits=limits)
