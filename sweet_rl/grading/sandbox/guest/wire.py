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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from .values import MODULE, Items, NotPlainData, fields_of, settled

MAX_TEXT = 1 << 20

_SMALL = 1 << 53
ARRAY = "numpy.ndarray"


def pack(value: Any, classes: Collection[str] = ()) -> str:
    """The text of plain data; a subclass counts by its base, read through the base's methods.

    An object whose class is the answer's own and has one of the names of `classes` is its fields. An array of
    numpy's is the list of its items, unless that is one of these names.

    Raises:
        NotPlainData: there is no plain data in it, not only, too much, or it holds itself.
    """
    try:
        text = _written(_tree(value, classes))
    except RecursionError:
        raise NotPlainData("nested too deeply, or holds itself") from None
    if len(text) > MAX_TEXT:
        raise NotPlainData("more data than a comparison is made of")
    return text


def unpack(text: str, names: Mapping[str, Any] | None = None) -> Any:
    """The data again. An object gets the class that `names` has for it, else one that only holds its fields.

    Raises:
        Exception: the text is not what `pack` writes.
    """
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
    if own.__module__ == MODULE and own.__qualname__ in classes:
        return ["object", own.__qualname__, *_object(value, classes)]
    return _plain_tree(value, classes)


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


def _object(value: Any, classes: Collection[str]) -> list[Any]:
    """The data below an object's class, where it is a subclass of such a type, and its fields."""
    kinds = type(value).__mro__
    if any(f"{kind.__module__}.{kind.__qualname__}" == "enum.Enum" for kind in kinds):
        return [None, _tree({"name": value._name_, "value": value._value_}, classes)]
    below = next((kind for kind in kinds if kind in _WRITERS), None)
    return [_plain_tree(value, classes) if below else None, _tree(fields_of(value), classes)]


_WRITERS: dict[type, Callable[[Any], Any]] = {  # a tuple: a word and items
    type(None): lambda value: value,
    bool: lambda value: value,
    int: lambda value: (
        int.__int__(value) if -_SMALL < int.__int__(value) < _SMALL else ["int", hex(int.__int__(value))]
    ),
    float: lambda value: ["float", float.hex(value)],
    complex: lambda value: ["complex", *_parts(complex.__complex__(value))],
    str: str.__str__,
    bytes: lambda value: ["bytes", bytes(memoryview(value)).hex()],
    bytearray: lambda value: ["bytearray", bytes(memoryview(value)).hex()],
    Items: lambda value: ("iterator", list.__iter__(value)),
    list: lambda value: ("list", list.__iter__(value)),
    tuple: lambda value: ("tuple", tuple.__iter__(value)),
    set: lambda value: ("set", set.__iter__(value)),
    frozenset: lambda value: ("frozenset", frozenset.__iter__(value)),
    dict: lambda value: ("dict", [part for pair in dict.items(value) for part in pair]),
    type({}.keys()): lambda value: ("set", value),
    type({}.items()): lambda value: ("set", value),
    type({}.values()): lambda value: ("list", value),
    range: lambda value: ["range", value.start, value.stop, value.step],
    type(...): lambda _: ["ellipsis"],
    type(NotImplemented): lambda _: ["not implemented"],
}


def _called(name: str) -> Any:
    """What a name of the library or of a package stands for; it is one of ours, not of the text's writer."""
    module, _, last = name.rpartition(".")
    __import__(module)
    return getattr(sys.modules[module], last)


def _dated(kind: Any, value: Any) -> list[Any]:
    return [kind.isoformat(value)]


def _new(name: str, method: str = "") -> Callable[..., Any]:
    def made(*parts: Any) -> Any:
        return (getattr(_called(name), method) if method else _called(name))(*parts)

    return made


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
    columns: list[tuple[list[Any], str]],
    names: list[Any],
    levels: list[Any],
    index: list[Any],
    index_levels: list[Any],
) -> Any:
    rows = _labels(index, index_levels)
    series = {
        at: _read_series(items, kind, index, index_levels, None) for at, (items, kind) in enumerate(columns)
    }
    frame = _called("pandas.DataFrame")(series, rows)
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
    "pandas._libs.tslibs.timestamps._Timestamp": (_dated, _new("pandas.Timestamp")),
    "pandas._libs.tslibs.timedeltas._Timedelta": (_dated, _new("pandas.Timedelta")),
    "pandas.core.frame.DataFrame": (_frame, _read_frame),  # up to pandas 2
    "pandas.core.series.Series": (_series, _read_series),
    "pandas.DataFrame": (_frame, _read_frame),
    "pandas.Series": (_series, _read_series),
    "datetime.datetime": (_dated, _new("datetime.datetime", "fromisoformat")),
    "datetime.date": (_dated, _new("datetime.date", "fromisoformat")),
    "datetime.time": (_dated, _new("datetime.time", "fromisoformat")),
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
    "pathlib.PurePath": (lambda _, value: [str(value)], _new("pathlib.PurePath")),
    "ipaddress._BaseAddress": (lambda _, value: [str(value)], _new("ipaddress.ip_address")),
    "uuid.UUID": (lambda _, value: [str(value)], _new("uuid.UUID")),
    "types.SimpleNamespace": (
        lambda _, value: [vars(value)],
        lambda fields: _called("types.SimpleNamespace")(**fields),
    ),
}


def _parts(number: complex) -> list[str]:
    return [number.real.hex(), number.imag.hex()]


def _value(tree: Any, names: Mapping[str, Any]) -> Any:
    if type(tree) is not list:
        return tree
    word, parts = tree[0], tree[1:]
    if word == "object":
        return _rebuilt(tree, names)
    if word == ARRAY:
        return _called("numpy.asarray")(_value(parts[1], names), parts[0])[()]
    if word in _BY_NAME:
        return _BY_NAME[word][1](*[_value(part, names) for part in parts])
    if word in _COLLECTIONS:
        return _COLLECTIONS[word]([_value(part, names) for part in parts])
    return _READERS[word](*parts)


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

_COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "iterator": iter,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": lambda parts: dict(zip(*[iter(parts)] * 2, strict=True)),
}

_READERS: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": range,
    "ellipsis": lambda: ...,
    "not implemented": lambda: NotImplemented,
}


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
