"""The shop's server inside the test's own event loop: no process to wait for."""

from contextlib import asynccontextmanager

from sweet_rl.mini.shop import application
from sweet_rl.serving import listening


@asynccontextmanager
async def serving(shop, app=None):
    """Yields the base URL."""
    async with listening(app or application(shop), "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}"
