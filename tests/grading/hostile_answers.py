"""Answers that attack: what holds them, the machine, the grader, or the score. Data for test_hostile.py.

An attack that is expected to fail returns the right value when it does (`held`), so that full marks mean that it
was held and that the answer's process lived on. Marked words are replaced when an answer is used: @FILE@ (a secret
file), @SECRET@ (halves of what it and the environment hold), @PORT@ (somebody listens there), @PROJECT@.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

DOUBLE = "def level(x):\n    return x * 2\n"


class Case(NamedTuple):
    """An answer and the score that is right for it; `outcome` is that of the first test where it matters."""

    name: str
    answer: str
    score: float
    outcome: str | None = None
    reference: str = DOUBLE
    tests: tuple[str, ...] = ("level(2)", "level(3)")


def held(name: str, attempt: str) -> Case:
    """The attempt must raise; then the value is right."""
    body = textwrap.indent(textwrap.dedent(attempt).strip(), " " * 8)
    return Case(
        name,
        "def level(x):\n    try:\n"
        + body
        + "\n    except Exception:\n        return 2 * x\n    return 'got through'\n",
        1.0,
    )


def code(text: str) -> str:
    """A block as it stands in this file, moved to the left."""
    return textwrap.dedent(text).lstrip("\n")


PROCESSES = [
    held("fork", "__import__('os').fork()"),
    Case("fork bomb", "os = __import__('os')\nwhile True:\n    os.fork()\n", 0.0, "error"),
    Case(
        "fork bomb that goes on",
        code("""
            os = __import__('os')
            def level(x):
                for _ in range(1000):
                    try:
                        os.fork()
                    except OSError:
                        pass
                return 2 * x
        """),
        1.0,
    ),
    held("vfork by number", "c = __import__('ctypes').CDLL(None)\nassert c.syscall(58) >= 0"),
    held(
        "clone3 by number", "c = __import__('ctypes').CDLL(None)\nassert c.syscall(435, bytes(88), 88) >= 0"
    ),
    held("shell", "assert __import__('os').system('true') == 0"),
    held("subprocess", "import subprocess\nsubprocess.run(['/bin/true'])"),
    held("posix_spawn", "os = __import__('os')\nos.posix_spawn('/bin/true', ['true'], {})"),
    held("execv", "__import__('os').execv('/usr/bin/env', ['env'])"),
    held(
        "multiprocessing", "import multiprocessing as m\nm.get_context('fork').Process(target=print).start()"
    ),
    held("kill its worker", "__import__('os').kill(1, 9)"),
    held("kill its parent", "os = __import__('os')\nos.kill(os.getppid(), 9)"),
    held("kill everybody", "__import__('os').kill(-1, 9)"),
    held("stop its parent", "os = __import__('os')\nos.kill(os.getppid(), 19)"),
    held("trace its parent", "c = __import__('ctypes').CDLL(None)\nassert c.ptrace(16, 1, 0, 0) == 0"),
    held("lower its niceness", "__import__('os').nice(-10)"),
    held("raise its limits", "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))"),
    Case(
        "many threads",
        code("""
            import threading, time
            def level(x):
                try:
                    for _ in range(1000):
                        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
                except (RuntimeError, MemoryError):
                    pass
                return 2 * x
        """),
        1.0,
    ),
    Case(
        "threads that do not end",
        code("""
            import threading
            def level(x):
                threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
                return 2 * x
        """),
        1.0,
    ),
]

ENDINGS = [
    Case("_exit", "def level(x):\n    getattr(__import__('os'), '_exi' 't')(0)\n", 0.0, "crash"),
    Case(
        "_exit on the first test only",
        "def level(x):\n    if x == 2:\n        getattr(__import__('os'), '_exi' 't')(0)\n    return 2 * x\n",
        0.5,
        "crash",
    ),
    Case("_exit while defining", "getattr(__import__('os'), '_exi' 't')(7)\n", 0.0, "crash"),
    Case("abort", "def level(x):\n    __import__('os').abort()\n", 0.0, "crash"),
    Case(
        "segmentation fault", "import ctypes\ndef level(x):\n    return ctypes.string_at(0)\n", 0.0, "crash"
    ),
    Case(
        "stack overflow in C",
        code("""
            s = __import__('sys')
            s.setrecursionlimit(10**9)
            class A:
                def __getattr__(self, name):
                    return getattr(self, name + 'a')
            def level(x):
                return A().b
         """),
        0.0,
        "crash",
    ),
    Case("SystemExit", "def level(x):\n    raise SystemExit(0)\n", 0.0, "error"),
    Case("KeyboardInterrupt", "def level(x):\n    raise KeyboardInterrupt\n", 0.0, "error"),
    Case("SystemExit while defining", "raise SystemExit\n", 0.0, "error"),
    Case(
        "an error whose words raise",
        "class E(BaseException):\n    def __str__(self):\n        raise SystemExit\ndef level(x):\n    raise E\n",
        0.0,
        "error",
    ),
    Case("an error with endless words", "def level(x):\n    raise ValueError('x' * 10**7)\n", 0.0, "error"),
    Case("recursion without end", "def level(x):\n    return level(x)\n", 0.0, "error"),
    Case(
        "recursion without end, caught",
        "def level(x):\n    try:\n        return level(x)\n    except RecursionError:\n        return 2 * x\n",
        1.0,
    ),
]

TIME = [
    Case("endless loop", "def level(x):\n    while True:\n        pass\n", 0.0, "timeout"),
    Case(
        "endless loop for one test",
        "def level(x):\n    while x == 2:\n        pass\n    return 2 * x\n",
        0.5,
        "timeout",
    ),
    Case("endless loop while defining", "while True:\n    pass\n", 0.0, "timeout"),
    Case("sleep", "import time\ndef level(x):\n    time.sleep(60)\n    return 2 * x\n", 0.0, "timeout"),
    Case(
        "many short sleeps",
        "import time\ndef level(x):\n    while True:\n        time.sleep(.01)\n",
        0.0,
        "timeout",
    ),
    Case(
        "deadlock",
        "import threading\ndef level(x):\n    l = threading.Lock()\n    l.acquire()\n    l.acquire()\n",
        0.0,
        "timeout",
    ),
    Case("waits for a signal", "import signal\ndef level(x):\n    signal.pause()\n", 0.0, "timeout"),
    Case(
        "swallows everything",
        code("""
            def level(x):
                while True:
                    try:
                        while True:
                            pass
                    except BaseException:
                        pass
         """),
        0.0,
        "timeout",
    ),
    Case(
        "ignores all signals",
        code("""
            import signal
            for number in range(1, 64):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
            def level(x):
                while True:
                    pass
         """),
        0.0,
        "timeout",
    ),
    Case(
        "stops the clocks",
        code("""
            import time
            time.process_time = time.monotonic = time.time = lambda: 0.0
            def level(x):
                while True:
                    pass
         """),
        0.0,
        "timeout",
    ),
    Case("one long step in C", "def level(x):\n    return 9 ** 9 ** 9\n", 0.0, "timeout"),
    Case(
        "a pattern that backtracks",
        "import re\ndef level(x):\n    return re.match('(a+)+$', 'a' * 60 + 'b')\n",
        0.0,
        "timeout",
    ),
    Case(
        "endless generator, drawn", "def level(x):\n    return sum(1 for _ in iter(int, 1))\n", 0.0, "timeout"
    ),
    Case("endless output", "def level(x):\n    while True:\n        print('x' * 10**6)\n", 0.0, "timeout"),
]

MEMORY = [
    Case("memory at once", "def level(x):\n    return bytes(10**12)\n", 0.0, "memory"),
    Case(
        "memory bit by bit",
        "def level(x):\n    a = []\n    while True:\n        a.append(bytes(10**7))\n",
        0.0,
        "memory",
    ),
    Case(
        "memory, caught",
        "def level(x):\n    try:\n        bytes(10**12)\n    except MemoryError:\n        return 2 * x\n",
        1.0,
    ),
    Case("memory while defining", "a = [0] * 10**12\ndef level(x):\n    return 2 * x\n", 0.0, "memory"),
    Case(
        "constant folding", "def level(x):\n    return (('x' * 4000,) * 4000, 1 << 10**6)[1] and 2 * x\n", 1.0
    ),
    Case("huge text", "def level(x):\n    return 'x' * 10**7\n", 0.0, "failed"),
    Case("much output", "def level(x):\n    print('x' * 10**7)\n    return 2 * x\n", 1.0),
    Case(
        "output to standard error",
        "import traceback, warnings\ndef level(x):\n    warnings.warn('look')\n    try:\n        1 / 0\n    except Exception:\n"
        "        traceback.print_exc()\n    return 2 * x\n",
        1.0,
    ),
    Case("reads standard input", "def level(x):\n    return input()\n", 0.0, "error"),
]

FILES = [
    held("/etc/passwd", "open('/etc/passwd').read()"),
    held("/etc listed", "__import__('os').listdir('/etc')"),
    held("the secret file", "open('@FILE@').read()"),
    held("this project", "__import__('os').listdir('@PROJECT@')"),
    held("this library", "import sweet_rl.tasks.mini"),
    held("home", "__import__('os').listdir('/root') and __import__('os').listdir('/home')"),
    held("own environment in /proc", "open('/proc/self/environ').read()"),
    held("memory of its worker", "open('/proc/1/mem', 'rb').read(1)"),
    held("kernel log", "open('/dev/kmsg').read(1)"),
    held("write to /tmp", "open('/tmp/left-behind', 'w')"),
    held("write where it is", "open('left-behind', 'w')"),
    held("temporary file", "import tempfile\ntempfile.TemporaryFile()"),
    held("write into the library", "import json\nopen(json.__file__, 'a')"),
    held("remove from the library", "import json\n__import__('os').unlink(json.__file__)"),
    held("change rights", "import json\n__import__('os').chmod(json.__file__, 0o777)"),
    held("make a directory", "__import__('os').mkdir('/left-behind')"),
    held("make a link", "__import__('os').symlink('/etc', '/tmp/left-behind')"),
    held("memory file", "__import__('os').memfd_create('x')"),
    held(
        "shared memory",
        "from multiprocessing import shared_memory as s\ns.SharedMemory(create=True, size=10)",
    ),
    held(
        "mount", "c = __import__('ctypes').CDLL(None)\nassert c.mount(b'none', b'/', b'tmpfs', 0, None) == 0"
    ),
    held("leave the root", "os = __import__('os')\nos.chroot('/usr')"),
    held("new namespaces", "c = __import__('ctypes').CDLL(None)\nassert c.unshare(0x10000000) == 0"),
    Case(
        "looks for the secret in the environment",
        code("""
            import ctypes
            os = __import__('os')
            def level(x):
                ctypes.CDLL(None).getenv.restype = ctypes.c_char_p
                seen = str(dict(os.environ)) + str(ctypes.CDLL(None).getenv(b'SWEET_RL_CANARY'))
                return 'got through' if '@SECRET@' in seen else 2 * x
         """),
        1.0,
    ),
]

NETWORK = [
    held("connect", "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1)"),
    held("resolve a name", "import socket\nsocket.getaddrinfo('localhost', 80)[0] and socket.socket()"),
    held("fetch a page", "import urllib.request as u\nu.urlopen('http://127.0.0.1:@PORT@/', timeout=1)"),
    held("listen", "import socket\nsocket.socket().bind(('127.0.0.1', 0))"),
    held("unix socket", "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0x')"),
    held("datagram pair", "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)"),
    held("raw socket by number", "c = __import__('ctypes').CDLL(None)\nassert c.syscall(41, 2, 1, 0) >= 0"),
    *(
        held(
            f"system call {number}",
            f"c = __import__('ctypes').CDLL(None)\nassert c.syscall({number}, 0, 0, 0, 0, 0) >= 0",
        )
        for number in (250, 298, 310, 321, 323, 425, 434, 438)
        # keyctl, perf_event_open, process_vm_readv, bpf, userfaultfd, io_uring_setup, pidfd_open, pidfd_getfd
    ),
    Case(
        "asyncio, which needs a pair of sockets",
        code("""
            import asyncio
            async def later(x):
                await asyncio.sleep(0)
                return 2 * x
            def level(x):
                return asyncio.run(later(x))
         """),
        1.0,
    ),
]

_FRAMES = code("""
    import struct
    os = __import__('os')
    def say(outcome, value=b''):
        message = b''.join(struct.pack('<IBdII', n, outcome, 0.0, len(value), 0) + value for n in range(2))
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, message)
            except OSError:
                pass
""")

GRADER = [
    Case("says that it has passed", _FRAMES + "def level(x):\n    say(0)\n", 0.0, "crash"),
    Case(
        "says that it has passed, and stays",
        _FRAMES + "import time\ndef level(x):\n    say(0)\n    time.sleep(999)\n",
        0.0,
        "crash",
    ),
    Case(
        "sends values, and stays",
        _FRAMES + "import time\ndef level(x):\n    say(2, b'N')\n    time.sleep(999)\n",
        0.0,
        "failed",
    ),
    Case(
        "sends rubbish",
        "os = __import__('os')\ndef level(x):\n    for d in range(3, 40):\n        try:\n            os.write(d, bytes(10**6))\n"
        "        except OSError:\n            pass\n    return 2 * x\n",
        0.0,
    ),
    Case(
        "closes everything",
        "os = __import__('os')\ndef level(x):\n    os.closerange(0, 64)\n    return 2 * x\n",
        0.0,
        "crash",
    ),
    Case(
        "always equal",
        "class A:\n    def __eq__(self, other):\n        return True\ndef level(x):\n    return A()\n",
        0.0,
        "not_plain_data",
    ),
    Case(
        "a number that is always equal",
        "class A(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\ndef level(x):\n    return A(5)\n",
        0.0,
        "failed",
    ),
    Case(
        "always equal where the test compares",
        "class A:\n    def __eq__(self, other):\n        return True\ndef level(x):\n    return A()\n",
        0.0,
        "not_plain_data",
        tests=("level(2) == 4", "level(3) == 6"),
    ),
    Case(
        "a number that is always equal where the test compares",
        "class A(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\ndef level(x):\n    return [A(5)]\n",
        0.0,
        "failed",
        reference="def level(x):\n    return [x * 2]\n",
        tests=("level(2) == [4]", "[6] == level(3)"),
    ),
    Case(
        "patched builtins",
        "import builtins\nbuiltins.len = builtins.sum = builtins.repr = lambda *a: 4\ndef level(x):\n    return [0]\n",
        0.0,
        reference="def level(x):\n    return [0] * 4\n",
        tests=("len(level(2))", "sum([len(level(3))])"),
    ),
    Case(
        "shadowed builtins",
        "def len(x):\n    return 4\ndef level(x):\n    return [0]\n",
        0.0,
        "failed",
        reference="def level(x):\n    return [0] * 4\n",
        tests=("len(level(2))",),
    ),
    Case(
        "a built-in name that the reference defines, too",
        "def max(a):\n    return a + 1\n",
        1.0,
        reference="def max(a):\n    return 1 + a\n",
        tests=("max(1)", "max(2)"),
    ),
    Case(
        "patched modules",
        code("""
            import json, marshal, pickle, struct
            for module in json, marshal, pickle:
                module.dumps = module.loads = lambda *a, **k: b'N'
            struct.pack = lambda *a: b''
            def level(x):
                return 2 * x
         """),
        1.0,
    ),
    Case(
        "patched grader",
        code("""
            s = __import__('sys')
            for name, module in list(s.modules.items()):
                if name.startswith('guest'):
                    for part in ('fingerprint', 'canonical', 'literal', 'plain'):
                        if hasattr(module, part):
                            setattr(module, part, lambda *a: b'i4')
            def level(x):
                return object()
         """),
        0.0,
        reference="def level(x):\n    return 4242\n",
    ),
    Case(
        "forgets all modules",
        "s = __import__('sys')\ns.modules.clear()\ndef level(x):\n    return 2 * x\n",
        1.0,
    ),
    Case(
        "looks for the reference in memory",
        code("""
            import gc
            s = __import__('sys')
            def level(x):
                gc.unfreeze()
                wanted = 'the words of ' + 'the reference'
                seen = [o for o in gc.get_objects()]
                texts = [str(r) for o in seen for r in gc.get_referents(o) if type(r) in (str, bytes)]
                return 'found' if any(wanted in text and len(text) > 60 for text in texts) else 2 * x
         """),
        1.0,
        reference="def level(x):\n    'the words of the reference, which an answer must never be able to read'\n    return x * 2\n",
        tests=("level(2)",),
    ),
    Case(
        "tracing",
        "s = __import__('sys')\ns.settrace(lambda *a: None)\ns.setprofile(lambda *a: 1/0)\ndef level(x):\n    return 2 * x\n",
        0.0,
    ),
    Case(
        "closes standard output",
        "s = __import__('sys')\ndef level(x):\n    if s.stdout:\n        s.stdout.close()\n    s.stdout = None\n    print(x)\n    return 2 * x\n",
        1.0,
    ),
]

ATTACKS = [*PROCESSES, *ENDINGS, *TIME, *MEMORY, *FILES, *NETWORK, *GRADER]
