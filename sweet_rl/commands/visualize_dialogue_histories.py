"""Shows trajectories: in a browser on this machine, or as a file.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, ViewFlags, view


@recorded("visualize_dialogue_histories", reads=("saved_path",))
@stage(
    "saved_path",
    "export",
    "overwrite",
    "host",
    "port",
    "open_browser",
    defaults={"port": 9785},
    helps=VIEW_HELPS,
)
def visualize_dialogue_histories(flags: ViewFlags, /) -> None:
    """Browse a trajectory file: dialogues, and what its rows have: tests, rewards of turns, or pictures.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Graded and ungraded files, ours and published ones, are shown: answers beside the hidden
    functions, with every test's result; every turn's reward and how episodes ended; drafts beside the picture
    that was wanted (visualize_design_dialogue_histories can also draw and grade them). Press ? in the page
    for its keys.
    """
    from pathlib import Path

    from sweet_rl.records import load_trajectories
    from sweet_rl.viewer.choosing import PICTURE_BYTES, contents_of

    saved = Path(flags.saved_path)
    contents = contents_of(load_trajectories(saved), saved.name, folder=saved.parent)
    more = "visualize_design_dialogue_histories --export_mb"
    view(contents, flags, picture_bytes=PICTURE_BYTES, room_flag=more)
