"""Odd requests, at every server there is: a clean reply, a line of log at most, and the next one is served."""

import asyncio
import contextlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import urllib.request

import pytest

from sweet_rl.integrations.serve import credit_application
from sweet_rl.serving import Limits, listening
from sweet_rl.users.server import SimulatorServer
from tests.test_serving import APPS

LIMITS = Limits(headers_s=2, body_s=2, idle_s=2, body_bytes=2**16)
KEY = "ключ"
SERVERS = {
    "credit": (lambda limits: credit_application(None, {}, limits=limits), "/credit", "/health"),
    "simulator": (
        lambda limits: SimulatorServer({}, limits=limits).application(),
        "/v1/chat/completions",
        "/health",
    ),
    "simulator with a key": (
        lambda limits: SimulatorServer({}, limits=limits, api_key=KEY).application(),
        "/v1/completions",
        "/health",
    ),
    "shop": (APPS["shop"][0], "/fixed_0", "/fixed_0"),
    "viewer": (APPS["viewer"][0], "/api/search/0?token=t", "/api/files?token=t"),
    "serve_env": (None, "/reset", "/health"),
}
NESTED = b"[" * 30_000
BODIES = [
    b"", b"{", b"null", b"[]", b"7", b'"text"', b"NaN", b'{"a": NaN}', b'{"a": Infinity}', NESTED, b'{"a":' * 10_000, b"\xff\xfe",
    b'{"a": "\xff"}', b'{"a": "\\ud800"}', b"1" * 6_000, b'{"seed": ' + b"1" * 6_000 + b"}", b"\x00" * 100, b"x" * 70_000,
    b'{"dialogues": 7}', b'{"dialogues": [{"hidden": 7, "messages": 7}]}', b'{"dialogues": [{"hidden": null, "messages": [7]}]}',
    b'{"dialogues": [{"hidden": null, "messages": [{"role": ["a"], "content": {}}]}]}', b'{"model": 7}', b'{"model": "echo"}',
    b'{"model": "echo", "messages": {}}', b'{"model": "echo", "messages": []}', b'{"model": "echo", "messages": [7]}',
    b'{"model": "echo", "messages": [{"role": "user", "content": "\\ud800"}], "stop": [7]}', b'{"model": "echo", "prompt": [[7]]}',
    b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "n": 1e999}',
    b'{"model": "echo", "messages": [{"role": "user", "content": "a"}], "max_tokens": true, "stream_options": 7}',
    b'{"task_id": []}', b'{"task_id": "none"}', b'{"sample_index": -1}', b'{"seed": {}}', b'{"action": []}', b'{"action": {"text": 7}}',
]  # fmt: skip
HEADS = [
    "Host: evil.example", "Host: ", "Host: [", "Host: a b", "Host: localhost\r\nHost: localhost", "Host: localhost\r\nOrigin: http://evil.example",
    "Host: localhost\r\nOrigin: null", "Host: localhost\r\nAuthorization: Bearer \xd0\xba", "Host: localhost\r\nAuthorization: Bearer \xff",
    "Host: localhost\r\nAuthorization: \x01", "Host: localhost\r\nCookie: \xff=\xff; a", "Host: localhost\r\nContent-Length: x",
    "Host: localhost\r\nContent-Length: -1", "Host: localhost\r\nContent-Length: " + "9" * 5_000,
    "Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2", "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
    "Host: localhost\r\nTransfer-Encoding: gzip", "Host: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 0", "no colon", " : x",
    "Host: localhost\r\nX: " + "a" * 70_000, "Host: localhost\r\nExpect: 100-continue", "Host: localhost\r\nRange: bytes=9-1",
    "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade", "Host: localhost\r\nUpgrade: h2c",
]  # fmt: skip
LINES = [
    "", "GET", "GET /", "GET / HTTP/9.9", "GET / http/1.1", "get / HTTP/1.1", "\x16\x03\x01\x02", "PRI * HTTP/2.0", "GET /%ff%00 HTTP/1.1",
    "GET /\xff HTTP/1.1", "GET http://evil.example/ HTTP/1.1", "GET //evil.example/a HTTP/1.1", "GET /../../etc/passwd HTTP/1.1", "GET * HTTP/1.1",
    "OPTIONS * HTTP/1.1", "TRACE / HTTP/1.1", "CONNECT a:1 HTTP/1.1", "DELETE / HTTP/1.1", "GET /?token=%ff&token=\xd0\xba HTTP/1.1",
    "GET /" + "a" * 20_000 + " HTTP/1.1", "GET /api/rows/0/999999999?token=t HTTP/1.1", "GET /v1/models/%F0%9F HTTP/1.1",
]  # fmt: skip


def raw(head, body=b"", line=None, kind="application/json"):
    line = line or "POST {post} HTTP/1.1"
    return (
        f"{line}\r\n{head}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode(
            "latin-1"
        ),
        body,
    )


REQUESTS = [
    *(raw("Host: localhost", body) for body in BODIES),
    *(
        (
            f"GET {{get}} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode("latin-1"),
            b"0\r\n\r\n" * ("chunked" in head),
        )
        for head in HEADS
    ),
    *((f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"), b"") for line in LINES),
    *(raw("Host: localhost", b"{}", kind=kind) for kind in ("text/plain", "multipart/form-data", "\xff", "")),
]
GONE = [b"GET / HT", b"POST {post} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b""]
"""Clients that hang up in the middle."""


async def answered(port, request, post, get, *, leave=False):
    """What comes back for a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = b""
    with contextlib.suppress(ConnectionError):  # a server may hang up on a request that it does not want
        head = request[0].replace(b"{post}", post.encode()).replace(b"{get}", get.encode())
        writer.write(head + request[1])
        await writer.drain()
        if not leave:
            async with asyncio.timeout(20):
                while piece := await reader.read(65_536):
                    said += piece
    writer.close()
    return said


@contextlib.asynccontextmanager
async def running(name):
    """The port of a server, and what it has logged so far, as a function."""
    make = SERVERS[name][0]
    if make is not None:
        async with listening(make(LIMITS), "127.0.0.1", 0, LIMITS) as port:
            yield port
        return
    with tempfile.TemporaryFile("w+") as log:
        command = [
            sys.executable,
            "-m",
            "sweet_rl",
            "serve_env",
            "twenty_questions",
            "--num_tasks",
            "3",
            "--port",
            "0",
        ]
        process = subprocess.Popen(  # noqa: ASYNC220 - it is told at once
            [*command, "--session_idle_s", "2"], stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            port = int(re.search(r":(\d+)", process.stdout.readline())[1])
            for _ in range(100):
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/health")
                    break
                await asyncio.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.communicate()
            log.seek(0)
            sys.stderr.write(log.read())


def of_here(name):
    if name == "serve_env" and importlib.util.find_spec("openenv") is None:
        pytest.skip("needs the extra `openenv`")
    return SERVERS[name][1:]


@pytest.mark.parametrize("name", SERVERS)
async def test_an_odd_request_is_answered(name, caplog, capfd):
    post, get = of_here(name)

    found = {}
    async with running(name) as port:
        for request in REQUESTS:
            said = await answered(port, request, post, get)
            status = re.match(rb"(?:HTTP/1.1 100 Continue\r\n\r\n)?HTTP/(?:1\.[01]|0\.9) (\d+)", said)
            if status is None or not 200 <= int(status[1]) < 500 or b"Traceback" in said:
                found[request[0][:150] + request[1][:80]] = said[:300]
        for piece in GONE:
            await answered(port, (piece, b""), post, get, leave=True)
        good = (f"GET {get} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), b"")
        assert (await answered(port, good, post, get)).startswith(b"HTTP/1.1 200")
    logged = caplog.text + capfd.readouterr().err
    assert not found
    assert "Traceback" not in logged
    assert len(logged.splitlines()) <= len(REQUESTS)


WEBSOCKET = (
    "GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{origin}"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(op, data, length=None, masked=0x80):
    length = len(data) if length is None else length
    size = bytes([masked | length]) if length < 126 else bytes([masked | 127]) + length.to_bytes(8, "big")
    return bytes([op]) + size + (bytes(4) if masked else b"") + data


RESET = frame(0x81, b'{"type": "reset", "data": {}}')
FRAMES = {
    "no JSON": frame(0x81, b"{"), "a list": frame(0x81, b"[1]"), "nested": frame(0x81, NESTED), "bytes": frame(0x82, b"\0"),
    "not UTF-8": frame(0x81, b"\xff\xff"), "unmasked": frame(0x81, b"{}", masked=0), "huge": frame(0x81, b"", length=10**12),
    "reserved bits": frame(0xF1, b""), "an unknown kind": frame(0x8B, b""), "no end": frame(0x01, b"{"), "a pong": frame(0x8A, b"x"),
    "no type": frame(0x81, b"{}"), "a type of another kind": frame(0x81, b'{"type": ["\\ud800"]}'), "a lone surrogate":
    RESET + frame(0x81, b'{"type": "step", "data": {"text": "\\ud800"}}'), "a step at once": frame(0x81, b'{"type": "step", "data": {"text": "x"}}'),
    "a step of no text": RESET + frame(0x81, b'{"type": "step", "data": {"text": 7}}'), "an unknown task": frame(0x81, b'{"type": "reset", "data": {"task_id": 7}}'),
    "a close": frame(0x88, b"\x03\xe8"), "a close without reason": frame(0x88, b"\x01"), "silence": b"",
}  # fmt: skip


async def test_odd_frames_of_a_websocket_are_answered(capfd):
    of_here("serve_env")

    async def talk(port, frames, *, leave=False, origin="", host="localhost"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(WEBSOCKET.format(host=host, origin=origin).encode())
        said = await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            writer.write(frames)
            await writer.drain()
            if not leave:
                async with asyncio.timeout(20):
                    while b"\x88" not in said and (piece := await reader.read(65_536)):  # until it is closed
                        said += piece
        writer.close()
        return said

    async with running("serve_env") as port:
        for host, origin in (
            ("evil.example", ""),
            ("localhost", "Origin: http://evil.example\r\n"),
            ("localhost", "Origin: null\r\n"),
        ):
            refused = await talk(port, b"", leave=True, host=host, origin=origin)
            assert b" 403 " in refused.partition(b"\r\n")[0]
        assert b" 101 " in await talk(port, b"", leave=True, origin="Origin: http://localhost\r\n")
        said = await asyncio.gather(*(talk(port, each) for each in FRAMES.values()))
        await asyncio.gather(*(talk(port, each, leave=True) for each in FRAMES.values()))
        good = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert b"200 OK" in await answered(port, (good, b""), "", "")
        said = dict(zip(FRAMES, said, strict=True))
    logged = capfd.readouterr().err
    assert all(b" 101 " in one.partition(b"\r\n")[0] and b"\x88" in one for one in said.values()), said
    assert b"Nothing was said for 2 s" in said["silence"]
    assert b"reset it first" in said["a step at once"]
    assert "Traceback" not in logged
    assert len(logged.splitlines()) <= 2 * len(FRAMES) + 4


async def test_a_key_that_is_not_ascii_is_taken_and_another_refused():
    post, get = SERVERS["simulator with a key"][1:]
    body = json.dumps({"model": "echo", "prompt": "hello"}).encode()

    head = (
        f"POST {post} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    )
    head += f"Content-Length: {len(body)}\r\nAuthorization: Bearer "
    async with running("simulator with a key") as port:
        for key, status in ((KEY, b"200"), ("другой", b"401"), ("plain", b"401")):
            said = await answered(port, (f"{head}{key}\r\n\r\n".encode(), body), post, get)
            assert said.split(b" ")[1] == status
