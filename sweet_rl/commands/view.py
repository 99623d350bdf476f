"""Shows what runs have left: dialogues, candidates, pairs, metrics, reports, records, in one application."""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, DrawingFlags, ShowFlags, show
from sweet_rl.errors import UsageError


@recorded("view")
@stage(helps={name: VIEW_HELPS[name] for name in ("overwrite", "temp_path")})
def view(flags: ShowFlags, drawing: DrawingFlags, /, *paths: str) -> None:
    """Look at files and folders of runs in a browser: dialogues, candidates, pairs, metrics, reports, records.

    Several runs are looked at side by side, with what one solves and another does not; every dialogue with the
    critic's score of every turn where `sweet-rl credit` has made them. An index of each file is kept beside it,
    hidden, so that a large file opens at once from the second time on. Serves this machine only, and only who
    has the printed address, until you press Ctrl-C; or writes everything as a page with --export. Press ? in the
    page for its keys.

    The smallest run: view runs

    Args:
        flags: where to.
        drawing: pictures.
        paths: files of rows, metrics.jsonl, reports and records of runs, or folders with such files.
    """
    if not paths:
        raise UsageError("Name at least one file or folder, for example: sweet-rl view runs")
    show(paths, flags, drawing)
