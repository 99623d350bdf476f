"""Answers that go for the machinery: their channel, the clock, how a process ends, what a kernel lets be seen.

Data for test_hostile.py. Results are forged as `guest.run` sends them.
"""

from __future__ import annotations

from tests.grading.hostile_case import Case, code, held

_SENDS = code("""
    import ctypes, struct, time
    os = __import__('os')
    libc = ctypes.CDLL(None, use_errno=True)
    def header(number, value_size=0, text_size=0):
        return struct.pack('<IBII', number, 2, value_size, text_size)
""")


def _sends(name: str, body: str, score: float, outcome: str | None = None) -> Case:
    """An answer that does something with its channel."""
    lines = "".join(f"    {line}\n" for line in code(body).rstrip().split("\n"))
    return Case(name, f"{_SENDS}def level(x):\n{lines}", score, outcome)


CHANNEL = [
    held("a byte out of band", "c = __import__('ctypes').CDLL(None)\nassert c.send(48, b'x', 1, 1) == 1"),
    held("a look at what comes", "c = __import__('ctypes').CDLL(None)\nassert c.recv(49, bytes(9), 9, 0x42) >= 0\nassert __import__('ctypes').get_errno() != 11"),
    held("an address for a message", "import socket\nsocket.socket(fileno=49).sendto(b'x', 0, '/tmp/x')"),
    _sends("a byte out of band, then silence", "time.sleep(0.1)\nlibc.send(48, b'x', 1, 1)\ntime.sleep(999)", 0.0, "timeout"),
    _sends("half a message, then silence", "os.write(48, header(0, 9))\ntime.sleep(999)", 0.0, "timeout"),
    _sends("half a message, then the end", "os.write(48, header(0, 9)[:5])\ngetattr(libc, '_exi' 't')(0)", 0.0, "crash"),
    _sends("three bytes before its own message", "os.write(48, b'abc')\nreturn 2 * x", 0.0, "crash"),
    _sends("the second result first", "os.write(48, header(1, 1) + b'N')\ntime.sleep(999)", 0.0, "crash"),
    _sends("a result of 4 GiB", "os.write(48, header(0, 0, 2**32 - 1))\ntime.sleep(999)", 0.0, "crash"),
    _sends("a text that takes for ever", "os.write(48, header(0, 0, 10**6))\nwhile True:\n    os.write(48, b'x')\n    time.sleep(0.01)", 0.0, "timeout"),
    _sends("a flood", "while True:\n    os.write(48, bytes(1 << 16))", 0.0, "crash"),
    _sends("results by hand, each too late", "for n in range(2):\n    end = time.process_time() + 0.7\n    while time.process_time() < end:\n        pass\n    os.write(48, header(n, 2) + b'i%x' % (2 * n + 4))", 0.0, "timeout"),
    _sends("a result with a time that is no number", "os.write(48, struct.pack('<IBdII', 0, 2, float('nan'), 2, 0) + b'i4')\ntime.sleep(999)", 0.0, "crash"),
    _sends("no more writing", "libc.shutdown(48, 1)\nreturn 2 * x", 0.0, "crash"),
    _sends("no more reading, which harms nobody", "libc.shutdown(48, 0)\nreturn 2 * x", 1.0),
    _sends("waits for another job", "return os.read(48, 9)", 0.0, "timeout"),
    _sends("closes its channel and goes on", "os.close(48)\ntime.sleep(999)", 0.0, "crash"),
    _sends("another file in the channel's place", "import fcntl\nos.close(48)\nassert fcntl.fcntl(1, fcntl.F_DUPFD, 48) == 48\nreturn 2 * x", 0.0, "crash"),
    _sends("a copy of the channel, kept open", "import fcntl\nfcntl.fcntl(48, fcntl.F_DUPFD, 48)\nos.close(48)\ntime.sleep(999)", 0.0, "timeout"),
]  # fmt: skip

CLOCK = [
    Case("ever new threads that compute a little", code("""
        import threading, time
        def bit():
            end = time.thread_time() + 0.005
            while time.thread_time() < end:
                pass
        def level(x):
            while True:
                thread = threading.Thread(target=bit)
                thread.start()
                thread.join()
    """), 0.0, "timeout"),
    Case("threads that hand over to each other", code("""
        import threading
        def level(x):
            turns = [threading.Semaphore(0) for _ in range(4)]
            def work(n):
                while True:
                    turns[n].acquire()
                    sum(range(10**5))
                    turns[(n + 1) % 4].release()
            for n in range(4):
                threading.Thread(target=work, args=(n,), daemon=True).start()
            turns[0].release()
            threading.Event().wait()
    """), 0.0, "timeout"),
    Case("sleep in C, with the interpreter's lock", "import ctypes\ndef level(x):\n    ctypes.PyDLL(None).sleep(999)\n", 0.0, "timeout"),
    Case("waits for no file at all", "import select\ndef level(x):\n    select.select([], [], [])\n", 0.0, "timeout"),
    Case("waits in epoll for itself", "import select\ndef level(x):\n    e = select.epoll()\n    e.register(__import__('os').eventfd(0), select.EPOLLIN)\n    e.poll()\n", 0.0, "timeout"),
    Case("a timer that interrupts every sleep", "import signal, time\ndef level(x):\n    signal.signal(signal.SIGALRM, lambda *_: None)\n    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n    time.sleep(999)\n", 0.0, "timeout"),
    Case("a handler that does not return", "import signal, time\ndef level(x):\n    signal.signal(signal.SIGALRM, lambda *_: time.sleep(999))\n    signal.setitimer(signal.ITIMER_REAL, 0.01)\n    time.sleep(0.1)\n    return 2 * x\n", 0.0, "timeout"),
    Case("signals for the time that it computes", "import signal\ndef level(x):\n    signal.signal(signal.SIGPROF, lambda *_: None)\n    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)\n    while True:\n        pass\n", 0.0, "timeout"),
    Case("garbage that makes garbage", code("""
        import gc
        class A:
            def __init__(self):
                self.me = self
            def __del__(self):
                A()
                gc.collect()
        def level(x):
            A()
            while True:
                gc.collect()
    """), 0.0, "timeout"),
    Case("a value whose end takes for ever", "import time\nclass A(int):\n    def __del__(self):\n        time.sleep(999)\ndef level(x):\n    return A(2 * x)\n", 0.5),
    Case("threads that never switch", "import threading\n__import__('sys').setswitchinterval(10**6)\ndef loop():\n    while True:\n        pass\ndef level(x):\n    threading.Thread(target=loop, daemon=True).start()\n    return 2 * x\n", 0.0, "timeout"),
    Case("yields its core again and again", "os = __import__('os')\ndef level(x):\n    while True:\n        os.sched_yield()\n", 0.0, "timeout"),
    Case("a trace that sleeps at every line", "import time\ns = __import__('sys')\ndef level(x):\n    def trace(*_):\n        time.sleep(0.5)\n        return trace\n    s.settrace(trace)\n    (lambda: 1)()\n    (lambda: 2)()\n    return 2 * x\n", 0.0, "timeout"),
    Case("another interpreter that does not end", "import _xxsubinterpreters as s\ndef level(x):\n    s.run_string(s.create(), 'while True: pass')\n", 0.0, "timeout"),
    Case("its own faults, again and again", "import ctypes, signal\ndef level(x):\n    signal.signal(signal.SIGSEGV, lambda *_: None)\n    ctypes.string_at(0)\n", 0.0, "timeout"),
]  # fmt: skip

LIFE = [
    Case("a text that overflows the parser", "def level(x):\n    return eval('-' * 10**6 + '1')\n", 0.0),
    Case("a deep call on a small stack", code("""
        import threading
        s = __import__('sys')
        def level(x):
            s.setrecursionlimit(10**8)
            class A:
                def __getattr__(self, name):
                    return getattr(self, name)
            threading.stack_size(65536)
            thread = threading.Thread(target=lambda: A().b)
            thread.start()
            thread.join()
            return 2 * x
    """), 0.0, "crash"),
    Case("beyond the end of a mapped file", "import ctypes, json, mmap\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\ndef level(x):\n    with open(json.__file__, 'rb') as f:\n        page = libc.mmap(None, 1 << 20, 1, 2, f.fileno(), ctypes.c_long(0))\n    return ctypes.string_at(page + (1 << 19), 1)\n", 0.0, "crash"),
    *(
        Case(name, f"import ctypes, mmap\ndef level(x):\n    page = mmap.mmap(-1, 4096, prot=7)\n    page.write(bytes.fromhex('{words}'))\n    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()\n", 0.0, "crash")
        for name, words in (("an instruction that there is not", "0f0b"), ("a trap", "cc"), ("a division by zero", "31c0f7f0"), ("a privileged instruction", "f4"))
    ),
    Case("a fault on a stack for faults", "import ctypes, faulthandler\ndef level(x):\n    faulthandler.enable(__import__('sys').__stderr__ or open('/dev/null', 'w'))\n    ctypes.string_at(0)\n", 0.0, "crash"),
    Case("abort, caught", "import signal\ndef level(x):\n    signal.signal(signal.SIGABRT, lambda *_: None)\n    getattr(__import__('os'), 'abort')()\n", 0.0, "crash"),
    Case("a watchdog of its own that ends it", "import faulthandler, time\ndef level(x):\n    faulthandler.dump_traceback_later(0.01, exit=True, file=2)\n    time.sleep(0.2)\n    return 2 * x\n", 0.0, "crash"),
    Case("something at the end that hangs, and is not waited for", "import atexit, time\ndef level(x):\n    atexit.register(time.sleep, 999)\n    return 2 * x\n", 1.0),
    Case("the end by C", "import ctypes\ndef level(x):\n    getattr(ctypes.CDLL(None), 'exi' 't')(0)\n", 0.0, "crash"),
    Case("the interpreter's end", "import ctypes\ndef level(x):\n    ctypes.pythonapi.Py_FinalizeEx()\n    return 2 * x\n", 0.0),
    Case("None given back too often", "import ctypes\ndef level(x):\n    give = ctypes.PyDLL(None).Py_DecRef\n    for _ in range(10**6):\n        give(ctypes.py_object(None))\n", 0.0, "crash"),
    Case("the end of its main thread", "import ctypes\ndef level(x):\n    ctypes.CDLL(None).syscall(60, 0)\n", 0.0),
    Case("every descriptor used up", "import select\nkept = []\ndef level(x):\n    try:\n        while True:\n            kept.append(select.epoll())\n    except OSError:\n        return 2 * x\n", 1.0),
    Case("all address space, page by page", "import mmap\ndef level(x):\n    kept = []\n    try:\n        while True:\n            kept.append(mmap.mmap(-1, 1 << 24))\n    except OSError:\n        return 2 * x\n", 1.0),
    Case("memory above its limit", "def level(x):\n    return 2 * x * (len(bytes(600 * 2**20)) > 0)\n", 0.0, "memory"),
    Case("holes in its memory", "import ctypes, mmap\nlibc = ctypes.CDLL(None)\ndef level(x):\n    area = mmap.mmap(-1, 1 << 28)\n    start = ctypes.addressof(ctypes.c_char.from_buffer(area))\n    for at in range(0, 1 << 28, 1 << 13):\n        if libc.mprotect(ctypes.c_void_p(start + at), 4096, 1):\n            break\n    return 2 * x\n", 1.0),
    Case("very many threads with small stacks", "import threading, time\ndef level(x):\n    threading.stack_size(32768)\n    try:\n        for _ in range(9000):\n            threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n    except (RuntimeError, MemoryError):\n        pass\n    time.sleep(999)\n", 0.0),
]  # fmt: skip


def _clone(name: str, flags: int) -> Case:
    """Flags that the kernel refuses with EINVAL for want of others; the filter is to refuse them before."""
    return held(
        f"a thread {name}",
        f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nassert c.syscall(56, {flags | 0x10000}, 0, 0, 0, 0) == -1\nassert ctypes.get_errno() != 1",
    )


SIGHTS = [
    _clone("with a descriptor of it", 0x1000),
    _clone("whose tracer comes along", 0x2000),
    _clone("that stops the one before", 0x4000),
    _clone("beside its parent", 0x8000),
    _clone("with shared priorities of the disk", 0x80000000),
    _clone("in another time", 0x80),
    held("a place that is not opened", "import json\n__import__('os').open(__import__('os').path.dirname(json.__file__), 0x200000)"),
    held("whether there is another process", "os = __import__('os')\nassert os.sched_getaffinity(1) or os.sched_getaffinity(os.getppid())"),
    held("where its program lies", "__import__('os').readlink('/proc/self/exe')"),
    held("what its descriptors are", "os = __import__('os')\n[os.readlink(f'/proc/self/fd/{n}') for n in (0, 48)]"),
    held("its own map of memory", "open('/proc/self/maps').read()"),
    held("a climb out of its folder", "open('../' * 40 + 'etc/passwd').read()"),
    held("a way through its own root", "open('/proc/self/root/etc/passwd').read()"),
    held("words into a terminal", "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')"),
    held("a terminal", "open('/dev/tty').read(1)"),
    held("other names for the machine", "import socket\nsocket.sethostname('x')"),
    held("the settings of the kernel", "open('/proc/sys/kernel/ns_last_pid').read() or open('/sys/kernel/profiling').read()"),
    held("a lock by a name", "import _multiprocessing as m\nm.SemLock(0, 1, 1, '/left-behind', True)"),
    held("more than its share of memory that stays", "import ctypes, mmap\na = mmap.mmap(-1, 4096)\nassert ctypes.CDLL(None).mlock2(ctypes.byref(ctypes.c_char.from_buffer(a)), 4096, 0) == 0"),
]  # fmt: skip
