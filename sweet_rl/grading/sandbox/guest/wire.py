"""Plain data as text, with types, for tests that are compared outside the sandbox.

The text is JSON, in which a list begins with a word for its type. It is read where no answer runs, into
objects of built-in types and of a few of the standard library; reading runs no code of its writer's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .kinds import Items, NotPlainData, settled

MAX_TEXT = 1 << 20

_SMALL = 1 << 53


def pack(value: Any) -> str:
    """The text of plain data; a subclass counts by its base, read through the base's methods.

    Raises:
        NotPlainData: there is no plain data in it, not only, or too much.
    """
    text = _written(_tree(value))
    if len(text) > MAX_TEXT:
        raise NotPlainData("more data than a comparison is made of")
    return text


def unpack(text: str) -> Any:
    """The data again.

    Raises:
        Exception: the text is not what `pack` writes.
    """
    import json  # seldom needed, and every page that a worker has costs time

    return _value(json.loads(text))


def _written(tree: Any) -> str:
    """JSON, without loading the package for it beside an answer: that would take as long as the answer."""
    from _json import encode_basestring_ascii as quoted  # likewise

    if type(tree) is str:
        return quoted(tree)
    if type(tree) is list:
        return f"[{','.join(map(_written, tree))}]"
    return "null" if tree is None else str(tree).lower()


def _tree(value: Any) -> Any:
    value = settled(value)
    for kind in type(value).__mro__:
        write = _WRITERS.get(kind)
        if write is not None:
            return write(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in _BY_NAME:
            return [name, *_BY_NAME[name](value)]
        if name in {"numpy.generic", "numpy.ndarray"}:
            return _tree(value.tolist())
    raise NotPlainData(f"a {type(value).__name__} cannot be compared outside")


def _many(word: str, items: Any) -> list[Any]:
    return [word, *[_tree(item) for item in items]]


_WRITERS: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: lambda value: (
        int(value) if -_SMALL < int.__int__(value) < _SMALL else ["int", hex(int.__int__(value))]
    ),
    float: lambda value: ["float", float.hex(value)],
    complex: lambda value: ["complex", *_parts(complex.__complex__(value))],
    str: str.__str__,
    bytes: lambda value: ["bytes", bytes(memoryview(value)).hex()],
    bytearray: lambda value: ["bytearray", bytes(memoryview(value)).hex()],
    Items: lambda value: _many("iterator", list.__iter__(value)),
    list: lambda value: _many("list", list.__iter__(value)),
    tuple: lambda value: _many("tuple", tuple.__iter__(value)),
    set: lambda value: _many("set", set.__iter__(value)),
    frozenset: lambda value: _many("frozenset", frozenset.__iter__(value)),
    dict: lambda value: _many("dict", [part for pair in dict.items(value) for part in pair]),
    type({}.keys()): lambda value: _many("set", value),
    type({}.items()): lambda value: _many("set", value),
    type({}.values()): lambda value: _many("list", value),
    range: lambda value: ["range", value.start, value.stop, value.step],
    type(...): lambda _: ["ellipsis"],
}

_BY_NAME: dict[str, Callable[[Any], list[Any]]] = {
    "decimal.Decimal": lambda value: [str(value)],
    "fractions.Fraction": lambda value: [str(value.numerator), str(value.denominator)],
    "datetime.datetime": lambda value: [value.isoformat()],
    "datetime.date": lambda value: [value.isoformat()],
    "datetime.time": lambda value: [value.isoformat()],
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "collections.deque": lambda value: [_tree(item) for item in value],
}


def _parts(number: complex) -> list[str]:
    return [number.real.hex(), number.imag.hex()]


def _value(tree: Any) -> Any:
    if type(tree) is not list:
        return tree
    word, parts = tree[0], tree[1:]
    if word not in _BY_NAME:
        return _READERS[word](parts)
    module, _, name = word.rpartition(".")
    kind = getattr(__import__(module), name)
    if name == "deque":
        return kind(_values(parts))
    if name == "Fraction":
        return kind(*map(int, parts))
    return kind.fromisoformat(parts[0]) if hasattr(kind, "fromisoformat") else kind(*parts)


def _values(parts: list[Any]) -> list[Any]:
    return [_value(part) for part in parts]


_READERS: dict[str, Callable[[list[Any]], Any]] = {
    "int": lambda parts: int(parts[0], 16),
    "float": lambda parts: float.fromhex(parts[0]),
    "complex": lambda parts: complex(float.fromhex(parts[0]), float.fromhex(parts[1])),
    "bytes": lambda parts: bytes.fromhex(parts[0]),
    "bytearray": lambda parts: bytearray.fromhex(parts[0]),
    "iterator": lambda parts: iter(_values(parts)),
    "list": _values,
    "tuple": lambda parts: tuple(_values(parts)),
    "set": lambda parts: set(_values(parts)),
    "frozenset": lambda parts: frozenset(_values(parts)),
    "dict": lambda parts: dict(zip(*[iter(_values(parts))] * 2, strict=True)),
    "range": lambda parts: range(*parts),
    "ellipsis": lambda _: ...,
}
