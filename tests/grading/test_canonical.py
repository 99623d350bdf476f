"""Fingerprints are equal exactly when Python says that the values are; literals evaluate to equal values."""

import ast
import collections
import datetime as dt
import enum
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.grading.sandbox.guest.values import MAX_SHORT, NotPlainData, fingerprint
from sweet_rl.grading.sandbox.guest.wire import CUT, literal

UNHURRIED = settings(deadline=None)  # a busy machine is no failure
ZONES = st.integers(-12, 12).map(lambda hours: dt.timezone(dt.timedelta(hours=hours))) | st.none()
SMALL = st.integers(-2, 2)
NUMBERS = st.one_of(
    st.booleans(),
    SMALL,
    st.integers(),
    SMALL.map(float),
    st.floats(allow_nan=False),
    SMALL.map(Decimal),
    st.decimals(allow_nan=False, min_value=-(10**20), max_value=10**20),
    st.sampled_from([Decimal("inf"), Decimal("-inf"), Decimal("-0"), Decimal("1E+3"), Decimal("0.10")]),
    st.fractions(max_denominator=8),
    SMALL.map(complex),
    st.complex_numbers(allow_nan=False),
)
MOMENTS = st.one_of(
    st.datetimes(timezones=st.none() | ZONES),
    st.dates(),
    st.times(timezones=ZONES),
    st.timedeltas(),
)
HASHABLE_LEAVES = st.one_of(
    st.none(),
    NUMBERS,
    st.sampled_from(["", "a", "1", "b'a'", "i1", "\ud800"]),
    st.text(max_size=4),
    st.binary(max_size=2),
    st.builds(range, SMALL, SMALL, st.sampled_from([-2, -1, 1, 2])),
    MOMENTS,
)
HASHABLE = st.recursive(
    HASHABLE_LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)


def _containers(inner):
    dicts = st.dictionaries(HASHABLE, inner, max_size=3)
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(collections.deque),
        st.sets(HASHABLE, max_size=3),
        dicts,
        dicts.map(dict.keys),
        st.dictionaries(HASHABLE, HASHABLE, max_size=3).map(dict.items),
        st.binary(max_size=2).map(bytearray),
    )


VALUES = st.recursive(HASHABLE, _containers, max_leaves=8)
EVALUATED_WITH = {
    "datetime": dt,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "deque": collections.deque,
}


class Words(list):
    """A list with everything that a hostile subclass could lie about."""

    def __iter__(self):
        return iter(["lie"])

    def __len__(self):
        return 99

    def __eq__(self, other):
        return True

    __hash__ = None


class Whole(int):
    def __index__(self):
        return 7

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


Pair = collections.namedtuple("Pair", "a b")


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Anything:
    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


def test_equal_values_of_other_types_have_equal_fingerprints():
    families = [
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
        [
            dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC),
            dt.datetime(2020, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        ],
        [dt.time(12, tzinfo=dt.UTC), dt.time(13, tzinfo=dt.timezone(dt.timedelta(hours=1)))],
    ]
    for family in families:
        assert len({fingerprint(value) for value in family}) == 1, family
    assert len({fingerprint(family[0]) for family in families}) == len(families)


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
@given(st.lists(VALUES, min_size=2, max_size=5))
def test_fingerprints_are_equal_exactly_when_values_are(values):
    for value in values:
        assert fingerprint(value) == fingerprint(value)
        for other in values:
            assert (fingerprint(value) == fingerprint(other)) == bool(value == other), (value, other)


@UNHURRIED
@given(st.lists(NUMBERS, min_size=2, max_size=6))
def test_numbers_compare_across_types(values):
    for value in values:
        for other in values:
            assert (fingerprint(value) == fingerprint(other)) == bool(value == other), (value, other)


@UNHURRIED
@given(VALUES)
def test_fingerprints_are_short(value):
    assert len(fingerprint(value)) <= MAX_SHORT


def _with_itself_inside():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), [1, math.nan], {"a": {math.nan}}, {math.nan: 1}, complex(0, math.nan), Decimal("nan"),
        Decimal("snan"), Decimal("1e999999999"), object(), Anything(), [Anything()], lambda: 1, [].append,
        itertools.count(), (x for x in [math.nan]), _with_itself_inside(),
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


def test_literals_need_no_import_where_a_number_has_one():
    assert literal([Decimal("1.50"), Fraction(4, 2), Decimal("1E+3")]) == "[1.5, 2, 1000]"
    assert literal(Decimal("0.1")) == "Decimal('0.1')"
    assert literal(10**5000).startswith("0x")
    assert literal({"b", "a"}) == "{'a', 'b'}"


@pytest.mark.parametrize(
    "value",
    [list(range(10**4)), "x" * 10**4, {n: n for n in range(10**4)}, 10**10**4, set(range(10**4))],
    ids=["list", "str", "dict", "int", "set"],
)
def test_long_literals_are_cut(value):
    text = literal(value, limit=50)
    assert len(text) == 50
    assert text.endswith(CUT)
