"""Shows dialogues about web pages, under the name of the published script: `sweet-rl view` of one file.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, DrawingFlags, ViewFlags, show


@dataclass(frozen=True, kw_only=True)
class DesignViewFlags(ViewFlags, DrawingFlags):
    """Pictures."""


@recorded("visualize_design_dialogue_histories", reads=("saved_path",))
@stage("saved_path", "temp_path", helps=VIEW_HELPS)
def visualize_design_dialogue_histories(flags: DesignViewFlags, /) -> None:
    """Browse a trajectory file of pages: each draft's picture, the target, their difference, the metrics.

    What `sweet-rl view FILE` does. Pages are shown as pictures and as text, never as pages. Pictures come from
    the files that rows name; nothing is rendered unless --render or --metrics asks for it. Serves the file to a
    browser on this machine until you press Ctrl-C, or writes one self-contained HTML file with --export. Press ?
    in the page for its keys.
    """
    show([flags.saved_path], flags, flags, host=flags.host)
