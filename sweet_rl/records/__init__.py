"""Rows on disk: the only reader and writer of JSON Lines.

`rows` turns JSON objects into the nouns of `sweet_rl.types` and back; `files` reads and replaces whole files, appends
finished episodes so that nothing written is ever lost, and keeps a second writer out; `tables` reads data of other kinds.
"""

from sweet_rl.records.files import (
    Journal,
    check_yaml,
    encode_row,
    is_being_written,
    load_tasks_file,
    load_trajectories,
    locked,
    parse_line,
    read_rows,
    replace_file,
    replace_rows,
    stamp_of,
    sync_path,
)  # fmt: skip
from sweet_rl.records.rows import (
    message_from_row,
    task_from_row,
    trajectories_from_rows,
    trajectory_from_row,
    trajectory_to_row,
    unique_tasks,
)  # fmt: skip
from sweet_rl.records.tables import rows_of

__all__ = [
    "Journal", "check_yaml", "encode_row", "is_being_written", "load_tasks_file", "load_trajectories", "locked",
    "message_from_row", "parse_line", "read_rows", "replace_file", "replace_rows", "rows_of", "stamp_of",
    "sync_path", "task_from_row", "trajectories_from_rows", "trajectory_from_row", "trajectory_to_row", "unique_tasks",
]  # fmt: skip
