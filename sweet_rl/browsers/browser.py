"""A browser's processes, its pipe and its pages, as far as Chromium and Firefox have them in common.

A browser runs, where the kernel allows it, in namespaces of its own: one for the network, without any
interface, and one for processes, in which nothing outlives its first. It has an empty home and ends with us.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, Self

from sweet_rl.browsers.assets import FONTS, asset_for
from sweet_rl.browsers.page import Box, RenderedPage, RenderFailed, RenderSettings
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.types import Failure, Json

CLOSED = "closed"
"""The event that every handler gets when the browser has ended."""

PAGE_URL = "http://page.invalid/"
"""The address that pages see as their own: a name that cannot exist."""

MAX_BOXES, MAX_TEXT, MAX_PROBLEMS = 2_000, 500, 50
_PATIENCE_MS = 5_000
"""How long a page's fonts and pictures may take to decode."""
_CLOSE_S = 5.0

_HOME_PREFIX = "sweet-rl-browser-"
_ATTACH = 'exec 3<&0 4>&1 </dev/null >/dev/null; exec "$@"'
"""Browsers read from descriptor 3 and write to descriptor 4."""


class BrowserGone(Exception):
    """The browser, or the page's process in it, ended in the middle."""


class CommandFailed(Exception):
    """The browser answered a command with an error."""


class Wire(asyncio.Protocol):
    """The pipe to a browser: JSON messages, each ended by a zero byte. It does not know commands.

    Commands are sent without awaiting the one before, which is most of the speed. Events go to the handler of
    their session ("" is the browser itself).
    """

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[str, Json], None]] = {}
        self.closed = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._chunks: list[bytes] = []
        self._last_id = 0
        self._reading: asyncio.BaseTransport | None = None
        self._writing: asyncio.WriteTransport | None = None

    async def connect(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        """Take over the two ends of the pipes."""
        loop = asyncio.get_running_loop()
        self._reading, _ = await loop.connect_read_pipe(lambda: self, reading)
        # what the end that writes would report, the end that reads reports too
        self._writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, writing)

    def send(self, method: str, session: str = "", **params: Json) -> asyncio.Future[Json]:
        """Send a command now; the future is its result. One that is not awaited may fail unnoticed."""
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.closed.is_set() or self._writing is None:
            answer.set_exception(BrowserGone("the browser has ended"))
            return answer
        self._last_id += 1
        message: dict[str, Json] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._waiting[self._last_id] = answer
        self._writing.write(json.dumps(message).encode() + b"\0")
        return answer

    def close(self) -> None:
        """Close both ends; everything that waits gets an error."""
        self.connection_lost(None)
        for transport in (self._reading, self._writing):
            if transport is not None:
                transport.close()

    def data_received(self, data: bytes) -> None:
        """Collect bytes until a message is whole."""
        *whole, rest = data.split(b"\0")
        for part in whole:
            message, self._chunks = b"".join([*self._chunks, part]), []
            self._dispatch(json.loads(message))
        if rest:
            self._chunks.append(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that waits: the other side has closed the connection."""
        self.closed.set()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(BrowserGone("the browser has ended"))
        handlers, self.handlers = self.handlers, {}
        for handler in handlers.values():
            handler(CLOSED, {})

    def _dispatch(self, message: dict[str, Json]) -> None:
        if message.get("id") is None:
            handler = self.handlers.get(message.get("sessionId", ""))
            if handler is not None and "method" in message:
                handler(message["method"], message.get("params") or {})
            return
        answer = self._waiting.pop(message["id"], None)
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result") or {})
        else:  # DevTools gives an object, BiDi a word and a sentence
            text = error.get("message") if isinstance(error, dict) else f"{error}: {message.get('message')}"
            answer.set_exception(CommandFailed(str(text)))


class Browser:
    """One running browser, which renders some pages side by side.

    Attributes:
        names: of the program on the PATH.
        places: where it is looked for first.
        install: how it is installed.
        environment: variables beside the few that every browser gets.
        start_s: how long its start may take.
    """

    names: ClassVar[tuple[str, ...]]
    places: ClassVar[tuple[str, ...]] = ()
    install: ClassVar[str]
    environment: ClassVar[dict[str, str]] = {}
    start_s: ClassVar[float]

    def __init__(self, process: subprocess.Popen[bytes], home: Path, settings: RenderSettings) -> None:
        self.process, self.home, self.settings = process, home, settings
        self.wire = Wire()
        script = (Path(__file__).parent / "measure.js").read_text()
        script = script[script.index("async") :].rstrip().rstrip(";")
        self.script = f"({script})({MAX_BOXES}, {MAX_TEXT}, {_PATIENCE_MS})"
        """The expression that brings a page to rest and measures it."""

    @classmethod
    def find(cls) -> str:
        """The path of the installed program."""
        found = next((place for place in cls.places if Path(place).exists()), None)
        found = found or next(filter(None, map(shutil.which, cls.names)), None)
        if found is None:
            raise UsageError(
                f"Rendering pages needs {cls.__name__}, and there is none on the PATH. Install it: {cls.install}"
            )
        return found

    @classmethod
    async def start(cls, settings: RenderSettings) -> Self:
        """Start one, in namespaces of its own where these can be had and nothing of the network is wanted."""
        program, isolated = cls.find(), settings.network == "none"
        _sweep()
        home = Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-"))
        prefix = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it dies with us
        prefix += namespaces() if isolated else ()
        to_child, from_us = os.pipe()
        to_us, from_child = os.pipe()
        try:
            environment = _environment(home) | cls.environment
            with (home / "stderr.txt").open("wb") as complaints:
                process = subprocess.Popen(  # noqa: ASYNC220 - returns once it is forked
                    [*prefix, "sh", "-c", _ATTACH, "sh", *cls.command(program, home, settings)],
                    stdin=to_child,
                    stdout=from_child,
                    stderr=complaints,
                    env=environment,
                    cwd=home,
                    start_new_session=True,  # Ctrl-C is for us
                )
        except OSError as error:
            for end in (from_us, to_us):
                os.close(end)
            shutil.rmtree(home, ignore_errors=True)
            raise ServiceError(f"The browser cannot be started: {error}.") from error
        finally:
            os.close(to_child)
            os.close(from_child)
        browser = cls(process, home, settings)
        await browser.wire.connect(os.fdopen(to_us, "rb", 0), os.fdopen(from_us, "wb", 0))
        try:
            async with asyncio.timeout(cls.start_s):
                await browser.begin()
        except (BrowserGone, CommandFailed, TimeoutError) as error:
            output = "nothing"
            with contextlib.suppress(OSError):
                output = (home / "stderr.txt").read_text(errors="replace")[-600:].strip() or output
            await browser.kill()
            raise ServiceError(f"{program} does not start. Its output: {output}") from error
        except BaseException:
            await browser.kill()
            raise
        return browser

    @classmethod
    def command(cls, program: str, home: Path, settings: RenderSettings) -> Sequence[str]:
        """The command line."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Open the session with a browser that was just started."""
        raise NotImplementedError

    async def render(self, html: str) -> RenderedPage:
        """Render one page; raises `RenderFailed`, `BrowserGone` or `TimeoutError`."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Whether the browser still answers; False asks for a new one."""
        return not self.wire.closed.is_set()

    def memory_mb(self) -> float:
        """Memory that is the browser's own, in all its processes; files and libraries are not counted."""
        kilobytes = 0
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                kilobytes += sum(
                    int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))
                )
        return kilobytes / 1024

    async def kill(self) -> None:
        """End it at once, with all its processes, and remove its home."""
        self.wire.close()
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(shutil.rmtree, self.home, ignore_errors=True)

    async def end_page(self, method: str, **params: Json) -> None:
        """End a page that hangs; the whole browser if it hangs with it."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.wire.send(method, **params)
        except (TimeoutError, BrowserGone):
            await self.kill()
        except CommandFailed:
            pass  # it is gone already


def _sweep() -> None:
    """Remove the homes of browsers whose owner was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_HOME_PREFIX}*-*"):
        owner = folder.name.removeprefix(_HOME_PREFIX).split("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def namespaces() -> tuple[str, ...]:
    """The command that puts another one into namespaces of its own; empty where the kernel refuses."""
    if shutil.which("unshare") is None:
        return ()
    user = () if os.geteuid() == 0 else ("--map-current-user",)
    for more in (
        ("--pid", "--fork", "--kill-child", "--mount-proc"),
        ("--pid", "--fork", "--kill-child"),
        (),
    ):
        command = ("unshare", *user, "--net", *more)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=20)
            if done.returncode == 0:
                return command
    return ()


def _environment(home: Path) -> dict[str, str]:
    """Our fonts and the search path: no secrets, no proxies, no settings of the desktop."""
    fonts = home / "fonts.conf"
    fonts.write_text((FONTS.parent / "fonts.conf").read_text().format(fonts=FONTS, home=home))
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        **dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), str(home)),
        **{"LANG": "en_US.UTF-8", "LANGUAGE": "en_US", "TZ": "UTC", "FONTCONFIG_FILE": str(fonts)},
        **dict.fromkeys(("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"), "disabled:"),
    }


def descendants(pid: int) -> list[int]:
    """The process and all that it has started, directly or not."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):  # it may end at any moment
            for thread in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(OSError):
                    found.extend(map(int, (thread / "children").read_text().split()))
    return found


@dataclass(frozen=True, slots=True)
class Response:
    """What a request is given. 204, "no content": what is shown stays, where a failure would show the browser's own page."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Page:
    """One page on its way: what its requests are given, what it tried in vain, what was measured of it."""

    def __init__(self, settings: RenderSettings, html: str) -> None:
        self.settings, self.html = settings, html
        self.served = False
        self._problems: dict[str, None] = {}
        self._boxes: list[Json] = []

    def note(self, problem: str) -> None:
        """Note once what it was not given, or what was done to it; without end is none noted."""
        if len(self._problems) < MAX_PROBLEMS:
            self._problems[problem[:300]] = None

    def respond(self, url: str, *, main: bool, document: bool) -> Response | None:
        """The page itself, where its window asks for it for the first time; an asset; or nothing (None: it fails).

        The headers of a page make the browser itself hold it in a box. `sandbox` forbids scripts, popups, forms,
        downloads, dialogues, `<meta refresh>`, storage and service workers.
        """
        if main and not self.served and url == PAGE_URL:
            self.served = True
            policy = "sandbox allow-scripts" if self.settings.allow_scripts else "sandbox"
            if self.settings.network == "none":
                policy += "; connect-src 'none'; worker-src 'none'; object-src 'none'; webrtc 'block'"
            headers = {"Content-Security-Policy": policy, "X-DNS-Prefetch-Control": "off"}
            headers |= {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
            return Response(200, headers, self.html.encode())
        asset = None
        if main:
            self.note(f"blocked navigation to {url}")
        elif asset := asset_for(url, None if self.settings.allow_scripts else self.html or None):
            if asset.note:
                self.note(asset.note)
            headers = {"Content-Type": asset.content_type, "Access-Control-Allow-Origin": "*"}
            return Response(200, headers | {"Cache-Control": "no-store"}, asset.body)
        else:
            self.note(f"blocked {url}")
        return Response() if document else None

    def measured(self, text: Json) -> int:
        """Take in what `measure.js` says; how high the picture is to be, in pixels."""
        if not isinstance(text, str):
            raise RenderFailed(Failure("empty", "the page could not be measured"))
        found = json.loads(text)
        self._boxes, height, most = found["boxes"], max(int(found["height"]), 1), self.settings.max_height
        if height > most:
            self.note(f"cut at {most} pixels of {height}")
        return min(height, most)

    def drawn(self, png: str) -> RenderedPage:
        """The page from what the browser sent: the picture in base64, and the boxes within the picture.

        A box that has lost its parent to the cut is given the parent's parent. Problems are in an order that does not
        depend on which request was first.
        """
        image = base64.b64decode(png)
        if not image.startswith(b"\x89PNG") or len(image) < 24:
            raise RenderFailed(Failure("empty", f"the browser gave {len(image)} bytes that are no picture"))
        width, height = struct.unpack(">2I", image[16:24])
        places: dict[int, int | None] = {}
        boxes: list[Box] = []
        for index, (tag, x, y, wide, tall, text, *colors, font, weight, parent) in enumerate(self._boxes):
            above = None if parent is None else places[parent]
            places[index] = above if y >= height else len(boxes)
            if y < height:
                ink, ground = (one and tuple(map(int, one)) for one in colors)
                boxes.append(Box(tag, x, y, wide, tall, text, ink, ground, font, weight, above))
        if len(self._boxes) >= MAX_BOXES:
            self.note(f"only the first {MAX_BOXES} elements have boxes")
        return RenderedPage(image, width, height, tuple(boxes), tuple(sorted(self._problems)))
