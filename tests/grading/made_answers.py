"""Hostile and odd answers that are made rather than written: many alike, or of characters that no file shows."""

from __future__ import annotations

import os

from tests.grading.hostile_case import DOUBLE, Case, held

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


def _value(name: str, expected: str, got: str, score: float | None, outcome: str | None = None) -> Case:
    """A function that returns `got` where the reference returns `expected` (expressions that may import)."""
    top = "def f():\n    import collections, datetime, decimal, enum, fractions, math\n    return "
    return Case(name, f"{top}{got}\n", score, outcome, reference=f"{top}{expected}\n", tests=("f()",))


def _clone(name: str, flags: int) -> Case:
    """Flags that the kernel refuses with EINVAL for want of others; the filter is to refuse them before."""
    start = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
    call = f"assert c.syscall(56, {flags | 0x10000}, 0, 0, 0, 0) == -1\nassert ctypes.get_errno() != 1"
    return held(f"a thread {name}", start + call)


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
_POINT = "collections.namedtuple('P', 'x y')(1, 2)"

TABLE: dict[str, list[Case]] = {
    "kill the worker": [
        *(
            Case(f"signal {number} by what happens to a file", _SIGNALS + _OWNERS.format(number), 1.0)
            for number in (2, 9, 15, 19, 29, 34)
        ),
        *(
            held(f"signal {number} to {whom}", f"__import__('os').kill({whom}, {number})")
            for number in (2, 9, 15, 19)
            for whom in (0, 1, 2, -1)
        ),
    ],
    "reach the network": [
        held(f"system call {number}", f"c = __import__('ctypes').CDLL(None)\nassert c.syscall({number}, 0, 0, 0, 0, 0) >= 0")
        # keyctl, perf_event_open, process_vm_readv, bpf, userfaultfd, io_uring_setup, pidfd_open, pidfd_getfd
        for number in (250, 298, 310, 321, 323, 425, 434, 438)
    ],
    "raw system calls": [
        held(f"system call {name}", _FAILS.format(number))
        for name, number in _CALLS.items()
        if os.uname().machine == "x86_64"
    ],
    "end oddly": [
        Case("an instruction that there is not", _PAGE.format("0f0b"), 0.0, "crash"),
        Case("a trap", _PAGE.format("cc"), 0.0, "crash"),
        Case("a division by zero", _PAGE.format("31c0f7f0"), 0.0, "crash"),
        Case("a privileged instruction", _PAGE.format("f4"), 0.0, "crash"),
    ],
    "see what is not shown": [
        _clone("with a descriptor of it", 0x1000),
        _clone("whose tracer comes along", 0x2000),
        _clone("that stops the one before", 0x4000),
        _clone("beside its parent", 0x8000),
        _clone("with shared priorities of the disk", 0x80000000),
        _clone("in another time", 0x80),
    ],
    "odd values": [
        _value("True is 1", "1", "True", 1.0),
        _value("1.0 is 1", "1", "1.0", 1.0),
        _value("minus zero", "0", "-0.0", 1.0),
        _value("a sum of floats is not rounded", "0.3", "0.1 + 0.2", 0.0, "failed"),
        _value("exact fraction", "0.5", "fractions.Fraction(1, 2)", 1.0),
        _value("decimal is not the float beside it", "0.1", "decimal.Decimal('0.1')", 0.0, "failed"),
        _value("infinity", "float('inf')", "math.inf", 1.0),
        _value("NaN", "math.nan", "math.nan", None),
        _value("NaN in a list", "[math.nan]", "[math.nan]", None),
        _value("complex without an imaginary part", "2", "2 + 0j", 1.0),
        _value("integer of 6000 digits", "10**6000 + 1", "10**6000 + 1", 1.0),
        _value("integer of 6000 digits, one off", "10**6000 + 1", "10**6000", 0.0, "failed"),
        _value("set and frozenset", "{1, 2}", "frozenset([2, 1])", 1.0),
        _value("set and keys", "{1, 2}", "{2: 0, 1: 0}.keys()", 1.0),
        _value("set and list", "{1, 2}", "[1, 2]", 0.0, "failed"),
        _value("tuple and list", "(1, 2)", "[1, 2]", 0.0, "failed"),
        _value("namedtuple", "(1, 2)", _POINT, 1.0),
        _value("dict in another order", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", 1.0),
        _value("Counter", "{'a': 2}", "collections.Counter('aa')", 1.0),
        _value("defaultdict", "{'a': [1]}", "collections.defaultdict(list, a=[1])", 1.0),
        _value("IntEnum", "3", "enum.IntEnum('E', 'a b c').c", 1.0),
        _value("Enum", "3", "enum.Enum('E', 'a b c').c", 0.0, "failed"),
        _value("range", "range(0, 3, 2)", "range(0, 4, 2)", 1.0),
        _value("date", "datetime.date(2024, 2, 29)", "datetime.date(2024, 2, 29)", 1.0),
        _value("date and midnight", "datetime.date(2024, 2, 29)", "datetime.datetime(2024, 2, 29)", 0.0, "failed"),
        _value("text and bytes", "'a'", "b'a'", 0.0, "failed"),
        _value("lone surrogate", "'\\ud800'", "chr(0xD800)", 1.0),
        _value("None on both sides", "None", "None", None, "reference_none"),
        _value("generator", "[0, 1]", "(i for i in range(2))", 0.0, "failed"),
        _value("map", "[0, 1]", "map(int, '01')", 0.0, "failed"),
        _value("function", "1", "lambda: 1", 0.0, "not_plain_data"),
        _value("generator function", "1", "(lambda: (yield))()", 0.0, "failed"),
        _value("deep list", "[]", "eval('[' * 80 + ']' * 80)", 0.0, "failed"),
    ],
    "odd texts": [
        Case("null byte", "def level(x):\n    return 2 * x\n# \0\n", 0.0, "error"),
        Case("lone surrogate in the code", "def level(x):\n    return 2 * x  # \ud800\n", 0.0, "error"),
        Case("byte order mark", "\ufeffdef level(x):\n    return 2 * x\n", 0.0, "error"),
        Case("tabs and blanks", "def level(x):\n\tif x:\n        return 2 * x\n", 0.0, "error"),
        Case("nothing", "", 0.0, "error"),
        Case("blanks", "   \n\t\n", 0.0, "error"),
        Case("prose", "I would return twice the value.", 0.0, "error"),
        Case("fence around nothing", "```python\n```", 0.0, "error"),
        Case("deeply nested brackets", "level = " + "(" * 5000 + ")" * 5000, 0.0, "error"),
        Case("a long text", "def level(x):\n    '''" + "x" * 10**6 + "'''\n    return 2 * x\n", 1.0),
        Case("Windows line ends", DOUBLE.replace("\n", "\r\n"), 1.0),
    ],
}  # fmt: skip
