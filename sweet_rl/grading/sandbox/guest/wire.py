"""Values as text: data with types, for tests that are compared outside the sandbox; and source text, for people.

`pack` writes JSON, in which a list begins with a word for its type. It is read where no answer runs, into
objects of built-in types, of a few of the library and of pandas, and of the reference's own classes; reading
runs no code of its writer's.

`literal` is for reports and constant answers. It evaluates to an equal value, without any import wherever the value
is made of literals and of numbers that have one; `Decimal("0.1")`, a deque and the types of `datetime` stand as they
write themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from .values import MODULE, Items, NotPlainData, fields_of, settled

MAX_TEXT = 1 << 20

_SMALL = 1 << 53
ARRAY = "numpy.ndarray"


def pack(value: Any, classes: Collection[str] = ()) -> str:
    """The text of plain data, or NotPlainData; a subclass counts by its base, read through the base's methods.

    An object whose class is the answer's own and has one of the names of `classes` is its fields. An array of
    numpy's is the list of its items, unless that is one of these names.
    """
    try:
        text = _written(_tree(value, classes))
    except RecursionError:
        raise NotPlainData("nested too deeply, or holds itself") from None
    if len(text) > MAX_TEXT:
        raise NotPlainData("more data than a comparison is made of")
    return text


def unpack(text: str, names: Mapping[str, Any] | None = None) -> Any:
    """The data again. An object gets the class that `names` has for it, else one that only holds its fields."""
    import json  # seldom needed, and every page that a worker has costs time

    return _value(json.loads(text, parse_constant=_no_number), names or {})


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not what is written for a number")


def _written(tree: Any) -> str:
    """JSON, without loading the package for it beside an answer: that would take as long as the answer."""
    from _json import encode_basestring_ascii as quoted  # likewise

    if type(tree) is str:
        return quoted(tree)
    if type(tree) is list:
        return f"[{','.join(map(_written, tree))}]"
    return "null" if tree is None else str(tree).lower()


def _tree(value: Any, classes: Collection[str]) -> Any:
    value = settled(value)
    own = type(value)
    if own.__module__ != MODULE or own.__qualname__ not in classes:
        return _plain_tree(value, classes)
    if any(f"{kind.__module__}.{kind.__qualname__}" == "enum.Enum" for kind in own.__mro__):
        parts = None, _tree({"name": value._name_, "value": value._value_}, classes)
    else:  # the data below an object's class, where it is a subclass of such a type, and its fields
        below = any(kind in _WRITERS for kind in own.__mro__)
        parts = _plain_tree(value, classes) if below else None, _tree(fields_of(value), classes)
    return ["object", own.__qualname__, *parts]


def _plain_tree(value: Any, classes: Collection[str]) -> Any:
    kinds: tuple[Any, ...] = type(value).__mro__
    for kind in kinds:
        write = _WRITERS.get(kind)
        if write is not None:
            tree = write(value)
            return [tree[0], *[_tree(item, classes) for item in tree[1]]] if type(tree) is tuple else tree
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in {"numpy.generic", ARRAY}:
            items = _tree(kind.tolist(value), classes)
            return [ARRAY, str(value.dtype), items] if ARRAY in classes else items
        if name in _BY_NAME:
            return [name, *[_tree(part, classes) for part in _BY_NAME[name][0](kind, value)]]
    raise NotPlainData(f"a {type(value).__name__} cannot be compared outside")


def _int(value: Any) -> Any:
    number = int.__int__(value)
    return number if -_SMALL < number < _SMALL else ["int", hex(number)]


def _complex(value: Any) -> list[str]:
    number = complex.__complex__(value)
    return ["complex", number.real.hex(), number.imag.hex()]


_WRITERS: dict[type, Callable[[Any], Any]] = {  # a tuple: a word and items
    **dict.fromkeys((type(None), bool), lambda value: value),
    int: _int,
    float: lambda value: ["float", float.hex(value)],
    complex: _complex,
    str: str.__str__,
    bytes: lambda value: ["bytes", bytes(memoryview(value)).hex()],
    bytearray: lambda value: ["bytearray", bytes(memoryview(value)).hex()],
    Items: lambda value: ("iterator", list.__iter__(value)),
    list: lambda value: ("list", list.__iter__(value)),
    tuple: lambda value: ("tuple", tuple.__iter__(value)),
    set: lambda value: ("set", set.__iter__(value)),
    frozenset: lambda value: ("frozenset", frozenset.__iter__(value)),
    dict: lambda value: ("dict", [part for pair in dict.items(value) for part in pair]),
    **dict.fromkeys((type({}.keys()), type({}.items())), lambda value: ("set", value)),
    type({}.values()): lambda value: ("list", value),
    range: lambda value: ["range", value.start, value.stop, value.step],
    type(...): lambda _: ["ellipsis"],
    type(NotImplemented): lambda _: ["not implemented"],
}

_READERS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "iterator": lambda *items: iter([*items]),
    "list": lambda *items: [*items],
    "tuple": lambda *items: items,
    "set": lambda *items: {*items},
    "frozenset": lambda *items: frozenset(items),
    "dict": lambda *parts: dict(zip(*[iter(parts)] * 2, strict=True)),
    "range": range,
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
}


def _called(name: str) -> Any:
    """What a name of the library or of a package stands for; it is one of ours, not of the text's writer."""
    module, _, last = name.rpartition(".")
    __import__(module)
    return getattr(sys.modules[module], last)


def _new(name: str, method: str = "") -> Callable[..., Any]:
    def made(*parts: Any) -> Any:
        return (getattr(_called(name), method) if method else _called(name))(*parts)

    return made


def _dated(name: str, method: str = "") -> tuple[_Apart, Callable[..., Any]]:
    return lambda kind, value: [kind.isoformat(value)], _new(name, method)


def _shown(name: str) -> tuple[_Apart, Callable[..., Any]]:
    return lambda _, value: [str(value)], _new(name)


def _series(kind: Any, value: Any) -> list[Any]:
    return [kind.tolist(value), str(value.dtype), list(value.index), list(value.index.names), value.name]


def _frame(_: Any, value: Any) -> list[Any]:
    columns = [value.iloc[:, at] for at in range(value.shape[1])]
    labels = list(value.columns), list(value.columns.names), list(value.index), list(value.index.names)
    return [[(column.tolist(), str(column.dtype)) for column in columns], *labels]


def _labels(items: list[Any], names: list[Any]) -> Any:
    if len(names) > 1:
        return _called("pandas.MultiIndex").from_tuples(items, names=names)
    return _called("pandas.Index")(items, name=names[0])


def _read_series(items: list[Any], kind: str, index: list[Any], names: list[Any], name: Any) -> Any:
    return _called("pandas.Series")(items, _labels(index, names), dtype=kind, name=name)


def _read_frame(
    columns: list[Any], names: list[Any], levels: list[Any], index: list[Any], its: list[Any]
) -> Any:
    series = {at: _read_series(items, kind, index, its, None) for at, (items, kind) in enumerate(columns)}
    frame = _called("pandas.DataFrame")(series, _labels(index, its))
    frame.columns = _labels(names, levels)
    return frame


_Apart = Callable[[Any, Any], list[Any]]

_BY_NAME: dict[
    str, tuple[_Apart, Callable[..., Any]]
] = {  # taken apart by the base's own methods; put together
    "decimal.Decimal": (lambda kind, value: [kind.__str__(value)], _new("decimal.Decimal")),
    "fractions.Fraction": (
        lambda kind, value: list(kind.as_integer_ratio(value)),
        _new("fractions.Fraction"),
    ),
    "pandas._libs.tslibs.nattype._NaT": (lambda *_: [], lambda: _called("pandas.NaT")),
    "pandas._libs.missing.C_NAType": (lambda *_: [], lambda: _called("pandas.NA")),
    "pandas._libs.tslibs.timestamps._Timestamp": _dated("pandas.Timestamp"),
    "pandas._libs.tslibs.timedeltas._Timedelta": _dated("pandas.Timedelta"),
    **dict.fromkeys(("pandas.DataFrame", "pandas.core.frame.DataFrame"), (_frame, _read_frame)),
    **dict.fromkeys(
        ("pandas.Series", "pandas.core.series.Series"), (_series, _read_series)
    ),  # up to pandas 2
    **{
        name: _dated(name, "fromisoformat")
        for name in ("datetime.datetime", "datetime.date", "datetime.time")
    },
    "datetime.timedelta": (
        lambda kind, value: [
            getattr(kind, part).__get__(value) for part in ("days", "seconds", "microseconds")
        ],
        _new("datetime.timedelta"),
    ),
    "datetime.timezone": (lambda kind, value: [kind.utcoffset(value, None)], _new("datetime.timezone")),
    "collections.deque": (
        lambda kind, value: list(kind.__iter__(value)),
        lambda *items: _called("collections.deque")(items),
    ),
    "pathlib.PurePath": _shown("pathlib.PurePath"),
    "ipaddress._BaseAddress": _shown("ipaddress.ip_address"),
    "uuid.UUID": _shown("uuid.UUID"),
    "types.SimpleNamespace": (
        lambda _, value: [vars(value)],
        lambda fields: _called("types.SimpleNamespace")(**fields),
    ),
}


def _value(tree: Any, names: Mapping[str, Any]) -> Any:
    if type(tree) is not list:
        return tree
    if tree[0] == "object":
        return _rebuilt(tree, names)
    word, *parts = [tree[0], *[_value(part, names) for part in tree[1:]]]
    if word == ARRAY:
        return _called("numpy.asarray")(parts[1], parts[0])[()]
    return (_BY_NAME[word][1] if word in _BY_NAME else _READERS[word])(*parts)


def _rebuilt(tree: Any, names: Mapping[str, Any]) -> Any:
    """An object with these fields, of which nothing has been called; the member of an Enum by its name."""
    _, name, below, fields = tree
    kind, fields = names.get(name), _value(fields, names)
    if not isinstance(kind, type):
        kind = _STAND_INS.setdefault(name, type(name, (), {"__module__": MODULE}))
    if hasattr(kind, "__members__"):
        return kind(fields["value"]) if hasattr(kind, "_boundary_") else kind.__members__[fields["name"]]
    base: Any = next((one for one in kind.__mro__ if one in _WRITERS), object)
    content = [] if below is None or base is object else [_value(below, names)]
    made = base.__new__(kind, *content)
    if base in _FILLED:
        base.__init__(made, *content)
    for field, value in fields.items():
        there = getattr(kind, field, None)
        if hasattr(there, "__get__") and not hasattr(there, "__set__"):
            raise ValueError(f"a field {field!r} in the place of a method")
        object.__setattr__(made, field, value)
    return made


_STAND_INS: dict[str, type] = {}
_FILLED = (list, dict, set, bytearray)  # which are empty until they are initialised

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
    for kind in (str, bytes, bytearray, range):
        if kind in kinds:
            return kind.__repr__(value if kind is range else value[: limit + 1])
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
    if not names.isdisjoint({"numpy.generic", ARRAY}):
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
