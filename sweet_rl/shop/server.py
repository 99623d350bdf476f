"""The embedded shop over HTTP, for clients that know nothing of it: the five routes of WebShop, as HTML."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

from aiohttp import web

from sweet_rl.errors import UsageError
from sweet_rl.shop.shop import EmbeddedShop, NoSuchPage

READY: Final = "Serving a shop at "


def application(shop: EmbeddedShop) -> web.Application:
    """Every GET goes to the shop; what it does not have is a 404."""

    async def get(request: web.Request) -> web.Response:
        try:
            html = shop.get(request.rel_url.raw_path)
        except NoSuchPage as error:
            return web.Response(status=404, text=str(error))
        return web.Response(text=html, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", get)
    return app


async def serve(shop: EmbeddedShop, host: str, port: int, *, quiet: bool = False) -> None:
    """Serve until SIGINT or SIGTERM; prints one line once requests are accepted.

    Raises:
        UsageError: the address cannot be used.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    runner = web.AppRunner(application(shop), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"Cannot listen at {host}:{port} ({reason}). Choose another --port (0 for any) or --host."
            ) from error
        if not quiet:
            actual = runner.addresses[0][1]
            print(f"{READY}http://{host}:{actual} (pid {os.getpid()})", flush=True)  # noqa: T201
        await stopped.wait()
    finally:
        await runner.cleanup()
