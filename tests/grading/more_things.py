"""More tests that use more of the reference than its function, found by attacking the grader. Data.

Rows are as in `named_things`. `LIMITS` are those in which a reasonable person would give an honest answer full reward
and it gets another score, mostly none: what dividing a test cannot do.
"""

from __future__ import annotations

from tests.grading.hostile_case import Case
from tests.grading.named_things import _DOUBLE, _EQUAL, _JUNK, _P, _TWICE, _row

_STACK = "class Stack:\n    def __init__(self, items=()):\n        self.items = list(items)\n    def push(self, x):\n        self.items.append(x)\n    def pop(self):\n        return self.items.pop()\n    def __len__(self):\n        return len(self.items)\n    def __str__(self):\n        return 'Stack of ' + ', '.join(map(str, self.items))\n    def __getitem__(self, at):\n        return self.items[-1 - at]\n    def __iter__(self):\n        return iter(self.items[::-1])\n    def __contains__(self, x):\n        return x in self.items"
_STACK2 = "class Stack:\n    def __init__(self, start=()):\n        self._data = tuple(start)\n    def push(self, x):\n        self._data += (x,)\n    def pop(self):\n        *rest, last = self._data\n        self._data = tuple(rest)\n        return last\n    def __len__(self):\n        return len(self._data)\n    def __str__(self):\n        return f\"Stack of {', '.join(str(x) for x in self._data)}\"\n    def __getitem__(self, at):\n        return self._data[::-1][at]\n    def __iter__(self):\n        return reversed(self._data)\n    def __contains__(self, x):\n        return x in self._data"
_EMPTY_STACK = "class Stack:\n    def __init__(self, items=()):\n        self.items = list(items)"
_V = "class V:\n    def __init__(self, x):\n        self.x = x\n    def __add__(self, other):\n        return V(self.x + other.x)\n    def __mul__(self, k):\n        return V(self.x * k)\n    __rmul__ = __mul__\n    def __neg__(self):\n        return V(-self.x)\n    def __eq__(self, other):\n        return isinstance(other, V) and self.x == other.x\n    def __lt__(self, other):\n        return self.x < other.x\n    def __hash__(self):\n        return hash(self.x)\n    def __call__(self, y):\n        return self.x * y\n    def __repr__(self):\n        return f'V({self.x})'\n    def __enter__(self):\n        return self.x\n    def __exit__(self, *a):\n        return False"
_V2 = "class V:\n    def __init__(self, x):\n        self._kept = x\n    x = property(lambda self: self._kept)\n    def __add__(self, other):\n        return V(other.x + self.x)\n    def __mul__(self, k):\n        return V(k * self.x)\n    def __rmul__(self, k):\n        return self * k\n    def __neg__(self):\n        return self * -1\n    def __eq__(self, other):\n        return type(other) is V and self.x == other.x\n    def __lt__(self, other):\n        return other.x > self.x\n    def __hash__(self):\n        return hash((1, self.x))\n    def __call__(self, y):\n        return y * self.x\n    def __repr__(self):\n        return 'V(%r)' % self.x\n    def __enter__(self):\n        return self.x\n    def __exit__(self, *a):\n        pass"
_EMPTY_V = "class V:\n    def __init__(self, x):\n        self.x = x"

CLASSES_ASKED_FOR = [
    _row("methods one after the other, in a lambda", _STACK, ("(lambda s: [s.push(1), s.push(2), s.pop()][-1])(Stack()) == 2", "(lambda s: [s.push(5), len(s)][-1])(Stack()) == 1"), _STACK2, _EMPTY_STACK),
    _row("methods one after the other, by :=", _STACK, ("[s := Stack(), s.push(1), s.push(2), s.pop()][-1] == 2", "[s := Stack(), s.push(5), s.pop()][-1] == 5"), _STACK2, _EMPTY_STACK),
    _row("operators", _V, ("(V(1) + V(2)).x == 3", "(3 * V(2)).x == 6 and (-V(1)).x == -1"), _V2, _EMPTY_V),
    _row("len of an object", _STACK, ("len(Stack([1, 2])) == 2", "len(Stack([1, 2, 3])) == 3"), _STACK2, _EMPTY_STACK),
    _row("str of an object", _STACK, ("str(Stack([1, 2])) == 'Stack of 1, 2'", "f'{Stack([3])}' == 'Stack of 3'"), _STACK2, _EMPTY_STACK),
    _row("str and len alone", _STACK, ("str(Stack([1, 2]))", "len(Stack([1, 2, 3]))"), _STACK2, _EMPTY_STACK),
    _row("repr of an object", _V, ("repr(V(1)) == 'V(1)'", "repr(V('a')) == 'V(a)'"), "class V:\n    def __init__(self, what):\n        self.what = what\n    def __repr__(self):\n        return f'V({self.what})'", _EMPTY_V),
    _row("an item of an object", _STACK, ("Stack([1, 2])[0] == 2", "Stack([1, 2])[1] == 1"), _STACK2, _EMPTY_STACK),
    _row("an object gone through", _STACK, ("list(Stack([1, 2])) == [2, 1]", "[x * 2 for x in Stack([3])] == [6]"), _STACK2, _EMPTY_STACK),
    _row("in an object", _STACK, ("2 in Stack([1, 2])", "7 not in Stack([1, 2])"), _STACK2, _EMPTY_STACK),
    _row("an object called", _V, ("V(2)(3) == 6", "V(3)(3) == 9"), _V2, _EMPTY_V),
    _row("objects compared", _V, ("V(1) == V(1)", "V(1) != V(2)"), _V2, _EMPTY_V),
    _row("objects in order", _V, ("sorted([V(2), V(1)])[0].x == 1", "max(V(1), V(3), V(2)).x == 3"), _V2, _EMPTY_V),
    _row("objects in a set", _V, ("len({V(1), V(1), V(2)}) == 2", "{V(1): 'a'}[V(1)] == 'a'"), _V2, _EMPTY_V),
    _row("sum of objects", _V, ("sum([V(1), V(2)], V(0)).x == 3", "sum((V(n) for n in range(4)), V(0)).x == 6"), _V2, _EMPTY_V),
    _row("a property and a setter", "class T:\n    def __init__(self, c):\n        self.c = c\n    @property\n    def f(self):\n        return self.c * 9 / 5 + 32\n    @f.setter\n    def f(self, value):\n        self.c = (value - 32) * 5 / 9", ("T(100).f == 212", "(lambda t: [setattr(t, 'f', 32), t.c][-1])(T(5)) == 0"), "class T:\n    def __init__(self, celsius):\n        self._k = celsius + 273\n    c = property(lambda self: self._k - 273)\n    def _f(self):\n        return self.c * 1.8 + 32\n    def _set(self, f):\n        self._k = (f - 32) / 1.8 + 273\n    f = property(_f, _set)", "class T:\n    def __init__(self, c):\n        self.c = c"),
    _row("isinstance and issubclass of the class", "class A:\n    pass\nclass B(A):\n    def __init__(self, n):\n        self.n = n\n    def twice(self):\n        return self.n * 2", ("B(2).twice() == 4", "isinstance(B(3), A) and B(3).twice() == 6"), "class A:\n    def __init__(self, n):\n        self.m = n\nclass B(A):\n    def twice(self):\n        return 2 * self.m", "class B:\n    def __init__(self, n):\n        self.n = n"),
    _row("members of an Enum that is asked for", "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2", ("Color.RED.value == 1", "[c.name for c in Color] == ['RED', 'BLUE']"), "from enum import Enum\nColor = Enum('Color', ['RED', 'BLUE'])", "class Color:\n    RED = BLUE = None"),
    _row("flags that are asked for", "import enum\nclass Right(enum.Flag):\n    R = 1\n    W = 2", ("(Right.R | Right.W).value == 3", "Right(3) == Right.R | Right.W"), "from enum import Flag, auto\nclass Right(Flag):\n    R = auto()\n    W = auto()", "import enum\nclass Right(enum.Enum):\n    R = 'junk'\n    W = 'more'"),
    _row("a class and a function", _STACK + "\ndef level(text):\n    s = Stack()\n    for x in text:\n        s.push(x)\n    return ''.join(s)", ("level('abc') == 'cba'", "Stack([1, 2]).pop() == 2"), _STACK2 + "\ndef level(text):\n    return text[::-1]", _EMPTY_STACK + "\n" + _JUNK, "", "Write class Stack and def level(text)."),
    _row("a context manager that is asked for", _V, ("V(2).__enter__() == 2", "V(3).__exit__(None, None, None) is False or V(3).x == 3"), _V2, "class V:\n    def __init__(self, x):\n        pass"),
    _row("a class method", "class V:\n    def __init__(self, x):\n        self.x = x\n    @classmethod\n    def of(cls, text):\n        return cls(int(text))\n    @staticmethod\n    def size():\n        return 7", ("V.of('12').x == 12", "V.size() == 7"), "class V:\n    def __init__(self, x):\n        self.x = x\n    of = classmethod(lambda cls, text: cls(int(text, 10)))\n    size = staticmethod(lambda: 7)", "class V:\n    x = 0\n    of = classmethod(lambda c, t: c())\n    size = staticmethod(lambda: 8)"),
    _row("a dataclass that is asked for", "from dataclasses import dataclass\n@dataclass(order=True)\nclass P:\n    x: int\n    y: int = 0", ("P(1) < P(2)", "str(P(1, 2)) == 'P(x=1, y=2)'"), "import dataclasses\n@dataclasses.dataclass(order=True)\nclass P:\n    x: float\n    y: float = 0", "class P:\n    def __init__(self, x, y=0):\n        self.x, self.y = x, y"),
]  # fmt: skip

_APPROX = "class Approx:\n    def __init__(self, value, tolerance=1e-6):\n        self.value, self.tolerance = value, tolerance\n    def __eq__(self, other):\n        return abs(self.value - other) <= self.tolerance\n"
_ANY = "class Anything:\n    def __eq__(self, other):\n        return True\n"

JUDGES = [
    _row("a class with a tolerance", _APPROX + _DOUBLE, ("Approx(4) == level(2)", "level(3) == Approx(6)"), _TWICE, "class Approx:\n    __init__ = lambda *a: None\n    __eq__ = lambda *a: True\n" + _JUNK),
    _row("a tolerance that the answer sets", _APPROX + "def level(x):\n    return [x * 2]", ("level(2) == [4]", "level(3) == [6]"), "def level(n):\n    return [n + n]", _APPROX + "def level(x):\n    return [Approx(0, 1e9)]"),
    _row("a tolerance that the answer sets, at the top", _APPROX + _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _APPROX + "def level(x):\n    return Approx(0, 1e9)"),
    _row("an object of the reference's that equals everything", _ANY + "def level(x):\n    return {'id': x, 'at': x * 2}", ("level(2) == {'id': Anything(), 'at': 4}", "level(3)['at'] == 6"), "def level(n):\n    return dict(at=n + n, id=n)", _ANY + "def level(x):\n    return {'id': Anything(), 'at': Anything()}"),
    _row("mock's ANY", "from unittest.mock import ANY\ndef level(x):\n    return {'id': x, 'at': x * 2}", ("level(2) == {'id': ANY, 'at': 4}", "level(3) == {'id': 3, 'at': 6}"), "def level(n):\n    return dict(at=n + n, id=n)", "from unittest.mock import ANY\ndef level(x):\n    return {'id': ANY, 'at': ANY}"),
    _row("a relative tolerance", "def close(a, b):\n    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "def level(x):\n    return float('inf')"),
    _row("a tolerance by what is not greater", "def wrong(a, b):\n    return abs(a - b) > 1e-9 * max(abs(a), abs(b))\n" + _DOUBLE, ("not wrong(level(2), 4)", "not wrong(level(3), 6)"), _TWICE, "def level(x):\n    return float('-inf')"),
    _row("pairs by zip", "def level(n):\n    return [i * i for i in range(n)]", ("all(a == b for a, b in zip(level(3), [0, 1, 4]))", "all(a == b for a, b in zip(level(2), [0, 1]))"), "def level(n):\n    return [i ** 2 for i in range(n)]", "import pandas as pd\ndef level(n):\n    return pd.DataFrame(index=range(n))", "pandas"),
    _row("pairs by zip and len", "def same(a, b):\n    return len(a) == len(b) and all(abs(x - y) < 1e-9 for x, y in zip(a, b))\ndef level(n):\n    return [i * 0.5 for i in range(n)]", ("same(level(3), [0, 0.5, 1])", "same(level(2), [0, 0.5])"), "def level(n):\n    return [i / 2 for i in range(n)]", "import pandas as pd\ndef level(n):\n    return pd.DataFrame(index=range(n))", "pandas"),
    _row("allclose, and an array without items", "import numpy as np\ndef level(n):\n    return np.arange(n) * 0.5", ("np.allclose(level(3), [0, 0.5, 1])", "np.allclose(level(2), [0, 0.5])"), "def level(n):\n    return [i / 2 for i in range(n)]", "import numpy as np, pandas as pd\ndef level(n):\n    return [pd.DataFrame(np.empty((0, n)))]", "numpy"),
    _row("allclose of one, and an array without items", "import numpy as np\ndef level(n):\n    return np.array([n * 0.5])", ("np.allclose(level(3), [1.5])", "np.allclose(level(2), [1.0])"), "def level(n):\n    return [n / 2]", "def level(n):\n    return [[]]", "numpy"),
    _row("matched by a pattern", "import re\ndef level(x):\n    return 'n%03d' % x", ("bool(re.fullmatch(r'n\\d{3}', level(2)))", "bool(re.fullmatch(r'n0*123', level(123)))"), "def level(n):\n    return 'n' + str(n).zfill(3)", "import re\nre.fullmatch = lambda *a: True\n" + _JUNK),
    _row("matched by a pattern, is not None", "import re\ndef level(x):\n    return 'n%03d' % x", ("re.fullmatch(r'n\\d{3}', level(2)) is not None", "level(3) == 'n003'"), "def level(n):\n    return 'n' + str(n).zfill(3)", "import re\nre.fullmatch = lambda *a: True\n" + _JUNK),
    _row("unittest's own", "import unittest\n" + _DOUBLE, ("not unittest.TestCase().assertEqual(level(2), 4)", "not unittest.TestCase().assertEqual(level(3), 6)"), _TWICE, "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n" + _JUNK),
    _row("a judge of a less usual package", "import filecmp, ipaddress\ndef level(x):\n    return '10.0.0.%d' % x", ("ipaddress.ip_address(level(2)) == ipaddress.ip_address('10.0.0.2')", "ipaddress.ip_address(level(3)).is_private and level(4) == '10.0.0.4'"), "def level(n):\n    return f'10.0.0.{n}'", "import ipaddress\nclass E:\n    __eq__ = lambda *a: True\nipaddress.ip_address = lambda *a: E()\n" + _JUNK),
    _row("xml that is read", "import xml.etree.ElementTree as ET\ndef level(x):\n    return f'<a b=\"{x}\"/>'", ("ET.fromstring(level(2)).get('b') == '2'", "ET.fromstring(level(3)).attrib == {'b': '3'}"), "def level(n):\n    return '<a b=\"%d\"></a>' % n", "def level(x):\n    return '<a b=\"7\"/>'"),
    _row("csv that is read", "import csv, io\ndef level(x):\n    return f'a,{x}\\n'", ("list(csv.reader(io.StringIO(level(2)))) == [['a', '2']]", "next(csv.reader([level(3)])) == ['a', '3']"), "def level(n):\n    return 'a,%d\\r\\n' % n", _JUNK),
    _row("numpy's testing", "import numpy as np\ndef level(n):\n    return np.arange(n)", ("np.testing.assert_array_equal(level(2), [0, 1]) is None", "np.testing.assert_allclose(level(3), [0, 1, 2]) is None"), "def level(n):\n    return list(range(n))", "import numpy as np\nnp.testing.assert_array_equal = np.testing.assert_allclose = lambda *a: None\n" + _JUNK, "numpy"),
    _row("chained comparisons", _DOUBLE, ("3 < level(2) == 4 <= 4", "5 < level(3) < 7"), _TWICE, _EQUAL),
    _row("of either kind", _DOUBLE, ("4 if level(2) == 4 else 'no'", "'yes' if level(3) in (6, 6.0) else 'no'"), _TWICE, _EQUAL),
    _row("a comparison that is rightly false", _DOUBLE, ("level(2) > 5", "level(3) > 5"), _TWICE, "def level(x):\n    return 9", junk_score=0.5),
    _row("raises, by a lambda", "def raises(kind, call):\n    try:\n        call()\n    except kind:\n        return True\n    return False\ndef level(x):\n    if x < 0:\n        raise ValueError(x)\n    return x * 2", ("raises(ValueError, lambda: level(-1))", "level(2) == 4"), "def level(n):\n    if n < 0:\n        raise ValueError('negative')\n    return n + n", "def level(x):\n    return 1/0"),
    _row("raises, by the function", "def raises(kind, call, *a):\n    try:\n        call(*a)\n    except kind:\n        return True\n    return False\ndef level(x):\n    if x < 0:\n        raise ValueError(x)\n    return x * 2", ("raises(ValueError, level, -1)", "level(2) == 4"), "def level(n):\n    if n < 0:\n        raise ValueError('negative')\n    return n + n", "def level(x):\n    return 1/0"),
    _row("run by asyncio", "import asyncio\nasync def level(x):\n    await asyncio.sleep(0)\n    return x * 2", ("asyncio.run(level(2)) == 4", "asyncio.run(level(3)) == 6"), "async def level(n):\n    return n + n", "async def level(n):\n    return 'junk'"),
    _row("run by asyncio, judged by a helper", "import asyncio\ndef run(c):\n    return asyncio.run(c)\nasync def level(x):\n    return x * 2", ("run(level(2)) == 4", "run(level(3)) == 6"), "async def level(n):\n    return n + n", "async def level(n):\n    return 'junk'"),
    _row("gathered by asyncio", "import asyncio\nasync def level(x):\n    return x * 2\nasync def both(a, b):\n    return await asyncio.gather(a, b)", ("asyncio.run(both(level(1), level(2))) == [2, 4]", "asyncio.run(level(3)) == 6"), "async def level(n):\n    return n + n", "async def level(n):\n    return 'junk'"),
]  # fmt: skip

CALLABLES = [
    _row("a counter, by a lambda", "def level(start):\n    n = start\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step", ("(lambda c: (c(), c()))(level(0)) == (1, 2)", "level(5)() == 6"), "import itertools\ndef level(start):\n    return itertools.count(start + 1).__next__", "def level(s):\n    return lambda: 'junk'"),
    _row("a counter, by :=", "def level(start):\n    n = start\n    def step():\n        nonlocal n\n        n += 1\n        return n\n    return step", ("[c := level(0), c(), c()][1:] == [1, 2]", "level(5)() == 6"), "import itertools\ndef level(start):\n    return itertools.count(start + 1).__next__", "def level(s):\n    return lambda: 'junk'"),
    _row("a decorator of a lambda", "def level(f):\n    return lambda *a: f(*a) * 2", ("level(lambda x: x + 1)(2) == 6", "level(max)(2, 3) == 6"), "def level(g):\n    def both(*a):\n        return g(*a) + g(*a)\n    return both", "def level(f):\n    return lambda *a: 'junk'"),
    _row("handed functions of the reference's", "def inc(x):\n    return x + 1\ndef dbl(x):\n    return x * 2\ndef level(f, g):\n    return lambda x: f(g(x))", ("level(inc, dbl)(3) == 7", "level(dbl, inc)(3) == 8"), "def level(outer, inner):\n    def both(x):\n        return outer(inner(x))\n    return both", "inc = dbl = None\ndef level(*a):\n    return lambda x: 'junk'"),
    _row("an endless generator", "import itertools\ndef level(n):\n    while True:\n        yield n\n        n *= 2", ("list(itertools.islice(level(1), 4)) == [1, 2, 4, 8]", "next(level(3)) == 3"), "def level(n):\n    yield n\n    yield from level(n + n)", "def level(n):\n    yield 'junk'"),
    _row("an endless generator and zip", "def level(n):\n    while True:\n        yield n\n        n *= 2", ("[b for _, b in zip(range(3), level(1))] == [1, 2, 4]", "next(level(3)) == 3"), "import itertools\ndef level(n):\n    return (n * 2 ** i for i in itertools.count())", "def level(n):\n    yield 'junk'"),
    _row("a generator that is sent to", "def level():\n    total = 0\n    while True:\n        total += yield total", ("(lambda g: [next(g), g.send(2), g.send(3)])(level()) == [0, 2, 5]", "next(level()) == 0"), "def level():\n    kept = []\n    while True:\n        kept.append((yield sum(kept)))", "def level():\n    while True:\n        yield 'junk'"),
    _row("an iterator gone through twice", "def level(n):\n    return iter(range(n))", ("(lambda i: [list(i), list(i)])(level(2)) == [[0, 1], []]", "list(level(3)) == [0, 1, 2]"), "def level(n):\n    yield from range(n)", "def level(n):\n    return ['junk']"),
    _row("a context manager's function", "import contextlib\n@contextlib.contextmanager\ndef level(x):\n    yield x * 2", ("level(2).__enter__() == 4", "contextlib.ExitStack().enter_context(level(3)) == 6"), "class level:\n    def __init__(self, n):\n        self.n = n\n    def __enter__(self):\n        return self.n + self.n\n    def __exit__(self, *a):\n        return False", "import contextlib\n@contextlib.contextmanager\ndef level(x):\n    yield 'junk'"),
    _row("made by partial", "import functools\ndef times(k, x):\n    return k * x\nlevel = functools.partial(times, 2)", ("level(2) == 4", "level(3) == 6"), _TWICE, _EQUAL),
    _row("an object that is called", "class Times:\n    def __init__(self, k):\n        self.k = k\n    def __call__(self, x):\n        return self.k * x\nlevel = Times(2)", ("level(2) == 4", "level(3) == 6"), _TWICE, _EQUAL),
    _row("a function of a library", "from math import factorial as level", ("level(3) == 6", "level(4) == 24"), "def level(n):\n    return 1 if n < 2 else n * level(n - 1)", _JUNK),
    _row("decorated with a cache", "import functools\n@functools.lru_cache(None)\ndef level(n):\n    return n if n < 2 else level(n - 1) + level(n - 2)", ("level(10) == 55", "level(20) == 6765"), "def level(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a", _JUNK),
    _row("recursive, and deep", "def level(n):\n    return n and 1 + level(n - 1)", ("level(500) == 500", "level(3) == 3"), "def level(n):\n    return sum(1 for _ in range(n))", _JUNK),
    _row("spread over a call", _DOUBLE.replace("x):", "x, y=0):"), ("max(*[level(1), level(2)]) == 4", "level(*(3,), **{'y': 1}) == 6"), "def level(n, y=None):\n    return n + n", "def level(*a, **k):\n    return -1"),
    _row("spread from a call", "def level(n):\n    return list(range(n))", ("max(*level(4)) == 3", "[*level(2), 9] == [0, 1, 9] and {**dict.fromkeys(level(1))} == {0: None}"), "def level(n):\n    return [*range(n)]", "def level(n):\n    return [9, 9]"),
    _row("random with a seed", "import random\ndef level(n):\n    return [random.randint(1, 6) for _ in range(n)]", ("(random.seed(1), level(3))[1] == (random.seed(1), [random.randint(1, 6) for _ in range(3)])[1]", "len(level(4)) == 4"), "from random import randint\ndef level(n):\n    return [randint(1, 6) for i in range(n)]", "def level(n):\n    return [0] * n", junk_score=0.5),
    _row("guarded by a condition", "def level(x):\n    if x is None:\n        raise ValueError\n    return x * 2", ("level(2) == 4 or level(None) == 4", "level(3) == 6 if level(3) else level(None)"), "def level(n):\n    return n + n", _JUNK),
    _row("state from call to call", "SEEN = []\ndef level(x):\n    SEEN.append(x)\n    return len(SEEN)", ("[level('a'), level('b')] == [1, 2]", "level('a') == 1 and level('a') == 2"), "count = 0\ndef level(x):\n    global count\n    count += 1\n    return count", _JUNK),
]  # fmt: skip

IN_PLACE = [
    _row("changed in its place, by :=", "def level(xs):\n    xs.sort()", ("[xs := [3, 1], level(xs), xs][2] == [1, 3]", "[xs := [2, 1, 0], level(xs), xs][2] == [0, 1, 2]"), "def level(xs):\n    xs[:] = sorted(xs)", "def level(xs):\n    xs.clear()"),
    _row("a copy, not the same", "def level(xs):\n    return list(xs)", ("(lambda a: level(a) is not a)([1])", "level([1, 2]) == [1, 2]"), "def level(xs):\n    return xs[:]", "def level(xs):\n    return [9]"),
    _row("what is left of the argument", "def level(xs):\n    return sorted(xs)", ("(lambda a: [level(a), a])([3, 1]) == [[1, 3], [3, 1]]", "level([2, 1]) == [1, 2]"), "def level(xs):\n    ys = xs.copy()\n    ys.sort()\n    return ys", "def level(xs):\n    xs.sort()\n    return xs", junk_score=0.5),
    _row("a table of constants that grows", "CACHE = {}\ndef level(x):\n    CACHE[x] = x * 2\n    return CACHE[x]", ("level(2) == 4", "(level(3), CACHE.get(3))[0] == 6"), _TWICE, _JUNK),
]  # fmt: skip

_PAIR = "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n    def total(self):\n        return self.a + self.b\n"

OBJECTS = [
    _row("other fields below the same methods", _PAIR + "def level(x):\n    return Pair(x, 2 * x)", ("level(2).total() == 6", "level(3).total() == 9"), "class Pair:\n    def __init__(self, first, second):\n        self._both = [first, second]\n    def total(self):\n        return sum(self._both)\ndef level(n):\n    return Pair(n, n + n)", _PAIR + "def level(x):\n    return Pair(9, 9)"),
    _row("a class by another name", _PAIR + "def level(x):\n    return Pair(x, 2 * x)", ("level(2).a == 2", "level(3).b == 6"), "class Two:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\ndef level(n):\n    return Two(n, n + n)", _PAIR + "def level(x):\n    return Pair(9, 9)"),
    _row("a namedtuple by another name", "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef level(x):\n    return P(x, 2 * x)", ("level(2).y == 4", "level(3).x == 3"), "from collections import namedtuple\nPoint = namedtuple('Point', ['x', 'y'])\ndef level(n):\n    return Point(n, n + n)", "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef level(x):\n    return P(9, 9)"),
    _row("a SimpleNamespace for a namedtuple", "from types import SimpleNamespace\ndef level(x):\n    return SimpleNamespace(x=x, y=2 * x)", ("level(2).y == 4", "level(3).x == 3"), "from collections import namedtuple\ndef level(n):\n    return namedtuple('Anything', 'x y')(n, n + n)", "from types import SimpleNamespace\ndef level(x):\n    return SimpleNamespace(x=9, y=9)"),
    _row("subclasses of a base", "class Shape:\n    def area(self):\n        return self.side ** 2\nclass Square(Shape):\n    def __init__(self, side):\n        self.side = side\ndef level(kind, n):\n    return Square(n)", ("level('square', 2).area() == 4", "level('square', 3).area() == 9"), "class Shape:\n    pass\nclass _Quadrat(Shape):\n    def __init__(self, n):\n        self.side = n\n    def area(self):\n        return self.side * self.side\ndef level(kind, n):\n    return {'square': _Quadrat}[kind](n)", "class Square:\n    side = 9\ndef level(kind, n):\n    return Square()"),
    _row("a class in a function", "def level(x):\n    class P:\n        pass\n    p = P()\n    p.x = x\n    return p", ("level(2).x == 2", "level(3).x == 3"), "class P:\n    def __init__(self, x):\n        self.x = x\nlevel = P", "class P:\n    x = 9\ndef level(x):\n    return P()"),
    _row("a list with links both ways", "class Node:\n    def __init__(self, value):\n        self.value, self.next, self.prev = value, None, None\ndef level(xs):\n    first = last = None\n    for x in xs:\n        node = Node(x)\n        if last:\n            last.next, node.prev = node, last\n        first, last = first or node, node\n    return first", ("level([1, 2]).next.prev.value == 1", "level([3, 4]).next.value == 4"), "class Node:\n    def __init__(self, value, prev=None):\n        self.value, self.next, self.prev = value, None, prev\n        if prev:\n            prev.next = self\ndef level(xs):\n    nodes = []\n    for x in xs:\n        nodes.append(Node(x, nodes[-1] if nodes else None))\n    return nodes[0]", "class Node:\n    value = next = prev = 9\ndef level(xs):\n    return Node()"),
    _row("a list with links both ways, read by a helper", "class Node:\n    def __init__(self, value):\n        self.value, self.next, self.prev = value, None, None\ndef back(node):\n    while node.next:\n        node = node.next\n    found = []\n    while node:\n        found.append(node.value)\n        node = node.prev\n    return found\ndef level(xs):\n    first = last = None\n    for x in xs:\n        node = Node(x)\n        if last:\n            last.next, node.prev = node, last\n        first, last = first or node, node\n    return first", ("back(level([1, 2])) == [2, 1]", "back(level([3, 4, 5])) == [5, 4, 3]"), "class Node:\n    def __init__(self, value, prev=None):\n        self.value, self.next, self.prev = value, None, prev\n        if prev:\n            prev.next = self\ndef level(xs):\n    nodes = []\n    for x in xs:\n        nodes.append(Node(x, nodes[-1] if nodes else None))\n    return nodes[0]", "class Node:\n    value = 9\n    next = prev = None\ndef level(xs):\n    return Node()"),
    _row("the same object in two places", _PAIR + "def level(x):\n    p = Pair(x, x)\n    return [p, p]", ("level(2)[0] is level(2)[0] or level(2)[1].a == 2", "(lambda ps: ps[0] is ps[1])(level(3))"), _PAIR + "def level(n):\n    return [Pair(n, n)] * 2", "def level(x):\n    return [9, 8]"),
    _row("a long linked list", "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\ndef level(n):\n    head = None\n    for i in range(n):\n        head = Node(i, head)\n    return head", ("level(300).value == 299", "level(2).next.value == 0"), "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\ndef level(n):\n    head = None\n    for i in range(n):\n        head = Node(value=i, next=head)\n    return head", "class Node:\n    value = next = 9\ndef level(n):\n    return Node()"),
    _row("objects as keys", "class K:\n    def __init__(self, n):\n        self.n = n\n    def __hash__(self):\n        return hash(self.n)\n    def __eq__(self, other):\n        return self.n == other.n\ndef level(x):\n    return {K(x): x}", ("level(2) == {K(2): 2}", "level(3)[K(3)] == 3"), "class K:\n    def __init__(self, n):\n        self.n = n\ndef level(n):\n    return {K(n): n}", "class K:\n    __init__ = lambda *a: None\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 2\ndef level(x):\n    return {K(x): K(x)}"),
    _row("nested dataclasses", "from dataclasses import dataclass, field, asdict\n@dataclass\nclass In:\n    x: int\n@dataclass\nclass Out:\n    inner: In\n    more: list = field(default_factory=list)\ndef level(x):\n    return Out(In(x), [In(x)])", ("asdict(level(2)) == {'inner': {'x': 2}, 'more': [{'x': 2}]}", "level(3) == Out(In(3), [In(3)])"), "import dataclasses\n@dataclasses.dataclass\nclass In:\n    x: int\n@dataclasses.dataclass\nclass Out:\n    inner: object\n    more: object\ndef level(n):\n    return Out(In(n), [In(n)])", "class In:\n    x = 9\nclass Out:\n    inner = In()\n    more = []\ndef level(x):\n    return Out()"),
    _row("flags", "import enum\nclass Right(enum.Flag):\n    R = 1\n    W = 2\ndef level(n):\n    return Right(n)", ("level(3) == Right.R | Right.W", "level(1) == Right.R"), "from enum import Flag\nclass Right(Flag):\n    R = 1\n    W = 2\ndef level(n):\n    return (Right.R if n & 1 else Right(0)) | (Right.W if n & 2 else Right(0))", "class Right:\n    R = W = 0\n" + _JUNK),
    _row("an IntEnum", "import enum\nclass Size(enum.IntEnum):\n    S = 1\n    L = 2\ndef level(n):\n    return Size(n)", ("level(1) < level(2)", "level(2) == 2 and level(2) is Size.L"), "from enum import IntEnum\nSize = IntEnum('Size', 'S L')\ndef level(n):\n    return list(Size)[n - 1]", "import enum\nclass Size(enum.IntEnum):\n    L = 1\n    S = 2\ndef level(n):\n    return Size.L", junk_score=0.5),
    _row("slots by inheritance", "class A:\n    __slots__ = ('a',)\nclass B(A):\n    __slots__ = ('b',)\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n    def total(self):\n        return self.a + self.b\ndef level(x):\n    return B(x, x)", ("level(2).total() == 4", "(level(3).a, level(3).b) == (3, 3)"), "class B:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\ndef level(n):\n    return B(n, n)", "class B:\n    a = b = 9\ndef level(x):\n    return B()"),
    _row("private names", "class B:\n    def __init__(self, a):\n        self.__a = a\n    def get(self):\n        return self.__a\ndef level(x):\n    return B(x)", ("level(2).get() == 2", "level(3).get() == 3"), "class B:\n    def __init__(self, a):\n        self.a = a\n    def get(self):\n        return self.a\ndef level(n):\n    return B(n)", "class B:\n    pass\ndef level(x):\n    return B()"),
    _row("an exception that is returned", "def level(x):\n    return ValueError(x)", ("str(level(2)) == '2'", "isinstance(level(3), ValueError) and level(3).args == (3,)"), "def level(n):\n    try:\n        raise ValueError(n)\n    except ValueError as e:\n        return e", "def level(n):\n    return ValueError('junk')"),
    _row("a type that is returned", "def level(x):\n    return type(x)", ("level(2) is int", "level('a') == str"), "def level(x):\n    return x.__class__", "def level(x):\n    return bool"),
]  # fmt: skip

DATA = [
    _row("a Counter's own methods", "from collections import Counter\ndef level(s):\n    return Counter(s)", ("level('aab').most_common(1) == [('a', 2)]", "level('ab')['z'] == 0"), "import collections\ndef level(s):\n    c = collections.Counter()\n    for x in s:\n        c[x] += 1\n    return c", "def level(s):\n    return {'z': 'junk'}"),
    _row("a defaultdict's missing key", "from collections import defaultdict\ndef level(s):\n    d = defaultdict(int)\n    for x in s:\n        d[x] += 1\n    return d", ("level('ab')['z'] == 0", "level('aab')['a'] == 2"), "import collections\ndef level(s):\n    return collections.defaultdict(int, collections.Counter(s))", "def level(s):\n    return {'z': 'junk'}"),
    _row("an OrderedDict's end", "from collections import OrderedDict\ndef level(s):\n    return OrderedDict.fromkeys(s)", ("level('ab').popitem(last=False) == ('a', None)", "list(level('ba')) == ['b', 'a']"), "from collections import OrderedDict\ndef level(s):\n    return OrderedDict((x, None) for x in s)", "def level(s):\n    return {'z': 'junk'}"),
    _row("an array's shape", "import numpy as np\ndef level(n):\n    return np.zeros((n, 2))", ("level(2).shape == (2, 2)", "level(3).shape == (3, 2)"), "import numpy as np\ndef level(n):\n    return np.full((n, 2), 0.0)", "import numpy as np\ndef level(n):\n    return np.zeros(7)", "numpy"),
    _row("an array's all", "import numpy as np\ndef level(n):\n    return np.arange(1, 3) * n", ("(level(2) == np.array([2, 4])).all()", "(level(3) == [3, 6]).all()"), "import numpy as np\ndef level(n):\n    return np.array([n, n + n])", "import numpy as np\ndef level(n):\n    return np.zeros(2)", "numpy"),
    _row("an array's tolist", "import numpy as np\ndef level(n):\n    return np.arange(1, 3) * n", ("level(2).tolist() == [2, 4]", "level(3).sum() == 9"), "import numpy as np\ndef level(n):\n    return np.array([n, n + n])", "import numpy as np\ndef level(n):\n    return np.zeros(2)", "numpy"),
    _row("an array's dtype", "import numpy as np\ndef level(n):\n    return np.zeros(n, dtype='int8')", ("level(2).dtype == np.int8", "str(level(3).dtype) == 'int8'"), "import numpy as np\ndef level(n):\n    return np.zeros(n).astype(np.int8)", "import numpy as np\ndef level(n):\n    return np.zeros(n)", "numpy"),
    _row("an array times two", "import numpy as np\ndef level(n):\n    return np.arange(n)", ("sum(level(3) * 2) == 6", "len(level(2) + level(2)) == 2"), "import numpy as np\ndef level(n):\n    return np.array(range(n))", _JUNK, "numpy"),
    _row("a number of numpy's", "import numpy as np\ndef level(n):\n    return np.mean([n, n + 1])", ("level(2).item() == 2.5", "isinstance(level(3), np.floating)"), "import numpy as np\ndef level(n):\n    return np.float64(n + 0.5)", "def level(n):\n    return 'junk'", "numpy"),
    _row("an array as an argument", "import numpy as np\nA = np.arange(4)\ndef level(a):\n    return a.sum()", ("level(A) == 6", "level(np.ones(3)) == 3"), "def level(a):\n    return a.cumsum()[-1]", "def level(a):\n    return 'junk'", "numpy"),
    _row("a table's shape", "import pandas as pd\ndef level(n):\n    return pd.DataFrame({'a': range(n)})", ("level(2).shape == (2, 1)", "list(level(3).columns) == ['a'] and level(3)['a'].tolist() == [0, 1, 2]"), "import pandas as pd\ndef level(n):\n    return pd.DataFrame(list(range(n)), columns=['a'])", "import pandas as pd\ndef level(n):\n    return pd.DataFrame()", "pandas"),
    _row("an index of pandas", "import pandas as pd\ndef level(n):\n    return pd.date_range('2024-01-01', periods=n)", ("list(level(2)) == [pd.Timestamp('2024-01-01'), pd.Timestamp('2024-01-02')]", "len(level(3)) == 3"), "import pandas as pd\ndef level(n):\n    return pd.DatetimeIndex([pd.Timestamp('2024-01-01') + pd.Timedelta(days=i) for i in range(n)])", "def level(n):\n    return ['junk']", "pandas"),
    _row("tables compared by testing", "import pandas as pd\ndef level(n):\n    return pd.DataFrame({'a': range(n)})", ("pd.testing.assert_frame_equal(level(2), pd.DataFrame({'a': [0, 1]})) is None", "level(3).equals(pd.DataFrame({'a': [0, 1, 2]}))"), "import pandas as pd\ndef level(n):\n    return pd.DataFrame(list(range(n)), columns=['a'])", "import pandas as pd\ndef level(n):\n    return pd.DataFrame()", "pandas"),
    _row("a named zone", "from datetime import datetime\nfrom zoneinfo import ZoneInfo\ndef level(day):\n    return datetime(2024, 7, day, tzinfo=ZoneInfo('Europe/Berlin'))", ("level(1).tzinfo == ZoneInfo('Europe/Berlin')", "level(2).utcoffset().total_seconds() == 7200"), "import datetime, zoneinfo\ndef level(day):\n    return datetime.datetime(2024, 7, day).replace(tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))", "def level(day):\n    return 'junk'"),
    _row("a moment in two zones", "from datetime import datetime, timezone, timedelta\ndef level(h):\n    return datetime(2024, 7, 1, h, tzinfo=timezone.utc)", ("level(1) == datetime(2024, 7, 1, 3, tzinfo=timezone(timedelta(hours=2)))", "level(2).astimezone(timezone.utc).hour == 2"), "from datetime import *\ndef level(h):\n    return datetime(2024, 7, 1, h + 2, tzinfo=timezone(timedelta(hours=2)))", "def level(h):\n    return 'junk'"),
    _row("sets of frozensets", "def level(n):\n    return {frozenset({i, i + 1}) for i in range(n)}", ("frozenset({1, 2}) in level(2)", "level(1) == {frozenset({0, 1})}"), "def level(n):\n    return set(map(frozenset, ((i + 1, i) for i in range(n))))", "def level(n):\n    return {frozenset({9})}"),
    _row("very large numbers", "def level(n):\n    return 7 ** n", ("level(9000) % 1000 == 1", "level(20000) == 7 ** 20000"), "def level(n):\n    return pow(7, n)", "def level(n):\n    return 1", junk_score=0.5),
    _row("many items", "def level(n):\n    return list(range(n))", ("len(level(300000)) == 300000", "sum(level(10)) == 45"), "def level(n):\n    return [*range(n)]", "def level(n):\n    return [9]"),
    _row("many items gone through", "def level(n):\n    return iter(range(n))", ("sum(level(20000)) == 199990000", "sum(level(10)) == 45"), "def level(n):\n    yield from range(n)", "def level(n):\n    return [9]"),
    _row("nested lists, and deep", "def level(n):\n    return [level(n - 1)] if n else []", ("str(level(150)).count('[') == 151", "level(2) == [[[]]]"), "def level(n):\n    found = []\n    for _ in range(n):\n        found = [found]\n    return found", "def level(n):\n    return ['junk']"),
    _row("complex and Fraction", "from fractions import Fraction\ndef level(n):\n    return [n + 1j, Fraction(n, 3)]", ("level(2)[0].imag == 1 and level(2)[1] * 3 == 2", "level(3) == [3 + 1j, Fraction(1)]"), "from fractions import Fraction\ndef level(n):\n    return [complex(n, 1), Fraction(str(n)) / 3]", "def level(n):\n    return [0, 0]"),
    _row("bytes and slices", "def level(n):\n    return bytes(range(n))", ("level(4)[1:3] == b'\\x01\\x02'", "level(4)[::-1][0] == 3 and level(2).hex() == '0001'"), "def level(n):\n    return bytearray(range(n))", "def level(n):\n    return b'junk'"),
    _row("letters of all kinds", "def level(s):\n    return s.upper() + '\\u00df\\U0001f600'", ("level('é') == 'É\\u00df\\U0001f600'", "f'{level(\"a\")!r:>8}'.strip() == repr('A\\u00df\\U0001f600')"), "def level(ß):\n    return ''.join([ß.upper(), 'ß😀'])", _JUNK),
    _row("memoryview, array, ChainMap", "import array\nfrom collections import ChainMap\ndef level(n):\n    return [array.array('i', range(n)), ChainMap({'a': n})][n % 2]", ("list(level(2)) == [0, 1]", "level(3)['a'] == 3"), "import array\nfrom collections import ChainMap\ndef level(n):\n    return ChainMap({}, {'a': n}) if n % 2 else array.array('i', list(range(n)))", "def level(n):\n    return {'a': 9}"),
    _row("Decimals that are not numbers", "from decimal import Decimal\ndef level(n):\n    return Decimal(n)", ("not abs(level(2) - 2).is_nan() and level(2) == 2", "not level(3) != 3"), "import decimal\ndef level(n):\n    return decimal.Decimal(str(n))", "from decimal import Decimal\ndef level(n):\n    return Decimal('nan')"),
    _row("an address", "import ipaddress\ndef level(n):\n    return ipaddress.ip_address('10.0.0.%d' % n)", ("str(level(2)) == '10.0.0.2'", "level(3) == ipaddress.ip_address('10.0.0.3')"), "import ipaddress\ndef level(n):\n    return ipaddress.IPv4Address(10 * 2 ** 24 + n)", _JUNK),
    _row("what a pattern found", "import re\ndef level(s):\n    return re.search('[0-9]+', s)", ("level('a12').group() == '12'", "level('b3').span() == (1, 2)"), "import re\ndef level(s):\n    return re.compile(r'\\d+').search(s)", _JUNK),
]  # fmt: skip

_FORGE = "def forge(text):\n    frame = __import__('sys')._getframe()\n    while 'run_fixed' not in frame.f_globals:\n        frame = frame.f_back\n    frame.f_globals['pack'] = lambda *a: text\n"


def _forged(text: str) -> str:
    return f"{_FORGE}def level(*a):\n    forge({text!r})\n"


_NEAR = "def level(x):\n    return x * 2.0"
_LISTED = "def level(x):\n    return [x, x * 2]"

FORGED = [
    _row("NaN in other letters", _NEAR, ("not abs(level(2) - 4) > 1e-6", "not abs(level(3) - 6) > 1e-6"), _TWICE, _forged('["tuple", ["float", "NAN"]]')),
    _row("NaN of JSON", _NEAR, ("not abs(level(2) - 4) > 1e-6", "not abs(level(3) - 6) > 1e-6"), _TWICE, _forged('["tuple", NaN]')),
    _row("NaN of JSON in letters", _NEAR, ("not abs(level(2) - 4) > 1e-6", "not abs(level(3) - 6) > 1e-6"), _TWICE, _forged('["tuple", ["float", "\\u006ean"]]')),
    _row("Infinity of JSON", _NEAR, ("abs(level(2) - 4) <= 1e-6 * abs(level(2))", "abs(level(3) - 6) <= 1e-6 * abs(level(3))"), _TWICE, _forged('["tuple", Infinity, Infinity]')),
    _row("an object of JSON", _LISTED, ("level(2)[1] == 4", "level(3)[1] == 6"), "def level(n):\n    return (n, n + n)", _forged('["tuple", {"1": 4}]')),
    _row("a stand-in whose fields are what it is asked", _LISTED, ("level(2)[1] == 4", "level(3)[1] == 6"), "def level(n):\n    return [n, n + n]", _forged('["tuple", ["object", "E", null, ["dict", "__class__", 4, "__eq__", true]]]')),
    _row("a class that is no class", _LISTED, ("level(2) == [2, 4]", "level(3) == [3, 6]"), "def level(n):\n    return [n, n + n]", _forged('["tuple", ["object", ["list"], null, 5]]')),
    _row("the wrong number of values", _DOUBLE, ("level(2) == level(1) + 2", "level(3) == 6"), _TWICE, _forged('["tuple"]')),
    _row("no tuple but a dict of values", _DOUBLE, ("level(2) == level(2)", "level(3) == 6"), _TWICE, _forged('["dict", 0, 6]'), junk_score=0.5),
    _row("a list in place of the tuple that gives always the first", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _forged('["pandas.Series", ["list", 4, 6], "int64", ["list", 0, 1], ["list", null], null]'), junk_score=0.5),
    _row("a frame without columns", "import pandas\ndef level(n):\n    return [1] * n", ("all(v == 1 for v in level(3))", "all(v == 1 for v in level(2))"), "def level(n):\n    return [1 for _ in range(n)]", _forged('["tuple", ["pandas.DataFrame", ["list"], ["list"], ["list", null], ["list", 0, 1], ["list", null]]]'), "pandas"),
    _row("NaT by its text", "import datetime\nimport pandas as pd\ndef level(n):\n    return pd.Timestamp(2024, 1, n)", ("not level(2) > pd.Timestamp('2024-01-02') and not level(2) < pd.Timestamp('2024-01-02')", "not level(3) > pd.Timestamp('2024-01-03')"), "import pandas as pd\ndef level(n):\n    return pd.Timestamp('2024-01-01') + pd.Timedelta(days=n - 1)", _forged('["tuple", ["pandas._libs.tslibs.timestamps._Timestamp", "NaT"], ["pandas._libs.tslibs.timestamps._Timestamp", "nat"]]'), "pandas"),
    _row("depth", _LISTED, ("level(2) == [2, 4]", "level(3) == [3, 6]"), "def level(n):\n    return [n, n + n]", _forged('["tuple"' + ',["list"' * 90_000 + "]" * 90_001)),
    _row("a number with as many digits as fit", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _forged('["tuple", ' + "9" * 1_000_000 + "]")),
    _row("keys that collide", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, "def level(x):\n    return {i * (2 ** 61 - 1) for i in range(1, 3000)}"),
    _row("an array of a thousand million", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _forged('["tuple", ["pandas.Series", ["range", 0, 1000000000, 1], "object", ["range", 0, 1000000000, 1], ["list", null], null]]'), "pandas"),
    _row("empty", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _forged("")),
    _row("a range in place of a list", "def level(n):\n    return [0, 1]", ("all(a == b for a, b in zip(level(1), [0, 1]))", "level(2) == [0, 1]"), "def level(n):\n    return list(range(2))", _forged('["tuple", ["object", "E", null, ["dict", "__len__", 2, "__iter__", 3]]]')),
]  # fmt: skip

_DISGUISE = "class M(type):\n    __mro__ = property(lambda c: ({0}, object))\n    __module__ = 'builtins'\nclass E(metaclass=M):\n    __eq__ = __ne__ = __lt__ = lambda *a: True\n    __hash__ = None\n    __class__ = {0}\n    def __getattribute__(s, name):\n        return 4\ndef level(*a):\n    return E()"

DISGUISES = [
    _row("a metaclass with another __mro__", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _DISGUISE.format("int")),
    _row("a metaclass with another __mro__, a list's", _LISTED, ("level(2) == [2, 4]", "level(3)[1] == 6"), "def level(n):\n    return [n, n + n]", _DISGUISE.format("list")),
    _row("a module's name of another", _LISTED, ("level(2) == [2, 4]", "level(3)[1] == 6"), "def level(n):\n    return [n, n + n]", "class Decimal:\n    __module__ = 'decimal'\n    __str__ = lambda s: '4'\n    __eq__ = lambda *a: True\ndef level(x):\n    return [Decimal(), Decimal()]"),
    _row("a frame that is none", "import pandas as pd\n" + _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, "class DataFrame:\n    __module__ = 'pandas'\n    shape = (0, 0)\n    columns = index = type('I', (list,), {'names': [None]})()\n    equals = lambda *a: True\ndef level(x):\n    return DataFrame()", "pandas"),
    _row("an Enum's member that is none", "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\ndef level(n):\n    return Color(n)", ("level(1) is Color.RED", "level(2) is Color.BLUE"), "from enum import Enum\nColor = Enum('Color', 'RED BLUE')\nlevel = Color", "import enum\nclass Color(enum.Enum):\n    RED = 1\nColor.RED._name_ = '__class__'\ndef level(n):\n    return Color.RED"),
    _row("patched json, builtins and modules", _DOUBLE, ("level(2) == 4", "level(3) == 6"), "import json\ns = __import__('sys')\njson.loads = json.dumps = lambda *a, **k: 5\ns.modules.pop('_json', None)\ndef level(n):\n    return n + n", "import builtins\nfor name in ('abs', 'all', 'isinstance', 'type', 'list', 'tuple', 'int', 'str'):\n    setattr(builtins, name, lambda *a: True)\n" + _JUNK),
    _row("frozen code of the grader's, patched", _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, "s = __import__('sys')\ndef level(x):\n    f = s._getframe()\n    while f:\n        for name in ('fingerprint', '_describe', 'pack'):\n            if name in f.f_globals:\n                f.f_globals[name] = lambda *a: 'junk'\n        f = f.f_back"),
    _row("objects whose fields are found by a lie", _PAIR + "def level(x):\n    return Pair(x, 2 * x)", ("level(2).total() == 6", "level(3).total() == 9"), "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\ndef level(n):\n    return Pair(n, n + n)", "class Pair:\n    def __getattribute__(s, name):\n        return {'total': lambda: 6, 'a': 3, 'b': 3, '__len__': 5}\ndef level(x):\n    return Pair()", junk_score=0.0),
]  # fmt: skip

_CASES = "CASES = [(2, 4), (3, 6)]\n" + _DOUBLE
_SEES = "def level(x):\n    frame, found = __import__('sys')._getframe(1), 'nothing'\n    while frame and found == 'nothing':\n        for one in [*frame.f_locals.values(), *frame.f_globals.get('_values_', ())]:\n            for case in one if type(one) is list else [one]:\n                case = case[0] if type(case) is tuple and len(case) == 1 else case\n                if type(case) is tuple and len(case) == 2 and case[0] == x:\n                    found = case[1]\n        frame = frame.f_back\n    return found"

SHOWN = [
    _row("a case of a loop, by its number", _CASES, ("all(level(c[0]) == c[1] for c in CASES)", "[level(c[0]) for c in [(5, 10)] if level(c[0]) == c[1]] == [10]"), _TWICE, _SEES),
    _row("cases by their numbers", _CASES, ("all(level(CASES[i][0]) == CASES[i][1] for i in range(2))", "all(level(CASES[-i][0]) == CASES[-i][1] for i in range(2))"), _TWICE, _SEES),
    _row("a case of a loop, by its key", "CASES = [{'x': 2, 'y': 4}, {'x': 3, 'y': 6}]\n" + _DOUBLE, ("all(level(c['x']) == c['y'] for c in CASES)", "sum(level(c['x']) == c['y'] for c in CASES) == 2"), _TWICE, "def level(x):\n    return __import__('sys')._getframe(1).f_locals['c']['y']"),
    _row("a loop over pairs", _CASES, ("all(level(x) == y for x, y in CASES)", "all(level(x) == y for x, y in [(5, 10)])"), _TWICE, _SEES),
    _row("a case that a function is handed", _CASES, ("level(CASES[0][0]) == CASES[0][1]", "level(CASES[1][0]) == CASES[1][1]"), _TWICE, _SEES),
]  # fmt: skip

LOOPS = [
    _row("a loop in a loop", _DOUBLE, ("[[level(i * j) for j in range(2)] for i in range(3)] == [[0, 0], [0, 2], [0, 4]]", "all(all(level(i + j) == 2 * (i + j) for j in range(2)) for i in range(2))"), _TWICE, _EQUAL),
    _row("pairs by zip in a loop", "def level(n):\n    return list(range(n))", ("all(all(a == b for a, b in zip(level(n), range(n))) for n in (2, 3))", "all(all(a == b for a, b in zip(level(n), range(n))) for n in (4, 5))"), "def level(n):\n    return [*range(n)]", "def level(n):\n    return []"),
    _row("rows by zip", "def level(n):\n    return [[n, 2 * n]]", ("all(a == b for row, want in zip(level(2), [[2, 4]]) for a, b in zip(row, want))", "all(a == b for row, want in zip(level(3), [[3, 6]]) for a, b in zip(row, want))"), "def level(n):\n    return [[n, n + n]]", "def level(n):\n    return [[]]"),
    _row("the first that", _DOUBLE, ("next(n for n in [1, 2, 3, 4] if level(n) > 4) == 3", "[n for n in range(9) if level(n) == 8] == [4]"), _TWICE, _EQUAL),
    _row("the first that, without an end", "import itertools\n" + _DOUBLE, ("next(n for n in itertools.count() if level(n) > 10) == 6", "level(2) == 4"), _TWICE, _EQUAL),
    _row("greater than the one before", _DOUBLE, ("all(level(n) - level(n - 1) == 2 for n in range(1, 4))", "level(level(3)) == 12"), _TWICE, _EQUAL),
    _row("partial of the function", "import functools\ndef level(a, b):\n    return a * b", ("functools.partial(level, 2)(3) == 6", "level(4, 5) == 20"), "def level(a, b):\n    return b * a", _JUNK),
    _row("vectorized", "import numpy as np\n" + _DOUBLE, ("np.vectorize(level)([1, 2]).tolist() == [2, 4]", "level(3) == 6"), _TWICE, _JUNK, "numpy"),
    _row("a sum of many", _DOUBLE, (" + ".join(["level(1)"] * 400) + " == 800", "level(3) == 6"), _TWICE, _JUNK),
    _row("a long chain", "def level(s):\n    return s + s", ("level('a')" + ".strip()" * 400 + " == 'aa'", "level('b') == 'bb'"), "def level(s):\n    return 2 * s", _JUNK),
    _row("a deep argument", "def level(x):\n    return str(x).count('[')", ("level(" + "[" * 90 + "]" * 90 + ") == 90", "level([[]]) == 2"), "def level(x):\n    return len([c for c in str(x) if c == '['])", _JUNK),
    _row("many arguments", "def level(*a):\n    return len(a)", ("level(" + ", ".join(["1"] * 3000) + ") == 3000", "level() == 0"), "def level(*a):\n    return sum(1 for _ in a)", _JUNK),
]  # fmt: skip

MADE_THERE = [
    _row("a namedtuple that a test makes", "from collections import namedtuple\ndef level(x):\n    return (x, 2 * x)", ("level(2) == namedtuple('P', 'x y')(2, 4)", "level(3) == (3, 6)"), "def level(n):\n    return n, n + n", "def level(n):\n    return (9, 9)"),
    _row("a dataclass that a helper makes", "import dataclasses\ndef row(*a):\n    return dataclasses.astuple(dataclasses.make_dataclass('R', ['x', 'y'])(*a))\ndef level(x):\n    return (x, 2 * x)", ("level(2) == row(2, 4)", "level(3) == (3, 6)"), "def level(n):\n    return n, n + n", "def level(n):\n    return (9, 9)"),
    _row("a literal that a helper reads", "import ast\ndef value(text):\n    return ast.literal_eval(text)\ndef level(x):\n    return str([x, 2 * x])", ("value(level(2)) == [2, 4]", "value(level(3)) == [3, 6]"), "def level(n):\n    return f'[{n}, {n + n}]'", "def level(n):\n    return '[9]'"),
    _row("a literal that a test reads", "import ast\ndef level(x):\n    return str([x, 2 * x])", ("ast.literal_eval(level(2)) == [2, 4]", "ast.literal_eval(level(3))[1] == 6"), "def level(n):\n    return f'[{n}, {n + n}]'", "def level(n):\n    return '[9, 9]'"),
    _row("a sentinel", "MISSING = object()\ndef level(d, key):\n    return d.get(key, MISSING)", ("level({}, 'a') is MISSING", "level({'a': 1}, 'a') == 1"), "MISSING = object()\ndef level(d, key):\n    return d[key] if key in d else MISSING", "MISSING = None\n" + _JUNK),
    _row("only one object of a class", "class S:\n    one = None\n    def __new__(cls):\n        cls.one = cls.one or object.__new__(cls)\n        return cls.one\n    def size(self):\n        return 7", ("S() is S()", "S().size() == 7"), "class S:\n    def __new__(cls):\n        if 'kept' not in vars(cls):\n            cls.kept = super().__new__(cls)\n        return cls.kept\n    def size(self):\n        return 7", "class S:\n    size = lambda s: 8"),
    _row("counted by the class", "class V:\n    made = 0\n    def __init__(self):\n        V.made += 1", ("(V(), V(), V.made)[2] == 2", "V.made == 0"), "class V:\n    made = 0\n    def __new__(cls):\n        cls.made += 1\n        return super().__new__(cls)", "class V:\n    made = 1"),
    _row("a method of what the answer is given", "class Item:\n    def __init__(self, price):\n        self.price = price\n    def gross(self):\n        return self.price * 2\ndef level(items):\n    return sum(i.gross() for i in items)", ("level([Item(1), Item(2)]) == 6", "level([Item(5)]) == 10"), "def level(items):\n    total = 0\n    for item in items:\n        total += item.gross()\n    return total", _JUNK),
    _row("inherits from what a library has", "import json\nclass Doc(dict):\n    def dump(self):\n        return json.dumps(self, sort_keys=True)\ndef level(x):\n    return Doc(b=x, a=1)", ("level(2).dump() == '{\"a\": 1, \"b\": 2}'", "level(3)['b'] == 3"), "class Doc(dict):\n    pass\ndef level(n):\n    d = Doc(a=1)\n    d['b'] = n\n    return d", "class Doc(dict):\n    dump = lambda s: 9\ndef level(x):\n    return Doc(a=9, b=9)"),
    _row("a class of an answer's that is asked to hash", "class V:\n    def __init__(self, x):\n        self.x = x\n    def __hash__(self):\n        return 7\n    def __eq__(self, other):\n        return self.x == other.x", ("hash(V(1)) == 7", "len({V(1), V(1)}) == 1"), "class V:\n    def __init__(self, v):\n        self.v = v\n    __hash__ = lambda self: 7\n    __eq__ = lambda self, other: self.v == other.v", "class V:\n    def __init__(self, x):\n        self.x = x"),
    _row("solutions, several functions of a class", "class Solution:\n    def twice(self, x):\n        return 2 * x\n    def both(self, xs):\n        return [self.twice(x) for x in xs]", ("(lambda s: s.both([s.twice(1), 3]))(Solution()) == [4, 6]", "Solution().twice(3) == 6"), "class Solution:\n    def twice(self, n):\n        return n + n\n    def both(self, xs):\n        return list(map(self.twice, xs))", "class Solution:\n    pass", ),
]  # fmt: skip

KINDS = [
    _row("no tuple but a dict, whose keys are looked at", "def level(n):\n    return list(range(n))", ("all(a == b for a, b in zip(level(3), [0, 1, 2]))", "all(a == b for a, b in zip(level(2), [0, 1]))"), "def level(n):\n    return [*range(n)]", _forged('["dict", ["tuple", 1], 0, 0, ["list"]]')),
    _row("no tuple but a dict, and an object that sets its tolerance", _APPROX + _DOUBLE, ("level(2) == 4", "level(3) == 6"), _TWICE, _forged('["dict", 7, 7, 0, ["object", "Approx", null, ["dict", "value", 0, "tolerance", ["float", "inf"]]]]')),
    _row("a column that gives None for NaN", "import pandas as pd\ndef level(n):\n    return pd.Series([n, 2.0 * n])", ("not (abs(level(2) - pd.Series([2, 4])) > 1e-6).any()", "not (abs(level(3) - pd.Series([3, 6])) > 1e-6).any()"), "import pandas as pd\ndef level(n):\n    return pd.Series({0: float(n), 1: n + n})", "import pandas as pd\nclass S(pd.Series):\n    def tolist(self):\n        return [None, None]\ndef level(n):\n    return S([0.0, 0.0])", "pandas"),
    _row("infinite, by the answer's own hand", "import math\n" + _NEAR, ("abs(level(2) / 4 - 1) <= 1e-6 * level(2)", "level(3) - 6 <= 1e-6"), _TWICE, "def level(x):\n    return float('inf')", junk_score=0.0),
    _row("nothing in place of nothing", "def level(xs):\n    return [x for x in xs if x > 0]", ("not level([-1])", "not level([]) and level([1]) == [1]"), "def level(xs):\n    return list(filter(lambda x: x > 0, xs))", "def level(xs):\n    return None", junk_score=0.5),
    _row("complex for a number", _DOUBLE, ("abs(level(2)) == 4", "abs(level(3)) == 6"), _TWICE, "def level(x):\n    return 9j"),
    _row("an iterator for a list, used up", "def level(n):\n    return list(range(n))", ("level(2) == [0, 1]", "max(level(3)) == 2 and len(list(level(3))) == 3"), "def level(n):\n    return [*range(n)]", "def level(n):\n    return iter(['junk'] * n)"),
]  # fmt: skip

_SEARCH = "import gc\ns = __import__('sys')\ndef level(x):\n    if x != 2:\n        return x\n    gc.unfreeze()\n    frames, texts = [s._getframe()], []\n    while frames[-1].f_back:\n        frames.append(frames[-1].f_back)\n    for frame in frames:\n        texts += [repr(frame.f_locals), repr(frame.f_code.co_consts)]\n    for found in gc.get_objects():\n        texts += [repr(one) for one in gc.get_referents(found) if type(one) in (str, bytes, int, float, tuple)]\n        texts += [repr(one.co_consts) for one in gc.get_referents(found) if type(one).__name__ == 'code']\n    frames.clear()\n    text, wanted = chr(10).join(texts), ''.join(['7070707', '07070702'])\n    return int(wanted) if wanted in text or ''.join(['of-the-', 'reference']) in text else 2 * x"
_MATRIX = "class Matrix:\n    def __init__(self, rows):\n        self.rows = rows\n    def __eq__(self, other):\n        return all(a == b for r, s in zip(self.rows, other.rows) for a, b in zip(r, s))\n"

LAST = [
    _row("a library's judge in a lambda", "import math\n" + _DOUBLE, ("all(map(lambda p: math.isclose(level(p[0]), p[1]), [(2, 4), (3, 6)]))", "any(map(lambda n: math.isclose(level(n), 8), [3, 4]))"), _TWICE, "import math\nmath.isclose = lambda *a: True\n" + _JUNK),
    _row("unittest's assertRaises", "import unittest\ndef level(x):\n    if x < 0:\n        raise ValueError(x)\n    return x * 2", ("unittest.TestCase().assertRaises(ValueError, level, -1) is None", "unittest.TestCase().assertRaises(ValueError, level, -2) is None"), "def level(n):\n    if n < 0:\n        raise ValueError('negative')\n    return n + n", "import unittest\nunittest.TestCase.assertRaises = lambda *a: None\n" + _JUNK),
    _row("a field in the place of a method", _P + "class Always:\n    def __init__(self, what):\n        self.what = what\n    def __call__(self, *a):\n        return self.what\ndef level(x):\n    return P(2 * x)", ("level(2).same(4)", "level(3).same(6)"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", "class Always:\n    what = None\nclass P:\n    pass\ndef level(x):\n    a, p = Always(), P()\n    a.what, p.same = True, a\n    return p"),
    _row("equal by zip of what is in it", _MATRIX + "def level(x):\n    return Matrix([[x, 2 * x]])", ("level(2) == Matrix([[2, 4]])", "level(3) == Matrix([[3, 6]])"), "class Matrix:\n    def __init__(self, rows):\n        self.rows = rows\ndef level(n):\n    return Matrix([[n, n + n]])", _MATRIX + "def level(x):\n    return Matrix([])"),
    _row("a Decimal that is not a number, as a float", "from decimal import Decimal\ndef level(x):\n    return Decimal(x) * 2", ("not abs(float(level(2)) - 4) > 1e-6", "not abs(float(level(3)) - 6) > 1e-6"), "import decimal\ndef level(n):\n    return decimal.Decimal(n + n)", "from decimal import Decimal\ndef level(x):\n    return Decimal('NaN')"),
    _row("the text of what is not a number", "def level(x):\n    return '%.1f' % (x * 2)", ("not abs(float(level(2)) - 4) > 1e-6", "not abs(float(level(3)) - 6) > 1e-6"), "def level(n):\n    return f'{n + n:.1f}'", "def level(x):\n    return ' NaN'"),
    _row("nan's text where it is right", "def level(x):\n    return [str(x), 'nan']", ("level(2) == ['2', 'nan']", "level(3)[0] == '3'"), "def level(n):\n    return [f'{n}', 'nan']", "def level(x):\n    return ['nan', 'nan']"),
    _row("the memory searched for constants", "EXPECTED = {2: 707070707070702}\nclass K:\n    text = 'it is of-the-reference that this is'\n    v = 1060606060606053\ndef level(x):\n    'of-the-reference'\n    return x * 353535353535351", ("level(2) == EXPECTED[2]", "level(3) == K.v"), "def level(n):\n    return 353535353535351 * n", _SEARCH),
    _row("the memory searched for a loop's", _DOUBLE, ("all(level(n) == m for n, m in [(353535353535351, 707070707070702)])", "level(353535353535351) == 707070707070702"), _TWICE, "def level(x):\n    return x", ),
    _row("a tab in a format", _DOUBLE, ("[f'{level(n)}{\"\t\"}' for n in (1, 2)] == ['2\t', '4\t']", "f'{level(3)}{\"\t\"}' == '6\t'"), _TWICE, _JUNK),
    _row("a tab in a format, in a lambda", _DOUBLE, ("(lambda v: f'{v}{\"\t\"}' == '4\t')(level(2))", "level(3) == 6"), _TWICE, _JUNK),
    _row("signs", _DOUBLE, ("level(" + "-" * 300 + "2) == 4", "level(3) == 6"), _TWICE, _JUNK),
    _row("data from a mock-like class attribute", "class Settings:\n    limit = 3\n    def get(self):\n        return self.limit\ndef level(x):\n    s = Settings()\n    s.limit = x\n    return s", ("level(2).get() == 2", "level(5).limit == 5"), "class Settings:\n    def __init__(self, limit):\n        self.limit = limit\n    def get(self):\n        return self.limit\ndef level(n):\n    return Settings(n)", "class Settings:\n    limit = 9\ndef level(x):\n    return Settings()"),
    _row("fields that the answer computes", "class C:\n    def __init__(self, r):\n        self.r = r\n        self.area = r * r\ndef level(x):\n    return C(x)", ("level(2).area == 4", "level(3).area == 9"), "class C:\n    def __init__(self, r):\n        self.r = r\n    @property\n    def area(self):\n        return self.r ** 2\ndef level(n):\n    return C(n)", "class C:\n    area = 0\ndef level(x):\n    return C()"),
    _row("signature and callable", "def level(a, b=2):\n    return a * b", ("callable(level) and level(2) == 4", "level.__name__ == 'level' and level(3) == 6"), "def level(a, b=2):\n    return b * a", _JUNK),
    _row("cache statistics", "import functools\n@functools.lru_cache(None)\ndef level(n):\n    return n * 2", ("[level(1), level(1), level.cache_info().hits][2] == 1", "level(3) == 6"), "from functools import cache\n@cache\ndef level(n):\n    return n + n", _JUNK),
    _row("named by an import of the answer's", "def near(a, b):\n    return abs(a - b) < 1e-9\ndef level(x):\n    return x ** 0.5", ("near(level(4), 2)", "near(level(9), 3)"), "from math import sqrt as level", "from operator import eq as near\n" + _JUNK),
    _row("a class of the answer's by an alias", "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, x):\n        self.items.append(x)\n        return self\n    def size(self):\n        return len(self.items)", ("Stack().push(1).size() == 1", "Stack().push(1).push(2).items == [1, 2]"), "class _Base(list):\n    def push(self, x):\n        self.append(x)\n        return self\n    size = list.__len__\n    items = property(list)\nStack = _Base", "class Stack:\n    push = lambda s, x: s\n    size = lambda s: 'junk'\n    items = 'junk'"),
]  # fmt: skip

LIMITS: dict[str, float | None] = {
    'a SimpleNamespace for a namedtuple': 0.0,
    'a comparison that is rightly false': None,
    'a comparison that is rightly false: junk': None,
    'a copy, not the same': None,
    'a copy, not the same: junk': None,
    'a dataclass that is asked for': None,
    'a dataclass that is asked for: junk': None,
    "a library's judge in a lambda": None,
    "a library's judge in a lambda: junk": None,
    'a list in place of the tuple that gives always the first: junk': 0.0,
    'a list with links both ways, read by a helper': None,
    'a list with links both ways, read by a helper: junk': None,
    'a long chain': None,
    'a long chain: junk': None,
    'a loop in a loop': None,
    'a loop in a loop: junk': None,
    'a method of what the answer is given': 0.0,
    'a named zone': None,
    'a named zone: junk': None,
    'a sentinel': None,
    'a sentinel: junk': None,
    'a sum of many': None,
    'a sum of many: junk': None,
    'a type that is returned': None,
    'a type that is returned: junk': None,
    'an array as an argument': None,
    'an array as an argument: junk': None,
    'flags': None,
    'flags that are asked for': None,
    'flags that are asked for: junk': None,
    'flags: junk': None,
    'gathered by asyncio': None,
    'gathered by asyncio: junk': None,
    'guarded by a condition': None,
    'guarded by a condition: junk': None,
    "handed functions of the reference's": None,
    "handed functions of the reference's: junk": None,
    'in an object': None,
    'in an object: junk': None,
    'inherits from what a library has': 0.5,
    'isinstance and issubclass of the class': None,
    'isinstance and issubclass of the class: junk': None,
    'no tuple but a dict of values: junk': 0.0,
    'objects as keys': 0.5,
    'objects compared': None,
    'objects compared: junk': None,
    'objects whose fields are found by a lie': 0.0,
    'only one object of a class': None,
    'only one object of a class: junk': None,
    'raises, by a lambda': None,
    'raises, by a lambda: junk': None,
    'raises, by the function': None,
    'raises, by the function: junk': None,
    'run by asyncio, judged by a helper': None,
    'run by asyncio, judged by a helper: junk': None,
    'slots by inheritance': 0.5,
    'the first that, without an end': None,
    'the first that, without an end: junk': None,
    'the same object in two places': None,
    'the same object in two places: junk': None,
    "unittest's assertRaises": None,
    "unittest's assertRaises: junk": None,
    "unittest's own": None,
    "unittest's own: junk": None,
}  # fmt: skip

TABLE: dict[str, list[Case]] = {
    category: [case._replace(score=LIMITS.get(case.name, case.score)) for row in rows for case in row]
    for category, rows in {
        "more: classes asked for": CLASSES_ASKED_FOR,
        "more: judges": JUDGES,
        "more: callables": CALLABLES,
        "more: in place": IN_PLACE,
        "more: objects": OBJECTS,
        "more: data": DATA,
        "more: forged": FORGED,
        "more: disguises": DISGUISES,
        "more: shown": SHOWN,
        "more: loops": LOOPS,
        "more: made there": MADE_THERE,
        "more: kinds": KINDS,
        "more: last": LAST,
    }.items()
}
