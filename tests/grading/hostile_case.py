"""What a hostile or odd answer is in these tests, and how the text files beside this one hold them. No tests here.

In a file, `## NAME` begins a category and `=== NAME | KIND` a case, which its answer follows: all of it where the kind
is a score (and the outcome of the first test, and the score in the published way), else what `KINDS` puts around it.
`--- reference`, `--- tests` and `--- description` follow where they are not the usual ones.

Marked words are replaced when an answer is used: @FILE@ (a secret file), @SECRET@ (what it and the environment
hold), @PORT@ (somebody listens there), @PROJECT@ (where this project lies).

In channels.txt are ways by which one answer might tell another something: what the first does, `--- then` what the second
sees. What the first one does is run with the names `bit` (0 or 1: what is to be told) and the modules of `_START`; the
second sets `seen`. No channel is open where the second sees the same, whatever the first has done.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

DOUBLE = "def level(x):\n    return x * 2\n"
_MARKED = "def level(x):\n    'zebra: the words of the reference'\n    return x * 2\n"


class Case(NamedTuple):
    """An answer and the score that is right for it.

    `outcome` is that of the first test where it matters; `published` the score in the published way, where it is
    looked at; `description` what the task says of itself.
    """

    name: str
    answer: str
    score: float | None  # None: no answer to this task can be graded
    outcome: str | None = None
    reference: str = DOUBLE
    tests: tuple[str, ...] = ("level(2)", "level(3)")
    published: float | None = None
    description: str = ""


_SAYS = """import struct
os = __import__('os')
def say(outcome, value=b''):
    message = b''.join(struct.pack('<IBII', n, outcome, len(value), 0) + value for n in range(2))
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, message)
        except OSError:
            pass
"""
_SENDS = """import ctypes, struct, time
os = __import__('os')
libc = ctypes.CDLL(None, use_errno=True)
def header(number, value_size=0, text_size=0):
    return struct.pack('<IBII', number, 2, value_size, text_size)
"""
_PEEKS = """import gc, inspect, traceback, types
s = __import__('sys')
os = __import__('os')
"""
_FORGES = """def forge(text):
    frame = __import__('sys')._getframe()
    while 'run_fixed' not in frame.f_globals:
        frame = frame.f_back
    frame.f_globals['literal'] = lambda *a: text
def level(*a):
"""
_SIGNALS = """import fcntl
os = __import__('os')
def attack(number, owner):
    for d in range(64):
        for command, argument in ((8, owner), (10, number), (4, fcntl.fcntl(d, 3) | 0x2000)):
            try:
                fcntl.fcntl(d, command, argument)
            except OSError:
                pass
    try:
        os.write(48, b'')
    except OSError:
        pass
def safe(number, owner):
    try:
        attack(number, owner)
    except OSError:
        pass
"""
_PAGE = """import ctypes, mmap
def level(x):
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes.fromhex('{}'))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
_OWNERS = (
    "def level(x):\n    for owner in (1, -1, os.getppid(), 2):\n        safe({}, owner)\n    return 2 * x\n"
)
_FAILS = """import ctypes
c = ctypes.CDLL(None, use_errno=True)
failed = c.syscall({}, 0, 0, 0, 0, 0, 0) == -1
assert not (failed and ctypes.get_errno() in (1, 38))"""  # EPERM, ENOSYS: it was not even looked at
_CLONES = """import ctypes
c = ctypes.CDLL(None, use_errno=True)
assert c.syscall(56, {} | 0x10000, 0, 0, 0, 0) == -1
assert ctypes.get_errno() != 1"""  # flags that the kernel refuses with EINVAL; the filter is to refuse them before
_VALUE = "def f():\n    import collections, datetime, decimal, enum, fractions, math\n    return "
_MODULE = """from dataclasses import dataclass, field
import functools, enum, typing, collections, contextlib, abc
"""


def _level(before: str, body: str, after: str, indent: int = 4) -> str:
    return f"{before}{textwrap.indent(body, ' ' * indent)}\n{after}"


_TRY, _EXCEPT = (
    "def level(x):\n    try:\n",
    "    except Exception:\n        return 2 * x\n    return 'got through'\n",
)
_LOOK = "def level(x):\n    seen = ''\n    try:\n"
_FOUND = (
    "    except Exception as error:\n        seen = error\n"
    "    return 'found' if ''.join(('zeb', 'ra')) in str(seen) else 2 * x\n"
)

KINDS: dict[str, Callable[[str], str]] = {
    # it must raise, and then the value is right: full marks mean that it was held, and that the process lived on
    "held": lambda body: _level(_TRY, body, _EXCEPT, 8),
    # `seen` is set to whatever is found; full marks mean that the reference was not in it
    "peek": lambda body: _level(_PEEKS + _LOOK, body, _FOUND, 8),
    # it has to run without an error; then the value is right
    "fine": lambda body: _level("os = __import__('os')\ndef level(x):\n", body, "    return 2 * x\n"),
    "module": lambda body: f"{_MODULE}{body}\n",
    # something is done with the channel; results are forged as `guest.run` sends them
    "sends": lambda body: _level(f"{_SENDS}def level(x):\n", body, ""),
    "says": lambda body: f"{_SAYS}{body}\n",
    # a function that returns this, where the reference returns what is expected
    "value": lambda body: f"{_VALUE}{body}\n",
    # a system call by its number on x86_64, flags of clone, machine code, a signal by what happens to a file
    "call": lambda body: KINDS["held"](_FAILS.format(body)),
    "clone": lambda body: KINDS["held"](_CLONES.format(int(body, 16))),
    "page": _PAGE.format,
    "owners": lambda body: _SIGNALS + _OWNERS.format(body),
}


def read_cases(file: str) -> dict[str, list[Case]]:
    """All cases of a file, by category."""
    found: dict[str, list[Case]] = {}
    for category in f"\n{Path(__file__).with_name(file).read_text()}".split("\n## ")[1:]:
        title, *texts = category.split("\n=== ")
        found[title.strip()] = [_case(text) for text in texts]
    return found


def read_pairs(file: str) -> dict[str, list[Case]]:
    """All cases of a file in which each task has an honest answer, its reference where no other is given, and junk."""
    found: dict[str, list[Case]] = {}
    for category in f"\n{Path(__file__).with_name(file).read_text()}".split("\n## ")[1:]:
        title, *texts = category.split("\n=== ")
        cases = found[title.strip()] = []
        for text in texts:
            heading, body = text.split("\n", 1)
            name, words = heading.split(" | ")
            scores = [None if score == "None" else float(score) for score in words.split()[:2]]
            if (needs := words.partition(" needs=")[2]) and find_spec(needs) is None:
                continue
            reference, *more = body.rstrip().split("\n--- ")
            parts = {"honest": reference} | dict(one.split("\n", 1) for one in more)
            junk = f"{_FORGES}    forge({parts['forged']})" if "forged" in parts else parts["junk"]
            task = f"{reference}\n", tuple(parts["tests"].split("\n")), None, parts.get("description", "")
            cases += [
                Case(name, f"{parts['honest']}\n", scores[0], None, *task),
                Case(f"{name}: junk", f"{junk}\n", scores[1], None, *task),
            ]
    return found


def _case(text: str) -> Case:
    heading, body = text.split("\n", 1)
    name, kind = heading.split(" | ")
    answer, *more = body.rstrip().split("\n--- ")
    parts = dict(one.split("\n", 1) for one in more)
    wrap, *words = kind.split() if kind.split()[0] in KINDS else ["", *kind.split()]
    published = [float(word.partition("=")[2]) for word in words if word.startswith("published=")]
    score, outcome = [*words[: len(words) - len(published)], None, None][:2]
    case = Case(
        name,
        KINDS[wrap](answer) if wrap else f"{answer}\n",
        score=None if score == "None" else float(score or 1),
        outcome=outcome,
        reference=_MARKED
        if wrap == "peek"
        else f"{parts['reference']}\n"
        if "reference" in parts
        else DOUBLE,
        published=published[0] if published else None,
        description=parts.get("description", ""),
    )
    tests = "level(2)" if wrap == "peek" else parts.get("tests", "level(2)\nlevel(3)")
    if wrap == "value":
        case, tests = case._replace(reference=KINDS["value"](parts["expected"])), "f()"
    return case._replace(tests=tuple(tests.split("\n")))


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
