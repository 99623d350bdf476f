"""The simulator server inside the test's own event loop: no process to wait for."""

from contextlib import asynccontextmanager

from sweet_rl.mini.backend.human import answer_served
from sweet_rl.serving import listening
from sweet_rl.users.server import SimulatorServer


@asynccontextmanager
async def serving(fault_profile=None, **flags):
    """Yields the base URL."""
    app = SimulatorServer({"scripted": answer_served}, fault_profile, **flags).application()
    async with listening(app, "127.0.0.1", 0) as port:
        yield f"http://127.0.0.1:{port}/v1"
