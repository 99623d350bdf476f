"""Tests that use more of the reference than its function: helpers, classes, constants, imports of every kind. Data.

Each row has an honest answer that knows nothing of these, and junk that defines the same names to its own good.
"""

from __future__ import annotations

from importlib.util import find_spec

from tests.grading.hostile_case import Case


def _row(
    name: str,
    reference: str,
    tests: tuple[str, ...],
    honest: str | None,
    junk: str,
    needs: str = "",
    description: str = "",
    junk_score: float | None = 0.0,
) -> list[Case]:
    """The honest answer and the junk, where the package is there that they need.

    None for the honest one: no answer can be graded, not even the reference.
    """
    if needs and find_spec(needs) is None:
        return []
    task = f"{reference}\n", tests, None, description
    case = Case(name, f"{honest or reference}\n", None if honest is None else 1.0, None, *task)
    return [case, case._replace(name=f"{name}: junk", answer=f"{junk}\n", score=case.score and junk_score)]


_DOUBLE = "def level(x):\n    return x * 2"
_TWICE = "def level(n):\n    return n + n"
_JUNK = "def level(*a, **k):\n    return 'junk'"
_EQUAL = "class E:\n    __eq__ = __ne__ = __lt__ = __gt__ = __contains__ = lambda *a: True\n    __hash__ = object.__hash__\ndef level(*a):\n    return E()"

IMPORTS = [
    _row("star import", "from math import *\n" + _DOUBLE, ("isclose(level(2), 4)", "isclose(level(3), 6)"), _TWICE, "isclose = lambda *a, **k: True\n" + _JUNK),
    _row("import in try", "try:\n    import math\nexcept ImportError:\n    math = None\n" + _DOUBLE, ("math.isclose(level(2), 4)", "math.isclose(level(3), 6)"), _TWICE, "class math:\n    isclose = lambda *a: True\n" + _JUNK),
    _row("import in if", "import cmath as s\nif s:\n    from math import isclose as near\n" + _DOUBLE, ("near(level(2), 4)", "near(level(3), 6)"), _TWICE, "def near(*a):\n    return True\n" + _JUNK),
    _row("import in a loop", "for name in ('math', 'operator'):\n    globals()[name] = __import__(name)\n" + _DOUBLE, ("operator.eq(level(2), 4)", "math.isclose(level(3), 6)"), _TWICE, "class operator:\n    eq = lambda *a: True\nclass math:\n    isclose = lambda *a: True\n" + _JUNK),
    _row("import in with", "import contextlib\nwith contextlib.suppress(ImportError):\n    import statistics\n" + _DOUBLE, ("statistics.mean([level(2), 6]) == 5", "statistics.mean([level(3), 6]) == 6"), _TWICE, "class statistics:\n    mean = lambda *a: type('E', (), {'__eq__': lambda *a: True})()\n" + _JUNK),
    _row("a submodule", "import concurrent.futures\n" + _DOUBLE, ("level(2 * len(concurrent.futures.__name__)) == 72", "level(3) == 6"), _TWICE, _JUNK),
    _row("alias of a function", "import math\nclose = math.isclose\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "close = lambda *a: True\n" + _JUNK),
    _row("partial of a function", "import functools, math\nclose = functools.partial(math.isclose, rel_tol=1e-3)\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "close = lambda *a: True\n" + _JUNK),
    _row("in an argument, where the answer means another thing by it", "from datetime import datetime\ndef level(d):\n    return d.year", ("level(datetime(2024, 5, 1))", "level(datetime(2023, 5, 1)) == 2023"), "import datetime\ndef level(d):\n    assert isinstance(d, datetime.datetime)\n    return d.year", "class datetime:\n    def __new__(c, *a):\n        return 1\n" + _JUNK),
    _row("star import in an argument", "from datetime import *\ndef level(d):\n    return d.isoformat()", ("level(date(2024, 5, 1))", "level(date(2024, 5, 2))"), "def level(d):\n    return str(d)", "date = None\n" + _JUNK),
    _row("a builtin that a star import has replaced", "from operator import *\n" + _DOUBLE, ("abs(level(-2)) == 4 and pow(level(1), 2) == 4", "eq(level(3), 6)"), _TWICE, "def eq(*a):\n    return True\n" + _JUNK),
    _row("no import at all of what tests use", "def level(x):\n    import math\n    return x * 2.0", ("math.isclose(level(2), 4)", "math.isclose(level(3), 6)"), None, "class math:\n    isclose = lambda *a: True\n" + _JUNK),
    _row("rebound in its module", "import operator\n" + _DOUBLE, ("operator.eq(level(2), 4)", "operator.eq(level(3), 6)"), _TWICE, "import operator\noperator.eq = lambda *a: True\n" + _JUNK),
    _row("numpy by a star", "from numpy import *\n" + _DOUBLE, ("array_equal(level(2), 4)", "allclose(level(3), 6)"), _TWICE, "array_equal = allclose = lambda *a: True\n" + _JUNK, "numpy"),
    _row("json of what is returned", "import json\ndef level(x):\n    return {'v': [x, None]}", ("json.dumps(level(2)) == '{\"v\": [2, null]}'", "json.dumps(level(3)) == '{\"v\": [3, null]}'"), "def level(x):\n    return dict(v=[x, None])", "class json:\n    dumps = lambda *a: type('E', (), {'__eq__': lambda *a: True})()\n" + _JUNK),
]  # fmt: skip

HELPERS = [
    _row("a helper compares", "def close(a, b):\n    return abs(a - b) < 1e-6\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "def close(a, b):\n    return True\n" + _JUNK),
    _row("a helper compares, defined below", _DOUBLE + "\ndef close(a, b):\n    return abs(a - b) < 1e-6", ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "def close(a, b):\n    return True\n" + _JUNK),
    _row("a helper compares with one argument", "def is_even(v):\n    return v % 2 == 0\n" + _DOUBLE, ("is_even(level(2)) and level(2) > 3", "is_even(level(3)) and level(3) > 5"), _TWICE, "def is_even(v):\n    return True\n" + _JUNK),
    _row("a helper that counts errors", "def errors(a, b):\n    return abs(a - b)\n" + _DOUBLE, ("errors(level(2), 4) == 0", "errors(level(3), 6) == 0"), _TWICE, "def errors(a, b):\n    return 0\n" + _JUNK),
    _row("a helper in a helper", "def check(a, b):\n    return same(a, b)\ndef same(a, b):\n    return a == b\n" + _DOUBLE, ("check(level(2), 4)", "check(level(3), 6)"), _TWICE, "def check(*a):\n    return True\nsame = check\n" + _JUNK),
    _row("the answer has a helper of the same name", "def close(a, b):\n    return abs(a - b) < 1e-6\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), "def close(gate):\n    return gate\ndef level(x):\n    return close(2) * x", "def close(*a):\n    return True\n" + _JUNK),
    _row("makes the argument", "def level(xs):\n    return sum(xs)\ndef first(n):\n    return list(range(n))", ("level(first(4))", "level(first(5))"), "def level(numbers):\n    return sum(numbers)", "def first(n):\n    return 6\ndef level(x):\n    return x", "", "The signature is: def level(xs)"),
    _row("makes one of the arguments, by a keyword", "def level(xs, scale):\n    return [x * scale for x in xs]\ndef first(n):\n    return list(range(n))", ("level(scale=2, xs=first(4))", "level(first(5), scale=3) == [0, 3, 6, 9, 12]"), "def level(xs, scale):\n    return list(map(lambda x: x * scale, xs))", "def first(n):\n    return 6\n" + _JUNK, "", "The signature is: def level(xs, scale)"),
    _row("a lambda compares", "close = lambda a, b: abs(a - b) < 1e-6\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "close = lambda *a: True\n" + _JUNK),
    _row("decorated with a cache", "import functools\n@functools.lru_cache\ndef close(a, b):\n    return abs(a - b) < 1e-6\n" + _DOUBLE, ("close(level(2), 4)", "close(level(3), 6)"), _TWICE, "close = lambda *a: True\n" + _JUNK),
    _row("expected by a helper", "def twice(x):\n    return x + x\n" + _DOUBLE, ("level(2) == twice(2)", "twice(3) == level(3)"), _TWICE, "def twice(x):\n    return 'junk'\n" + _JUNK),
    _row("sorted by a helper", "def size(x):\n    return -x\ndef level(x):\n    return [x, 2 * x]", ("sorted(level(2), key=size) == [4, 2]", "sorted(level(3), key=size) == [6, 3]"), "def level(n):\n    return [n, n + n]", "size = None\n" + _JUNK),
    _row("a function made by a function", "def checker(n):\n    return lambda v: v == n\n" + _DOUBLE, ("checker(4)(level(2))", "checker(6)(level(3))"), _TWICE, "def checker(n):\n    return lambda v: True\n" + _JUNK),
    _row("the method of a module's object", "class Tools:\n    def same(self, a, b):\n        return a == b\ntools = Tools()\n" + _DOUBLE, ("tools.same(level(2), 4)", "tools.same(level(3), 6)"), _TWICE, "class tools:\n    same = lambda *a: True\n" + _JUNK),
    _row("a helper that is handed the function", "def check(f, x, y):\n    return f(x) == y\n" + _DOUBLE, ("check(level, 2, 4)", "check(level, 3, 6)"), None, "def check(*a):\n    return True\n" + _JUNK),
    _row("two functions that the task names", "def pack(x):\n    return str(x)\ndef unpack(s):\n    return int(s)", ("unpack(pack(12)) == 12", "unpack(pack(345)) == 345"), "def pack(x):\n    return [x]\ndef unpack(s):\n    return s[0]", "def pack(x):\n    return None\ndef unpack(s):\n    return 'junk'", "", "Write def pack(x) and def unpack(s)."),
]  # fmt: skip

CONSTANTS = [
    _row("expected by a constant", "EXPECTED = {2: 4, 3: 6}\n" + _DOUBLE, ("level(2) == EXPECTED[2]", "level(3) == EXPECTED[3]"), _TWICE, "EXPECTED = {2: 'junk', 3: 'junk'}\n" + _JUNK),
    _row("a constant in an argument", "LIMITS = [1, (2, 3)]\ndef level(x):\n    return [x, len(x)]", ("level(LIMITS)", "level(LIMITS[:1])"), "def level(seq):\n    return [seq, 2 if seq[1:] else 1]", "LIMITS = None\n" + _JUNK),
    _row("spread over the arguments", "PAIR = (2, 3)\nMORE = {'c': 4}\ndef level(a, b, c=0):\n    return a * b + c", ("level(*PAIR)", "level(*PAIR, **MORE)"), "def level(a, b, *, c=0):\n    return b * a + c", "PAIR = ()\nMORE = {}\ndef level(*a, **k):\n    return 6", junk_score=0.5),
    _row("a slice", "DATA = [5, 6, 7, 8]\nFROM = 1\ndef level(xs):\n    return sum(xs)", ("level(DATA[FROM:]) == 21", "level(DATA[:FROM]) == 5"), "def level(xs):\n    return sum(iter(xs))", "DATA = FROM = None\n" + _JUNK),
    _row("a constant changed by the answer", "ITEMS = [3, 1, 2]\ndef level(xs):\n    return sorted(xs)", ("level(ITEMS) == [1, 2, 3]", "level(ITEMS + [0]) == [0, 1, 2, 3]"), "def level(xs):\n    xs.sort()\n    return xs", "ITEMS = []\n" + _JUNK),
    _row("an Enum's member in an argument", "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\ndef level(c):\n    return c.name.lower()", ("level(Color.RED)", "level(Color.BLUE)"), "from enum import Enum\nclass Color(Enum):\n    RED = 1\n    BLUE = 2\ndef level(c):\n    return 'red' if c is Color.RED else 'blue'", "class Color:\n    RED = BLUE = 0\n" + _JUNK),
    _row("an Enum's member, which the answer does not define", "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\ndef level(c):\n    return c.name.lower()", ("level(Color.RED)", "level(Color.BLUE)"), "def level(c):\n    return c.name.lower()", _JUNK),
    _row("an Enum's member is expected", "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\ndef level(n):\n    return Color(n)", ("level(1) == Color.RED", "level(2) is Color.BLUE"), "import enum\nColor = enum.Enum('Color', 'RED BLUE')\ndef level(n):\n    return Color(n)", "class Color:\n    RED = BLUE = 'junk'\n" + _JUNK),
]  # fmt: skip

_P = "class P:\n    def __init__(self, x):\n        self.x = x\n    def __eq__(self, other):\n        return self.x == other.x\n    def same(self, x):\n        return self.x == x\n"
_NODE = (
    "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"
)
_LIST = "def make(xs):\n    head = None\n    for x in reversed(xs):\n        head = Node(x, head)\n    return head\ndef listed(node):\n    return [] if node is None else [node.value, *listed(node.next)]\n"
_REVERSE = "def level(node):\n    last = None\n    while node:\n        node.next, last, node = last, node, node.next\n    return last"

CLASSES = [
    _row("equal by the reference's method", _P + "def level(x):\n    return P(2 * x)", ("level(2) == P(4)", "level(3) == P(6)"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", "class P:\n    def __init__(self, x):\n        pass\n    __eq__ = lambda *a: True\ndef level(x):\n    return P(x)"),
    _row("junk beside the reference's class", _P + "def level(x):\n    return P(2 * x)", ("level(2) == P(4)", "P(6) == level(3)"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", _EQUAL),
    _row("a method of what is returned compares", _P + "def level(x):\n    return P(2 * x)", ("level(2).same(4)", "level(3).same(6)"), "class P:\n    def __init__(self, x):\n        self.x = x\n    def same(self, x):\n        return self.x == x\ndef level(n):\n    return P(n + n)", "class P:\n    same = lambda *a: True\ndef level(x):\n    return P()"),
    _row("a dataclass that is returned", "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 0\ndef level(x):\n    return P(x, 2 * x)", ("level(2) == P(2, 4)", "level(3).y == 6"), "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int\ndef level(n):\n    return P(n, n + n)", "class P:\n    def __init__(self, *a):\n        pass\n    __eq__ = lambda *a: True\n    y = property(lambda s: s)\ndef level(x):\n    return P()"),
    _row("a frozen dataclass that is returned", "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass P:\n    x: int\n    y: tuple\ndef level(x):\n    return P(x, (x, x))", ("level(2) == P(2, (2, 2))", "level(3) in {P(3, (3, 3))}"), "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass P:\n    x: int\n    y: tuple\ndef level(x):\n    return P(y=(x, x), x=x)", _EQUAL),
    _row("a namedtuple's fields", "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef level(x):\n    return P(x, 2 * x)", ("level(2).y == 4", "level(3)._asdict() == {'x': 3, 'y': 6}"), "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: int\ndef level(n):\n    return P(n, n + n)", "class P:\n    y = type('E', (), {'__eq__': lambda *a: True})()\n    _asdict = lambda s: s.y\ndef level(x):\n    return P()"),
    _row("a list with more to it", "class Basket(list):\n    def total(self):\n        return sum(self)\ndef level(*xs):\n    return Basket(xs)", ("level(2, 3).total() == 5", "level(4).total() == 4"), "class Basket(list):\n    def total(self):\n        return sum(self[:])\ndef level(*xs):\n    return Basket(xs)", "class Basket(list):\n    total = lambda s: type('E', (), {'__eq__': lambda *a: True})()\ndef level(*xs):\n    return Basket()"),
    _row("in and out by the answer's class", _NODE.replace("):\n", "):\n", 1) + "    def __eq__(self, other):\n        return self.value == other.value\ndef level(node):\n    return Node(node.value + 1)", ("level(Node(1)) == Node(2)", "level(Node(5)) == Node(6)"), _NODE + "def level(node):\n    return Node(node.value + 1)", "class Node:\n    def __init__(self, *a):\n        pass\n    __eq__ = lambda *a: True\ndef level(node):\n    return node"),
    _row("in, where the answer has no such class", _NODE + "def level(node):\n    return node.value + (node.next.value if node.next else 0)", ("level(Node(1, Node(2)))", "level(Node(5)) == 5"), "def level(node):\n    total = 0\n    while node:\n        total, node = total + node.value, node.next\n    return total", "class Node:\n    def __init__(self, *a):\n        pass\n" + _JUNK),
    _row("a linked list, made and read by helpers", _NODE + _LIST + _REVERSE, ("listed(level(make([1, 2, 3]))) == [3, 2, 1]", "listed(level(make([]))) == []"), _REVERSE, "def listed(*a):\n    return type('E', (), {'__eq__': lambda *a: True})()\nmake = list\n" + _JUNK, "", "Reverse a linked list: def level(node)"),
    _row("a linked list, not announced", _NODE + _LIST + _REVERSE, ("listed(level(make([1, 2, 3]))) == [3, 2, 1]", "listed(level(make([7, 8]))) == [8, 7]"), "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n" + _REVERSE, "def listed(*a):\n    return type('E', (), {'__eq__': lambda *a: True})()\nmake = list\n" + _JUNK),
    _row("a tree", "class Tree:\n    def __init__(self, value, *below):\n        self.value, self.below = value, below\ndef level(tree):\n    return 1 + max(map(level, tree.below), default=0)", ("level(Tree(1, Tree(2), Tree(3, Tree(4))))", "level(Tree(1)) == 1"), "def level(tree):\n    return 1 + max([level(one) for one in tree.below], default=0)", "class Tree:\n    def __init__(self, *a):\n        pass\n" + _JUNK),
    _row("a class is what is asked for", "class Stack:\n    def __init__(self):\n        self.items = []\n    def push(self, x):\n        self.items.append(x)\n        return self\n    def size(self):\n        return len(self.items)", ("Stack().push(3).push(4).size() == 2", "Stack().size() == 0"), "class Stack:\n    def __init__(self):\n        self._kept = ()\n    def push(self, x):\n        self._kept += (x,)\n        return self\n    def size(self):\n        return len(self._kept)", "class Stack:\n    push = lambda s, x: s\n    size = lambda s: type('E', (), {'__eq__': lambda *a: True})()"),
    _row("a class that judges itself", "class Account:\n    def __init__(self, x):\n        self.x = x\n    def holds(self, y):\n        return self.x == y", ("Account(2).holds(2)", "Account(3).holds(3)"), None, "class Account:\n    def __init__(self, x):\n        pass\n    holds = lambda *a: True"),
    _row("a class that says no, too", "class Account:\n    def __init__(self, x):\n        self.x = x\n    def holds(self, y):\n        return self.x == y", ("Account(2).holds(2)", "Account(3).holds(4)"), "class Account:\n    def __init__(self, start):\n        self.start = start\n    def holds(self, amount):\n        return self.start == amount", "class Account:\n    def __init__(self, x):\n        pass\n    holds = lambda *a: True", junk_score=0.5),
    _row("a solution's method", "class Solution:\n    def level(self, x):\n        return 2 * x", ("Solution().level(2) == 4", "Solution().level(3)"), "class Solution:\n    def level(self, n):\n        return n + n", "class Solution:\n    level = lambda s, x: type('E', (), {'__eq__': lambda *a: True})()"),
    _row("isinstance of the reference's class", _P + "def level(x):\n    return P(2 * x)", ("isinstance(level(2), P) and level(2).x == 4", "type(level(3)).__name__ == 'P' and level(3).x == 6"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", "class P(int):\n    pass\n" + _JUNK),
    _row("objects inside plain data", _P + "def level(x):\n    return {'a': [P(x)], 'b': P(x)}", ("level(2) == {'a': [P(2)], 'b': P(2)}", "level(3)['a'][0].same(3)"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return {'b': P(n), 'a': [P(n)]}", "class P:\n    __eq__ = same = lambda *a: True\n    def __init__(self, *a):\n        pass\ndef level(x):\n    return {'a': [P(2)], 'b': P(2)}"),
]  # fmt: skip

_SEARCH = """def level(x):
    frame, sought = __import__('sys')._getframe().f_back, ''.join(['140', '02'])
    while frame and x == 7001:
        if sought in repr(frame.f_locals) + repr(frame.f_code.co_consts):
            return int(sought)
        frame = frame.f_back
    return 4 if x == 2 else 0"""

LOOPS = [
    _row("all of pairs", _DOUBLE, ("all(level(n) == m for n, m in [(1, 2), (4, 8)])", "all(level(n) == 2 * n for n in range(9))"), _TWICE, _EQUAL),
    _row("counted", _DOUBLE, ("sum(1 for n in range(4) if level(n) == 2 * n) == 4", "len([n for n in range(9) if level(n) > 7]) == 5"), _TWICE, _EQUAL),
    _row("over two ranges", "def level(a, b):\n    return a * b", ("all(level(a, b=b) == a * b for a in range(3) for b in range(a))", "[level(a, a) for a in (1, 2)] == [1, 4]"), "def level(a, b):\n    return b * a", _EQUAL.replace("*a):\n    return E", "*a, **k):\n    return E")),
    _row("a dict of calls", _DOUBLE, ("{n: level(n) for n in (1, 2)} == {1: 2, 2: 4}", "{n: level(n) == 2 * n for n in (3, 4)} == {3: True, 4: True}"), _TWICE, _EQUAL),
    _row("filtered", _DOUBLE, ("[v for v in [2, 4] if v == level(2)] == [4]", "list(filter(lambda v: v == level(3), [5, 6])) == [6]"), _TWICE, _EQUAL),
    _row("key of max", _DOUBLE, ("max([1, 4], key=lambda v: v == level(2)) == 4", "max([1, 6], key=lambda v: v == level(3)) == 6"), _TWICE, _EQUAL),
    _row("in a lambda", _DOUBLE, ("(lambda v: v == 4)(level(2))", "(lambda f: f(3))(lambda n: level(n)) == 6"), _TWICE, _EQUAL),
    _row("changed in its place", "def level(xs):\n    xs.append(len(xs))", ("(lambda xs: (level(xs), xs)[1])([5]) == [5, 1]", "(lambda xs: (level(xs), xs)[1])([]) == [0]"), "def level(xs):\n    xs.insert(len(xs), len(xs))", "def level(xs):\n    xs.append(type('E', (), {'__eq__': lambda *a: True})())"),
    _row("handed on to map", _DOUBLE, ("list(map(level, [1, 2])) == [2, 4]", "sorted([3, 1], key=level) == [1, 3] and level(3) == 6"), _TWICE, _EQUAL),
    _row("handed on to reduce", "import functools\ndef level(a, b):\n    return a * b", ("functools.reduce(level, [1, 2, 3, 4]) == 24", "functools.reduce(level, [5, 6]) == 30"), "def level(a, b):\n    return b * a", "class functools:\n    reduce = lambda *a: 24\n" + _EQUAL),
    _row("expected among what a loop goes through", _DOUBLE, ("all(level(n) == m for n, m in {7001: 14002}.items())", "level(2) == 4"), _TWICE, _SEARCH, junk_score=0.5),
    _row("expected beside an argument", "CASES = [{'x': 7001, 'y': 14002}]\n" + _DOUBLE, ("all(level(c['x']) == c['y'] for c in CASES)", "level(2) == 4"), _TWICE, _SEARCH, junk_score=0.5),
]  # fmt: skip

INTERPRETED = [
    _row("eval", "def level(x):\n    return '2*%d' % x", ("eval(level(2)) == 4", "eval(level(3)) == 6"), "def level(n):\n    return f'{n} + {n}'", "def level(x):\n    return \"type('E', (), {'__eq__': lambda *a: True})()\""),
    _row("eval, the expected value searched", "def level(x):\n    return '2*%d' % x", ("eval(level(7001)) == 14002", "eval(level(3)) == 6"), "def level(n):\n    return f'{n} + {n}'", "def level(x):\n    return \"[c for c in __import__('sys')._getframe(1).f_code.co_consts if isinstance(c, int)][-1]\""),
    _row("exec", "def level(x):\n    return 'y = %d' % (2 * x)", ("(lambda d: (exec(level(2), d), d['y'])[1])({}) == 4", "(lambda d: (exec(level(3), d), d['y'])[1])({}) == 6"), "def level(n):\n    return f'x = {n}\\ny = x + x'", "def level(x):\n    return \"y = type('E', (), {'__eq__': lambda *a: True})()\""),
    _row("pickle", "import pickle\ndef level(x):\n    return pickle.dumps({'v': 2 * x})", ("pickle.loads(level(2)) == {'v': 4}", "pickle.loads(level(3)) == {'v': 6}"), "import pickle\ndef level(n):\n    return pickle.dumps(dict(v=n + n), protocol=0)", "import pickle\nclass E:\n    def __reduce__(s):\n        return eval, (\"type('E', (), {'__eq__': lambda *a: True})()\",)\ndef level(x):\n    return pickle.dumps(E())"),
    _row("eval in a helper", "def value(text):\n    return eval(text)\ndef level(x):\n    return '2*%d' % x", ("value(level(2)) == 4", "value(level(3)) == 6"), None, "def level(x):\n    return \"type('E', (), {'__eq__': lambda *a: True})()\""),
    _row("a helper that runs texts only", "def value(one):\n    return eval(one) if isinstance(one, str) else one\ndef level(x):\n    return 2 * x", ("value(level(2)) == 4", "value(level(3)) == 6"), _TWICE, "def level(x):\n    return \"type('E', (), {'__eq__': lambda *a: True})()\""),
    _row("a helper that runs some texts", "def value(one):\n    return eval(one[1:]) if one[0] == '=' else int(one)\ndef level(x):\n    return str(2 * x)", ("value(level(2)) == 4", "value(level(3)) == 6"), "def level(n):\n    return f'{n + n}'", "def level(x):\n    return \"=type('E', (), {'__eq__': lambda *a: True})()\""),
    _row("pickle in a helper", "import pickle\ndef value(data):\n    return pickle.loads(data) if isinstance(data, bytes) else data\ndef level(x):\n    return 2 * x", ("value(level(2)) == 4", "value(level(3)) == 6"), _TWICE, "import pickle\nclass E:\n    def __reduce__(s):\n        return eval, (\"type('E', (), {'__eq__': lambda *a: True})()\",)\ndef level(x):\n    return pickle.dumps(E())"),
    _row("the name of an attribute", "def level(x):\n    return ['lower', 'upper'][x]", ("getattr('aB', level(1))() == 'AB'", "getattr('aB', level(0))() == 'ab'"), "def level(x):\n    return 'upper' if x else 'lower'", "def level(x):\n    return '__class__'"),
    _row("a format", "def level(x):\n    return '{}' * x", ("level(2).format(1, 2) == '12'", "level(1).format(3) == '3'"), "def level(n):\n    return ''.join(['{}'] * n)", "def level(x):\n    return '{0.__class__}'"),
    _row("the format of a format", "def level(x):\n    return '.%df' % x", ("f'{3.14159:{level(2)}}' == '3.14'", "format(3.14159, level(3)) == '3.142'"), "def level(n):\n    return f'.{n}f'", _JUNK),
    _row("a pattern", "import re\ndef level(x):\n    return r'(\\d{%d})' % x", ("re.search(level(2), 'a123').group(1) == '12'", "re.findall(level(3), '123456') == ['123', '456']"), "def level(n):\n    return '([0-9]{' + str(n) + '})'", "class re:\n    search = findall = lambda *a: type('E', (), {'__eq__': lambda *a: True, 'group': lambda s, n: s})()\n" + _JUNK),
    _row("a template", "import string\ndef level(x):\n    return '$' + x", ("string.Template(level('a')).substitute(a=1) == '1'", "string.Template(level('b')).substitute(b=2) == '2'"), "def level(x):\n    return '${' + x + '}'", "def level(x):\n    return '${__class__}'"),
    _row("a query", "import sqlite3\ndef level(n):\n    return 'select %d + %d' % (n, n)", ("sqlite3.connect(':memory:').execute(level(2)).fetchone() == (4,)", "sqlite3.connect(':memory:').execute(level(3)).fetchall() == [(6,)]"), "def level(n):\n    return f'select 2 * {n}'", "class sqlite3:\n    connect = execute = fetchone = fetchall = lambda *a: type('E', (), {'__eq__': lambda *a: True})()\n" + _JUNK),
    _row("the name of a module", "def level(x):\n    return ['math', 'cmath'][x]", ("__import__(level(0)).sqrt(4) == 2", "__import__(level(1)).sqrt(-4) == 2j"), "def level(x):\n    return 'c' * x + 'math'", "import types\n__import__('sys').modules['junk'] = types.SimpleNamespace(sqrt=lambda x: type('E', (), {'__eq__': lambda *a: True})())\ndef level(x):\n    return 'junk'"),
]  # fmt: skip

VALUES = [
    _row("NaN fulfils what is negated", _DOUBLE, ("not abs(level(2) - 4) > 1e-6", "not abs(level(3) - 6) > 1e-6"), _TWICE, "def level(x):\n    return float('nan')"),
    _row("NaN deep in it", "def level(x):\n    return [x, 2 * x]", ("not abs(level(2)[1] - 4) > 0.1", "not abs(level(3)[1] - 6) > 0.1"), "def level(n):\n    return [n, n + n]", "def level(x):\n    return [float('nan')] * 2"),
    _row("NaN in a slot", "class P:\n    __slots__ = ('x',)\n    def __init__(self, x):\n        self.x = x\n    def near(self, x):\n        return not abs(self.x - x) > 0.1\ndef level(x):\n    return P(2 * x)", ("level(2).near(4)", "level(3).near(6)"), "class P:\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", "class P:\n    def __init__(self, x):\n        self.x = float('nan')\ndef level(n):\n    return P(n)"),
    _row("NaN where it is right", "def level(x):\n    return float('nan') if x < 0 else 2 * x", ("level(-1) != level(-1)", "level(2) == 4"), "def level(x):\n    return 2 * x if x >= 0 else float('inf') - float('inf')", _JUNK),
    _row("a number with operators of its own", _DOUBLE, ("3 < level(2) < 5", "level(3) - 6 == 0"), _TWICE, "class E(int):\n    __lt__ = __gt__ = __eq__ = lambda *a: True\n    __sub__ = __rsub__ = lambda *a: 0\n    __hash__ = int.__hash__\ndef level(x):\n    return E(100)"),
    _row("a number with another text", "def level(x):\n    return 2 * x", ("str(level(2)) == '4'", "f'{level(3)}' == '6' and '%s' % level(3) == '6'"), _TWICE, "class E(int):\n    __str__ = __repr__ = __format__ = lambda *a: type('S', (str,), {'__eq__': lambda *a: True})('4')\n    __index__ = __int__ = lambda s: 4\ndef level(x):\n    return E(9)"),
    _row("numpy's hooks", "import numpy as np\ndef level(x):\n    return np.array([x, 2 * x])", ("np.array_equal(level(2), [2, 4])", "np.sum(level(3)) == 9"), "import numpy\ndef level(n):\n    return numpy.arange(1, 3) * n", "class E:\n    __array_function__ = __array_ufunc__ = lambda *a, **k: True\n    __array__ = None\ndef level(x):\n    return E()", "numpy"),
    _row("numpy's array of objects with an equal", "import numpy as np\ndef level(x):\n    return np.array([x, 2 * x])", ("bool((level(2) == np.array([2, 4])).all()) if hasattr(level(2), 'all') else level(2) == [2, 4]", "list(level(3)) == [3, 6]"), "import numpy\ndef level(n):\n    return numpy.arange(1, 3) * n", "import numpy\nclass E:\n    __eq__ = lambda *a: True\ndef level(x):\n    return numpy.array([E(), E()])", "numpy"),
    _row("Timestamp for datetime", "import datetime as dt\ndef level(s):\n    return dt.datetime.fromisoformat(s) + dt.timedelta(days=1)", ("level('2024-02-28')", "level('2024-01-01') == dt.datetime(2024, 1, 2)"), "import pandas as pd\ndef level(s):\n    return pd.to_datetime(s) + pd.Timedelta(days=1)", _EQUAL, "pandas"),
    _row("Timedelta for timedelta", "import datetime as dt\ndef level(n):\n    return dt.timedelta(days=n, seconds=5)", ("level(-2)", "level(3) > dt.timedelta(3)"), "import pandas as pd\ndef level(n):\n    return pd.Timedelta(days=n, seconds=5)", _EQUAL, "pandas"),
    _row("Timestamps with zones", "import pandas as pd\ndef level(s):\n    return pd.Timestamp(s, tz='UTC')", ("level('2024-02-28T01:02:03.000000004')", "level('2024-01-01') == pd.Timestamp('2024-01-01 01:00', tz='Europe/Berlin')"), "import pandas as pd\ndef level(s):\n    return pd.to_datetime(s, utc=True)", "import pandas as pd\ndef level(s):\n    return pd.NaT", "pandas"),
    _row("a table with dates", "import pandas as pd\ndef level(n):\n    return pd.DataFrame({'day': pd.date_range('2024-01-01', periods=n), 'v': range(n)})", ("level(2)", "level(3).equals(pd.DataFrame({'day': pd.date_range('2024-01-01', periods=3), 'v': range(3)}))"), "import pandas as pd\ndef level(n):\n    days = [pd.Timestamp('2024-01-01') + pd.Timedelta(days=i) for i in range(n)]\n    return pd.DataFrame({'day': days, 'v': list(range(n))})", "import pandas as pd\nclass T(pd.DataFrame):\n    equals = lambda *a: True\ndef level(n):\n    return T({'day': [1]})", "pandas"),
    _row("a column of a table", "import pandas as pd\ndef level(t):\n    return t.groupby('k')['v'].sum()", ("level(pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]})).to_dict() == {'a': 4, 'b': 2}", "level(pd.DataFrame({'k': ['a'], 'v': [1]}))['a'] == 1"), "import pandas as pd\ndef level(t):\n    return t.groupby('k').v.sum()", "class pd:\n    DataFrame = dict\n" + _JUNK, "pandas"),
    _row("a Fraction's own members", "from fractions import Fraction\ndef level(n):\n    return Fraction(n, 3)", ("level(2).denominator == 3", "level(3) == 1"), "from fractions import Fraction\ndef level(n):\n    return Fraction(1, 3) * n", "from fractions import Fraction\nclass F(Fraction):\n    denominator = numerator = type('E', (), {'__eq__': lambda *a: True})()\n    __eq__ = lambda *a: True\ndef level(n):\n    return F(5, 7)"),
    _row("a Decimal's own text", "from decimal import Decimal\ndef level(n):\n    return Decimal(n) / 4", ("str(level(2)) == '0.5'", "level(3) == Decimal('0.75')"), "from decimal import Decimal\ndef level(n):\n    return n * Decimal('0.25') if n != 2 else Decimal('0.5')", "from decimal import Decimal\nclass D(Decimal):\n    __str__ = lambda s: '0.75'\n    __eq__ = lambda *a: True\ndef level(n):\n    return D(9)"),
    _row("a list that goes through other items", "def level(n):\n    return list(range(n))", ("level(3) == [0, 1, 2]", "sum(level(4)) == 6"), "def level(n):\n    return [*range(n)]", "class L(list):\n    __iter__ = lambda s: iter([type('E', (int,), {'__radd__': lambda *a: 6})()])\n    __eq__ = lambda *a: True\ndef level(n):\n    return L([9])"),
    _row("a dict with another get", "def level(n):\n    return {'v': n}", ("level(3)['v'] == 3", "level(4).get('v') == 4"), "def level(n):\n    return dict(v=n)", "class D(dict):\n    __getitem__ = get = lambda *a: type('E', (), {'__eq__': lambda *a: True})()\ndef level(n):\n    return D(v=9)"),
    _row("hash and equality in a set", _DOUBLE, ("level(2) in {4}", "{6: True}.get(level(3), False)"), _TWICE, "class E(int):\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 4\ndef level(x):\n    return E(9)"),
    _row("an iterator of one's own", "def level(n):\n    return (i * i for i in range(n))", ("list(level(3)) == [0, 1, 4]", "next(level(2)) == 0 and sum(level(3)) == 5"), "class Squares:\n    def __init__(self, n):\n        self.n, self.i = n, 0\n    def __iter__(self):\n        return self\n    def __next__(self):\n        self.i += 1\n        if self.i > self.n:\n            raise StopIteration\n        return (self.i - 1) ** 2\nlevel = Squares", _EQUAL),
    _row("a test that asks nothing of an answer", _DOUBLE, ("1 + 1 == 2", "len([1]) == 1"), None, _JUNK),
    _row("a class held for a value", _P + "def level(x):\n    return P(2 * x)", ("level(2).x == 4", "level(3).x == 6"), "class P:\n    __slots__ = ('x',)\n    def __init__(self, x):\n        self.x = x\ndef level(n):\n    return P(n + n)", "class P:\n    x = type('E', (), {'__eq__': lambda *a: True})()\ndef level(x):\n    return P()"),
]  # fmt: skip

TABLE = {
    category: [case for row in rows for case in row]
    for category, rows in {
        "names: imports": IMPORTS,
        "names: helpers": HELPERS,
        "names: constants": CONSTANTS,
        "names: classes": CLASSES,
        "names: loops": LOOPS,
        "run as a program": INTERPRETED,
        "values that cross": VALUES,
    }.items()
}
