"""Ways by which one answer might tell another something: what the first does, what the second sees.

No channel is open where the second sees the same, whatever the first has done. Each `writes` is run with the
names `bit` (0 or 1: what is to be told) and the modules of `_START`; each `reads` sets `seen`.
"""

from __future__ import annotations

import textwrap
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


_LIBRARY = "f = open(json.__file__, 'rb')\n"
_LOCK = "struct.pack('hhqqi', fcntl.F_RDLCK, 0, 0, 1, 0)"
_ASK = "struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 1, 0)"
_SHARED = (
    "f = open(json.__file__, 'rb')\nm = libc.mmap\nm.restype = ctypes.c_void_p\n"
    "page = m(None, 4096, 1, 1, f.fileno(), 0)\n"
)

CHANNELS = [
    Channel("process number", "threads(bit * 7)", "seen = os.getpid(), os.getppid()"),
    Channel(
        "thread numbers",
        "threads(bit * 7)",
        "numbers = []\nt = threading.Thread(target=lambda: numbers.append(threading.get_native_id()))\n"
        "t.start()\nt.join()\nseen = numbers",
    ),
    Channel("process group", "threads(bit * 7)", "seen = os.getpgrp(), tried(os.getsid, 0)"),
    Channel("a file", "open('left', 'w').write(str(bit)) if bit else None", "seen = os.listdir('.')"),
    Channel(
        "a file, removed again",
        "if bit:\n    open('left', 'w')\n    os.unlink('left')",
        "open('x', 'w')\nseen = os.stat('x').st_ino",
    ),
    Channel(
        "inode numbers of files without a name",
        "for _ in range(bit * 5):\n    tried(os.open, '.', os.O_TMPFILE | os.O_RDWR)",
        "open('x', 'w')\nseen = os.stat('x').st_ino",
    ),
    Channel("times of the folder", "tried(os.utime, '.', (bit, bit))", "seen = os.stat('.').st_mtime"),
    Channel("rights of the folder", "tried(os.chmod, '.', 0o700 + bit)", "seen = os.stat('.').st_mode"),
    Channel(
        "a folder elsewhere",
        "tried(os.mkdir, '/lib/left' if bit else '/')",
        "seen = os.path.exists('/lib/left')",
    ),
    Channel(
        "access time of a library",
        _LIBRARY + "f.read(bit * 100)",
        "seen = os.stat(json.__file__).st_atime_ns",
    ),
    Channel(
        "access time of a folder",
        "tried(os.listdir, os.path.dirname(json.__file__)) if bit else 0",
        "seen = os.stat(os.path.dirname(json.__file__)).st_atime_ns",
    ),
    Channel(
        "times of /dev/null",
        "tried(os.utime, '/dev/null', (bit, bit))\nopen('/dev/null', 'w').write('x' * bit)",
        "seen = tuple(os.stat('/dev/null'))",
    ),
    Channel(
        "inode number of a pipe",
        "for _ in range(bit * 9):\n    tried(os.pipe)",
        "seen = [tried(os.fstat, end) for end in tried(os.pipe)] if not isinstance(tried(os.pipe), str) else 0",
    ),
    Channel(
        "inode numbers of sockets",
        "import socket\nfor _ in range(bit * 9):\n    tried(socket.socketpair)",
        "seen = [n for n in descriptors(os.fstat)[3:]]",
    ),
    Channel(
        "inode number of a loop's sockets",
        "import asyncio\nasyncio.run(asyncio.sleep(0)) if bit else None",
        "import asyncio\nloop = asyncio.new_event_loop()\n"
        "seen = [n if isinstance(n, str) else n.st_ino for n in [tried(os.fstat, s.fileno()) for s in (loop._ssock, loop._csock)]]",
    ),
    Channel(
        "bytes left in a loop's sockets",
        "for n in range(48, 64):\n    tried(os.write, n, b'x') if bit and n != 48 else None",
        "os.set_blocking(49, False)\nos.set_blocking(50, False)\nseen = tried(os.read, 49, 9), tried(os.read, 50, 9)",
    ),
    Channel(
        "flags of descriptors",
        "[tried(os.set_blocking, n, not bit) for n in range(64) if n != 48]",
        "seen = descriptors(os.get_blocking)",
    ),
    Channel(
        "flags of copies",
        "tried(fcntl.fcntl, fcntl.fcntl(0, fcntl.F_DUPFD, 5), fcntl.F_SETFL, os.O_APPEND * bit)",
        "seen = descriptors(lambda n: fcntl.fcntl(n, fcntl.F_GETFL))",
    ),
    Channel(
        "places in descriptors",
        "[tried(os.lseek, n, 5 * bit, 0) for n in range(64)]",
        "seen = descriptors(lambda n: os.lseek(n, 0, 1))",
    ),
    Channel(
        "owners of descriptors",
        "[tried(fcntl.fcntl, n, fcntl.F_SETOWN, bit) for n in range(64)]",
        "seen = descriptors(lambda n: fcntl.fcntl(n, fcntl.F_GETOWN))",
    ),
    Channel(
        "signals of descriptors",
        "[tried(fcntl.fcntl, n, 10, 30 + bit) for n in range(64)]",
        "seen = descriptors(lambda n: fcntl.fcntl(n, 11))",
    ),
    Channel(
        "hints of a library file",
        _LIBRARY + "tried(fcntl.fcntl, f.fileno(), 1036, struct.pack('Q', 1 + bit))",
        _LIBRARY + "seen = tried(fcntl.fcntl, f.fileno(), 1035, bytes(8))",
    ),
    Channel(
        "advice to a library file", _LIBRARY + "tried(os.posix_fadvise, f.fileno(), 0, 0, bit)", "seen = 0"
    ),
    Channel("environment", "os.environ['LEFT'] = str(bit)", "seen = os.environ.get('LEFT')"),
    Channel("working directory", "tried(os.chdir, '/lib') if bit else None", "seen = os.getcwd()"),
    Channel(
        "mask of file rights", "tried(os.umask, 0o22 * bit)", "open('x', 'w')\nseen = os.stat('x').st_mode"
    ),
    Channel(
        "limits",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64 - bit, 64 - bit))",
        "seen = resource.getrlimit(resource.RLIMIT_NOFILE)",
    ),
    Channel("priority", "tried(os.nice, bit)", "seen = tried(os.getpriority, 0, 0)"),
    Channel("cores", "tried(os.sched_setaffinity, 0, {bit})", "seen = os.sched_getaffinity(0)"),
    Channel(
        "signals ignored",
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN if bit else signal.SIG_DFL)",
        "seen = signal.getsignal(signal.SIGUSR1)",
    ),
    Channel(
        "signals blocked",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {10} if bit else set())",
        "seen = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
    ),
    Channel(
        "a timer",
        "signal.setitimer(signal.ITIMER_REAL, 50 * bit)",
        "seen = signal.getitimer(signal.ITIMER_REAL)",
    ),
    Channel("use by children", "threads(9 * bit)", "seen = resource.getrusage(resource.RUSAGE_CHILDREN)[2:]"),
    Channel(
        "how it has ended",
        "os.closerange(3, 64) if bit else None\ngetattr(os, '_exi' 't')(bit)",
        "seen = tried(os.times)[2:4], tried(os.wait), libc.waitpid(-1, None, 1)",
    ),
    Channel(
        "builtins",
        "import builtins\nbuiltins.left = bit",
        "seen = getattr(__import__('builtins'), 'left', None)",
    ),
    Channel("modules", "sys.modules['left' * bit] = sys", "seen = sorted(sys.modules)"),
    Channel(
        "the worker's frames",
        "os.closerange(48, 64) if bit else None",
        "frame = sys._getframe()\nseen = []\nwhile frame:\n"
        "    seen.append(sorted((k, v) for k, v in frame.f_locals.items() if type(v) in (int, bytes)))\n    frame = frame.f_back\nseen = seen[3:]",
    ),
    Channel(
        "queues and segments",
        "libc.syscall(29, 4711, 4096, 0o1600) if bit else 0\nlibc.syscall(68, 4711, 0o1600)",
        "seen = libc.syscall(29, 4711, 4096, 0o600), libc.syscall(68, 4711, 0o600)",
    ),
    Channel(
        "keyrings",
        "libc.syscall(248, b'user', b'left', b'x', bit, -4)",
        "seen = libc.syscall(249, b'user', b'left', None, 0)",
    ),
    Channel(
        "locks of a library file",
        _LIBRARY + f"tried(fcntl.fcntl, f, fcntl.F_SETLK, {_LOCK}) if bit else 0",
        _LIBRARY + f"seen = tried(fcntl.fcntl, f, fcntl.F_GETLK, {_ASK})",
        at_once=True,
    ),
    Channel(
        "locks of open files",
        _LIBRARY + f"tried(fcntl.fcntl, f, 37, {_LOCK}) if bit else 0",
        _LIBRARY + f"seen = tried(fcntl.fcntl, f, 36, {_ASK})",
        at_once=True,
    ),
    Channel(
        "BSD locks",
        _LIBRARY + "tried(fcntl.flock, f, fcntl.LOCK_EX) if bit else 0",
        _LIBRARY + "seen = tried(fcntl.flock, f, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        at_once=True,
    ),
    Channel(
        "leases",
        _LIBRARY + "tried(fcntl.fcntl, f, 1024, fcntl.F_RDLCK) if bit else 0",
        _LIBRARY + "seen = tried(fcntl.fcntl, f, 1025)",
        at_once=True,
    ),
    Channel(
        "waking by a page of a library file",
        _SHARED + "end = time.monotonic() + 0.3\nwhile bit and time.monotonic() < end:\n"
        "    libc.syscall(202, ctypes.c_void_p(page), 1, 99)",
        _SHARED
        + "value = ctypes.c_uint32.from_address(page).value\nspan = struct.pack('qq', 0, 100_000_000)\n"
        "seen = libc.syscall(202, ctypes.c_void_p(page), 0, value, span), ctypes.get_errno()",
        at_once=True,
    ),
    Channel(
        "waking by the end of a thread",
        _SHARED + "libc.syscall(218, ctypes.c_void_p(page)) if bit else 0",
        _SHARED
        + "value = ctypes.c_uint32.from_address(page).value\nspan = struct.pack('qq', 0, 300_000_000)\n"
        "seen = libc.syscall(202, ctypes.c_void_p(page), 0, value, span), ctypes.get_errno()",
        at_once=True,
    ),
    Channel(
        "threads of the machine", "threads(bit * 40)", "seen = libc.syscall(99, bytes(200))", at_once=True
    ),
    Channel(
        "another one's processor time",
        "end = time.process_time() + 0.25 * bit\nwhile time.process_time() < end:\n    pass",
        "seen = [tried(time.clock_gettime, (~n << 3) | 2) for n in range(2, 40)]",
        at_once=True,
    ),
    Channel(
        "memory of the machine",
        "kept = bytearray(bit * 10**8)",
        "seen = tried(open, '/proc/meminfo'), tried(open, '/proc/loadavg')",
        at_once=True,
    ),
    Channel(
        "pages in memory",
        _LIBRARY + "f.read() if bit else 0",
        _SHARED + "seen = libc.syscall(27, ctypes.c_void_p(page), 4096, bytes(9))",
    ),
    Channel(
        "others, by the cores that they may use",
        "threads(bit * 20)",
        "seen = [tried(os.sched_getaffinity, n) for n in range(1, 500)]",
        at_once=True,
    ),
    Channel(
        "links to descriptors",
        "import asyncio\nasyncio.run(asyncio.sleep(0)) if bit else None",
        "seen = [tried(os.readlink, f'/proc/self/fd/{n}') for n in range(64)]",
    ),
    Channel(
        "a byte out of band, in a loop's sockets",
        "libc.send(49, b'x', 1, 1 * bit)",
        "byte = bytes(1)\nseen = libc.recv(50, byte, 1, 0x41), byte",
    ),
    Channel(
        "the name of its thread",
        "libc.prctl(15, b'left') if bit else 0",
        "name = ctypes.create_string_buffer(16)\nseen = libc.prctl(16, name), name.value",
    ),
    Channel(
        "room in its folder",
        "tried(lambda: open('x', 'wb').write(bytes(bit * 30 * 2**20)))",
        "seen = tried(lambda: open('y', 'wb').write(bytes(30 * 2**20)))",
    ),
    Channel(
        "an open file without a name",
        "f = tried(open, 'x', 'wb')\nif bit and not isinstance(f, str):\n    os.unlink('x')\n    os.truncate(f.fileno(), 0)\n    f.write(bytes(20 * 2**20))\n    f.flush()",
        "seen = tried(lambda: open('y', 'wb').write(bytes(30 * 2**20)))",
    ),
    Channel(
        "libraries that are loaded",
        "ctypes.CDLL('libm.so.6') if bit else 0",
        "seen = tried(lambda: ctypes.CDLL('libm.so.6', 4)._handle * 0)",
    ),
    Channel(
        "the environment in C",
        "libc.setenv(b'LEFT', b'x', 1) if bit else 0",
        "libc.getenv.restype = ctypes.c_char_p\nseen = libc.getenv(b'LEFT')",
    ),
    Channel(
        "a stack for signals",
        "libc.sigaltstack(struct.pack('QiQ', 1 << 40, 0, 1 << 20) if bit else None, None)",
        "old = bytes(24)\nlibc.sigaltstack(None, old)\nseen = old",
    ),
    Channel("what the processor rounds", "libc.fesetround(0x400 * bit)", "seen = libc.fegetround()"),
]

OPEN_WITHOUT_MOUNTS = frozenset({"access time of a library", "access time of a folder"})
"""Where a child reads the machine's own mounts: a first reading in a day may be dated there."""
