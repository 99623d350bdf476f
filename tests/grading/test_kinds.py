"""Values of less usual types: types, arrays, iterators, records; which of them are the same data, which are not."""

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

import pytest

from sweet_rl.grading.code import CodeGrader
from sweet_rl.grading.sandbox import Sandbox
from sweet_rl.grading.sandbox.guest.values import NotPlainData, fingerprint
from sweet_rl.grading.sandbox.guest.wire import literal
from sweet_rl.types import Task, Trajectory


@dataclasses.dataclass
class Point:
    x: int
    y: float
    seen: int = dataclasses.field(default=0, compare=False)


Other = dataclasses.make_dataclass("Other", ["x", "y"])
Empty = dataclasses.make_dataclass("Empty", [])
Colour = enum.Enum("Colour", {"RED": 1, "GREEN": 2})
Shade = enum.Enum("Shade", {"RED": 1})


def _point_of_somebody_else():
    return dataclasses.make_dataclass("Point", ["y", "x"])(2, 1)


FAMILIES = [
    [int],
    [bool],
    [type(None)],
    [dict.get],
    [str.upper],
    [len],
    [math.sqrt],
    [collections.OrderedDict],
    [re.escape],
    [...],
    [NotImplemented],
    [list[int]],
    [list[int] | None],
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
    [Colour.RED],
    [Colour.GREEN],
    [Shade.RED],
    [Point(1, 2.0), Point(1, 2, seen=9), _point_of_somebody_else()],
    [Point(2, 2.0)],
    [Other(1, 2.0)],
    [types.SimpleNamespace(x=1, y=2), types.SimpleNamespace(y=2, x=1)],
    [pathlib.Path("a/b"), pathlib.PurePosixPath("a//b")],
    ["a/b"],
    [pathlib.PureWindowsPath("a/b"), pathlib.PureWindowsPath("A\\B")],
    [uuid.UUID(int=7)],
    [7],
    [ipaddress.ip_address("10.0.0.1")],
    [ipaddress.ip_network("10.0.0.1")],
    [dt.UTC, dt.timezone(dt.timedelta(0))],
    [re.compile("a+")],
    [re.compile("a+", re.IGNORECASE)],
    [re.match("a(b)", "abc"), re.search("(?:a)(b)", "abc")],
    [re.match("(a)b", "abc")],
]  # fmt: skip


def test_the_same_data_and_no_other():
    prints = [{fingerprint(value) for value in family} for family in FAMILIES]
    assert [len(found) for found in prints] == [1] * len(FAMILIES)
    assert len(set.union(*prints)) == len(FAMILIES)


@pytest.mark.parametrize(
    "value",
    [
        Empty(), (lambda: 1), test_the_same_data_and_no_other.__get__(1), itertools.count(), (n for n in [math.nan]),
        Point(1, math.nan), type("Thing", (), {"__module__": "answer"}), object(), print.__call__,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_data(value):
    with pytest.raises(NotPlainData):
        fingerprint(value)


def test_numpy_scalars_are_numbers_and_arrays_are_lists():
    numpy = pytest.importorskip("numpy")
    assert fingerprint(numpy.int64(3)) == fingerprint(numpy.float32(3)) == fingerprint(3)
    assert fingerprint([numpy.bool_(True), numpy.float64(0.5)]) == fingerprint([1, 0.5])
    assert fingerprint(numpy.str_("a")) == fingerprint("a")
    assert fingerprint(numpy.array(5)) == fingerprint(5)
    assert fingerprint(numpy.array([[1, 2], [3, 4.0]])) == fingerprint([[1, 2], [3, 4]])
    assert fingerprint((numpy.array([]), numpy.zeros((2, 0)))) == fingerprint(([], [[], []]))
    assert fingerprint(numpy.int64) != fingerprint(numpy.int32)
    assert fingerprint(numpy.dtype("int64")) == fingerprint(numpy.array([1]).dtype)
    assert literal([numpy.int64(3), numpy.float64(0.5), numpy.bool_(True)]) == "[3, 0.5, True]"
    assert literal(numpy.array([[1, 2]])) == "[[1, 2]]"
    for value in (numpy.array([1, math.nan]), numpy.float64("nan"), numpy.longdouble("nan")):
        with pytest.raises(NotPlainData):
            fingerprint(value)


def test_tables_of_pandas_are_data():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, None], "b": ["x", "y"]})
    assert fingerprint(table) == fingerprint(table.copy())
    assert fingerprint(table) != fingerprint(table[["b", "a"]])
    assert fingerprint(table["a"]) == fingerprint(pandas.Series([1, None]))


RETURNED = {
    "a type": "type(x)",
    "types in a dict": "{'int': int, 'x': type(x).__mro__}",
    "Ellipsis": "(x, ...)",
    "a dataclass": "__import__('dataclasses').make_dataclass('P', ['a'])(x)",
    "an iterator": "(n for n in range(x))",
    "a path": "__import__('pathlib').Path('a') / str(x)",
    "an exception": "ValueError(x)",
    "an array": "__import__('array').array('i', [x])",
}


@pytest.mark.parametrize("way", ["a reference meets itself", "another value does not"])
def test_odd_values_in_the_sandbox(way):
    meets = way == "a reference meets itself"
    answers = []
    for name, expression in RETURNED.items():
        code = f"def f(x):\n    return {expression}\n"
        task = Task(name, "", code, code, {"test1": "f(2)"}, {})
        answers.append(Trajectory(task, (), code if meets else "def f(x):\n    return iter([9])\n"))
    with Sandbox(workers=1) as sandbox:
        scores = list(CodeGrader(sandbox).grade(answers))
    assert [score.value for score in scores] == [float(meets)] * len(RETURNED), [s.tests for s in scores]
