"""Ways by which one answer might tell another something: what the first does, `--- then` what the second sees.

No channel is open where the second sees the same, whatever the first has done. In channels.txt, what the first one
does is run with the names `bit` (0 or 1: what is to be told) and the modules of `_START`; the second sets `seen`.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

_START = """
import ctypes, fcntl, json, mmap, resource, signal, struct, tempfile, threading, time
os = __import__('os')
sys = __import__('sys')
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *arguments):
    try:
        return call(*arguments)
    except BaseException as error:
        return type(error).__name__
def descriptors(call):
    return [tried(call, number) for number in range(64)]
def threads(count):
    for _ in range(count):
        threading.Thread(target=time.sleep, args=(%s,), daemon=True).start()
"""


class Channel(NamedTuple):
    """One way; `at_once`: the second one runs while the first one is still there."""

    name: str
    writes: str
    reads: str
    at_once: bool = False

    def writer(self, bit: int) -> str:
        """The first answer."""
        stay = "        time.sleep(0.3)\n" if self.at_once else ""
        return self._answer(f"bit = {bit}\n" + self.writes, stay + "        return 1\n")

    def reader(self) -> str:
        """The second one."""
        wait = "time.sleep(0.1)\n" if self.at_once else ""
        return self._answer(wait + self.reads, "        return repr(seen)\n")

    def _answer(self, body: str, end: str) -> str:
        start = _START % (0.3 if self.at_once else 0)
        inner = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
        return start + "def f():\n    if True:\n" + inner + "\n" + end


CHANNELS = []
for _text in Path(__file__).with_name("channels.txt").read_text().split("=== ")[1:]:
    _name, _body = _text.split("\n", 1)
    _writes, _reads = _body.split("\n--- then\n")
    CHANNELS.append(
        Channel(_name.removesuffix(" | at once"), _writes, _reads.strip(), _name.endswith(" | at once"))
    )

OPEN_WITHOUT_MOUNTS = frozenset({"access time of a library", "access time of a folder"})
"""Where a child reads the machine's own mounts: a first reading in a day may be dated there."""
