"""Shows trajectories, under the name of the published script: `sweet-rl view` of one file.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, ViewFlags, show


@recorded("visualize_dialogue_histories", reads=("saved_path",))
@stage(
    "saved_path",
    "export",
    "overwrite",
    "host",
    "port",
    "open_browser",
    helps={name: VIEW_HELPS[name] for name in ("saved_path", "overwrite")},
)
def visualize_dialogue_histories(flags: ViewFlags, /) -> None:
    """Browse a trajectory file: dialogues, and what its rows have: tests, rewards of turns, or pictures.

    What `sweet-rl view FILE` does. Graded and ungraded files, ours and published ones, are shown: answers beside
    the hidden functions, with every test's result; every turn's reward and how episodes ended; drafts beside the
    picture that was wanted. Serves the file to a browser on this machine until you press Ctrl-C, or writes one
    self-contained HTML file with --export. Press ? in the page for its keys.
    """
    show([flags.saved_path], flags, host=flags.host)
