"""The shop's server inside the test's own event loop: no process to wait for."""

from contextlib import asynccontextmanager

from aiohttp import web

from sweet_rl.shop.server import application


@asynccontextmanager
async def serving(shop, app=None):
    """Yields the base URL."""
    runner = web.AppRunner(app or application(shop), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
