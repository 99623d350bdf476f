"""Values as objects of built-in types only: a test that compares them then runs no code of an answer's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .canonical import fingerprint
from .kinds import MODULE, NotPlainData


def plain(value: Any) -> Any:
    """A copy of the plain data in `value`: a subclass counts by its base, read through the base's methods.

    Raises:
        NotPlainData: there is no plain data in it, or not only.
    """
    for kind in type(value).__mro__:
        if kind in _COPIES:
            return _COPIES[kind](value)
    if type(value).__module__ == MODULE:
        raise NotPlainData(f"a {type(value).__name__} is not plain data")
    fingerprint(value)  # what remains: dates and exact numbers of the standard library, or not data at all
    return value


_COPIES: dict[type, Callable[[Any], Any]] = {
    bool: bool,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    list: lambda value: [plain(item) for item in list.__iter__(value)],
    tuple: lambda value: tuple([plain(item) for item in tuple.__iter__(value)]),
    set: lambda value: {plain(item) for item in set.__iter__(value)},
    frozenset: lambda value: {plain(item) for item in frozenset.__iter__(value)},
    dict: lambda value: {plain(key): plain(item) for key, item in dict.items(value)},
    type({}.keys()): lambda value: {plain(item) for item in value},
    type({}.items()): lambda value: {plain(item) for item in value},
}
