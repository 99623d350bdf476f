"""WebSight v0.2 as frontend tasks: the source of ColBench's pages.

The idea that a page was written from becomes the request, the page the hidden one. Rows come from the hub, or
from files on this machine: Parquet as the hub has them, or JSON Lines.

Published behaviour: docs/published/sweet_rl.md#files, #frontend-design.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sweet_rl.browsers.page import normalise_urls
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.network import without_hub_if_silent
from sweet_rl.records import read_rows
from sweet_rl.types import Json

HUB_DATASET = "HuggingFaceM4/WebSight"
HUB_VERSION = "v0.2"
FIELDS = {"problem_description": "llm_generated_idea", "ground_truth": "text"}
"""Our field to WebSight's."""

_SUFFIXES = (".parquet", ".jsonl")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row, and its position: "part.jsonl, line 3", or "part.parquet, row 3" (both counted from 1)."""

    where: str
    row: Mapping[str, Json]


def task_row(row: Mapping[str, Json]) -> dict[str, Json]:
    """The task that a WebSight row makes, its picture addresses normalised.

    Nothing is added to the two published fields: the task's identity is a digest of them, which does not
    depend on what else was prepared with it.
    """
    return {
        ours: normalise_urls(str(row[theirs])) if ours == "ground_truth" else row[theirs]
        for ours, theirs in FIELDS.items()
    }


def read_websight(source: str, limit: int) -> Iterator[SourceRow]:
    """The first `limit` rows, in the order of the data set."""
    path = Path(source).expanduser()
    if path.exists():
        return islice(_from_files(path), limit)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and path.suffix not in _SUFFIXES:
        return _from_hub(source, limit)
    raise UsageError(
        f"{source!r} is no file and no folder that exists (looked in {str(Path.cwd())!r}). The rows can come "
        f"from a .parquet or .jsonl file, a folder of them, or the hub ({HUB_DATASET!r})."
    )


def _from_files(path: Path) -> Iterator[SourceRow]:
    files = [path] if path.is_file() else _files_in(path)
    for file in files:
        name = file.name if path.is_file() else str(file.relative_to(path))
        if file.suffix == ".parquet":
            for number, row in enumerate(_parquet_rows(file), start=1):
                yield SourceRow(f"{name}, row {number}", row)
        else:
            for number, row in read_rows(file):
                yield SourceRow(f"{name}, line {number}", row)


def _files_in(folder: Path) -> list[Path]:
    """Files of one kind: a folder with both would hold the same rows twice, or not be WebSight's."""
    within = folder / HUB_VERSION if (folder / HUB_VERSION).is_dir() else folder
    found = {suffix: sorted(within.rglob(f"*{suffix}")) for suffix in _SUFFIXES}
    kinds = [suffix for suffix, files in found.items() if files]
    if len(kinds) != 1:
        what = "both .parquet and .jsonl files" if kinds else "neither .parquet nor .jsonl files"
        raise UsageError(
            f"The folder {str(within)!r} holds {what}. Name one file, or a folder with one kind."
        )
    return found[kinds[0]]


def _parquet_rows(path: Path) -> Iterator[dict[str, Json]]:
    """Rows with those of WebSight's two fields that the file has; pictures are not read."""
    try:
        # Heavy, and only these files need it.
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_package("pyarrow", "datasets", needed_for=f"Reading {str(path)!r}") from None
    try:
        with ParquetFile(path) as file:
            columns = [name for name in FIELDS.values() if name in file.schema_arrow.names]
            if not columns:
                raise DataError(
                    f"has none of the columns {', '.join(FIELDS.values())}",
                    path=path,
                    value=", ".join(file.schema_arrow.names),
                    repair=f"WebSight {HUB_VERSION} has them; earlier versions do not.",
                )
            for batch in file.iter_batches(batch_size=256, columns=columns):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"cannot be read as Parquet ({reason})",
            path=path,
            repair="Download it again, or remove it from the folder.",
        ) from error


def _from_hub(name: str, limit: int) -> Iterator[SourceRow]:
    without_hub_if_silent()
    try:
        # Heavy, and only this source needs it.
        from datasets import load_dataset
    except ImportError:
        raise missing_package("datasets", "datasets", needed_for=f"Streaming {name!r} from the hub") from None
    try:
        stream = load_dataset(name, HUB_VERSION, split="train", streaming=True)
        rows = stream.select_columns(list(FIELDS.values()))
        for number, row in enumerate(islice(rows, limit), start=1):
            yield SourceRow(f"row {number}", row)
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such data set, no such version
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(
            f"Cannot stream {HUB_VERSION} of {name!r} from the hub ({reason}). "
            "On a machine with network run\n"
            f"  hf download {name} --repo-type dataset --local-dir websight "
            f"--include '{HUB_VERSION}/*-0000*'\n"
            "and give the folder instead: --source websight. "
            "Without network, 'mini-web:train' needs no download."
        ) from error
