"""The viewer served to a browser on this machine: the page, the index, and each row when it is looked at.

It only reads, and it answers only to its own names: a foreign Host header is how a page elsewhere would make
a browser read private data from a loopback address (DNS rebinding). There are no accounts: whoever can open
a connection to the address can read the rows, on loopback everybody with a login on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from sweet_rl.errors import SweetRLError, UsageError
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
        UsageError: the address cannot be listened on, say because the port is taken.
    """
    app = make_app(contents, host=host)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(app, host, port, on_ready))


def make_app(contents: Contents, *, host: str = "127.0.0.1") -> web.Application:
    """The web application: the page at `/`, and what it asks for under `/api/`.

    That is `index`, `rows/{position}`, `search?text=`, and `pictures/{position}/{name}`, which gives the
    pictures that a row shows and nothing else of the disk.
    """
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
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not is_own_name(request.host, host):
            raise web.HTTPForbidden(text=f"This viewer does not answer to the name {request.host!r}.\n")
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
        except SweetRLError as error:  # only a person can mend it: say so where they look
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

    app = web.Application(middlewares=[guard])
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


def is_loopback(host: str) -> bool:
    """True when only this machine can connect to `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_own_name(host_header: str, host: str) -> bool:
    """Whether a request with this Host header is meant for a server that listens on `host`.

    An address is nobody's name and cannot be rebound, so any will do where other machines are let in; tunnels
    change the port, so it does not matter.
    """
    try:
        name = urlsplit(f"//{host_header}").hostname or ""
    except ValueError:
        return False
    if is_loopback(host):
        return is_loopback(name)
    return name in {host.lower(), "localhost", socket.gethostname().lower(), socket.getfqdn().lower()} or (
        _is_address(name)
    )


async def _serve(app: web.Application, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"Cannot listen on {host}, port {port}: {error}. "
                "Choose another --port (0 takes a free one) or an address of this machine as --host."
            ) from error
        on_ready(_url(host, runner.addresses[0][1]))
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _url(host: str, port: int) -> str:
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host  # noqa: S104  (a comparison)
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _json(value: Json) -> web.Response:
    """ASCII, so that a lone surrogate in a model's text does not fail to encode."""
    return web.Response(
        text=json.dumps(value, ensure_ascii=True, allow_nan=False), content_type="application/json"
    )
