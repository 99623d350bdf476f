"""The simulator server inside the test's own event loop: no process to wait for."""

from contextlib import asynccontextmanager

from aiohttp import web

from sweet_rl.users.server import SimulatorServer


@asynccontextmanager
async def serving(weather=None):
    """Yields the base URL."""
    runner = web.AppRunner(
        SimulatorServer(weather).application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()
