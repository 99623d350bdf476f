"""A real OpenAI-compatible server in a thread, whose model says what the test wants."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web

from sweet_rl.users.server import SimulatorServer


@contextmanager
def talking(speaker, fault_profile=None, asked=None):
    """Yields the base URL; the model is called "m", and is given the last user message.

    What it is asked goes into the list `asked`: the request's body, with `path` and `key` beside its fields.
    """
    ready = threading.Event()
    shared = {}

    async def serve():
        server = SimulatorServer({}, fault_profile)
        server._speakers["m"] = lambda messages: speaker(messages[-1].text)
        application = server.application()
        application.middlewares.append(_listening(asked))
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        shared["stop"], shared["loop"] = asyncio.Event(), asyncio.get_running_loop()
        shared["port"] = runner.addresses[0][1]
        ready.set()
        await shared["stop"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield f"http://127.0.0.1:{shared['port']}/v1"
    finally:
        shared["loop"].call_soon_threadsafe(shared["stop"].set)
        thread.join(10)


def _listening(asked):
    @web.middleware
    async def listen(request, handler):
        if asked is not None and request.method == "POST":
            key = request.headers.get("Authorization", "").removeprefix("Bearer ")
            asked.append({**await request.json(), "path": request.path, "key": key})
        return await handler(request)

    return listen
