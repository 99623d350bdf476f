"""The viewer served to a browser on this machine: the page, the index, and each row when it is looked at.

It only reads, and it answers only to its own names: a foreign Host header is how a page elsewhere would make
a browser read private data from a loopback address (DNS rebinding). There are no accounts: all who can open
a connection to the address can read the rows, on loopback everybody with a login on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable

from aiohttp import web

from sweet_rl.errors import SweetRLError
from sweet_rl.serving import Limits, guard, listening
from sweet_rl.types import Json
from sweet_rl.viewer.content import Contents
from sweet_rl.viewer.page import build_page

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serve(
    contents: Contents,
    *,
    host: str = "127.0.0.1",
    port: int = 9785,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until interrupted (Ctrl-C).

    Args:
        contents: what is shown; closed at the end.
        host: address to listen on; anything but loopback makes the rows readable from elsewhere.
        port: 0 takes a free one.
        on_ready: called with the page's address once it can be opened.

    Raises:
        UsageError: the address cannot be listened on, for example because the port is taken.
    """
    app = make_app(contents, host=host)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(app, host, port, on_ready))


def make_app(contents: Contents, *, host: str = "127.0.0.1", limits: Limits | None = None) -> web.Application:
    """The web application: the page at `/`, and what it asks for under `/api/`.

    That is `index`, `rows/{position}`, `search?text=`, and `pictures/{position}/{name}`, which gives the
    pictures that a row shows and nothing else of the disk.
    """
    limits = limits or Limits(body_bytes=2**16)  # it is only read
    page = build_page(contents.title, contents.kind, served=True)
    search = TextSearch(contents)
    headers = {
        "Content-Security-Policy": f"{page.policy}; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    @web.middleware
    async def harden(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        response.headers.update(headers)
        return response

    async def get_page(_: web.Request) -> web.Response:
        return web.Response(text=page.head + page.tail, content_type="text/html")

    async def get_index(_: web.Request) -> web.Response:
        return _json(contents.index())

    async def prepared(request: web.Request) -> int:
        position = int(request.match_info["position"])
        if position >= len(contents):
            raise web.HTTPNotFound(text=f"There are {len(contents)} rows; {position} is not one.\n")
        try:
            await contents.prepare(position)
        except SweetRLError as error:  # has to be repaired first: shown in the page
            raise web.HTTPInternalServerError(text=f"{error}\n") from error
        return position

    async def get_row(request: web.Request) -> web.Response:
        return _json(contents.row(await prepared(request)))

    async def get_picture(request: web.Request) -> web.Response:
        position = await prepared(request)
        picture = await asyncio.to_thread(contents.picture, position, request.match_info["name"])
        if picture is None:
            raise web.HTTPNotFound(text="This row has no such picture.\n")
        return web.Response(body=picture, content_type="image/png")

    async def close(_: web.Application) -> None:
        await contents.close()

    async def get_matches(request: web.Request) -> web.Response:
        return _json(search.rows(request.query.get("text", "")))

    app = web.Application(middlewares=[guard(host, limits), harden], client_max_size=limits.body_bytes)
    app.router.add_get("/", get_page)
    app.router.add_get("/api/index", get_index)
    app.router.add_get(r"/api/rows/{position:\d{1,9}}", get_row)
    app.router.add_get(r"/api/pictures/{position:\d{1,9}}/{name:[a-z0-9]{1,9}}", get_picture)
    app.router.add_get("/api/search", get_matches)
    app.on_cleanup.append(close)
    return app


class TextSearch:
    """Rows that hold a text, whatever its case. The texts are collected when first asked for."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._texts: list[str] | None = None

    def rows(self, text: str) -> list[int]:
        """Positions of the rows in which `text` occurs, in file order."""
        if self._texts is None:
            self._texts = list(map(self._contents.searchable_text, range(len(self._contents))))
        wanted = text.lower()
        return [position for position, known in enumerate(self._texts) if wanted in known]


async def _serve(app: web.Application, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    async with listening(app, host, port) as actual:
        on_ready(_url(host, actual))
        await asyncio.Event().wait()


def _url(host: str, port: int) -> str:
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104  (a comparison)
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def _json(value: Json) -> web.Response:
    """ASCII, so that a lone surrogate in a model's text does not fail to encode."""
    return web.Response(
        text=json.dumps(value, ensure_ascii=True, allow_nan=False), content_type="application/json"
    )
