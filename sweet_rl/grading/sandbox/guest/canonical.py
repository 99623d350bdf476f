"""Values as bytes, so that bytes are equal exactly when the plain data in the values is equal in Python.

The comparison then needs no decoding of hostile data, no `__eq__` of anybody's, and no hash table that could
be made to collide. What is not plain data (objects, functions of an answer's own), holds NaN, or contains
itself is equal to nothing: `NotPlainData`. What else counts as data, `kinds` says.

Three answers of Python's `==` are deliberately not given: an OrderedDict is compared like any dict, a Counter
does not forget its zeros, and a list does not equal itself when there is a NaN in it. An array of numpy's is
the list of its items, nested as it is.
"""

from __future__ import annotations

import math
from _blake2 import blake2b  # hashlib would load OpenSSL into a process that is forked thousands of times
from collections.abc import Callable
from typing import Any

from .kinds import Items, NotPlainData, Parts, plainer

MAX_DEPTH = 200
MAX_SHORT = 64
"""Longer canonical forms are sent as their digest."""

_MAX_DECIMAL_EXPONENT = 10_000  # as a fraction, Decimal("1e999999999") would fill the memory


def fingerprint(value: Any) -> bytes:
    """The canonical form of `value`, or its digest where that is long.

    Raises:
        NotPlainData: the value is equal to nothing.
    """
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
    return _encode(plainer(value), depth + 1)


def _pack(tag: bytes, parts: list[bytes]) -> bytes:
    return tag + b"%d:" % len(parts) + b"".join([b"%d:%b" % (len(part), part) for part in parts])


def _encode_none(_: None, __: int) -> bytes:
    return b"N"


def _encode_int(value: Any, _: int) -> bytes:
    return b"i%x" % int.__index__(value)


def _encode_ratio(numerator: int, denominator: int) -> bytes:
    """A rational number in lowest terms; whatever its type, the same value has the same form."""
    return b"i%x" % numerator if denominator == 1 else b"f%x/%x" % (numerator, denominator)


def _encode_float(value: Any, _: int) -> bytes:
    number = float.__float__(value)
    if math.isnan(number):
        raise NotPlainData("NaN is equal to nothing")
    if math.isinf(number):
        return b"inf" if number > 0 else b"-inf"
    return _encode_ratio(*number.as_integer_ratio())


def _encode_complex(value: Any, depth: int) -> bytes:
    number = complex.__complex__(value)
    real = _encode_float(number.real, depth)
    return real if number.imag == 0 else _pack(b"c", [real, _encode_float(number.imag, depth)])


def _encode_str(value: Any, _: int) -> bytes:
    return b"s" + str.encode(value, "utf-8", "surrogatepass")


def _encode_bytes(value: Any, _: int) -> bytes:
    return b"b" + bytes(memoryview(value))


def _encode_list(value: Any, depth: int) -> bytes:
    return _pack(b"l", [_encode(item, depth) for item in list.__iter__(value)])


def _encode_tuple(value: Any, depth: int) -> bytes:
    return _pack(b"t", [_encode(item, depth) for item in tuple.__iter__(value)])


def _encode_set(value: Any, depth: int) -> bytes:
    return _pack(b"S", sorted(_encode(item, depth) for item in set.__iter__(value)))


def _encode_frozenset(value: Any, depth: int) -> bytes:
    return _pack(b"S", sorted(_encode(item, depth) for item in frozenset.__iter__(value)))


def _encode_view(value: Any, depth: int) -> bytes:
    """The keys or the items of a dict: a set."""
    return _pack(b"S", sorted(_encode(item, depth) for item in value))


def _encode_dict(value: Any, depth: int) -> bytes:
    items = [_pack(b"", [_encode(k, depth), _encode(v, depth)]) for k, v in dict.items(value)]
    return _pack(b"d", sorted(items))


def _encode_range(value: range, _: int) -> bytes:
    """Ranges are equal when they hold the same numbers."""
    if not value:
        return b"r"
    first, last = value[0], value[-1]
    return b"r%d" % first if first == last else b"r%d,%d,%d" % (first, last, value.step)


def _encode_decimal(kind: Any, value: Any, depth: int) -> bytes:
    if kind.is_nan(value):
        raise NotPlainData("NaN is equal to nothing")
    if kind.is_infinite(value):
        return _encode_float(float("-inf") if kind.is_signed(value) else float("inf"), depth)
    if abs(kind.adjusted(value)) > _MAX_DECIMAL_EXPONENT:
        raise NotPlainData("a Decimal with too large an exponent")
    return _encode_ratio(*kind.as_integer_ratio(value))


def _encode_fraction(kind: Any, value: Any, _: int) -> bytes:
    return _encode_ratio(*kind.as_integer_ratio(value))


_DATE, _CLOCK = ("year", "month", "day"), ("hour", "minute", "second", "microsecond")


def _read(kind: Any, value: Any, *names: str) -> list[int]:
    """Fields as the base type has them: a subclass written in C may fail where its methods are called so."""
    return [getattr(kind, name).__get__(value) for name in names]


def _encode_datetime(kind: Any, value: Any, _: int) -> bytes:
    """With a time zone: the moment. Without: what the calendar and the clock show."""
    shown = kind(*_read(kind, value, *_DATE, *_CLOCK))
    zone, passed = kind.tzinfo.__get__(value), shown - kind(1, 1, 1)
    offset = zone and shown.replace(tzinfo=zone, fold=kind.fold.__get__(value)).utcoffset()
    return b"D" + _timedelta_text(passed) if offset is None else b"Z" + _timedelta_text(passed - offset)


def _encode_date(kind: Any, value: Any, _: int) -> bytes:
    return b"A%d" % kind(*_read(kind, value, *_DATE)).toordinal()


def _encode_time(kind: Any, value: Any, _: int) -> bytes:
    hour, minute, second, microsecond = _read(kind, value, *_CLOCK)
    seconds, offset = (hour * 60 + minute) * 60 + second, kind.utcoffset(value)
    if offset is None:
        return b"O%d,%d" % (seconds, microsecond)
    return b"U%d,%d" % (seconds - offset.days * 86400 - offset.seconds, microsecond)


def _encode_timedelta(kind: Any, value: Any, _: int) -> bytes:
    return b"T" + _timedelta_text(kind(*_read(kind, value, "days", "seconds", "microseconds")))


def _encode_timestamp(kind: Any, value: Any, depth: int) -> bytes:
    """Of pandas: a datetime, or a timedelta, and nanoseconds."""
    base = next(one for one in kind.__mro__ if one.__module__ == "datetime")
    if base.__name__ == "timedelta":
        form, nanoseconds = _encode_timedelta(base, value, depth), kind.nanoseconds.__get__(value)
    else:
        form, nanoseconds = _encode_datetime(base, value, depth), kind.nanosecond.__get__(value)
    return form + b"+%d" % nanoseconds if nanoseconds else form


def _encode_missing(*_: Any) -> bytes:
    raise NotPlainData("NaT is equal to nothing")


def _timedelta_text(value: Any) -> bytes:
    return b"%d,%d,%d" % (value.days, value.seconds, value.microseconds)


def _encode_deque(kind: Any, value: Any, depth: int) -> bytes:
    return _pack(b"q", [_encode(item, depth) for item in kind.__iter__(value)])


def _encode_items(value: Any, depth: int) -> bytes:
    return _pack(b"g", [_encode(item, depth) for item in list.__iter__(value)])


def _encode_parts(value: Parts, depth: int) -> bytes:
    return _pack(b"k" + value.kind.encode(), [_encode(part, depth) for part in value.data])


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    type(None): _encode_none,
    str: _encode_str,
    int: _encode_int,
    bool: _encode_int,
    float: _encode_float,
    list: _encode_list,
    dict: _encode_dict,
    tuple: _encode_tuple,
    set: _encode_set,
    frozenset: _encode_frozenset,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    complex: _encode_complex,
    range: _encode_range,
    type({}.keys()): _encode_view,
    type({}.items()): _encode_view,
    Items: _encode_items,
    Parts: _encode_parts,
}

_ENCODERS_BY_NAME: dict[str, Callable[[Any, Any, int], bytes]] = {  # nothing of these is imported here
    "decimal.Decimal": _encode_decimal,
    "fractions.Fraction": _encode_fraction,
    "pandas._libs.tslibs.nattype._NaT": _encode_missing,
    "pandas._libs.tslibs.timestamps._Timestamp": _encode_timestamp,
    "pandas._libs.tslibs.timedeltas._Timedelta": _encode_timestamp,
    "datetime.datetime": _encode_datetime,
    "datetime.date": _encode_date,
    "datetime.time": _encode_time,
    "datetime.timedelta": _encode_timedelta,
    "collections.deque": _encode_deque,
}
