"""Answers that end early, or never, or take all there is. Data for test_hostile.py."""

from __future__ import annotations

from tests.grading.hostile_case import Case, code

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
                    return getattr(self, name)
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

EXHAUSTION = [*ENDINGS, *TIME, *MEMORY]
