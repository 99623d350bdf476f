"""Less usual types as plainer data, for comparison by Python's rules or a person's.

Each function here takes a value apart; `canonical` puts the parts into bytes. Where Python compares by
identity (iterators, exceptions, matches), the data in them counts, so that a reference's value can be met at
all. Objects of ordinary classes are not data: what they are is what they do. Nothing is imported: types are
known by their names, and a forged name wins nothing that a forged value would not.
"""

from __future__ import annotations

from _operator import length_hint
from collections.abc import Callable, Iterator
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
    """The value, or the items of an iterator, which can be had only once.

    Raises:
        NotPlainData: there are too many.
    """
    if not (hasattr(type(value), "__next__") and hasattr(type(value), "__iter__")):
        return value
    items = Items(islice(value, MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        raise NotPlainData(f"an iterator with more than {MAX_ITEMS} items")
    return items


def alike(value: Any, wanted: Any, depth: int = 0) -> bool:
    """Whether a value is of the kind that is wanted, as are its items and fields; or both are nothing: empty, 0, None.

    A test may compare in a way that what is of another kind passes by chance: `all(a == b for a, b in zip(x, y))`.
    """
    kinds = _rough_kind(value), _rough_kind(wanted)
    if all(
        kind == "nothing" or (kind == "number" and one == 0)
        for kind, one in zip(kinds, (value, wanted), strict=True)
    ):
        return True
    if kinds[0] != kinds[1] or depth > 50:
        return False
    if kinds[0] == "thing":
        fields, needed = _fields(value), _fields(wanted)
        same = type(value).__name__ == type(wanted).__name__ or MODULE not in {
            type(value).__module__,
            type(wanted).__module__,
        }
        return same and all(
            name in fields and alike(fields[name], one, depth + 1) for name, one in needed.items()
        )
    if kinds[0] not in {"items", "mapping"}:
        return True
    items, others = _some_items(value), _some_items(wanted)
    if isinstance(value, list | tuple) and isinstance(wanted, list | tuple):
        return len(value) == len(wanted) and all(
            alike(*pair, depth + 1) for pair in zip(items, others, strict=True)
        )
    return all(any(alike(one, other, depth + 1) for other in others[:20]) for one in items)


def finite(value: Any, depth: int = 0) -> bool:
    """Whether there is no NaN or infinity in a value, nor a text that is one: by them what is negated is true."""
    if isinstance(value, str):
        return value.strip().lower().lstrip("+-") not in {"nan", "inf", "infinity", "nat"}
    kind = _rough_kind(value)
    if kind in {"items", "mapping", "table"}:
        return depth <= 50 and all(finite(part, depth + 1) for part in _some_items(value))
    if kind == "thing" and depth <= 50 and (fields := _fields(value)):
        return all(finite(part, depth + 1) for part in fields.values())
    missing = type(value).__name__ in {"NaTType", "NAType"}
    return not missing and (kind != "number" or (value == value and abs(value) != float("inf")))


def _some_items(value: Any) -> list[Any]:
    """The first items; those of a table row by row. An iterator stays as it is: it is one of a list, just made."""
    if hasattr(value, "__next__"):
        value = value.__reduce__()[1][0]
    if hasattr(value, "itertuples"):
        return list(islice(value.itertuples(), 1000))
    return list(islice(value.items() if isinstance(value, dict) else value, 1000))


def fields_of(value: Any) -> dict[str, Any]:
    """What an object has in its slots and in its dictionary."""
    named = [kind.__dict__.get("__slots__", ()) for kind in reversed(type(value).__mro__)]
    slots = [slot for some in named for slot in ((some,) if type(some) is str else some)]
    kept = [slot for slot in slots if slot not in {"__dict__", "__weakref__"} and hasattr(value, slot)]
    return {slot: getattr(value, slot) for slot in kept} | getattr(value, "__dict__", {})


def _fields(value: Any) -> dict[str, Any]:
    """Those of an object of a class of the reference's, but for an Enum's member, which is its name."""
    is_own = type(value).__module__ == MODULE and not hasattr(value, "_name_")
    return fields_of(value) if is_own else {}


def _rough_kind(value: Any) -> str:
    if isinstance(value, complex) or hasattr(type(value), "as_integer_ratio"):
        return "number"
    has_items = hasattr(value, "__len__") or hasattr(value, "__next__")
    if value is None or (has_items and not length_hint(value)):
        return "nothing"
    if hasattr(value, "itertuples"):
        return "table"
    if isinstance(value, str | bytes | bytearray):
        return "text"
    return "mapping" if isinstance(value, dict) else "items" if has_items else "thing"


def plainer(value: Any) -> Any:
    """Plain data in place of the value, or its `Parts`.

    Raises:
        NotPlainData: it is not data.
    """
    for kind in type(value).__mro__:
        take = _BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
        if take is not None:
            return take(value)
    if "__dataclass_fields__" in dir(type(value)):
        return _record(value)
    items = settled(value)
    if items is value:
        raise NotPlainData(f"a {type(value).__name__} is not plain data")
    return items


def named(value: Any) -> Parts:
    """A class or a function of a library: known by its name. One of the answer's own is not data.

    Raises:
        NotPlainData: it is the answer's, or a method bound to an object.
    """
    owner = getattr(value, "__objclass__", value)  # of a method of a built-in type, like str.upper
    module, name = owner.__module__, value.__qualname__
    if module in {None, MODULE} or "<" in name:
        raise NotPlainData(f"{name}, of the answer's own, is not plain data")
    return Parts("name", (f"{module}.{name}",))


def _record(value: Any) -> Parts:
    """A dataclass: the name of its class, and the fields that it would compare itself."""
    fields = [
        field.name
        for field in type(value).__dataclass_fields__.values()
        if field._field_type.name == "_FIELD" and field.compare  # what dataclasses.fields() asks
    ]
    if not fields:
        raise NotPlainData("a dataclass without fields is not plain data")
    return Parts("record", (type(value).__name__, {name: getattr(value, name) for name in fields}))


def _numbers(value: Any) -> Iterator[Any]:
    """The items of an array.array."""
    return iter(value.tolist())


def _frame(value: Any) -> Parts:
    """A table of pandas; a missing value is None, as it is where pandas compares whole tables."""
    shown = value.astype(object)
    parts = shown.where(value.notna(), None).to_dict("split")
    return Parts("DataFrame", (parts["index"], parts["columns"], parts["data"]))


def _series(value: Any) -> Parts:
    shown = value.astype(object).where(value.notna(), None)
    return Parts("Series", (list(value.index), shown.tolist()))


def _written(value: Any) -> Parts:
    """What writes itself in full."""
    return Parts("written", (repr(value),))


_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "builtins.type": named,
    "builtins.function": named,
    "builtins.builtin_function_or_method": named,
    "builtins.method_descriptor": named,
    "builtins.wrapper_descriptor": named,
    "builtins.ellipsis": lambda _: Parts("...", ()),
    "builtins.NotImplementedType": lambda _: Parts("NotImplemented", ()),
    "builtins.slice": lambda value: Parts("slice", (value.start, value.stop, value.step)),
    "builtins.dict_values": lambda value: Parts("values", tuple(value)),
    "builtins.mappingproxy": dict,
    "builtins.memoryview": bytes,
    "builtins.BaseException": lambda value: Parts("exception", (type(value).__name__, value.args)),
    "enum.Enum": lambda value: Parts("enum", (type(value).__name__, value._name_, value._value_)),
    "types.SimpleNamespace": lambda value: Parts("namespace", (vars(value),)),
    "types.GenericAlias": _written,
    "types.UnionType": _written,
    "typing._BaseGenericAlias": _written,
    "typing._SpecialForm": _written,
    "collections.ChainMap": dict,
    "collections.UserDict": lambda value: value.data,
    "collections.UserList": lambda value: value.data,
    "collections.UserString": lambda value: value.data,
    "array.array": lambda value: Parts("array", tuple(_numbers(value))),
    "pathlib.PureWindowsPath": lambda value: Parts("Windows path", (str(value).lower(),)),
    "pathlib.PurePath": lambda value: Parts("path", (str(value),)),
    "uuid.UUID": lambda value: Parts("UUID", (value.int,)),
    "ipaddress._BaseAddress": _written,
    "ipaddress._BaseNetwork": _written,
    "datetime.timezone": lambda value: Parts("time zone", (value.utcoffset(None),)),
    "zoneinfo.ZoneInfo": lambda value: Parts("time zone", (value.key,)),
    "re.Pattern": lambda value: Parts("pattern", (value.pattern, value.flags)),
    "re.Match": lambda value: Parts("match", (value.string, value.regs)),
    "numpy.generic": lambda value: value.item(),
    "numpy.ndarray": lambda value: value.tolist(),
    "numpy.dtype": lambda value: Parts("dtype", (str(value),)),
    "pandas.core.frame.DataFrame": _frame,  # up to pandas 2
    "pandas.core.series.Series": _series,
    "pandas.DataFrame": _frame,
    "pandas.Series": _series,
}
