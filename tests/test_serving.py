"""Slow, large and foreign requests, by sockets of our own, at every server there is."""

import asyncio
import contextlib
import json
import socket
import tempfile
import time
from pathlib import Path

import pytest

from sweet_rl.integrations.serve import credit_application
from sweet_rl.mini.shop import EmbeddedShop, application
from sweet_rl.serving import Limits, listening
from sweet_rl.users.server import SimulatorServer
from sweet_rl.viewer.library import Library
from sweet_rl.viewer.server import make_app

QUICK = Limits(headers_s=0.3, body_s=0.3, idle_s=0.3, body_bytes=1000)
BODY = json.dumps({"model": "echo", "messages": [{"role": "user", "content": "hello"}]})
POST = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"


def viewer(limits):
    saved = Path(tempfile.mkdtemp()) / "rows.jsonl"
    saved.touch()
    return make_app(Library([saved]), token="t", limits=limits)


APPS = {
    "credit": (lambda limits: credit_application(None, {}, limits=limits), "/health"),
    "simulator": (lambda limits: SimulatorServer({}, limits=limits).application(), "/v1/models"),
    "shop": (lambda limits: application(EmbeddedShop(0, 20), limits=limits), "/fixed_0"),
    "viewer": (viewer, "/api/files?token=t"),
}


async def spoken(port, *pieces, wait=0.0):
    """What comes back until the server hangs up, and after how long."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.monotonic()
    said = []

    async def listen():
        with contextlib.suppress(
            ConnectionError
        ):  # a server that hangs up may do so in the middle of a piece
            while heard := await reader.read(65536):
                said.append(heard)

    async with asyncio.timeout(30):
        listening = asyncio.create_task(listen())
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece.encode())
                await writer.drain()
                await asyncio.sleep(wait)
        await listening
    writer.close()
    return b"".join(said).decode(), time.monotonic() - started


def at(name, *pieces, limits=QUICK, **more):
    async def main():
        async with listening(APPS[name][0](limits), "127.0.0.1", 0, limits) as port:
            return await spoken(port, *pieces, **more)

    return asyncio.run(main())


def get(name, host="localhost"):
    return f"GET {APPS[name][1]} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("name", APPS)
def test_slow_headers_are_not_waited_for(name):
    said, seconds = at(name, "GET / HTTP/1.1\r\nHost: localhost\r\n", *("X-A: b\r\n",) * 8, wait=0.1)
    assert said == ""
    assert seconds < 15  # without a limit it would be waiting still


@pytest.mark.parametrize("name", APPS)
def test_slow_headers_of_a_second_request_are_not_waited_for_either(name):
    whole = get(name).replace("Connection: close\r\n", "")
    said, _ = at(name, whole, "GET / HTTP/1.1\r\n", *("X-A: b\r\n",) * 8, wait=0.1)
    assert said.count("HTTP/1.1 200") == said.count("HTTP/1.1") == 1


@pytest.mark.parametrize("name", APPS)
def test_a_foreign_name_is_refused(name):
    assert "200 OK" in at(name, get(name))[0].partition("\r\n")[0]
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80"):
        said, _ = at(name, get(name, host))
        assert "403 Forbidden" in said.partition("\r\n")[0]
        assert "does not answer to the name" in said


def test_a_slow_body_is_not_waited_for():
    said, _ = at("simulator", POST, *BODY[:20], wait=0.05)
    assert "408 Request Timeout" in said.partition("\r\n")[0]
    assert json.loads(said.partition("\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert "200 OK" in at("simulator", POST.replace("Host", "Connection: close\r\nHost"), BODY)[0]


@pytest.mark.parametrize("name", APPS)
def test_a_huge_body_is_not_read(name):
    head = f"POST {APPS[name][1]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    said, seconds = at(name, f"{head}Content-Length: 100000000000\r\n\r\n", *("x" * 2000,) * 5)
    assert said.split(" ")[1] in {"413", "405"}
    assert seconds < 5  # nor is the rest waited for
    said, _ = at(name, f"{head}Transfer-Encoding: chunked\r\n\r\n", *("3e8\r\n" + "x" * 1000 + "\r\n",) * 5)
    assert said.split(" ")[1] in {"413", "405", "400"}


def test_huge_headers_and_paths_are_refused():
    for piece in (
        "GET /" + "a" * 100_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        get("shop", "a" * 100_000),
    ):
        assert at("shop", piece)[0].startswith("HTTP/1.1 400") or "400 Bad Request" in at("shop", piece)[0]


async def test_many_slow_ones_do_not_hold_up_another():
    app = SimulatorServer({}, limits=QUICK).application()
    async with listening(app, "127.0.0.1", 0, QUICK) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
        for _, writer in slow:
            writer.write(b"GET / HTTP/1.1\r\n")
        said, _ = await spoken(port, get("simulator"))
        async with asyncio.timeout(30):
            ends = await asyncio.gather(*(reader.read() for reader, _ in slow))
        for _, writer in slow:
            writer.close()
    assert "200 OK" in said
    assert ends == [b""] * 200


def test_an_address_that_is_taken_is_named():
    from sweet_rl.errors import UsageError

    async def main(port):
        async with listening(APPS["shop"][0](QUICK), "127.0.0.1", port):
            pass

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UsageError, match="Cannot listen on 127"),
    ):
        asyncio.run(main(taken.getsockname()[1]))
