"""Whole files of rows: JSON Lines, read with line numbers and replaced atomically; tables of other kinds, read.

Published behaviour: docs/published/sweet_rl.md#files.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn, TypeAlias, cast

from sweet_rl.errors import DataError, StorageError, UsageError, first_line, missing_package
from sweet_rl.network import without_hub_if_silent
from sweet_rl.records.rows import task_from_row, trajectories_from_rows, unique_tasks
from sweet_rl.types import Json, Task, Trajectory

Stamp = tuple[int, int, int, int]
_DEEPEST, _MOST, _LONGEST_NUMBER = 50, 100_000, 1000
"""Of a YAML file: parts within parts, values with those that aliases stand for, characters of a number."""


def read_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield (1-based line number, object) for every line that is not blank; UsageError, DataError name what is wrong."""
    try:
        with gzip.open(path) if Path(path).suffix == ".gz" else Path(path).open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, parse_line(line, path, number)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{str(path)!r} is cut or no gzip file: {error}.") from error
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {str(path)!r}. Check the path (it is relative to {str(Path.cwd())!r})."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error


def parse_line(line: bytes, path: str | Path | None, number: int) -> dict[str, Json]:
    """One line of JSON to an object, or DataError; NaN and Infinity are refused, as JSON does."""

    def fail(problem: str, repair: str) -> NoReturn:
        raise DataError(problem, path=path, line=number, value=line[:80], repair=repair) from None

    def refuse_constant(name: str) -> NoReturn:
        fail(f"holds {name}, which is not JSON", "Use null for a number that is not there.")

    try:
        row = json.loads(line.decode("utf-8-sig"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        fail("is not UTF-8 text", "Save the file as UTF-8, one JSON object a line.")
    except RecursionError:
        fail("is nested too deeply", "Remove this line.")
    except ValueError as error:
        repair = "One JSON object a line is expected; a line cut off by a crash can be deleted."
        fail(f"is not JSON ({error})", repair)
    if not isinstance(row, dict):
        fail("must hold one JSON object", "A JSON Lines file has one {...} a line.")
    return row


def check_yaml(text: str, path: str | Path) -> None:
    """Refuse YAML that no reader survives: too deep, or whose aliases stand for too much. YAMLError: it is none."""
    import yaml

    opened: list[
        tuple[str | None, int]
    ] = []  # each part that has begun: its anchor, and what stood before it
    sizes: dict[str | None, int] = {}
    total = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        problem = ""
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            problem = "it is nested too deeply" if len(opened) > _DEEPEST else ""
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor, 0)
            within = any(anchor == event.anchor for anchor, _ in opened)
            problem = f"*{event.anchor} stands within itself" if within else ""
        elif isinstance(event, yaml.ScalarEvent):
            sizes[event.anchor] = 1
            if len(event.value) > _LONGEST_NUMBER and event.value[:1] in "+-0123456789" and not event.style:
                problem = f"a number of {len(event.value):,} characters" * (" " not in event.value)
        total += 1
        if problem or total > _MOST:
            problem = problem or f"with its aliases it has more than {_MOST:,} values"
            where = f"{path}, line {event.start_mark.line + 1}"
            raise UsageError(f"{where}: this cannot be read: {problem}. Write it out, with less in it.")


def load_tasks_file(path: str | Path) -> list[Task]:
    """All tasks of a ColBench JSON Lines file, each with an identity of its own; errors as `read_rows`, `task_from_row`."""
    return unique_tasks(task_from_row(row, path=path, line=line) for line, row in read_rows(path))


def load_trajectories(path: str | Path) -> list[Trajectory]:
    """All trajectories of a file, ours or a published one, in file order; errors as `read_rows`, `trajectory_from_row`."""
    return trajectories_from_rows(list(read_rows(path)), path=path)


def encode_row(row: Json) -> bytes:
    """One row as a line; raises ValueError for NaN and Infinity which are not JSON."""
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def replace_rows(path: str | Path, rows: Iterable[Json], as_read: Stamp | None = None) -> Stamp:
    """Write all rows to `path`, at once or not at all; see `replace_file`."""
    return replace_file(path, (encode_row(row) for row in rows), as_read)


def stamp_of(path: str | Path) -> Stamp | None:
    """What tells whether a file has changed; take it before the file is read. None: there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def replace_file(path: str | Path, chunks: Iterable[bytes], as_read: Stamp | None = None) -> Stamp:
    """Write the chunks to `path`, at once or not at all, and survive a power cut.

    Returns the stamp of the new file. UsageError: the file is another one than that of the stamp `as_read`, and the
    content is beside it. StorageError: the disk is full or read-only; the old file is as it was.
    """
    target = Path(os.path.realpath(path))
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.umask(umask := os.umask(0))  # there is no other way to ask for it
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        written = cast(Stamp, stamp_of(temporary))
        if as_read is not None and stamp_of(target) != as_read:
            kept = Path(temporary).rename(target.with_name(f"{target.stem}.kept_{written[1]}{target.suffix}"))
            temporary = None
            raise UsageError(
                f"{str(target)!r} has changed since it was read: it is not replaced. What would have been "
                f"written is in {str(kept)!r}. Choose one of them, or run the same command again."
            )
        Path(temporary).replace(target)
        temporary = None
        sync_path(target.parent)
        return written
    except OSError as error:
        raise StorageError(
            f"Cannot write {str(target)!r}: {error.strerror}. The file is as it was before; "
            "free some space or choose another path, then run the same command again."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def sync_path(path: Path) -> None:
    """Sync `path` to disk: a file's content, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        raise UsageError(f"{name!r} has another ending than .jsonl, .json, .csv and .parquet (perhaps .gz).")
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
        raise DataError(f"is no CSV ({error})", path=path, line=reader.line_num) from error


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
