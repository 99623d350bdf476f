"""A step that copies a file, so that the original stays unchanged."""

from __future__ import annotations

from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError
from sweet_rl.records import replace_file
from sweet_rl.runs import new_file

_PIECE = 1 << 20


@recorded("copy", reads=("input_path",))
def copy(input_path: str, output_path: str) -> None:
    """Copy a file, at once or not at all.

    Args:
        input_path: the file.
        output_path: where the copy shall be.
    """
    source = Path(input_path)
    if not source.is_file():
        raise UsageError(f"There is no file {input_path!r} to copy.")
    new_file(output_path, "output_path", overwrite=False)
    tracking.writes(output_path)
    with source.open("rb") as file:
        replace_file(output_path, iter(lambda: file.read(_PIECE), b""))
    print(f"{output_path} is a copy of {input_path}")
