"""Starts Firefox and relays WebDriver BiDi between its port and our pipe. Run as a script, by `firefox`.

Firefox listens on a port of the loopback interface. This runs beside it, in the same network namespace, so
that no other process can speak to it; messages end with a zero byte, as Chromium's do. When the pipe ends, so
does Firefox.

Arguments: the program, then its arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import socket
import struct
import sys

import aiohttp

_IN, _OUT = 3, 4
_SET_FLAGS, _UP = 0x8914, 0x1 | 0x40  # SIOCSIFFLAGS; IFF_UP, IFF_RUNNING


async def relay(command: list[str]) -> None:
    """Run Firefox until the pipe or Firefox ends."""

    async def to_firefox() -> None:
        reader = asyncio.StreamReader(limit=2**30)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(_IN, "rb", 0))
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                await web_socket.send_str((await reader.readuntil(b"\0"))[:-1].decode())

    async def to_us() -> None:
        async for message in web_socket:
            await asyncio.to_thread(_write, str(message.data).encode() + b"\0")

    async def drain() -> None:
        while await complaints.read(2**16):
            pass

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # a new network namespace has a loopback interface that is down
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
    firefox = await asyncio.create_subprocess_exec(
        *command, stderr=asyncio.subprocess.PIPE, stdout=2, pass_fds=()
    )
    assert firefox.stderr is not None
    complaints, address = firefox.stderr, ""
    try:
        while not address and (line := await complaints.readline()):
            sys.stderr.buffer.write(line)
            if found := re.search(rb"WebDriver BiDi listening on (ws://\S+)", line):
                address = found[1].decode()
        if not address:
            raise SystemExit("Firefox ended before it listened")
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{address}/session", max_msg_size=0, heartbeat=None) as web_socket,
        ):
            ends = [asyncio.create_task(work) for work in (to_firefox(), to_us(), drain(), firefox.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        with contextlib.suppress(ProcessLookupError):
            firefox.kill()
        os._exit(0)


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_OUT, data) :]


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1:]))
