"""Shows dialogues about web pages: every draft beside the target.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.viewing import VIEW_HELPS, ViewFlags, view
from sweet_rl.flags import flag
from sweet_rl.flags.common import TempPath
from sweet_rl.pages.flags import RenderFlags


@dataclass(frozen=True, kw_only=True)
class DesignViewFlags(ViewFlags, TempPath, RenderFlags):
    """Pictures."""

    export_mb: float = flag(
        100.0,
        "for --export: megabytes that pictures may take in the file; further ones are left out.",
        at_least=0,
    )
    render: bool = flag(
        False,
        "render drafts and targets that have no picture, as in published files, when they are looked at.",
    )
    metrics: bool = flag(
        False,
        "grade every draft (without weights) when its dialogue is looked at; renders like --render.",
    )


@recorded("visualize_design_dialogue_histories", reads=("saved_path",))
@stage(
    "saved_path",
    "temp_path",
    defaults={"port": 9785},
    helps=VIEW_HELPS
    | {
        "export": "write the page with rows and pictures to this HTML file, which opens offline, and end.",
        "temp_path": "folder in which a picture is searched by its name when it is not at the path in its row.",
    },
)
def visualize_design_dialogue_histories(flags: DesignViewFlags, /) -> None:
    """Browse a trajectory file of pages: each draft's picture, the target, their difference, the metrics.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Pages are shown as pictures and as text, never as pages. Pictures come from the files
    that rows name; nothing is rendered unless --render or --metrics asks for it. Press ? in the page for its
    keys.
    """
    from pathlib import Path

    from sweet_rl.pages import open_renderer
    from sweet_rl.records import load_trajectories
    from sweet_rl.viewer.design import DesignContents

    saved = Path(flags.saved_path)
    contents = DesignContents(
        load_trajectories(saved),
        saved.name,
        folder=saved.parent,
        elsewhere=Path(flags.temp_path).expanduser() if flags.temp_path is not None else None,
        renderer=open_renderer(flags.rendering()) if flags.render or flags.metrics else None,
        metrics=flags.metrics,
    )
    view(contents, flags, picture_bytes=int(flags.export_mb * 1_000_000), room_flag="--export_mb")
