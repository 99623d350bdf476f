"""Rows of tables of other kinds than JSON Lines: JSON, CSV, Parquet, data sets of the hub."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from sweet_rl.errors import DataError, UsageError, first_line, missing_package
from sweet_rl.network import without_hub_if_silent
from sweet_rl.records.files import read_rows
from sweet_rl.types import Json

Row: TypeAlias = tuple[int, dict[str, Json]]
Rows: TypeAlias = Iterator[Row]


def rows_of(name: str, *, most: int, split: str = "train", test_split: str = "test") -> tuple[list[Row], ...]:
    """Numbered rows of a file or of a data set on the hub, and of its test split; at most `most` of each.

    `name` is a .jsonl, .json, .csv or .parquet file, the first three also packed (.gz); else a folder or a name on the hub
    (`name@data_dir`), which has the splits.
    """
    suffix = "".join(Path(name).suffixes[-2:]).lower().removesuffix(".gz")
    readers = {
        "jsonl": read_rows,
        "ndjson": read_rows,
        "json": _json_rows,
        "csv": _csv_rows,
        "parquet": _parquet_rows,
    }
    read = readers.get(suffix.rpartition(".")[2])
    if read is None and Path(name).is_file():
        raise UsageError(f"{name!r} must end in .jsonl, .json, .csv or .parquet (optionally with .gz).")
    splits = (read(name), iter(())) if read else _from_hub(name, split, test_split)
    rows, test = (list(itertools.islice(some, most)) for some in splits)
    return rows, test


def _text(path: str) -> str:
    try:
        data = Path(path).read_bytes()
        return (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read {path!r} as text: {first_line(error)}") from error


def _parquet_rows(path: str) -> Rows:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise missing_package("pyarrow", "datasets", needed_for=f"the Parquet file {path!r}") from error
    try:
        yield from enumerate(parquet.read_table(path).to_pylist(), 1)
    except (OSError, ValueError) as error:  # as ArrowInvalid is
        raise UsageError(f"Cannot read {path!r} as a Parquet file: {first_line(error)}") from error


def _json_rows(path: str) -> Rows:
    """A JSON file: one list of objects (numbered from 1), or one object a line."""
    content = _text(path)
    if not content.lstrip().startswith("["):
        yield from read_rows(path)
        return
    try:
        rows = json.loads(content)
    except (ValueError, RecursionError) as error:
        repair = "A list of objects is expected."
        raise DataError(f"is not JSON ({error})", path=path, repair=repair) from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError("must be an object", path=path, line=number, value=row)
        yield number, row


def _csv_rows(path: str) -> Rows:
    csv.field_size_limit(2**31 - 1)
    reader = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        for row in reader:
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise DataError(f"is not CSV ({error})", path=path, line=reader.line_num) from error


def _from_hub(name: str, split: str, test_split: str) -> tuple[Rows, Rows]:
    """Train and test rows of a dataset by its name (`name@data_dir`) or folder."""
    path, _, data_dir = name.partition("@")
    if not Path(path).is_dir():
        without_hub_if_silent()
    try:
        import datasets
    except ImportError as error:
        raise missing_package("datasets", "datasets", needed_for=f"the dataset {name!r}") from error
    try:
        loaded = datasets.load_dataset(path, data_dir=data_dir or None)
    except (OSError, ValueError, ConnectionError, datasets.exceptions.DatasetsError) as error:
        raise UsageError(
            f"No dataset could be loaded from {name!r}: {first_line(error)} Name a .jsonl, .json, .csv or "
            ".parquet file, or a dataset that is in the local cache or on the hub."
        ) from error
    if split not in loaded:
        raise UsageError(f"The dataset {name!r} has no split {split!r}; it has {', '.join(loaded)}.")
    return enumerate(loaded[split], 1), enumerate(loaded.get(test_split) or [], 1)
