"""Values as source text, for reports and for constant answers.

The text evaluates to an equal value, without any import wherever the value is made of literals and of numbers
that have one; `Decimal("0.1")`, a deque and the types of `datetime` stand as they write themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from .kinds import Items

CUT = "…"
"""The end of a text that was too long; no complete text ends so."""

_SIMPLE = (str, bytes, bytearray, range)
_MAX_DECIMAL_BITS = 13_000
"""An integer with more is written in hexadecimal, since Python refuses to write it in decimal."""


def literal(value: Any, limit: int = 2000) -> str:
    """The text of a value that has a fingerprint, the same on every run; at most `limit` characters."""
    pieces: list[str] = []
    size = 0
    for piece in _pieces(value, limit):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return "".join(pieces)[: limit - 1] + CUT
    return "".join(pieces)


def _pieces(value: Any, limit: int) -> Iterator[str]:
    if type(value) is str:  # the most frequent ones first: this runs for every test of every answer
        yield repr(value[: limit + 1])
        return
    kinds = type(value).__mro__
    if value is None or bool in kinds:
        yield repr(value)
    elif int in kinds:
        number = int.__index__(value)
        yield repr(number) if number.bit_length() < _MAX_DECIMAL_BITS else hex(number)
    elif float in kinds:
        yield _float(float.__float__(value))
    elif type(value) is Items:
        yield from _listed("iter([", list.__iter__(value), "])", limit)
    elif list in kinds:
        yield from _listed("[", list.__iter__(value), "]", limit)
    elif tuple in kinds:
        yield from _listed("(", tuple.__iter__(value), ",)" if tuple.__len__(value) == 1 else ")", limit)
    elif dict in kinds:
        yield from _dict(value, limit)
    elif not _SETS.isdisjoint(kinds):
        yield _set(value, "frozenset" if frozenset in kinds else "set", limit)
    elif type(value).__qualname__ == "deque":
        yield from _listed("deque([", iter(value), "])", limit)
    else:
        yield _simple(value, kinds, limit)


def _listed(opening: str, items: Iterable[Any], closing: str, limit: int) -> Iterator[str]:
    yield opening
    for index, item in enumerate(items):
        yield ", " if index else ""
        yield from _pieces(item, limit)
    yield closing


def _dict(value: Any, limit: int) -> Iterator[str]:
    yield "{"
    for index, (key, item) in enumerate(dict.items(value)):
        yield ", " if index else ""
        yield from _pieces(key, limit)
        yield ": "
        yield from _pieces(item, limit)
    yield "}"


def _set(value: Any, name: str, limit: int) -> str:
    items = sorted(
        literal(item, limit) for item in value
    )  # by their text: hashes are not the same everywhere
    if not items:
        return f"{name}()"
    text = f"{{{', '.join(items)}}}"
    return text if name == "set" else f"frozenset({text})"


def _float(number: float) -> str:
    return repr(number).replace("inf", "1e999")


def _simple(value: Any, kinds: tuple[type, ...], limit: int) -> str:
    if complex in kinds:
        pair = complex.__complex__(value)
        return f"complex({_float(pair.real)}, {_float(pair.imag)})"
    for kind in _SIMPLE:
        if kind in kinds:
            short = value[: limit + 1] if kind in {str, bytes, bytearray} else value
            return kind.__repr__(short)
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    if not _NUMPYS.isdisjoint(names):
        return literal(value.tolist(), limit)
    if type in kinds and value.__module__ == "builtins":
        return str(value.__qualname__)
    if not _RATIOS.isdisjoint(names):
        with suppress(OverflowError):
            number = float(value)
            if number == value:
                return literal(int(number) if number.is_integer() else number, limit)
    return repr(value)


_NUMPYS = frozenset({"numpy.generic", "numpy.ndarray"})
_RATIOS = frozenset({"decimal.Decimal", "fractions.Fraction"})
_SETS = frozenset({set, frozenset, type({}.keys()), type({}.items())})
