"""Runs the simulator server: in this process until it is stopped, or as a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl.errors import ServiceError
from sweet_rl.users.faults import FaultProfile

if TYPE_CHECKING:
    from sweet_rl.users.protocol import Speaker

_READY = "Serving "


async def serve(
    speakers: Mapping[str, Speaker],
    fault_profile: FaultProfile,
    host: str,
    port: int,
    *,
    api_key: str | None = None,
    quiet: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; prints one line once requests are accepted.

    Args:
        speakers: who is served beside echo, by the name of its model.
        fault_profile: latency and faults.
        host: address to listen on.
        port: 0 for any free one.
        api_key: what every request under /v1 must bring; None: none.
        quiet: print nothing.
    """
    from sweet_rl import serving  # the parent of a server process needs none of it
    from sweet_rl.users.server import SimulatorServer

    def ready(actual: int) -> None:
        if not quiet:
            models = ", ".join([*speakers, "echo"])
            print(f"{_READY}{models} at http://{host}:{actual}/v1 (pid {os.getpid()})", flush=True)

    app = SimulatorServer(speakers, fault_profile, host=host, api_key=api_key).application()
    await serving.serve(app, host, port, on_ready=ready)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A simulator server in a child process."""

    base_url: str
    process: subprocess.Popen[str]


@contextmanager
def start_server(*, port: int = 0, **flags: float | str) -> Iterator[RunningServer]:
    """Run the simulator server in a child process for the length of a `with` block.

    Args:
        port: 0 for any free one.
        flags: flags of the command `serve_simulator`.
    """
    command = [sys.executable, "-m", "sweet_rl", "serve_simulator", "--port", str(port)]
    for name, value in flags.items():
        command += [f"--{name}", str(value)]
    with tempfile.TemporaryFile("w+") as log:  # a pipe that is not read would fill up
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(_READY):
                log.seek(0)
                raise ServiceError(f"The simulator server did not start: {log.read().strip()}")
            yield RunningServer(line.partition(" at ")[2].split(" ", 1)[0], process)
        finally:
            process.terminate()
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
