"""Answers that are right, by ways that a sandbox might forbid. Data for test_hostile.py."""

from __future__ import annotations

import textwrap

from tests.grading.hostile_case import Case


def _fine(name: str, body: str) -> Case:
    """The body has to run without an error; then the value is right."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return Case(name, f"os = __import__('os')\ndef level(x):\n{lines}\n    return 2 * x\n", 1.0)


FILES = [
    _fine("temporary file", "import tempfile\nwith tempfile.TemporaryFile() as f:\n    f.write(b'x')\n    f.seek(0)\n    assert f.read() == b'x'"),
    _fine("named temporary file", "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    f.write('x')\n    f.flush()\n    assert open(f.name).read() == 'x'"),
    _fine("temporary folder", "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n    open(d + '/a', 'w').write('b')\n    assert os.listdir(d) == ['a']"),
    _fine("spooled file", "import tempfile\nf = tempfile.SpooledTemporaryFile(max_size=1)\nf.write(b'long')\nf.seek(0)\nassert f.read() == b'long'"),
    _fine("mkstemp", "import tempfile\nn, path = tempfile.mkstemp()\nos.write(n, b'x')\nos.close(n)\nos.unlink(path)"),
    _fine("a file beside it", "with open('out.txt', 'w') as f:\n    f.write('a')\nwith open('out.txt', 'a') as f:\n    f.write('b')\nassert open('out.txt').read() == 'ab'"),
    _fine("a file in /tmp", "import tempfile\npath = os.path.join(tempfile.gettempdir(), 'x.txt')\nopen(path, 'w').close()\nassert os.path.exists(path)\nos.remove(path)"),
    _fine("a file at home", "from pathlib import Path\nPath('~/x.txt').expanduser().write_text('a')\nassert Path.home().joinpath('x.txt').read_text() == 'a'"),
    _fine("pathlib", "from pathlib import Path\np = Path('a/b')\np.mkdir(parents=True, exist_ok=True)\n(p / 'c').write_text('d')\n(p / 'c').rename(p / 'e')\nassert [f.name for f in p.iterdir()] == ['e']"),
    _fine("shutil", "import shutil\nos.makedirs('a/b', exist_ok=True)\nopen('a/b/c', 'w').write('x' * 10**5)\nshutil.copytree('a', 'd')\nshutil.copy('a/b/c', 'e')\nshutil.move('e', 'f')\nshutil.rmtree('a')\nshutil.rmtree('d')"),
    _fine("csv and json", "import csv, json\nwith open('x.csv', 'w', newline='') as f:\n    csv.writer(f).writerow([1, 2])\njson.dump([1], open('x.json', 'w'))\nassert list(csv.reader(open('x.csv'))) == [['1', '2']]"),
    _fine("gzip and zip", "import gzip, zipfile\ngzip.open('x.gz', 'wb').write(b'a')\nwith zipfile.ZipFile('x.zip', 'w') as z:\n    z.writestr('a', 'b')\nassert zipfile.ZipFile('x.zip').read('a') == b'b'"),
    _fine("shelf", "import dbm.dumb, shelve\ns = shelve.Shelf(dbm.dumb.open('shelf'))\ns['a'] = [1]\nassert s['a'] == [1]\ns.close()"),
    _fine("mapped file", "import mmap\nopen('m', 'wb').write(bytes(4096))\nwith open('m', 'r+b') as f, mmap.mmap(f.fileno(), 0) as m:\n    m[0:2] = b'ab'\nassert open('m', 'rb').read(2) == b'ab'"),
    _fine("log file", "import logging\nlogging.basicConfig(filename='x.log', level=10, force=True)\nlogging.info('a')\nassert 'a' in open('x.log').read()"),
    _fine("change of folder", "import tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nopen('a', 'w').close()\nassert os.listdir() == ['a']\nos.chdir('..')"),
    _fine("locked file", "import fcntl\nwith open('lock', 'w') as f:\n    fcntl.lockf(f, fcntl.LOCK_EX)\n    f.write('x')\n    fcntl.lockf(f, fcntl.LOCK_UN)"),
    _fine("sqlite in memory", "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t (a)')\nc.execute('insert into t values (1)')\nassert c.execute('select * from t').fetchall() == [(1,)]"),
    _fine("sqlite in a file", "import sqlite3\nfor n in range(2):\n    c = sqlite3.connect('x.db')\n    c.execute('create table if not exists t (a)')\n    c.execute('insert into t values (1)')\n    c.commit()\n    c.close()\nc = sqlite3.connect('x.db')\nassert len(c.execute('select * from t').fetchall()) >= 2\nc.close()"),
    _fine("sqlite, two connections", "import sqlite3, tempfile\nwith tempfile.TemporaryDirectory() as d:\n    a, b = sqlite3.connect(d + '/x'), sqlite3.connect(d + '/x')\n    a.execute('create table t (a)')\n    a.execute('insert into t values (1)')\n    assert b.execute('select count(*) from sqlite_master').fetchall() == [(1,)]\n    a.commit()\n    assert b.execute('select * from t').fetchall() == [(1,)]"),
    _fine("os.devnull", "print('x', file=open(os.devnull, 'w'))\nassert open(os.devnull).read() == ''"),
]  # fmt: skip

THREADS = [
    _fine("threads", "import threading\nr = []\nt = [threading.Thread(target=r.append, args=(i,)) for i in range(8)]\n[i.start() for i in t]\n[i.join() for i in t]\nassert sorted(r) == list(range(8))"),
    _fine("a pool of threads", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    assert list(p.map(abs, [-1, 2])) == [1, 2]"),
    _fine("locks, events, conditions", "import threading\ne, c = threading.Event(), threading.Condition()\nt = threading.Timer(0.01, e.set)\nt.start()\nassert e.wait(5)\nt.join()\nwith c:\n    c.notify_all()"),
    _fine("a queue", "import queue, threading\nq = queue.Queue(1)\nthreading.Thread(target=lambda: [q.put(i) for i in range(9)]).start()\nassert [q.get() for i in range(9)] == list(range(9))"),
    _fine("asyncio.gather", "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.001)\n    return n\nasync def g():\n    return await asyncio.gather(*map(f, range(5)))\nassert asyncio.run(g()) == list(range(5))"),
    _fine("asyncio, twice and in a thread", "import asyncio\nasync def f():\n    return await asyncio.to_thread(abs, -1)\nassert [asyncio.run(f()), asyncio.run(f())] == [1, 1]"),
    _fine("two loops at once", "import asyncio\na, b = asyncio.new_event_loop(), asyncio.new_event_loop()\nassert a.run_until_complete(asyncio.sleep(0, 1)) == 1\nassert b.run_until_complete(asyncio.sleep(0, 2)) == 2\na.close()\nb.close()"),
    _fine("asyncio with time-outs", "import asyncio\nasync def f():\n    try:\n        await asyncio.wait_for(asyncio.sleep(9), 0.01)\n    except asyncio.TimeoutError:\n        return 1\nassert asyncio.run(f()) == 1"),
    _fine("processes, refused so that it can go on", "import concurrent.futures as c\ntry:\n    with c.ProcessPoolExecutor(2) as p:\n        list(p.map(abs, [1]))\nexcept (OSError, NotImplementedError, ImportError, RuntimeError):\n    pass"),
    _fine("a subprocess, refused so that it can go on", "import subprocess\ntry:\n    subprocess.check_output(['date'])\nexcept OSError:\n    pass"),
]  # fmt: skip

POOLS = [
    _fine("a pool of 32 threads, all at once", """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        all_here = threading.Barrier(32)
        with ThreadPoolExecutor(32) as pool:
            assert sorted(pool.map(lambda n: all_here.wait(9) * 0 + n, range(32))) == list(range(32))
    """),
    _fine("asyncio.to_thread, 32 at once", """
        import asyncio, threading
        from concurrent.futures import ThreadPoolExecutor
        all_here = threading.Barrier(32)
        async def main():
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
            return await asyncio.gather(*(asyncio.to_thread(all_here.wait, 9) for _ in range(32)))
        assert sorted(asyncio.run(main())) == list(range(32))
    """),
    _fine("pools in a pool", """
        from concurrent.futures import ThreadPoolExecutor
        def inner(n):
            with ThreadPoolExecutor(4) as pool:
                return sum(pool.map(abs, range(-n, 0)))
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(inner, range(4))) == [0, 1, 3, 6]
    """),
    _fine("the first that is done", """
        import concurrent.futures as c, time
        with c.ThreadPoolExecutor(3) as pool:
            some = [pool.submit(lambda n=n: time.sleep(n / 100) or n) for n in (2, 0, 1)]
            assert c.wait(some, return_when=c.FIRST_COMPLETED).done
            assert sorted(each.result() for each in c.as_completed(some)) == [0, 1, 2]
    """),
    _fine("values of each thread's own", """
        import threading
        own, seen = threading.local(), []
        def work(n):
            own.n = n
            seen.append(own.n)
        some = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [one.start() for one in some], [one.join() for one in some]
        assert sorted(seen) == [0, 1, 2, 3] and not hasattr(own, 'n')
    """),
    _fine("a timer taken back, and one not", """
        import threading
        rung = threading.Event()
        never, soon = threading.Timer(99, rung.clear), threading.Timer(0.01, rung.set)
        never.start(), soon.start()
        assert rung.wait(9)
        never.cancel()
    """),
    _fine("semaphores and locks that are taken twice", """
        import threading
        lock, room = threading.RLock(), threading.BoundedSemaphore(2)
        with lock, lock, room, room:
            assert not room.acquire(blocking=False)
    """),
    _fine("a condition that others meet", """
        import threading
        changed, items = threading.Condition(), []
        def put():
            with changed:
                items.append(1)
                changed.notify_all()
        with changed:
            threading.Thread(target=put).start()
            assert changed.wait_for(lambda: items, 9)
    """),
    _fine("an error in a thread", """
        import threading
        seen = []
        threading.excepthook = seen.append
        one = threading.Thread(target=lambda: 1 / 0)
        one.start(), one.join()
        assert seen[0].exc_type is ZeroDivisionError
    """),
    _fine("a thread that is still there", """
        import threading, time
        threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
    """),
    _fine("deep recursion on a large stack", """
        import threading
        __import__('sys').setrecursionlimit(10**6)
        threading.stack_size(2**27)
        def down(n):
            return n and 1 + max([n - 1], key=down) - n + n
        one = threading.Thread(target=down, args=(5000,))
        one.start(), one.join()
    """),
    _fine("sqlite in threads", """
        import sqlite3, threading
        c = sqlite3.connect(':memory:', check_same_thread=False)
        c.execute('create table t (a)')
        lock = threading.Lock()
        def put(n):
            with lock:
                c.execute('insert into t values (?)', (n,))
        some = [threading.Thread(target=put, args=(n,)) for n in range(8)]
        [one.start() for one in some], [one.join() for one in some]
        assert c.execute('select sum(a) from t').fetchone() == (28,)
    """),
    _fine("a queue by priority", """
        import queue, threading
        q, seen = queue.PriorityQueue(), []
        def work():
            while (n := q.get()) < 99:
                seen.append(n)
                q.task_done()
        for n in (3, 1, 2, 99):
            q.put(n)
        one = threading.Thread(target=work)
        one.start(), one.join()
        assert seen == [1, 2, 3]
    """),
    _fine("a schedule", """
        import sched, time
        s, seen = sched.scheduler(time.monotonic, time.sleep), []
        s.enter(0.01, 1, seen.append, (1,)), s.enter(0, 1, seen.append, (0,))
        s.run()
        assert seen == [0, 1]
    """),
]  # fmt: skip

LOOPS = [
    _fine("an alarm as a time limit", """
        import signal, time
        def ring(*_):
            raise TimeoutError
        before = signal.signal(signal.SIGALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            time.sleep(9)
            assert False
        except TimeoutError:
            pass
        finally:
            signal.alarm(0), signal.signal(signal.SIGALRM, before)
    """),
    _fine("a clock that ticks beside it", """
        import signal, time
        ticks = []
        signal.signal(signal.SIGVTALRM, lambda *_: ticks.append(1))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.004, 0.004)
        while len(ticks) < 2:
            pass
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    """),
    _fine("a group of tasks", """
        import asyncio
        async def main():
            async with asyncio.TaskGroup() as group:
                some = [group.create_task(asyncio.sleep(0.001, n)) for n in range(9)]
            return [one.result() for one in some]
        assert asyncio.run(main()) == list(range(9))
    """),
    _fine("a time limit of asyncio's", """
        import asyncio
        async def main():
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                return 1
        assert asyncio.run(main()) == 1
    """),
    _fine("a producer and consumers", """
        import asyncio
        async def main():
            queue, seen = asyncio.Queue(2), []
            async def take():
                while True:
                    seen.append(await queue.get())
                    queue.task_done()
            some = [asyncio.create_task(take()) for _ in range(3)]
            for n in range(9):
                await queue.put(n)
            await queue.join()
            [one.cancel() for one in some]
            return sorted(seen)
        assert asyncio.run(main()) == list(range(9))
    """),
    _fine("asyncio's locks", """
        import asyncio
        async def main():
            lock, room, met = asyncio.Lock(), asyncio.Semaphore(2), asyncio.Barrier(2)
            async with lock, room:
                return sorted(await asyncio.gather(met.wait(), met.wait()))
        assert asyncio.run(main()) == [0, 1]
    """),
    _fine("asynchronous generators and contexts", """
        import asyncio, contextlib
        @contextlib.asynccontextmanager
        async def place():
            yield 3
        async def count(n):
            for i in range(n):
                await asyncio.sleep(0)
                yield i
        async def main():
            async with place() as n, contextlib.aclosing(count(n)) as some:
                return [i async for i in some]
        assert asyncio.run(main()) == [0, 1, 2]
    """),
    _fine("a loop in another thread", """
        import asyncio, threading
        loop = asyncio.new_event_loop()
        one = threading.Thread(target=loop.run_forever)
        one.start()
        assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 5), loop).result(9) == 5
        loop.call_soon_threadsafe(loop.stop)
        one.join()
        loop.close()
    """),
    _fine("a runner, and values of each task's own", """
        import asyncio, contextvars
        v = contextvars.ContextVar('v', default=0)
        async def put(n):
            v.set(n)
            await asyncio.sleep(0)
            return v.get()
        async def main():
            return await asyncio.gather(*map(put, range(4))) + [v.get()]
        with asyncio.Runner() as runner:
            assert runner.run(main()) == [0, 1, 2, 3, 0]
    """),
    _fine("a task taken back and shielded", """
        import asyncio
        async def main():
            inner = asyncio.ensure_future(asyncio.sleep(0.01, 7))
            outer = asyncio.ensure_future(asyncio.shield(inner))
            await asyncio.sleep(0)
            outer.cancel()
            return await inner
        assert asyncio.run(main()) == 7
    """),
    _fine("waiting for a counter of events", """
        import select
        e, n = select.epoll(), os.eventfd(0)
        e.register(n, select.EPOLLIN)
        assert e.poll(0) == []
        os.eventfd_write(n, 3)
        assert e.poll(9) == [(n, 1)] and os.eventfd_read(n) == 3
    """),
    _fine("traces of memory and of faults", """
        import faulthandler, tracemalloc
        tracemalloc.start()
        kept = bytes(10**5)
        assert tracemalloc.get_traced_memory()[0] >= 10**5
        tracemalloc.stop()
        faulthandler.enable(file=2)
        faulthandler.disable()
    """),
    _fine("something to be done at the end", """
        import atexit, weakref
        class A:
            pass
        a = A()
        atexit.register(print, 'x'), weakref.finalize(a, print, 'y')
    """),
]  # fmt: skip

SHARED_FILES = [
    _fine("temporary files in threads", """
        import tempfile
        from concurrent.futures import ThreadPoolExecutor
        def work(n):
            with tempfile.NamedTemporaryFile('w+') as f:
                f.write(str(n)), f.seek(0)
                return int(f.read())
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(16))) == list(range(16))
    """),
    _fine("sqlite in a file, from threads", """
        import sqlite3, threading
        def put(n):
            with sqlite3.connect('threads.db', timeout=9) as c:
                c.execute('create table if not exists t (a)')
                c.execute('insert into t values (?)', (n,))
        some = [threading.Thread(target=put, args=(n,)) for n in range(4)]
        [one.start() for one in some], [one.join() for one in some]
        assert len(sqlite3.connect('threads.db').execute('select * from t').fetchall()) % 4 == 0
    """),
    _fine("files from a loop", """
        import asyncio
        from pathlib import Path
        async def main():
            await asyncio.to_thread(Path('loop.txt').write_text, 'a')
            return await asyncio.to_thread(Path('loop.txt').read_text)
        assert asyncio.run(main()) == 'a'
    """),
]  # fmt: skip

_TOP = (
    "from dataclasses import dataclass, field\nimport functools, enum, typing, collections, contextlib, abc\n"
)


def _module(name: str, source: str) -> Case:
    return Case(name, _TOP + textwrap.dedent(source).strip() + "\n", 1.0)


LANGUAGE = [
    _module("a dataclass", "@dataclass(order=True)\nclass A:\n    a: int = 2\n    b: list = field(default_factory=list)\ndef level(x):\n    return A().a * x"),
    _module("a frozen dataclass with slots", "@dataclass(frozen=True, slots=True)\nclass A:\n    a: int\ndef level(x):\n    return A(x).a * 2"),
    _module("lru_cache", "@functools.lru_cache(maxsize=None)\ndef twice(x):\n    return 2 * x\ndef level(x):\n    return twice(x)"),
    _module("singledispatch", "@functools.singledispatch\ndef level(x):\n    return None\n@level.register\ndef _(x: int):\n    return 2 * x"),
    _module("a decorator", "def twice(f):\n    @functools.wraps(f)\n    def g(*a, **k):\n        return 2 * f(*a, **k)\n    return g\n@twice\ndef level(x):\n    return x"),
    _module("a generator", "def each(x):\n    yield x\n    yield from (x,)\ndef level(x):\n    return sum(each(x))"),
    _module("a context manager", "@contextlib.contextmanager\ndef c(x):\n    yield 2 * x\ndef level(x):\n    with c(x) as y:\n        return y"),
    _module("an abstract class", "class A(abc.ABC):\n    @abc.abstractmethod\n    def f(self, x): ...\nclass B(A):\n    def f(self, x):\n        return 2 * x\ndef level(x):\n    return B().f(x)"),
    _module("a metaclass", "class M(type):\n    def __call__(cls, x):\n        return 2 * x\nclass level(metaclass=M):\n    pass"),
    _module("an enumeration", "class E(enum.Enum):\n    A = 2\ndef level(x):\n    return E['A'].value * x"),
    _module("a named tuple", "class P(typing.NamedTuple):\n    a: int\n    b: int = 2\ndef level(x):\n    return P(x).a * P(x).b"),
    _module("a typed dict, generics", "T = typing.TypeVar('T')\nclass D(typing.TypedDict):\n    a: int\nclass G(typing.Generic[T]):\n    pass\ndef level(x: int) -> int:\n    d: D = {'a': x}\n    return d['a'] * 2"),
    _module("recursion", "def level(x, n=500):\n    return level(x, n - 1) if n else 2 * x"),
    _module("mutual recursion", "def a(n, x):\n    return b(n - 1, x) if n else 2 * x\ndef b(n, x):\n    return a(n, x)\ndef level(x):\n    return a(50, x)"),
    _module("a class with state", "class C:\n    def __init__(self):\n        self.n = 0\n    def __call__(self, x):\n        self.n += 1\n        return 2 * x\nlevel = C()"),
    _module("a lambda", "level = lambda x: (lambda y: y * 2)(x)"),
    _module("a partial", "level = functools.partial(int.__mul__, 2)"),
    _module("match", "def level(x):\n    match x:\n        case int(n):\n            return 2 * n"),
    _module("walrus, comprehension, star", "def level(x):\n    return sum(y for _ in range(2) if (y := x) is not None)"),
    _module("exec of its own", "exec('def twice(x):\\n    return 2 * x')\ndef level(x):\n    return twice(x)"),
]  # fmt: skip

LIBRARY = [
    _fine("numbers", "import decimal, fractions, math, statistics, random, cmath\nrandom.seed(1)\nassert decimal.Decimal('0.1') + 0 and statistics.mean([1, 3]) == 2 and random.random() < 1"),
    _fine("texts", "import re, string, textwrap, difflib, unicodedata, html\nassert re.sub('a', 'b', 'aa') == 'bb' and difflib.get_close_matches('a', ['a'])"),
    _fine("dates", "import calendar, datetime, time, zoneinfo\nassert datetime.datetime.now().year > 2000 and calendar.isleap(2024) and time.strftime('%Y')"),
    _fine("locale", "import locale\nlocale.setlocale(locale.LC_ALL, 'C')\nassert locale.localeconv()"),
    _fine("logging", "import logging\nlogging.getLogger('x').warning('y')\nlogging.basicConfig(level=10)\nlogging.debug('z')"),
    _fine("warnings", "import warnings\nwarnings.warn('x')"),
    _fine("digests and random bytes", "import hashlib, hmac, secrets, uuid, zlib\nassert hashlib.sha256(b'x').hexdigest() and secrets.token_hex(4) and uuid.uuid4() and zlib.crc32(b'x')"),
    _fine("uuid by clock", "import uuid\nassert uuid.uuid1()"),
    _fine("collections and heaps", "import bisect, collections, heapq, itertools, operator, array\nh = [3, 1]\nheapq.heapify(h)\nassert h[0] == 1 and array.array('i', [1])[0] == 1"),
    _fine("copies and pickles", "import copy, pickle, marshal\nassert copy.deepcopy([[1]]) == pickle.loads(pickle.dumps([[1]]))"),
    _fine("code about code", "import ast, dis, inspect, tokenize\nassert inspect.signature(lambda a: a) and ast.literal_eval('[1]') == [1]"),
    _fine("references", "import gc, weakref\nclass A:\n    pass\na = A()\nassert weakref.ref(a)() is a\ngc.collect()"),
    _fine("contexts", "import contextvars\nv = contextvars.ContextVar('v', default=1)\nassert contextvars.copy_context().run(v.get) == 1"),
    _fine("the machine", "import platform\nassert platform.python_version() and platform.system() and os.cpu_count() and os.getpid() is not None"),
    _fine("its environment", "os.environ['A'] = 'b'\nassert os.getenv('A') == 'b' and os.getenv('HOME') and os.getcwd()"),
    _fine("ctypes", "import ctypes\nassert ctypes.CDLL(None).abs(-1) == 1\nassert ctypes.sizeof(ctypes.c_int) == 4"),
    _fine("xml, html, urls", "import html.parser, urllib.parse, xml.etree.ElementTree as e\nassert e.fromstring('<a/>').tag == 'a' and urllib.parse.quote(' ') == '%20'"),
    _fine("sleep and clocks", "import time\na = time.perf_counter(), time.monotonic(), time.process_time(), time.thread_time()\ntime.sleep(0.001)"),
    _fine("memory", "assert len(bytes(100_000_000)) == 10**8\nimport mmap\nmmap.mmap(-1, 10**6)"),
    _fine("output", "sys = __import__('sys')\nprint('x' * 10**5)\nsys.stdout.write('y')\nsys.stdout.flush()\nprint('z', file=sys.stderr)\nos.write(1, b'x')"),
    _fine("input without anything", "sys = __import__('sys')\nassert sys.stdin.read() == ''"),
    _fine("output caught", "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print(1)\nassert f.getvalue()"),
    _fine("its signals", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nassert signal.getsignal(signal.SIGTERM) is not None"),
    _fine("its limits", "import resource\nassert resource.getrlimit(resource.RLIMIT_AS)\nassert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"),
]  # fmt: skip

LEGAL = [*FILES, *SHARED_FILES, *THREADS, *POOLS, *LOOPS, *LANGUAGE, *LIBRARY]
