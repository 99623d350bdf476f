"""Values as bytes, so that bytes are equal exactly when the plain data in the values is equal in Python.

The comparison then needs no decoding of hostile data, no `__eq__` of anybody's, and no hash table that could
be made to collide. What is not plain data (objects, functions, generators), holds NaN, or contains itself is
equal to nothing: `NotPlainData`.
"""

from __future__ import annotations

import math
from _blake2 import blake2b  # hashlib would load OpenSSL into a process that is forked thousands of times
from typing import Any

MAX_DEPTH = 200
MAX_SHORT = 64
"""Longer canonical forms are sent as their digest."""


class NotPlainData(Exception):  # noqa: N818 - a verdict, not an error
    """The value has no canonical form; the message says why."""


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
    if value is None:
        return b"N"
    kinds = type(value).__mro__
    for kind, encode in _ENCODERS:
        if kind in kinds:
            return encode(value, depth + 1)
    return _encode_other(value, kinds, depth)


def _pack(tag: bytes, parts: list[bytes]) -> bytes:
    return tag + b"%d:" % len(parts) + b"".join(b"%d:" % len(part) + part for part in parts)


def _encode_int(value: Any, _: int) -> bytes:
    return b"i%x" % int.__index__(value)


def _encode_float(value: Any, _: int) -> bytes:
    number = float.__float__(value)
    if math.isnan(number):
        raise NotPlainData("NaN is equal to nothing")
    if math.isinf(number):
        return b"inf" if number > 0 else b"-inf"
    return b"i%x" % int(number) if number.is_integer() else b"f" + number.hex().encode()


def _encode_complex(value: Any, depth: int) -> bytes:
    real, imaginary = complex.__complex__(value).real, complex.__complex__(value).imag
    if imaginary == 0:
        return _encode_float(real, depth)
    return _pack(b"c", [_encode_float(real, depth), _encode_float(imaginary, depth)])


def _encode_str(value: Any, _: int) -> bytes:
    return b"s" + str.encode(value, "utf-8", "surrogatepass")


def _encode_bytes(value: Any, _: int) -> bytes:
    return b"b" + bytes(memoryview(value))


def _encode_list(value: Any, depth: int) -> bytes:
    return _pack(b"l", [_encode(item, depth) for item in list.__iter__(value)])


def _encode_tuple(value: Any, depth: int) -> bytes:
    return _pack(b"t", [_encode(item, depth) for item in tuple.__iter__(value)])


def _encode_set(value: Any, depth: int) -> bytes:
    return _pack(b"S", sorted(_encode(item, depth) for item in type(value).__iter__(value)))


def _encode_dict(value: Any, depth: int) -> bytes:
    items = [_pack(b"", [_encode(k, depth), _encode(v, depth)]) for k, v in dict.items(value)]
    return _pack(b"d", sorted(items))


def _encode_range(value: range, _: int) -> bytes:
    step = value.step if len(value) > 1 else 1
    return b"r%d,%d,%d" % (len(value), value.start if len(value) else 0, step)


_ENCODERS: tuple[tuple[type, Any], ...] = (
    (str, _encode_str),
    (int, _encode_int),
    (float, _encode_float),
    (list, _encode_list),
    (dict, _encode_dict),
    (tuple, _encode_tuple),
    (set, _encode_set),
    (frozenset, _encode_set),
    (bytes, _encode_bytes),
    (bytearray, _encode_bytes),
    (complex, _encode_complex),
    (range, _encode_range),
    (type({}.keys()), _encode_set),
    (type({}.items()), _encode_set),
)


def _encode_other(value: Any, kinds: tuple[type, ...], depth: int) -> bytes:
    """Value types of the standard library and numpy's scalars, recognised by name: nothing is imported here."""
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    if "decimal.Decimal" in names or "fractions.Fraction" in names:
        return _encode_ratio(value, depth)
    if "datetime.datetime" in names:
        offset = value.utcoffset()
        moment = value.replace(tzinfo=None) - offset if offset is not None else value.replace(fold=0)
        return (b"D" if offset is None else b"Z") + moment.isoformat().encode()
    if "datetime.date" in names:
        return b"A" + value.isoformat().encode()
    if "datetime.time" in names:
        return b"O" + value.isoformat().encode()
    if "datetime.timedelta" in names:
        return b"T%d,%d,%d" % (value.days, value.seconds, value.microseconds)
    if "collections.deque" in names:
        return _pack(b"q", [_encode(item, depth + 1) for item in value])
    if "numpy.generic" in names:
        return _encode(value.item(), depth + 1)
    raise NotPlainData(f"a {type(value).__name__} is not plain data")


def _encode_ratio(value: Any, depth: int) -> bytes:
    """Decimal and Fraction, equal to the int or float of the same exact value."""
    try:
        numerator, denominator = value.as_integer_ratio()
    except (ValueError, OverflowError):
        return _encode_float(float(value), depth)
    if denominator == 1:
        return b"i%x" % numerator
    try:
        nearest = numerator / denominator
    except OverflowError:
        nearest = 0.0
    if nearest.as_integer_ratio() == (numerator, denominator):
        return _encode_float(nearest, depth)
    return b"f%x/%x" % (numerator, denominator)


def literal(value: Any, limit: int = 2000) -> str:
    """Python source of a value that has a fingerprint, the same on every run; longer ones are cut with `…`."""
    text = _write(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _write(value: Any) -> str:
    kinds = type(value).__mro__
    if value is None or bool in kinds:
        return repr(value)
    if str in kinds:
        return str.__repr__(value)
    if int in kinds:
        number = int.__index__(value)
        return repr(number) if abs(number) < 10**4000 else hex(number)
    if float in kinds:
        number = float.__float__(value)
        return repr(number) if math.isfinite(number) else f"float('{number}')"
    if list in kinds:
        return "[" + ", ".join(map(_write, list.__iter__(value))) + "]"
    if tuple in kinds:
        inner = ", ".join(map(_write, tuple.__iter__(value)))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if dict in kinds:
        return "{" + ", ".join(f"{_write(k)}: {_write(v)}" for k, v in dict.items(value)) + "}"
    if set in kinds or frozenset in kinds:
        inner = "{" + ", ".join(sorted(map(_write, type(value).__iter__(value)))) + "}"
        name = "frozenset" if frozenset in kinds else "set"
        if not len(value):
            return f"{name}()"
        return inner if name == "set" else f"frozenset({inner})"
    return repr(value)
