"""Answers that want out: to other processes, to files, to the network. Data for test_hostile.py."""

from __future__ import annotations

from tests.grading.hostile_case import Case, code, held

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

FILES = [
    held("/etc/passwd", "open('/etc/passwd').read()"),
    held("/etc listed", "__import__('os').listdir('/etc')"),
    held("the secret file", "open('@FILE@').read()"),
    held("this project", "__import__('os').listdir('@PROJECT@')"),
    held("this library", "import sweet_rl.mini.backend.tasks"),
    held("home", "__import__('os').listdir('/root') and __import__('os').listdir('/home')"),
    held("own environment in /proc", "open('/proc/self/environ').read()"),
    held("memory of its worker", "open('/proc/1/mem', 'rb').read(1)"),
    held("kernel log", "open('/dev/kmsg').read(1)"),
    held("write to the root", "open('/left-behind', 'w')"),
    held("write to a device", "open('/dev/zero', 'w')"),
    held("more files than it may have", "for n in range(2000):\n    open(str(n), 'w').close()"),
    held("more bytes than it may have", "open('x', 'wb').write(bytes(40 * 2**20))"),
    held(
        "run a file of its own",
        "import shutil, ctypes\nshutil.copyfile(__import__('_ctypes').__file__, 'own.so')\nctypes.CDLL('./own.so')",
    ),
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

ESCAPES = [*PROCESSES, *FILES, *NETWORK]
