"""Shows what runs have left: dialogues, candidates, pairs, metrics, reports, records, in one application."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, DrawingFlags, ShowFlags, ViewFlags, show
from sweet_rl.errors import UsageError


@recorded("view")
@stage(defaults={"port": 9785}, helps={name: VIEW_HELPS[name] for name in ("overwrite", "temp_path")})
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


@recorded("visualize_dialogue_histories", reads=("saved_path",))
@stage(
    "saved_path",
    "export",
    "overwrite",
    "host",
    "port",
    "open_browser",
    defaults={"port": 9785},
    helps={name: VIEW_HELPS[name] for name in ("saved_path", "overwrite", "host")},
)
def visualize_dialogue_histories(flags: ViewFlags, /) -> None:
    """Browse a trajectory file: dialogues, and what its rows have: tests, rewards of turns, or pictures.

    What `sweet-rl view FILE` does. Graded and ungraded files, ours and published ones, are shown: answers beside
    the hidden functions, with every test's result; every turn's reward and how episodes ended; drafts beside the
    picture that was wanted. Serves the file to a browser on this machine until you press Ctrl-C, or writes one
    self-contained HTML file with --export. Press ? in the page for its keys.
    """
    show([flags.saved_path], flags, host=flags.host)


@dataclass(frozen=True, kw_only=True)
class DesignViewFlags(ViewFlags, DrawingFlags):
    """Pictures."""


@recorded("visualize_design_dialogue_histories", reads=("saved_path",))
@stage("saved_path", "temp_path", defaults={"port": 9785}, helps=VIEW_HELPS)
def visualize_design_dialogue_histories(flags: DesignViewFlags, /) -> None:
    """Browse a trajectory file of pages: each draft's picture, the target, their difference, the metrics.

    What `sweet-rl view FILE` does. Pages are shown as pictures and as text, never as pages. Pictures come from
    the files that rows name; nothing is rendered unless --render or --metrics asks for it. Serves the file to a
    browser on this machine until you press Ctrl-C, or writes one self-contained HTML file with --export. Press ?
    in the page for its keys.
    """
    show([flags.saved_path], flags, flags, host=flags.host)
