"""Values as bytes, so that bytes are equal exactly when the plain data in the values is equal in Python.

The comparison then needs no decoding of hostile data, no `__eq__` of anybody's, and no hash table that could be made
to collide. What is not plain data (objects of ordinary classes, functions of an answer's own), holds NaN, or contains
itself is equal to nothing: `NotPlainData`. Where Python compares by identity (iterators, exceptions, matches), the data
in them counts. Types are known by their names: nothing is imported, and a forged name wins nothing.

Three answers of Python's `==` are deliberately not given: an OrderedDict is compared like any dict, a Counter does not
forget its zeros, and a list does not equal itself when there is a NaN in it. An array of numpy's is a list of its items.
"""

from __future__ import annotations

import math
from _blake2 import blake2b  # hashlib would load OpenSSL into a process that is forked thousands of times
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

MODULE = "answer"
"""What an answer has for `__name__`, and its classes for `__module__`."""

MAX_ITEMS = 10_000
"""Of an iterator; one that yields more has no value."""


class NotPlainData(Exception):
    """The value has no canonical form; the message says why."""


class Parts(NamedTuple):
    """What a value is made of, beside a word that keeps it apart from other kinds."""

    kind: str
    data: tuple[Any, ...]


class Items(list[Any]):
    """What an iterator has given: equal to what any other kind of iterator gives, not to a list."""


def settled(value: Any) -> Any:
    """The value, or the items of an iterator, which can be had only once; NotPlainData where they are too many."""
    if not (hasattr(type(value), "__next__") and hasattr(type(value), "__iter__")):
        return value
    items = Items(islice(value, MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        raise NotPlainData(f"an iterator with more than {MAX_ITEMS} items")
    return items


def _plainer(value: Any) -> Any:
    """Plain data in place of the value, or its `Parts`; raises NotPlainData where it is not data."""
    for kind in type(value).__mro__:
        take = _BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
        if take is not None:
            return take(value)
    if "__dataclass_fields__" in dir(type(value)):  # the name of its class, and what it would compare itself
        fields = [
            field.name
            for field in type(value).__dataclass_fields__.values()
            if field._field_type.name == "_FIELD" and field.compare  # what dataclasses.fields() asks
        ]
        if not fields:
            raise NotPlainData("a dataclass without fields is not plain data")
        return Parts("record", (type(value).__name__, {name: getattr(value, name) for name in fields}))
    items = settled(value)
    if items is value:
        raise NotPlainData(f"a {type(value).__name__} is not plain data")
    return items


def _named(value: Any) -> Parts:
    """A class or a function of a library: known by its name. One of the answer's own is not data, nor is a method."""
    owner = getattr(value, "__objclass__", value)  # of a method of a built-in type, like str.upper
    module, name = owner.__module__, value.__qualname__
    if module in {None, MODULE} or "<" in name:
        raise NotPlainData(f"{name}, of the answer's own, is not plain data")
    return Parts("name", (f"{module}.{name}",))


def _frame(value: Any) -> Parts:
    """A table of pandas; a missing value is None, as it is where pandas compares whole tables."""
    parts = value.astype(object).where(value.notna(), None).to_dict("split")
    return Parts("DataFrame", (parts["index"], parts["columns"], parts["data"]))


def _series(value: Any) -> Parts:
    shown = value.astype(object).where(value.notna(), None)
    return Parts("Series", (list(value.index), shown.tolist()))


def _written(value: Any) -> Parts:
    """What writes itself in full."""
    return Parts("written", (repr(value),))


_BY_NAME: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("builtins.type", "builtins.function", "builtins.builtin_function_or_method"), _named),
    **dict.fromkeys(("builtins.method_descriptor", "builtins.wrapper_descriptor"), _named),
    "builtins.ellipsis": lambda _: Parts("...", ()),
    "builtins.NotImplementedType": lambda _: Parts("NotImplemented", ()),
    "builtins.slice": lambda value: Parts("slice", (value.start, value.stop, value.step)),
    "builtins.dict_values": lambda value: Parts("values", tuple(value)),
    "builtins.mappingproxy": dict,
    "builtins.memoryview": bytes,
    "builtins.BaseException": lambda value: Parts("exception", (type(value).__name__, value.args)),
    "enum.Enum": lambda value: Parts("enum", (type(value).__name__, value._name_, value._value_)),
    "types.SimpleNamespace": lambda value: Parts("namespace", (vars(value),)),
    **dict.fromkeys(("types.GenericAlias", "types.UnionType"), _written),
    **dict.fromkeys(("typing._BaseGenericAlias", "typing._SpecialForm"), _written),
    "collections.ChainMap": dict,
    "collections.UserDict": lambda value: value.data,
    "collections.UserList": lambda value: value.data,
    "collections.UserString": lambda value: value.data,
    "array.array": lambda value: Parts("array", tuple(value.tolist())),
    "pathlib.PureWindowsPath": lambda value: Parts("Windows path", (str(value).lower(),)),
    "pathlib.PurePath": lambda value: Parts("path", (str(value),)),
    "uuid.UUID": lambda value: Parts("UUID", (value.int,)),
    **dict.fromkeys(("ipaddress._BaseAddress", "ipaddress._BaseNetwork"), _written),
    "datetime.timezone": lambda value: Parts("time zone", (value.utcoffset(None),)),
    "zoneinfo.ZoneInfo": lambda value: Parts("time zone", (value.key,)),
    "re.Pattern": lambda value: Parts("pattern", (value.pattern, value.flags)),
    "re.Match": lambda value: Parts("match", (value.string, value.regs)),
    "numpy.generic": lambda value: value.item(),
    "numpy.ndarray": lambda value: value.tolist(),
    "numpy.dtype": lambda value: Parts("dtype", (str(value),)),
    **dict.fromkeys(("pandas.DataFrame", "pandas.core.frame.DataFrame"), _frame),  # the latter up to pandas 2
    **dict.fromkeys(("pandas.Series", "pandas.core.series.Series"), _series),
}


MAX_DEPTH = 200
MAX_SHORT = 64
"""Longer canonical forms are sent as their digest."""

_MAX_DECIMAL_EXPONENT = 10_000  # as a fraction, Decimal("1e999999999") would fill the memory


def fingerprint(value: Any) -> bytes:
    """The canonical form of `value`, or its digest where that is long; NotPlainData: it is equal to nothing."""
    form = _encode(value, 0)
    return form if len(form) <= MAX_SHORT else b"#" + blake2b(form, digest_size=32).digest()


def _encode(value: Any, depth: int) -> bytes:
    """One form for all values that compare equal: 1, 1.0 and True; set and frozenset; dicts in any order.

    Subclasses count as the plain data in them, read by the base type's own methods.
    """
    if depth > MAX_DEPTH:
        raise NotPlainData("nested too deeply")
    encode = _ENCODERS.get(type(value))  # nearly always, and this runs for every item of every value
    if encode is not None:
        return encode(value, depth + 1)
    for kind in type(value).__mro__:
        encode = _ENCODERS.get(kind)
        if encode is not None:
            return encode(value, depth + 1)
        by_name = _ENCODERS_BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
        if by_name is not None:
            return by_name(kind, value, depth + 1)
    return _encode(_plainer(value), depth + 1)


def _joined(tag: bytes, parts: list[bytes]) -> bytes:
    return tag + b"%d:" % len(parts) + b"".join([b"%d:%b" % (len(part), part) for part in parts])


def _ratio(numerator: int, denominator: int) -> bytes:
    """A rational number in lowest terms; whatever its type, the same value has the same form."""
    return b"i%x" % numerator if denominator == 1 else b"f%x/%x" % (numerator, denominator)


def _float(value: Any, _: int = 0) -> bytes:
    number = float.__float__(value)
    if math.isnan(number):
        raise NotPlainData("NaN is equal to nothing")
    if math.isinf(number):
        return b"inf" if number > 0 else b"-inf"
    return _ratio(*number.as_integer_ratio())


def _complex(value: Any, _: int) -> bytes:
    number = complex.__complex__(value)
    real = _float(number.real)
    return real if number.imag == 0 else _joined(b"c", [real, _float(number.imag)])


def _dict(value: Any, depth: int) -> bytes:
    items = [_joined(b"", [_encode(k, depth), _encode(v, depth)]) for k, v in dict.items(value)]
    return _joined(b"d", sorted(items))


def _range(value: range, _: int) -> bytes:
    """Ranges are equal when they hold the same numbers."""
    if not value:
        return b"r"
    first, last = value[0], value[-1]
    return b"r%d" % first if first == last else b"r%d,%d,%d" % (first, last, value.step)


def _decimal(kind: Any, value: Any, _: int) -> bytes:
    if kind.is_nan(value):
        raise NotPlainData("NaN is equal to nothing")
    if kind.is_infinite(value):
        return b"-inf" if kind.is_signed(value) else b"inf"
    if abs(kind.adjusted(value)) > _MAX_DECIMAL_EXPONENT:
        raise NotPlainData("a Decimal with too large an exponent")
    return _ratio(*kind.as_integer_ratio(value))


DATE, CLOCK = ("year", "month", "day"), ("hour", "minute", "second", "microsecond")


def read(kind: Any, value: Any, *names: str) -> list[int]:
    """Fields as the base type has them: a subclass written in C may fail where its methods are called so."""
    return [getattr(kind, name).__get__(value) for name in names]


def _datetime(kind: Any, value: Any, _: int) -> bytes:
    """With a time zone: the moment. Without: what the calendar and the clock show."""
    shown = kind(*read(kind, value, *DATE, *CLOCK))
    zone, passed = kind.tzinfo.__get__(value), shown - kind(1, 1, 1)
    offset = zone and shown.replace(tzinfo=zone, fold=kind.fold.__get__(value)).utcoffset()
    tag, passed = (b"D", passed) if offset is None else (b"Z", passed - offset)
    return tag + b"%d,%d,%d" % (passed.days, passed.seconds, passed.microseconds)


def _time(kind: Any, value: Any, _: int) -> bytes:
    hour, minute, second, microsecond = read(kind, value, *CLOCK)
    seconds, offset = (hour * 60 + minute) * 60 + second, kind.utcoffset(value)
    if offset is None:
        return b"O%d,%d" % (seconds, microsecond)
    return b"U%d,%d" % (seconds - offset.days * 86400 - offset.seconds, microsecond)


def _timedelta(kind: Any, value: Any, _: int) -> bytes:
    span = kind(*read(kind, value, "days", "seconds", "microseconds"))
    return b"T%d,%d,%d" % (span.days, span.seconds, span.microseconds)


def _timestamp(kind: Any, value: Any, depth: int) -> bytes:
    """Of pandas: a datetime, or a timedelta, and nanoseconds."""
    base = next(one for one in kind.__mro__ if one.__module__ == "datetime")
    encode, more = (_timedelta, "nanoseconds") if base.__name__ == "timedelta" else (_datetime, "nanosecond")
    form, nanoseconds = encode(base, value, depth), getattr(kind, more).__get__(value)
    return form + b"+%d" % nanoseconds if nanoseconds else form


def _missing(*_: Any) -> bytes:
    raise NotPlainData("NaT is equal to nothing")


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    type(None): lambda *_: b"N",
    str: lambda value, _: b"s" + str.encode(value, "utf-8", "surrogatepass"),
    **dict.fromkeys((int, bool), lambda value, _: b"i%x" % int.__index__(value)),
    float: _float,
    list: lambda value, depth: _joined(b"l", [_encode(item, depth) for item in list.__iter__(value)]),
    dict: _dict,
    tuple: lambda value, depth: _joined(b"t", [_encode(item, depth) for item in tuple.__iter__(value)]),
    set: lambda value, depth: _joined(b"S", sorted([_encode(item, depth) for item in set.__iter__(value)])),
    frozenset: lambda value, depth: _joined(
        b"S", sorted([_encode(item, depth) for item in frozenset.__iter__(value)])
    ),
    **dict.fromkeys((bytes, bytearray), lambda value, _: b"b" + bytes(memoryview(value))),
    complex: _complex,
    range: _range,
    **dict.fromkeys(
        (type({}.keys()), type({}.items())),
        lambda value, depth: _joined(b"S", sorted([_encode(item, depth) for item in value])),
    ),
    Items: lambda value, depth: _joined(b"g", [_encode(item, depth) for item in list.__iter__(value)]),
    Parts: lambda value, depth: _joined(
        b"k" + value.kind.encode(), [_encode(item, depth) for item in value.data]
    ),
}

_ENCODERS_BY_NAME: dict[str, Callable[[Any, Any, int], bytes]] = {  # nothing of these is imported here
    "decimal.Decimal": _decimal,
    "fractions.Fraction": lambda kind, value, _: _ratio(*kind.as_integer_ratio(value)),
    "pandas._libs.tslibs.nattype._NaT": _missing,
    "pandas._libs.tslibs.timestamps._Timestamp": _timestamp,
    "pandas._libs.tslibs.timedeltas._Timedelta": _timestamp,
    "datetime.datetime": _datetime,
    "datetime.date": lambda kind, value, _: b"A%d" % kind(*read(kind, value, *DATE)).toordinal(),
    "datetime.time": _time,
    "datetime.timedelta": _timedelta,
    "collections.deque": lambda kind, value, depth: _joined(
        b"q", [_encode(item, depth) for item in kind.__iter__(value)]
    ),
}


OBJECT, MADE = "_object_", "_made_"
"""Words of `Parts` that cross: an object of an answer's class; what a library makes of some arguments."""

MAX_TEXT = 1 << 20
"""Of a value that is compared outside; a longer one has none."""

CUT = "…"
"""The end of a text that was too long; no complete text ends so."""

_MAX_DECIMAL_BITS = 13_000
"""An integer with more is written in hexadecimal, since Python refuses to write it in decimal."""


def literal(value: Any, limit: int = 2000) -> str:
    """The text of a value that has a fingerprint, the same on every run; at most `limit` characters."""
    text = _text(value, limit)
    return text if len(text) <= limit else text[: limit - 1] + CUT


def _text(value: Any, limit: int) -> str:
    """The text, or more of it than `limit` characters."""
    if type(value) is str:  # the most frequent ones first: this runs for every test of every answer
        return repr(value[: limit + 1])
    kinds = type(value).__mro__
    if type(value) is Parts and value.kind == OBJECT:
        return f"{OBJECT}({value.data[0]!r}, {_text(value.data[1], limit)})"
    if type(value) is Parts and value.kind == MADE:
        return _listed(f"{value.data[0]}(", value.data[1:], ")", limit)
    if value is None or bool in kinds:
        return repr(value)
    if int in kinds:
        number = int.__index__(value)
        return repr(number) if number.bit_length() < _MAX_DECIMAL_BITS else hex(number)
    if float in kinds:
        return repr(float.__float__(value)).replace("inf", "1e999")
    if type(value) is Items:
        return _listed("iter([", list.__iter__(value), "])", limit)
    if list in kinds:
        return _listed("[", list.__iter__(value), "]", limit)
    if tuple in kinds:
        closing = ",)" if tuple.__len__(value) == 1 else ")"
        return _listed("(", tuple.__iter__(value), closing, limit)
    if dict in kinds:
        return _listed("{", dict.items(value), "}", limit, pairs=True)
    if not _SETS.isdisjoint(kinds):  # by their text: hashes are not the same everywhere
        items = ", ".join(sorted(literal(item, limit) for item in value))
        text = f"{{{items}}}" if items else ""
        return text if items and frozenset not in kinds else f"{'frozen' * (frozenset in kinds)}set({text})"
    if type(value).__qualname__ == "deque":
        return _listed("deque([", value, "])", limit)
    if complex in kinds:
        pair = complex.__complex__(value)
        return f"complex({_text(pair.real, limit)}, {_text(pair.imag, limit)})"
    if bytearray in kinds:
        return repr(bytes(memoryview(value)[: limit + 1]))
    for kind in (str, bytes, range):
        if kind in kinds:
            return kind.__repr__(value if kind is range else value[: limit + 1])
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    if not names.isdisjoint({"numpy.generic", "numpy.ndarray"}):
        return literal(value.tolist(), limit)
    if type in kinds and value.__module__ == "builtins":
        return str(value.__qualname__)
    if not names.isdisjoint({"decimal.Decimal", "fractions.Fraction"}):
        with suppress(OverflowError):
            short = float(value)
            if short == value:
                return literal(int(short) if short.is_integer() else short, limit)
    return repr(value)


def _listed(opening: str, items: Iterable[Any], closing: str, limit: int, *, pairs: bool = False) -> str:
    found, size = [], 0
    for item in items:
        text = f"{_text(item[0], limit)}: {_text(item[1], limit)}" if pairs else _text(item, limit)
        found.append(text)
        size += len(text) + 2
        if size > limit:
            break
    return opening + ", ".join(found) + closing


_SETS = frozenset({set, frozenset, type({}.keys()), type({}.items())})
