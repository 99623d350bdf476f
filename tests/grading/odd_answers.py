"""Answers that mean no harm and are odd all the same: in their values, or in their text. Data for test_hostile.py."""

from __future__ import annotations

from tests.grading.hostile_case import DOUBLE, Case, code


def value(name: str, expected: str, got: str, score: float | None, outcome: str | None = None) -> Case:
    """A function that returns `got` where the reference returns `expected` (expressions that may import)."""
    return Case(name, _returning(got), score, outcome, reference=_returning(expected), tests=("f()",))


def _returning(expression: str) -> str:
    return f"def f():\n    import collections, datetime, decimal, enum, fractions, math\n    return {expression}\n"


_POINT = "collections.namedtuple('P', 'x y')(1, 2)"

VALUES = [
    value("True is 1", "1", "True", 1.0),
    value("1.0 is 1", "1", "1.0", 1.0),
    value("minus zero", "0", "-0.0", 1.0),
    value("a sum of floats is not rounded", "0.3", "0.1 + 0.2", 0.0, "failed"),
    value("exact fraction", "0.5", "fractions.Fraction(1, 2)", 1.0),
    value("decimal is not the float beside it", "0.1", "decimal.Decimal('0.1')", 0.0, "failed"),
    value("infinity", "float('inf')", "math.inf", 1.0),
    value("NaN", "math.nan", "math.nan", None),
    value("NaN in a list", "[math.nan]", "[math.nan]", None),
    value("complex without an imaginary part", "2", "2 + 0j", 1.0),
    value("integer of 6000 digits", "10**6000 + 1", "10**6000 + 1", 1.0),
    value("integer of 6000 digits, one off", "10**6000 + 1", "10**6000", 0.0, "failed"),
    value("set and frozenset", "{1, 2}", "frozenset([2, 1])", 1.0),
    value("set and keys", "{1, 2}", "{2: 0, 1: 0}.keys()", 1.0),
    value("set and list", "{1, 2}", "[1, 2]", 0.0, "failed"),
    value("tuple and list", "(1, 2)", "[1, 2]", 0.0, "failed"),
    value("namedtuple", "(1, 2)", _POINT, 1.0),
    value("dict in another order", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", 1.0),
    value("Counter", "{'a': 2}", "collections.Counter('aa')", 1.0),
    value("defaultdict", "{'a': [1]}", "collections.defaultdict(list, a=[1])", 1.0),
    value("IntEnum", "3", "enum.IntEnum('E', 'a b c').c", 1.0),
    value("Enum", "3", "enum.Enum('E', 'a b c').c", 0.0, "failed"),
    value("range", "range(0, 3, 2)", "range(0, 4, 2)", 1.0),
    value("date", "datetime.date(2024, 2, 29)", "datetime.date(2024, 2, 29)", 1.0),
    value("date and midnight", "datetime.date(2024, 2, 29)", "datetime.datetime(2024, 2, 29)", 0.0, "failed"),
    value("text and bytes", "'a'", "b'a'", 0.0, "failed"),
    value("lone surrogate", "'\\ud800'", "chr(0xD800)", 1.0),
    value("None on both sides", "None", "None", None, "reference_none"),
    value("generator", "[0, 1]", "(i for i in range(2))", 0.0, "failed"),
    value("map", "[0, 1]", "map(int, '01')", 0.0, "failed"),
    value("function", "1", "lambda: 1", 0.0, "not_plain_data"),
    value("generator function", "1", "(lambda: (yield))()", 0.0, "failed"),
    value("deep list", "[]", "eval('[' * 80 + ']' * 80)", 0.0, "failed"),
    Case(
        "deeper list",
        "def level(x):\n    a = []\n    for _ in range(10**5):\n        a = [a]\n    return a\n",
        0.0,
        "not_plain_data",
    ),
    Case(
        "list in itself", "def level(x):\n    a = []\n    a.append(a)\n    return a\n", 0.0, "not_plain_data"
    ),
    Case(
        "long list",
        "def level(x):\n    return list(range(10**4))\n",
        1.0,
        reference="def level(x):\n    return [*range(10**4)]\n",
    ),
    Case(
        "a set's order is the same for both",
        "def level(x):\n    return list(set('what is the order of this text')), x\n",
        1.0,
        reference="def level(x):\n    return list(set('what is the order of this text')), x\n",
    ),
    Case(
        "the reference fails",
        "def level(x):\n    return 1\n",
        None,
        "reference_none",
        reference="def level(x):\n    return 1 / 0\n",
    ),
    Case(
        "the reference loops",
        "def level(x):\n    return 1\n",
        None,
        "reference_none",
        reference="def level(x):\n    while 1:\n        pass\n",
        tests=("level(2)",),
    ),
]

TEXTS = [
    Case("syntax error", "def level(x):\n    retrun x * 2\n", 0.0, "error"),
    Case("null byte", "def level(x):\n    return 2 * x\n# \0\n", 0.0, "error"),
    Case("lone surrogate in the code", "def level(x):\n    return 2 * x  # \ud800\n", 0.0, "error"),
    Case("byte order mark", "\ufeffdef level(x):\n    return 2 * x\n", 0.0, "error"),
    Case("tabs and blanks", "def level(x):\n\tif x:\n        return 2 * x\n", 0.0, "error"),
    Case("nothing", "", 0.0, "error"),
    Case("blanks", "   \n\t\n", 0.0, "error"),
    Case("prose", "I would return twice the value.", 0.0, "error"),
    Case("half a fence before", "```python\n" + DOUBLE, 1.0),
    Case("half a fence behind", DOUBLE + "```\n", 0.0, "error"),
    Case("fence around nothing", "```python\n```", 0.0, "error"),
    Case("fence of tildes", "~~~python\n" + DOUBLE + "~~~\n", 0.0, "error"),
    Case("fences inside a text", "def level(x):\n    '''```'''\n    return 2 * x\n", 0.0, "error"),
    Case("deeply nested brackets", "level = " + "(" * 5000 + ")" * 5000, 0.0, "error"),
    Case("long chain", "def level(x):\n    return 2 * x" + " + 0" * 300 + "\n", 1.0),
    Case("a long text", "def level(x):\n    '''" + "x" * 10**6 + "'''\n    return 2 * x\n", 1.0),
    Case("Windows line ends", DOUBLE.replace("\n", "\r\n"), 1.0),
    Case("names in other letters", "def größe(ж):\n    return ж * 2\nlevel = größe\n", 1.0),
    Case(
        "future annotations and a dataclass",
        code("""
            from __future__ import annotations
            from dataclasses import dataclass
            @dataclass
            class Level:
                value: int
            def level(x):
                return Level(2 * x).value
         """),
        1.0,
    ),
    Case(
        "pickles its own class",
        "import pickle\nclass A:\n    v = 2\ndef level(x):\n    return pickle.loads(pickle.dumps(A())).v * x\n",
        1.0,
    ),
    Case(
        "a try-out under __main__",
        DOUBLE + "if __name__ == '__main__':\n    raise SystemExit(level(1))\n",
        1.0,
    ),
    Case("not a function", "level = 4\n", 0.0, "error"),
    Case(
        "a class",
        "class level(int):\n    def __new__(cls, x):\n        return int.__new__(cls, 2 * x)\n",
        1.0,
    ),
    Case("an async function", "async def level(x):\n    return 2 * x\n", 0.0, "not_plain_data"),
    Case(
        "keeps state",
        "seen = []\ndef level(x):\n    seen.append(x)\n    return 2 * x if len(seen) == 1 else None\n",
        1.0,
    ),
]

ODD = [*VALUES, *TEXTS]
