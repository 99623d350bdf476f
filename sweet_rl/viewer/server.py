"""The viewer served to a browser on this machine: the page, the files, and each row when it is looked at.

It only reads, and it answers only to its own names: a foreign Host header is how a page elsewhere would make
a browser read private data from a loopback address (DNS rebinding). Who has no token is answered nothing: on
a machine with several users, loopback belongs to all of them. The token comes with the printed address; a
cookie keeps it from then on.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from sweet_rl import serving
from sweet_rl.errors import SweetRLError
from sweet_rl.serving import Limits, guard
from sweet_rl.types import Json
from sweet_rl.viewer.export import build_page
from sweet_rl.viewer.library import Library, Shown
from sweet_rl.viewer.rows import LAYOUTS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PATIENCE_S = 0.4
"""So long an index is waited for before the page is told how far it is."""


def serve(
    library: Library,
    *,
    host: str = "127.0.0.1",
    port: int = 9785,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` is given the address, token and all. Port 0 takes a free one."""
    token = secrets.token_urlsafe(24)
    name = socket.gethostname() if host in {"0.0.0.0", "::"} else host
    name = f"[{name}]" if ":" in name else name

    def ready(actual: int) -> None:
        on_ready(f"http://{name}:{actual}/?token={token}")

    asyncio.run(serving.serve(make_app(library, token=token, host=host), host, port, on_ready=ready))


def make_app(
    library: Library, *, token: str, host: str = "127.0.0.1", limits: Limits | None = None
) -> web.Application:
    """The web application: the page at `/`, and what it asks for under `/api/`.

    That is `files`, `results/{file}`, `index/{file}`, `rows/{file}/{position}`, `search/{file}?text=`, `documents/{file}`, and
    `pictures/{file}/{position}/{name}`, which gives the pictures that a row shows and nothing else.
    """
    limits = limits or Limits(body_bytes=2**16)  # it is only read
    page = build_page(library.title, served=True)
    headers = {
        "Content-Security-Policy": f"{page.policy}; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    asked = _Asked(library)

    @web.middleware
    async def harden(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            try:
                response = await handler(request)
            except SweetRLError as error:  # has to be repaired first: shown in the page
                raise web.HTTPInternalServerError(text=f"{error}\n") from error
        except web.HTTPException as error:
            error.headers.update(headers)
            raise
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response

    async def get_page(_: web.Request) -> web.Response:
        return web.Response(text=page.head + page.tail, content_type="text/html")

    async def close(_: web.Application) -> None:
        await asked.close()
        await library.close()

    layers = [harden, guard(host, limits), _only_with(token)]
    app = web.Application(middlewares=layers, client_max_size=limits.body_bytes)
    app.router.add_get("/", get_page)
    app.router.add_get("/api/files", asked.files)
    app.router.add_get(r"/api/results/{file:\d{1,6}}", asked.result)
    app.router.add_get(r"/reports/{file:\d{1,6}}", asked.report)
    app.router.add_get(r"/api/index/{file:\d{1,6}}", asked.index)
    app.router.add_get(r"/api/rows/{file:\d{1,6}}/{position:\d{1,9}}", asked.row)
    app.router.add_get(r"/api/search/{file:\d{1,6}}", asked.search)
    app.router.add_get(r"/api/documents/{file:\d{1,6}}", asked.document)
    app.router.add_get(r"/api/pictures/{file:\d{1,6}}/{position:\d{1,9}}/{name:[a-z0-9]{1,9}}", asked.picture)
    app.on_cleanup.append(close)
    return app


class _Asked:
    """The answers. What reads files does so in threads, so that one large file does not stop the others."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._making: dict[int, asyncio.Task[str]] = {}

    async def files(self, _: web.Request) -> web.Response:
        files = await asyncio.to_thread(self._library.listing)
        return _json({"title": self._library.title, "about": self._library.about, "files": files})

    async def index(self, request: web.Request) -> web.Response:
        """The index of a file's rows, or (202) how far it has been made."""
        shown = self._of(request)
        making = self._making.get(shown.number) or asyncio.create_task(self._index(shown))
        self._making[shown.number] = making
        done, _ = await asyncio.wait([making], timeout=_PATIENCE_S)
        if not done:
            read, size = shown.progress()
            return _json({"done": read, "of": size}, status=202)
        del self._making[shown.number]
        return web.Response(text=making.result(), content_type="application/json")

    async def result(self, request: web.Request) -> web.Response:
        shown = self._of(request)
        await asyncio.to_thread(shown.bring_up)
        return _json(await asyncio.to_thread(shown.result))

    async def report(self, request: web.Request) -> web.Response:
        """A run's own page: a file that anybody may have made, so it may run nothing and load nothing."""
        page = self._of(request).report_page()
        if page is None:
            raise web.HTTPNotFound(text="There is no report.html beside this file.\n")
        allowed = "style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
        policy = f"sandbox; default-src 'none'; {allowed}"
        body, headers = await asyncio.to_thread(page.read_bytes), {"Content-Security-Policy": policy}
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)

    async def row(self, request: web.Request) -> web.Response:
        shown, position = await self._prepared(request)
        try:
            return _json(await asyncio.to_thread(shown.row, position))
        except OSError as error:
            raise web.HTTPInternalServerError(text=f"{error}\n") from error

    async def search(self, request: web.Request) -> web.Response:
        shown = self._of(request)
        if shown.index is None:
            raise web.HTTPNotFound(text=f"{shown.name} has no rows.\n")
        return _json(await asyncio.to_thread(shown.index.search, request.query.get("text", "")))

    async def document(self, request: web.Request) -> web.Response:
        return _json(await asyncio.to_thread(self._of(request).document))

    async def picture(self, request: web.Request) -> web.Response:
        (shown, position), picture = await self._prepared(request), None
        if shown.pictures is not None:
            picture = await asyncio.to_thread(shown.pictures.picture, position, request.match_info["name"])
        if picture is None:
            raise web.HTTPNotFound(text="This row has no such picture.\n")
        return web.Response(body=picture, content_type="image/png")

    async def close(self) -> None:
        for task in self._making.values():
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)

    def _of(self, request: web.Request) -> Shown:
        number = int(request.match_info["file"])
        if number >= len(self._library.files):
            raise web.HTTPNotFound(text=f"There are {len(self._library.files)} files; {number} is none.\n")
        return self._library.files[number]

    async def _index(self, shown: Shown) -> str:
        await asyncio.to_thread(shown.bring_up)
        return await asyncio.to_thread(shown.listing)

    async def _prepared(self, request: web.Request) -> tuple[Shown, int]:
        shown, position = self._of(request), int(request.match_info["position"])
        count = 0 if shown.index is None else await asyncio.to_thread(shown.index.__len__)
        if position >= count or shown.kind not in LAYOUTS:
            raise web.HTTPNotFound(text=f"{shown.name} has {count} rows; {position} is not one.\n")
        if shown.pictures is not None:
            await shown.pictures.prepare(position)
        return shown, position


def _only_with(token: str) -> Middleware:
    """A middleware that answers those only who have the token, in the address or in the cookie after it."""
    name = f"sweet_rl_view_{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.query.get("token", request.cookies.get(name, ""))
        if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
            raise web.HTTPForbidden(text="Open the address that `sweet-rl view` printed; it has a token.\n")
        if request.path == "/" and "token" in request.query:
            answer = web.HTTPFound("/")  # the fragment, which names the view, stays with the browser
            answer.set_cookie(name, token, httponly=True, samesite="Lax", path="/")
            raise answer
        return await handler(request)

    return checked


def _json(value: Json, *, status: int = 200) -> web.Response:
    """ASCII, so that a lone surrogate in a model's text does not fail to encode."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return web.Response(text=text, content_type="application/json", status=status)
