"""Answers that look for the solution, that end their worker, or make raw system calls. Data for test_hostile.py."""

from __future__ import annotations

import os
import textwrap

from tests.grading.hostile_case import Case, code, held

_MARKED = "def level(x):\n    'zebra: the words of the reference'\n    return x * 2\n"


def _peek(name: str, search: str) -> Case:
    """`search` sets `seen` to whatever it has found; full marks mean that the reference was not in it."""
    body = textwrap.indent(textwrap.dedent(search).strip(), " " * 8)
    answer = (
        "import gc, inspect, traceback, types\ns = __import__('sys')\nos = __import__('os')\n"
        "def level(x):\n    seen = ''\n    try:\n"
        + body
        + "\n    except Exception as error:\n        seen = error\n"
        "    return 'found' if ''.join(('zeb', 'ra')) in str(seen) else 2 * x\n"
    )
    return Case(name, answer, 1.0, reference=_MARKED, tests=("level(2)",))


PEEKING = [
    _peek("locals of all frames", "f = s._getframe()\nseen = []\nwhile f:\n    seen.append(dict(f.f_locals))\n    f = f.f_back"),
    _peek("globals of all frames", "f = s._getframe()\nseen = []\nwhile f:\n    seen.append(dict(f.f_globals))\n    f = f.f_back"),
    _peek("frames of all threads", "seen = [f.f_back.f_locals for f in s._current_frames().values()]"),
    _peek("inspect.stack", "seen = [i.frame.f_locals for i in inspect.stack(0)]"),
    _peek(
        "frames of a traceback",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    f = error.__traceback__.tb_frame\n    seen = []\n"
        "    while f:\n        seen += [f.f_locals, f.f_code.co_consts]\n        f = f.f_back",
    ),
    _peek("constants of all code", "seen = [o.co_consts for o in gc.get_objects() if isinstance(o, types.CodeType)]"),
    _peek(
        "constants of all functions",
        "gc.unfreeze()\nseen = [o.__code__.co_consts for o in gc.get_objects() if isinstance(o, types.FunctionType)]",
    ),
    _peek("all texts", "gc.unfreeze()\nseen = [r for o in gc.get_objects() for r in gc.get_referents(o) if type(r) in (str, bytes)]"),
    _peek("all closures", "seen = [c.cell_contents for c in gc.get_objects() if isinstance(c, types.CellType)]"),
    _peek("all generators", "seen = [g.gi_frame.f_locals for g in gc.get_objects() if isinstance(g, types.GeneratorType)]"),
    _peek("all dicts", "seen = [list(o.values()) for o in gc.get_objects() if type(o) is dict]"),
    _peek("modules of the worker", "seen = [vars(m) for n, m in list(s.modules.items()) if n.startswith(('guest', '__main__'))]"),
    _peek("the job", "f = s._getframe()\nwhile f and 'job' not in f.f_locals:\n    f = f.f_back\nseen = f.f_locals['job']"),
    _peek("arguments of the worker", "seen = s.argv, s.orig_argv"),
    _peek("the environment of its process", "seen = dict(os.environ), os.environb"),
    _peek("the channel", "os.set_blocking(48, False)\nseen = os.read(48, 10**6)"),
    _peek("all descriptors", "seen = []\nfor n in range(3, 64):\n    if n != 48:\n        seen.append(os.pread(n, 10**6, 0))"),
    _peek("its own memory by a file", "seen = open('/proc/self/mem', 'rb').read(10)"),
    _peek("the worker's memory", "import ctypes\nseen = ctypes.CDLL(None).syscall(310, 1, None, 0, None, 0, 0)"),
    _peek("this library's tasks", "import sweet_rl.worlds\nseen = sweet_rl.worlds"),
    _peek("these tests", "import tests.grading.peeking as p\nseen = p._MARKED"),
    _peek("files of this project", "seen = open('@PROJECT@/tests/grading/peeking.py').read()"),
    _peek("all readable folders", "seen = os.listdir('/') + os.listdir('/tmp') + os.listdir('/home')"),
    _peek("lines kept by linecache", "import linecache\nseen = linecache.cache, linecache.getlines('<answer>')"),
    _peek("functions called at the end", "import atexit\nseen = [r for o in gc.get_objects() for r in gc.get_referents(atexit)]"),
    _peek("a trace of its callers", "seen = []\ns.settrace(lambda f, *a: seen.append(f.f_locals))\ns._getframe(1).f_trace = lambda *a: None\ns.settrace(None)"),
    _peek("freed memory", "import ctypes\nseen = b''.join(ctypes.string_at(id(bytes(64)) - 10**4, 10**4) for _ in range(9))"),
    Case(
        "the reference, in the published way",
        code("""
            def level(x):
                frame = __import__('sys')._getframe()
                while frame:
                    for value in list(frame.f_locals.values()):
                        if isinstance(value, str) and 'x * 2' in value and 'for value' not in value:
                            found = {}
                            exec(value, found)
                            return found['level'](x)
                    frame = frame.f_back
         """),
        0.0,
        published=1.0,  # as the original: which is why no fixed answer runs after a published one
    ),
    Case("a constant, in both ways", "def level(x):\n    return 4\n", 0.5, published=0.5),
    Case("always equal, in both ways", "class A:\n    def __eq__(self, other):\n        return True\nlevel = lambda x: A()\n", 0.0),
    Case(
        "always equal, as published",
        "def level(x):\n    class A:\n        def __eq__(self, other):\n            return True\n    return A()\n",
        0.0,
        published=1.0,
    ),
]  # fmt: skip

_SIGNALS = code("""
    import fcntl
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
""")

KILLING = [
    *(
        Case(f"signal {number} by what happens to a file", _SIGNALS + f"def level(x):\n    for owner in (1, -1, os.getppid(), 2):\n        safe({number}, owner)\n    return 2 * x\n", 1.0)
        for number in (2, 9, 15, 19, 29, 34)
    ),
    *(
        held(f"signal {number} to {whom}", f"__import__('os').kill({whom}, {number})")
        for number in (2, 9, 15, 19)
        for whom in (0, 1, 2, -1)
    ),
    held("signal to a thread", "import signal, threading\nsignal.pthread_kill(threading.get_ident(), 9)"),
    held("signal to itself", "import signal\nsignal.raise_signal(2)"),
    held("death with its parent", "c = __import__('ctypes').CDLL(None)\nassert c.prctl(1, 9, 0, 0, 0) == 0"),
    held("limits of its worker", "import resource\nresource.prlimit(1 if __import__('os').getppid() else 2, resource.RLIMIT_CPU, (1, 1))"),
    Case("an alarm", "import signal\nsignal.alarm(1)\ndef level(x):\n    return 2 * x\n", 1.0),
    Case("a timer without a handler", "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ndef level(x):\n    time.sleep(0.05)\n    return 2 * x\n", 1.0),
    Case(
        "an alarm with a handler",
        "import signal, time\ndef ring(*_):\n    raise TimeoutError\ndef level(x):\n    signal.signal(signal.SIGALRM, ring)\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.01)\n    try:\n        time.sleep(9)\n    except TimeoutError:\n        return 2 * x\n",
        1.0,
    ),
    Case("x86's 32-bit calls", code("""
        import ctypes, mmap
        def level(x):
            page = mmap.mmap(-1, 4096, prot=7)
            page.write(bytes.fromhex('b825000000bb01000000b909000000cd80c3'))  # kill(1, 9) by int 0x80
            ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
            return 2 * x
     """), 0.0, "crash"),
    Case("x32 calls", "import ctypes\ndef level(x):\n    ctypes.CDLL(None).syscall(0x40000000 + 39)\n    return 2 * x\n", 0.0, "crash"),
    Case("sets everything to unlimited", "import resource\ndef level(x):\n    for n in range(16):\n        try:\n            resource.setrlimit(n, (-1, -1))\n        except (ValueError, OSError):\n            pass\n    return 2 * x\n", 1.0),
    Case("closes and copies its descriptors", "os = __import__('os')\ndef level(x):\n    os.dup2(0, 48)\n    return 2 * x\n", 0.0, "crash"),
    Case("shuts its channel", "import ctypes\ndef level(x):\n    ctypes.CDLL(None).shutdown(48, 2)\n    return 2 * x\n", 0.0, "crash"),
    Case("jumps into the blue", "import ctypes\ndef level(x):\n    ctypes.CFUNCTYPE(None)(1)()\n", 0.0, "crash"),
    Case("forgets its own memory", "import ctypes\ndef level(x):\n    ctypes.CDLL(None).munmap(ctypes.c_void_p(id(level) & ~0xfff), 1 << 20)\n", 0.0, "crash"),
    Case("recurses in a repr", "class A(list):\n    def __repr__(self):\n        return repr(self)\ndef level(x):\n    raise ValueError(A())\n", 0.0, "error"),
    Case("a hash that raises", "class A:\n    def __hash__(self):\n        raise SystemExit\ndef level(x):\n    return {A(): 1}\n", 0.0, "error"),
    Case("a class that lies", "class A:\n    __class__ = int\n    def __index__(self):\n        return 4\ndef level(x):\n    return A()\n", 0.0, "not_plain_data"),
    Case("an int that lies", "class A(int):\n    def __index__(self):\n        return 4\n    __int__ = __float__ = __index__\ndef level(x):\n    return A(7)\n", 0.0, "failed"),
    Case("a list that lies", "class A(list):\n    def __iter__(self):\n        return iter([4])\n    def __len__(self):\n        return 1\ndef level(x):\n    return A()\n", 0.0, "failed", reference="def level(x):\n    return [4]\n"),
    Case("a reduce that runs code", "class A:\n    def __reduce__(self):\n        return (eval, ('4',))\ndef level(x):\n    return A()\n", 0.0, "not_plain_data"),
    Case("a thread that sends rubbish later", code("""
        import threading, time
        os = __import__('os')
        def spoil():
            while True:
                os.write(48, bytes(99))
        def level(x):
            threading.Thread(target=spoil, daemon=True).start()
            time.sleep(0.1)
            return 2 * x
     """), 0.0),
    Case("an endless list", "def level(x):\n    class A(list):\n        def __iter__(self):\n            while True:\n                yield 1\n    return A()\n", 0.0, "failed"),
]  # fmt: skip

_CALLS = {
    "pipe": 22, "mincore": 27, "shmget": 29, "sendfile": 40, "socket": 41, "connect": 42, "sendmsg": 46,
    "recvmsg": 47, "bind": 49, "listen": 50, "socketpair": 53, "setsockopt": 54, "getsockopt": 55, "fork": 57,
    "vfork": 58, "execve": 59, "wait4": 61, "kill": 62, "semget": 64, "msgget": 68, "flock": 73, "link": 86,
    "symlink": 88, "chown": 92, "sysinfo": 99, "ptrace": 101, "syslog": 103, "setuid": 105, "setpgid": 109,
    "setsid": 112, "setresuid": 117, "capset": 126, "rt_sigqueueinfo": 129, "mknod": 133, "personality": 135,
    "statfs": 137, "getpriority": 140, "setpriority": 141, "sched_setscheduler": 144, "mlock": 149,
    "mlockall": 151, "modify_ldt": 154, "pivot_root": 155, "prctl": 157, "arch_prctl": 158, "chroot": 161,
    "sync": 162, "mount": 165, "umount2": 166, "reboot": 169, "sethostname": 170, "iopl": 172, "ioperm": 173,
    "init_module": 175, "readahead": 187, "setxattr": 188, "tkill": 200, "sched_setaffinity": 203,
    "io_setup": 206, "fadvise64": 221, "timer_create": 222, "tgkill": 234, "mbind": 237, "set_mempolicy": 238,
    "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251,
    "inotify_init": 253, "migrate_pages": 256, "unshare": 272, "get_robust_list": 274, "splice": 275,
    "tee": 276, "vmsplice": 278, "move_pages": 279, "signalfd": 282, "timerfd_create": 283, "fallocate": 285,
    "pipe2": 293, "inotify_init1": 294, "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "syncfs": 306, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "seccomp": 317, "memfd_create": 319, "bpf": 321,
    "execveat": 322, "userfaultfd": 323, "membarrier": 324, "copy_file_range": 326, "preadv2": 327,
    "pkey_alloc": 330, "statx": 332, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428,
    "fsopen": 430, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "landlock_restrict_self": 446, "memfd_secret": 447,
    "process_mrelease": 448, "futex_waitv": 449, "cachestat": 451, "futex_wake": 454,
}  # fmt: skip
"""What an answer may not do, by the numbers of x86_64."""

SYSTEM_CALLS = [
    held(
        f"system call {name}",
        f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nfailed = c.syscall({number}, 0, 0, 0, 0, 0, 0) == -1\n"
        "assert not (failed and ctypes.get_errno() in (1, 38))",  # EPERM, ENOSYS: it was not even looked at
    )
    for name, number in _CALLS.items()
    if os.uname().machine == "x86_64"
]
