"""Runs on disk: which episodes a file has, how it is resumed, and the record of where it came from.

`continuing` is for stages that append episodes; `record` keeps a `run.json` with every output, `reading`
finds and reads them. `facts` and `live` are what a record says.
"""

from sweet_rl.runs.continuing import (
    HOW_TO_MIX,
    Run,
    check_settings,
    finish,
    new_file,
    new_folder,
    open_journal,
    plan,
)

__all__ = ["HOW_TO_MIX", "Run", "check_settings", "finish", "new_file", "new_folder", "open_journal", "plan"]
