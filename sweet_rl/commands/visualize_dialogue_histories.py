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
    """Browse a trajectory file: dialogues, answers beside the hidden functions, test by test results.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Graded and ungraded files, ours and published ones, are shown; of worlds that reward
    turns, every turn's reward and how episodes ended. Press ? in the page for its keys. Files of Frontend
    Design have a viewer of their own: visualize_design_dialogue_histories.
    """
    from pathlib import Path

    from sweet_rl.records import load_trajectories
    from sweet_rl.viewer.code import CodeContents
    from sweet_rl.viewer.game import GameContents, rewards_turns

    trajectories = load_trajectories(flags.saved_path)
    kind = GameContents if rewards_turns(trajectories) else CodeContents
    view(kind(trajectories, Path(flags.saved_path).name), flags)
