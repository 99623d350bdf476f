"""Results of studies on disk: one JSON file each, read back with every kind checked."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sweet_rl.errors import DataError
from sweet_rl.records import replace_file
from sweet_rl.studies.results import FORMAT, Results
from sweet_rl.types import Json


def write_results(path: Path, results: Results) -> None:
    """Replace the file by these results."""
    replace_file(path, [json.dumps(dataclasses.asdict(results), ensure_ascii=True).encode()])


def read_results(path: Path) -> Results:
    """Results that `write_results` wrote.

    Raises:
        DataError: the file is no such thing, or of an earlier version; names the field.
    """
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read as JSON ({error})", path=path) from None
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        repair = (
            "The file is of another version, or no result of a study. Run the demo again with the same "
            "--output_dir; where it says that another command made a part, with --overwrite."
        )
        raise DataError(f"must be {FORMAT!r}", path=path, field="format", value=found, repair=repair)
    results: Results = _read(Results, value, "", path)
    return results


def _read(kind: Any, value: Json, name: str, path: Path) -> Any:
    """A JSON value as the type `kind`, which is made of what this module's dataclasses are made of.

    Raises:
        DataError: the value is of another kind; names the field.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)

    def refuse(what: str) -> DataError:
        return DataError(f"must be {what}", path=path, field=name, value=value)

    def inner(kind: Any, value: Json, key: str) -> Any:
        return _read(kind, value, f"{name}.{key}" if name else key, path)

    if dataclasses.is_dataclass(kind):
        return _read_object(kind, value, inner, refuse)
    if origin is types.UnionType:
        return None if value is None else _read(arguments[0], value, name, path)
    if origin is Literal:
        if value not in arguments:
            raise refuse(f"one of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise refuse("a list")
        kinds = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        if len(kinds) != len(value):
            raise refuse(f"a list of {len(kinds)}")
        return tuple(inner(*each, str(place)) for place, each in enumerate(zip(kinds, value, strict=True)))
    if origin is not None:  # Mapping[str, X]
        if not isinstance(value, dict):
            raise refuse("an object")
        return {key: inner(arguments[1], each, key) for key, each in value.items()}
    return _read_plain(kind, value, refuse)


def _read_object(
    kind: Any, value: Json, inner: Callable[[Any, Json, str], Any], refuse: Callable[[str], DataError]
) -> Any:
    """A dataclass; fields with a default may be missing."""
    if not isinstance(value, dict):
        raise refuse("an object")
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    missing, default = dataclasses.MISSING, dataclasses.MISSING
    for field in fields:
        if field.name not in value and field.default is default and field.default_factory is missing:
            raise refuse(f"an object with the field {field.name!r}")
    known = {field.name for field in fields} & value.keys()
    return kind(**{key: inner(hints[key], value[key], key) for key in known})


def _read_plain(kind: Any, value: Json, refuse: Callable[[str], DataError]) -> Any:
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refuse("a finite number")
        return float(value)
    if kind in {int, str}:
        if type(value) is not kind:
            raise refuse("a string" if kind is str else "a whole number")
        return value
    return value  # Json
