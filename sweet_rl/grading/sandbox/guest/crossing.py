"""Values that cross from an answer to a comparison: as literals, and names out of a fixed list that make something of such.

Nothing else of an answer's goes along: no class, no override, no pickle. Whether a value is of the kind that is wanted
is asked of what has been made of the text, so a forged text wins nothing.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from .values import CLOCK, DATE, MADE, MODULE, OBJECT, Items, NotPlainData, Parts, read, settled

LIBRARIES = "of libraries"
"""Among the names of classes that may cross: arrays, Counters, Decimals and so on cross, else the plain data in them."""

_ALSO_PLAIN = frozenset({"builtins", "collections", "decimal", "fractions", "numpy", "guest.values"})

_NUMBER, _TEXT, _ITEMS = int | float | complex, str | bytes, list | tuple | set | frozenset
_KINDS = (_TEXT, _ITEMS, dict)
_PLAIN_KINDS = "biufcSUM"  # of arrays
_FACTORIES = {"int": int, "float": float, "str": str, "list": list, "dict": dict, "set": set, "": None}


def apart(value: Any, classes: Collection[str]) -> Any:
    """The value in literals and `Parts`: an object where its class is the answer's own and has one of these names."""
    kind = type(value)
    if kind in {str, int, bool, type(None)}:
        return value
    if kind.__module__ == MODULE and kind.__qualname__ in classes:
        is_member = hasattr(kind, "__members__")
        inner = {"_name_": value._name_, "_value_": value._value_} if is_member else fields(value)
        return Parts(OBJECT, (kind.__qualname__, apart(inner, classes)))
    value = settled(value)
    for base in type(value).__mro__:
        word = f"{base.__module__}.{base.__qualname__}"
        name, take = _TAKEN.get(word) or (word, _SAME.get(word))
        if take is not None and (LIBRARIES in classes or base.__module__ not in _ALSO_PLAIN):
            if base is float and math.isfinite(number := float.__float__(value)):
                return number
            arguments = [apart(one, classes) for one in take(base, value)]
            return Parts(MADE, (name or type(value).__name__, *arguments))
    for base in type(value).__mro__:
        if base is dict:
            return {apart(key, classes): apart(one, classes) for key, one in dict.items(value)}
        if base in {list, tuple, set, frozenset, Items}:
            return base(apart(one, classes) for one in base.__iter__(value))
    return value


def unpack(text: str, names: Mapping[str, Any]) -> Any:
    """What a text of `apart` says, in which an object has the class that `names` has for it."""
    import ast  # seldom needed, and every page that a worker has costs time

    def made(node: Any) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="_object_"), args=[name, inner], keywords=[]):
                return _rebuilt(names[made(name)], made(inner))
            case ast.Call(func=function, args=arguments, keywords=[]):
                return _maker(ast.unparse(function))(*map(made, arguments))
            case ast.List():
                return [*map(made, node.elts)]
            case ast.Tuple():
                return tuple(map(made, node.elts))
            case ast.Set():
                return {*map(made, node.elts)}
            case ast.Dict():
                return dict(zip(map(made, node.keys), map(made, node.values), strict=True))
        return ast.literal_eval(node)

    return made(ast.parse(text, mode="eval").body)


def alike(value: Any, wanted: Any) -> bool:
    """Whether a value is of the kind that is wanted, as are its items; or both are nothing: empty, 0, None.

    A test may compare in a way that what is of another kind passes by chance: `all(a == b for a, b in zip(x, y))`.
    """
    kinds = [_kind(one) for one in (value, wanted)]
    if kinds == [None, None] and value is not None and wanted is not None:
        if type(value).__module__ != MODULE and type(wanted).__module__ != MODULE:
            parts, others = (apart(one, {LIBRARIES}) for one in (value, wanted))
            if type(parts) is not Parts or type(others) is not Parts or parts.data[0] != others.data[0]:
                return isinstance(value, type(wanted))  # a datetime of pandas for one of Python
            return alike(parts.data[1:], others.data[1:])
        inner, needed = fields(value), fields(wanted)
        return type(value) is type(wanted) and all(
            name in inner and alike(inner[name], needed[name]) for name in needed
        )
    if all(
        one is None or (kind is not None and not one)
        for kind, one in zip(kinds, (value, wanted), strict=True)
    ):
        return True
    if kinds[0] is not kinds[1] or kinds[0] is None:
        return False
    if kinds[0] is _NUMBER or not (value and wanted):
        return kinds[0] is _NUMBER
    if isinstance(value, list | tuple) and isinstance(wanted, list | tuple):
        return len(value) == len(wanted) and all(map(alike, value, wanted))
    items, others = (list(one.items() if isinstance(one, dict) else one) for one in (value, wanted))
    return kinds[0] is _TEXT or all(any(alike(one, other) for other in others[:20]) for one in items[:1000])


def _kind(value: Any) -> Any:
    is_number = hasattr(type(value), "__float__") and not hasattr(type(value), "__len__")
    if isinstance(value, _NUMBER) or (is_number and type(value).__module__ != MODULE):
        return _NUMBER
    return next((kind for kind in _KINDS if isinstance(value, kind)), None)


def finite(value: Any) -> bool:
    """Whether there is no NaN or infinity in a value, nor a text that is one: by them what is negated is true."""
    if isinstance(value, str):
        return value.strip().lower().lstrip("+-") not in {"nan", "inf", "infinity", "nat"}
    if _kind(value) is _NUMBER:
        return bool(value == value and abs(value) != float("inf"))
    if isinstance(value, dict):
        return all(map(finite, value.items()))
    if isinstance(value, _ITEMS):
        return all(map(finite, value))
    parts = apart(value, {LIBRARIES}) if type(value).__module__ != MODULE else fields(value)
    return finite(parts.data) if type(parts) is Parts else not parts or parts is value or finite(parts)


def fields(value: Any) -> dict[str, Any]:
    """What an object of the reference's has in its slots and its dictionary; nothing of an Enum's member."""
    if type(value).__module__ != MODULE or hasattr(value, "_name_"):
        return {}
    named = [kind.__dict__.get("__slots__", ()) for kind in reversed(type(value).__mro__)]
    slots = [slot for some in named for slot in ((some,) if type(some) is str else some)]
    kept = [slot for slot in slots if slot not in {"__dict__", "__weakref__"} and hasattr(value, slot)]
    return {slot: getattr(value, slot) for slot in kept} | getattr(value, "__dict__", {})


def _rebuilt(kind: Any, inner: dict[str, Any]) -> Any:
    """An object with these fields, of which nothing has been called; the member of an Enum by its name."""
    if hasattr(kind, "__members__"):
        return kind.__members__[inner["_name_"]]
    made = object.__new__(kind)
    for field, value in inner.items():
        there = getattr(kind, field, None)
        if hasattr(there, "__get__") and not hasattr(there, "__set__"):
            raise ValueError(f"a field {field!r} in the place of a method")
        object.__setattr__(made, field, value)
    return made


def _maker(name: str) -> Any:
    kind = getattr(builtins, name, None)
    if name in _MAKERS:
        return _MAKERS[name]
    if name in _MADE or (isinstance(kind, type) and issubclass(kind, Exception)):
        return _named(name)
    raise NotPlainData(f"{name} is not made outside")


def _named(name: str) -> Any:
    """What a name of ours stands for in a library."""
    module, _, last = name.rpartition(".")
    __import__(module or "builtins")
    return getattr(sys.modules[module or "builtins"], last)


def _array(items: Any, dtype: str) -> Any:
    if _named("numpy.dtype")(dtype).kind not in _PLAIN_KINDS:
        raise NotPlainData("an array of objects")
    return _named("numpy.array")(items, dtype)[()]


def _of_array(kind: Any, value: Any) -> Iterable[Any]:
    dtype = kind.dtype.__get__(value)
    if dtype.kind not in _PLAIN_KINDS:
        raise NotPlainData("an array of objects")
    return kind.tolist(kind.astype(value, str) if dtype.kind == "M" else value), str(dtype)


def _index(items: Any, names: Any, dtype: str) -> Any:
    if len(names) > 1:
        return _named("pandas.MultiIndex").from_tuples(items, names=names)
    return _named("pandas.Index")(items, dtype=dtype, name=names[0])


def _series(items: Any, index: Any, dtype: str, name: Any = None) -> Any:
    return _named("pandas.Series")(items, index, dtype, name)


def _frame(columns: Any, index: Any, labels: Any) -> Any:
    made = {at: _series(items, index, dtype) for at, (items, dtype) in enumerate(columns)}
    frame = _named("pandas.DataFrame")(made, index)
    frame.columns = labels
    return frame


def _of_frame(_: Any, value: Any) -> Iterable[Any]:
    columns = [value.iloc[:, at] for at in range(value.shape[1])]
    return [(list(one), str(one.dtype)) for one in columns], value.index, value.columns


_Take = Callable[[Any, Any], Iterable[Any]]
"""Of a base and a value the arguments that make it again, read by the base's own methods."""

_SAME: dict[str, _Take] = {
    "decimal.Decimal": lambda kind, value: ["NaN" if kind.is_nan(value) else kind.__str__(value)],
    "fractions.Fraction": lambda kind, value: kind.as_integer_ratio(value),
    "datetime.datetime": lambda kind, value: read(kind, value, *DATE, *CLOCK, "tzinfo"),
    "datetime.date": lambda kind, value: read(kind, value, *DATE),
    "datetime.time": lambda kind, value: read(kind, value, *CLOCK, "tzinfo"),
    "datetime.timedelta": lambda kind, value: read(kind, value, "days", "seconds", "microseconds"),
    "datetime.timezone": lambda kind, value: [kind.utcoffset(value, None)],
    "zoneinfo.ZoneInfo": lambda _, value: [value.key],
    "collections.Counter": lambda _, value: [dict(dict.items(value))],
    "collections.OrderedDict": lambda kind, value: [[*kind.items(value)]],
    "collections.deque": lambda kind, value: ([*kind.__iter__(value)], value.maxlen),
    "collections.ChainMap": lambda _, value: [dict(value)],
    "array.array": lambda kind, value: (value.typecode, kind.tolist(value)),
    "pathlib.PurePath": lambda kind, value: [kind.__str__(value)],
    "uuid.UUID": lambda kind, value: [kind.__str__(value)],
}
"""Made again by what they are called."""

_TAKEN: dict[str, tuple[str, _Take]] = {
    "builtins.float": ("float", lambda _, value: [repr(float.__float__(value))]),
    "builtins.complex": ("complex", lambda kind, value: read(kind, value, "real", "imag")),
    "builtins.range": ("range", lambda kind, value: read(kind, value, "start", "stop", "step")),
    "builtins.BaseException": ("", lambda _, value: value.args),  # by its own name
    "guest.values.Items": ("iter", lambda kind, value: [[*kind.__iter__(value)]]),
    "collections.defaultdict": (
        "collections.defaultdict",
        lambda _, value: (getattr(value.default_factory, "__name__", ""), dict(dict.items(value))),
    ),
    "ipaddress._BaseAddress": ("ipaddress.ip_address", lambda kind, value: [kind.__str__(value)]),
    **dict.fromkeys(("numpy.ndarray", "numpy.generic"), ("numpy.array", _of_array)),
    "pandas._libs.tslibs.nattype._NaT": ("pandas.Timestamp", lambda *_: ["NaT"]),
    "pandas._libs.tslibs.timestamps._Timestamp": (
        "pandas.Timestamp",
        lambda of, value: [of.isoformat(value)],
    ),
    "pandas._libs.tslibs.timedeltas._Timedelta": (
        "pandas.Timedelta",
        lambda of, value: [of.isoformat(value)],
    ),
    # with `core` up to pandas 2
    **dict.fromkeys(("pandas.DataFrame", "pandas.core.frame.DataFrame"), ("pandas.DataFrame", _of_frame)),
    **dict.fromkeys(
        ("pandas.Series", "pandas.core.series.Series"),
        ("pandas.Series", lambda _, value: (list(value), value.index, str(value.dtype), value.name)),
    ),
    **dict.fromkeys(
        ("pandas.Index", "pandas.core.indexes.base.Index"),
        ("pandas.Index", lambda _, value: (list(value), list(value.names), str(value.dtype))),
    ),
}

_MADE = frozenset(
    {
        *_SAME,
        *"float complex range set frozenset iter ipaddress.ip_address pandas.Timestamp pandas.Timedelta".split(),
    }
)
_MAKERS: dict[str, Callable[..., Any]] = {
    "collections.defaultdict": lambda name, items: _named("collections.defaultdict")(_FACTORIES[name], items),
    "numpy.array": _array,
    "pandas.Index": _index,
    "pandas.Series": _series,
    "pandas.DataFrame": _frame,
}
