"""Rows for other trainers: as JSON Lines or as Parquet, by the ending of the file's name."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from sweet_rl.errors import UsageError, missing_package
from sweet_rl.types import Json


def check_table(path: str) -> None:
    """Whether the ending is one of the two."""
    if Path(path).suffix.lower() not in {".jsonl", ".parquet"}:
        raise UsageError(f"--output_path must end with .jsonl or .parquet, got {path!r}.")


def write_table(path: str, rows: Sequence[Mapping[str, Json]]) -> None:
    """Write rows; the file is replaced at once or not at all."""
    from sweet_rl.records import replace_file, replace_rows

    if Path(path).suffix.lower() == ".jsonl":
        replace_rows(path, rows)
        return
    try:
        import datasets
    except ImportError as error:
        raise missing_package("datasets", "datasets", needed_for="a .parquet file") from error
    buffer = io.BytesIO()
    datasets.Dataset.from_list([dict(row) for row in rows]).to_parquet(buffer)
    replace_file(path, [buffer.getvalue()])
