"""A browser's processes: without network, with an empty home, ended with ours. It knows no protocol.

A browser runs, where the kernel allows it, in namespaces of its own: one for the network, without any
interface, and one for processes, in which nothing outlives its first.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sweet_rl.errors import ServiceError
from sweet_rl.pages.assets import FONTS
from sweet_rl.pages.wire import Wire

_HOME_PREFIX = "sweet-rl-browser-"
_ATTACH = 'exec 3<&0 4>&1 </dev/null >/dev/null; exec "$@"'
"""Browsers speak over descriptors 3 and 4."""

_FONTS_CONF = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{home}/fontconfig</cachedir>
  {aliases}
  <match target="pattern"><test qual="all" name="family" compare="not_eq"><string>DejaVu Sans</string></test>
    <edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
  <match target="font"><edit name="hinting" mode="assign"><bool>false</bool></edit>
    <edit name="antialias" mode="assign"><bool>true</bool></edit>
    <edit name="rgba" mode="assign"><const>none</const></edit></match>
</fontconfig>
"""
_FAMILIES = {
    "Liberation Sans": ("sans-serif", "system-ui", "ui-sans-serif", "sans", "Arial", "Helvetica"),
    "Liberation Serif": ("serif", "ui-serif", "Times New Roman", "Times", "Georgia"),
    "Liberation Mono": ("monospace", "ui-monospace", "Courier New", "Courier", "Menlo", "Consolas"),
}


class BrowserProcess:
    """A browser that has been started, its pipe, and the folder that it takes for its home."""

    def __init__(self, process: subprocess.Popen[bytes], wire: Wire, home: Path) -> None:
        self.wire, self.home = wire, home
        self._process = process

    @classmethod
    async def start(
        cls, command: Callable[[Path], Sequence[str]], *, isolated: bool, environment: dict[str, str]
    ) -> BrowserProcess:
        """Start a browser.

        Args:
            command: gives the command line for the browser's home.
            isolated: in namespaces of its own where these can be had.
            environment: variables beside the few that every browser gets.
        """
        _sweep()
        home = Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-"))
        prefix = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it dies with us
        prefix += namespaces() if isolated else ()
        to_child, from_us = os.pipe()
        to_us, from_child = os.pipe()
        try:
            (home / "fonts.conf").write_text(_fonts_conf(home))
            with (home / "stderr.txt").open("wb") as complaints:
                process = subprocess.Popen(  # noqa: ASYNC220 - returns once it is forked
                    [*prefix, "sh", "-c", _ATTACH, "sh", *command(home)],
                    stdin=to_child,
                    stdout=from_child,
                    stderr=complaints,
                    env=_environment(home) | environment,
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
        wire = Wire()
        started = cls(process, wire, home)
        await wire.connect(os.fdopen(to_us, "rb", 0), os.fdopen(from_us, "wb", 0))
        return started

    def complaints(self) -> str:
        """The end of what the browser wrote to its standard error."""
        with contextlib.suppress(OSError):
            return (self.home / "stderr.txt").read_text(errors="replace")[-600:].strip()
        return ""

    def memory_mb(self) -> float:
        """Memory that is the browser's own, in all its processes; files and libraries are not counted."""
        return sum(map(_own_memory_kb, self.pids())) / 1024

    def pids(self) -> list[int]:
        """Its processes, as far as they are still there."""
        return descendants(self._process.pid)

    async def kill(self) -> None:
        """End all of it at once, and remove its folder."""
        self.wire.close()
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._bury)

    def _bury(self) -> None:
        self._process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


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
    """Nothing of ours but the search path: no secrets, no proxies, no settings of the desktop."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "LANG": "en_US.UTF-8",
        "LANGUAGE": "en_US",
        "TZ": "UTC",
        "FONTCONFIG_FILE": str(home / "fonts.conf"),
        "DBUS_SESSION_BUS_ADDRESS": "disabled:",
        "DBUS_SYSTEM_BUS_ADDRESS": "disabled:",
    }


def _fonts_conf(home: Path) -> str:
    aliases = "".join(
        f'<match target="pattern"><test name="family"><string>{alias}</string></test>'
        f'<edit name="family" mode="assign" binding="same"><string>{family}</string></edit></match>'
        for family, names in _FAMILIES.items()
        for alias in names
    )
    return _FONTS_CONF.format(fonts=FONTS, home=home, aliases=aliases)


def _sweep() -> None:
    """Remove the homes of browsers whose owner was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_HOME_PREFIX}*-*"):
        owner = folder.name.removeprefix(_HOME_PREFIX).split("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """The process and all that it has started, directly or not."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):  # it may end at any moment
            for thread in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(OSError):
                    found.extend(map(int, (thread / "children").read_text().split()))
    return found


def _own_memory_kb(pid: int) -> int:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))
    return 0
