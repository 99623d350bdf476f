"""Runs `sweet-rl` as if on macOS, as far as Linux can: no epoll, no /proc, no calls that only Linux has.

python tests/as_if_macos.py LINE...
"""

import asyncio
import asyncio.unix_events  # the standard library has looked at the system before it is another one
import builtins
import ctypes.util
import io
import multiprocessing.connection
import os
import select
import selectors
import sys
import sysconfig
import urllib.request
import uuid
import webbrowser

import aiohttp

KNOWN = (
    asyncio,
    ctypes.util,
    multiprocessing.connection,
    sysconfig,
    urllib.request,
    uuid,
    webbrowser,
    aiohttp,
)
LINUX_ONLY = ("sched_getaffinity", "memfd_create", "pidfd_open", "unshare", "setns", "O_PATH")


def without_proc(function):
    """The function, for which there is no /proc and no /sys."""

    def call(path, *args, **kwargs):
        if not isinstance(path, int) and os.fspath(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *args, **kwargs)

    return call


selectors.DefaultSelector = selectors.PollSelector
for name in [name for name in dir(select) if name.lower().startswith("epoll")]:
    delattr(select, name)
for name in LINUX_ONLY:
    if hasattr(os, name):
        delattr(os, name)
os.open, builtins.open = without_proc(os.open), without_proc(builtins.open)
io.open = builtins.open
sys.platform = "darwin"

from sweet_rl.cli.main import main  # noqa: E402 - on the other system

for line in sys.argv[1:]:
    sys.argv = ["sweet-rl", *line.split()]
    main()
