"""Fingerprints are equal exactly when Python says that the values are; literals evaluate to equal values; kinds one by one."""

import ast
import collections
import dataclasses
import datetime as dt
import enum
import ipaddress
import itertools
import math
import pathlib
import re
import types
import typing
import uuid
from array import array
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.grading.sandbox.guest.crossing import LIBRARIES, alike, apart, finite, unpack
from sweet_rl.grading.sandbox.guest.values import CUT, MAX_SHORT, NotPlainData, fingerprint, literal
from sweet_rl.types import Task, Trajectory

UNHURRIED = settings(deadline=None)  # a busy machine is no failure
ZONES = st.integers(-12, 12).map(lambda hours: dt.timezone(dt.timedelta(hours=hours))) | st.none()
SMALL = st.integers(-2, 2)
ODD_DECIMALS = [Decimal("inf"), Decimal("-inf"), Decimal("-0"), Decimal("1E+3"), Decimal("0.10")]
NUMBERS = st.one_of(
    st.booleans(), SMALL, st.integers(), SMALL.map(float), st.floats(allow_nan=False), SMALL.map(Decimal),
    st.decimals(allow_nan=False, min_value=-(10**20), max_value=10**20), st.sampled_from(ODD_DECIMALS),
    st.fractions(max_denominator=8), SMALL.map(complex), st.complex_numbers(allow_nan=False),
)  # fmt: skip
HASHABLE_LEAVES = st.one_of(
    st.none(), NUMBERS, st.sampled_from(["", "a", "1", "b'a'", "i1", "\ud800"]), st.text(max_size=4), st.binary(max_size=2),
    st.builds(range, SMALL, SMALL, st.sampled_from([-2, -1, 1, 2])), st.datetimes(timezones=st.none() | ZONES), st.dates(),
    st.times(timezones=ZONES), st.timedeltas(),
)  # fmt: skip
HASHABLE = st.recursive(
    HASHABLE_LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)


def _containers(inner):
    lists, dicts = st.lists(inner, max_size=3), st.dictionaries(HASHABLE, inner, max_size=3)
    of_hashable = (
        st.sets(HASHABLE, max_size=3),
        st.dictionaries(HASHABLE, HASHABLE, max_size=3).map(dict.items),
    )
    changed = lists.map(tuple), lists.map(collections.deque), dicts.map(dict.keys)
    return st.one_of(lists, dicts, *changed, *of_hashable, st.binary(max_size=2).map(bytearray))


VALUES = st.recursive(HASHABLE, _containers, max_leaves=8)
EVALUATED_WITH = {"datetime": dt, "Decimal": Decimal, "Fraction": Fraction, "deque": collections.deque}


LIES = {
    "__iter__": lambda _: iter(["lie"]),
    "__len__": lambda _: 99,
    "__eq__": lambda *_: True,
    "__hash__": None,
}
Words = type("Words", (list,), LIES)  # a list with everything that a hostile subclass could lie about
Whole = type("Whole", (int,), {"__index__": lambda _: 7, "__eq__": lambda *_: True, "__hash__": int.__hash__})
Anything = type("Anything", (), {"__eq__": lambda *_: True, "__hash__": object.__hash__})


@dataclasses.dataclass
class Point:
    x: int
    y: float
    seen: int = dataclasses.field(default=0, compare=False)


Pair = collections.namedtuple("Pair", "a b")
Colour = enum.StrEnum("Colour", {"RED": "red"})
Level = enum.IntEnum("Level", {"LOW": 1})
Other = dataclasses.make_dataclass("Other", ["x", "y"])
Empty = dataclasses.make_dataclass("Empty", [])
Paint = enum.Enum("Paint", {"RED": 1, "GREEN": 2})
Shade = enum.Enum("Shade", {"RED": 1})
POINT_OF_ANOTHER = dataclasses.make_dataclass("Point", ["y", "x"])(2, 1)
ONE_HOUR_EAST = dt.timezone(dt.timedelta(hours=1))

EQUAL = [  # also for Python, but for NaN and what lies about itself
    [1, True, 1.0, Decimal("1.00"), Fraction(1), 1 + 0j, Level.LOW, Whole(1)],
    [0, False, 0.0, -0.0, Decimal("-0"), Fraction(0), complex(0, -0.0)],
    [0.5, Fraction(1, 2), Decimal("0.50"), 0.5 + 0j],
    [10**400, Decimal(10**400), Fraction(10**400)],
    [float("inf"), Decimal("inf"), complex("inf")],
    [(1, 2), Pair(1, 2), (True, 2.0)],
    [[1, 2], Words([1, 2])],
    [{1, 2}, frozenset({2.0, 1}), {1: "a", 2: "b"}.keys()],
    [{("a", 1)}, {"a": 1}.items()],
    [{"a": 1, "b": 2}, collections.OrderedDict(b=2, a=1), collections.Counter(b=2, a=1)],
    ["red", Colour.RED],
    [b"ab", bytearray(b"ab")],
    [range(0), range(3, 3), range(5, 1)],
    [range(4, 5), range(4, 6, 2), range(4, 3, -7)],
    [range(10**30), range(0, 10**30, 1)],
    [dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, 13, tzinfo=ONE_HOUR_EAST)],
    [dt.time(12, tzinfo=dt.UTC), dt.time(13, tzinfo=ONE_HOUR_EAST)],
]
SAME_DATA = [
    [int], [bool], [type(None)], [dict.get], [str.upper], [len], [math.sqrt], [collections.OrderedDict], [re.escape],
    [...], [NotImplemented], [list[int]], [list[int] | None],
    [typing.Optional[int], typing.Optional[int]],  # noqa: UP045 - the older way of writing it
    [typing.Any],
    [slice(1, 2), slice(1, 2, None), slice(True, 2)],
    [slice(1, 2, 1)],
    [(n for n in (1, 2)), iter([1, 2]), map(int, "12"), filter(None, [0, 1, 2]), iter({1: 0, 2: 0}), reversed([2, 1])],
    [[1, 2], collections.UserList([1, 2])],
    [zip("ab", [1, 2], strict=True), iter([("a", 1), ("b", 2)]), iter({"a": 1, "b": 2}.items())],
    [{"a": 1}.values(), {"b": 1.0}.values()],
    [{"a": 1}, types.MappingProxyType({"a": 1}), collections.UserDict(a=1), collections.ChainMap({"a": 1}, {"a": 2})],
    ["ab", collections.UserString("ab")],
    [b"ab", memoryview(b"ab")],
    [array("i", [1, 2]), array("d", [1.0, 2.0])],
    [ValueError("a", 1), ValueError("a", 1.0)],
    [KeyError("a", 1)],
    [Paint.RED], [Paint.GREEN], [Shade.RED],
    [Point(1, 2.0), Point(1, 2, seen=9), POINT_OF_ANOTHER],
    [Point(2, 2.0)], [Other(1, 2.0)],
    [types.SimpleNamespace(x=1, y=2), types.SimpleNamespace(y=2, x=1)],
    [pathlib.Path("a/b"), pathlib.PurePosixPath("a//b")],
    ["a/b"],
    [pathlib.PureWindowsPath("a/b"), pathlib.PureWindowsPath("A\\B")],
    [uuid.UUID(int=7)], [7],
    [ipaddress.ip_address("10.0.0.1")], [ipaddress.ip_network("10.0.0.1")],
    [dt.UTC, dt.timezone(dt.timedelta(0))],
    [re.compile("a+")], [re.compile("a+", re.IGNORECASE)],
    [re.match("a(b)", "abc"), re.search("(?:a)(b)", "abc")],
    [re.match("(a)b", "abc")],
]  # fmt: skip


@pytest.mark.parametrize("families", [EQUAL, SAME_DATA], ids=["equal", "the same data"])
def test_equal_values_of_other_types_have_equal_fingerprints_and_no_others(families):
    prints = [{fingerprint(value) for value in family} for family in families]
    assert [len(found) for found in prints] == [1] * len(families)
    assert len(set.union(*prints)) == len(families)


def test_different_values_have_different_fingerprints():
    values = [
        None, "", "N", "\ud800", "?", "None", "1", b"1", 1, 1.5, 1j, [], (), {}, "[]", b"", range(0), [1], [[1]], (1,), {1: 2},
        0.1, Decimal("0.1"), Fraction(1, 10), ["a", "b"], ["ab"], ["a,b"], ["a", ["b"]], [["a"], "b"], {(1, 2)},
        collections.deque(), collections.deque([1]), range(2), [0, 1], dt.date(2020, 1, 1),
        dt.datetime.min, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), dt.time(0),  # noqa: DTZ901
        "x" * MAX_SHORT, "x" * 10_000, "x" * 9_999 + "y", list(range(1000)), list(range(1, 1001)), float("inf"),
        float("-inf"), 2**63, -(2**63), float(2**63) * 2,
    ]  # fmt: skip
    for number, value in enumerate(values):
        for other in values[:number]:
            assert (fingerprint(value) == fingerprint(other)) == (value == other), (value, other)


@UNHURRIED
@given(st.lists(VALUES, min_size=2, max_size=5) | st.lists(NUMBERS, min_size=2, max_size=6))
def test_fingerprints_are_short_and_equal_exactly_when_values_are(values):
    for value in values:
        assert len(fingerprint(value)) <= MAX_SHORT
        for other in values:
            assert (fingerprint(value) == fingerprint(other)) == bool(value == other), (value, other)


IN_ITSELF = []
IN_ITSELF.append(IN_ITSELF)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), [1, math.nan], {"a": {math.nan}}, {math.nan: 1}, complex(0, math.nan), Decimal("nan"), Decimal("snan"),
        Decimal("1e999999999"), object(), Anything(), [Anything()], lambda: 1, [].append, itertools.count(),
        (x for x in [math.nan]), IN_ITSELF, Empty(), UNHURRIED.__call__.__get__(1), Point(1, math.nan),
        type("Thing", (), {"__module__": "answer"}), print.__call__,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_not_plain_data_equals_nothing(value):
    with pytest.raises(NotPlainData):
        fingerprint(value)


@UNHURRIED
@given(VALUES)
def test_literals_evaluate_to_equal_values(value):
    text = literal(value, limit=10**6)
    assert eval(text, dict(EVALUATED_WITH)) == value, text


@UNHURRIED
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
                    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_literals_of_built_in_data_are_literals(value):
    assert ast.literal_eval(literal(value, limit=10**6)) == value


def test_literals_need_no_import_where_a_number_has_one_and_long_ones_are_cut():
    assert literal([Decimal("1.50"), Fraction(4, 2), Decimal("1E+3")]) == "[1.5, 2, 1000]"
    assert literal(Decimal("0.1")) == "Decimal('0.1')"
    assert literal(10**5000).startswith("0x")
    assert literal({"b", "a"}) == "{'a', 'b'}"
    numbers = range(10**4)
    for value in (
        list(numbers),
        "x" * 10**4,
        {n: n for n in numbers},
        10**10**4,
        set(numbers),
        [["x" * 60] * 9],
    ):
        whole, text = literal(value, limit=10**6), literal(value, limit=50)
        assert text == whole[:49] + CUT


def test_numpy_scalars_are_numbers_and_arrays_are_lists():
    numpy = pytest.importorskip("numpy")
    for value, same in (
        (numpy.int64(3), 3),
        (numpy.float32(3), 3),
        ([numpy.bool_(True), numpy.float64(0.5)], [1, 0.5]),
        (numpy.str_("a"), "a"),
        (numpy.array(5), 5),
        (numpy.array([[1, 2], [3, 4.0]]), [[1, 2], [3, 4]]),
        ((numpy.array([]), numpy.zeros((2, 0))), ([], [[], []])),
        (numpy.dtype("int64"), numpy.array([1]).dtype),
    ):
        assert fingerprint(value) == fingerprint(same)
    assert fingerprint(numpy.int64) != fingerprint(numpy.int32)
    assert literal([numpy.int64(3), numpy.float64(0.5), numpy.bool_(True)]) == "[3, 0.5, True]"
    assert literal(numpy.array([[1, 2]])) == "[[1, 2]]"
    for value in (numpy.array([1, math.nan]), numpy.float64("nan"), numpy.longdouble("nan")):
        with pytest.raises(NotPlainData):
            fingerprint(value)


def test_tables_of_pandas_are_data():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, None], "b": ["x", "y"]})
    assert fingerprint(table) == fingerprint(table.copy()) != fingerprint(table[["b", "a"]])
    assert fingerprint(table["a"]) == fingerprint(pandas.Series([1, None]))


RETURNED = [
    "type(x)", "{'int': int, 'x': type(x).__mro__}", "(x, ...)", "__import__('dataclasses').make_dataclass('P', ['a'])(x)",
    "(n for n in range(x))", "__import__('pathlib').Path('a') / str(x)", "ValueError(x)", "__import__('array').array('i', [x])",
]  # fmt: skip


def test_in_the_sandbox_a_reference_meets_odd_values_of_its_own_and_no_others():
    answers = []
    for expression in RETURNED:
        code = f"def f(x):\n    return {expression}\n"
        task = Task(expression, "", code, code, {"test1": "f(2)"}, {})
        answers += [Trajectory(task, (), answer) for answer in (code, "def f(x):\n    return iter([9])\n")]
    with Sandbox(workers=1) as sandbox:
        scores = list(CodeGrader(sandbox).grade(answers))
    assert [score.value for score in scores] == [1, 0] * len(RETURNED), [score.tests for score in scores]


class _Odd(list):
    __iter__ = __len__ = __eq__ = __reduce__ = lambda *_: 1 / 0
    __hash__ = None


UTC = dt.UTC
CROSSING = [
    1 + 2j, range(3), Decimal("0.10"), Fraction(1, 3), dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, tzinfo=UTC),
    dt.time(1, 2), dt.timedelta(1), collections.Counter("aab"), collections.defaultdict(int, {"a": 1}),
    collections.OrderedDict(a=1), collections.deque([1, Decimal(2)], 3), array("i", [1]), pathlib.PurePath("a/b"),
    uuid.UUID(int=5), ipaddress.ip_address("10.0.0.1"), {dt.date(2024, 1, 1): {frozenset({1})}, "a": [(), set()]},
]  # fmt: skip
FORGED = [
    "eval('1')", "open('x')", "__import__('os')", "os.system('x')", "[].append(1)", "(lambda: 1)()", "KeyboardInterrupt()",
    "_object_('P', {})", "numpy.array([1], 'O')", "numpy.array([(1, 2)], 'i4,i4')", "pandas.eval('1')", "f'{1}'", "x",
    "decimal.Decimal('1').__class__(2)", "builtins.eval('1')", "decimal.getcontext()",
]  # fmt: skip


@pytest.mark.parametrize("value", CROSSING, ids=repr)
def test_what_crosses_is_made_again_of_literals(value):
    made = unpack(literal(apart(value, {LIBRARIES}), 9999), {})
    assert (type(made), made) == (type(value), value)
    assert alike(made, value)
    assert finite(made)


def test_arrays_and_tables_cross():
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    days = pandas.date_range("2024-01-01", periods=2, tz="Europe/Berlin")
    frame = pandas.DataFrame(
        {"day": days, "v": [1.5, 2.0], 3: ["a", None]}, index=pandas.Index([4, 5], name="i")
    )
    for value in (
        frame,
        frame["v"],
        frame.set_index(["v", 3]),
        pandas.Timedelta(5),
        days[0],
        pandas.DataFrame(),
    ):
        made = unpack(literal(apart(value, {LIBRARIES}), 9999), {})
        assert made.equals(value) if hasattr(value, "equals") else made == value
        assert alike(made, value)
    for value in (
        numpy.eye(2),
        numpy.int8(3),
        numpy.array(["a", "bc"]),
        numpy.array(["2024-01-01"], "M8[D]"),
    ):
        made = unpack(literal(apart(value, {LIBRARIES}), 9999), {})
        assert (made.dtype, made.tolist()) == (value.dtype, value.tolist())
    assert not alike(numpy.eye(2), numpy.eye(3))
    assert not finite(numpy.array([1, float("nan")]))
    assert not finite(numpy.array(["NaT"], "M8[s]"))
    assert not finite(pandas.DataFrame({"v": [float("inf")]}))


@pytest.mark.parametrize("text", FORGED)
def test_nothing_else_is_made(text):
    with pytest.raises((NotPlainData, ValueError, KeyError)):
        unpack(text, {})


def test_nothing_of_an_answers_class_crosses():
    assert unpack(literal(apart(_Odd([1, 2]), ()), 99), {}) == [1, 2]
    assert not finite([Decimal("NaN")])
    assert not alike([Decimal(1)], ["1"])
    assert not alike(dt.date(2024, 1, 1), Decimal(1))
