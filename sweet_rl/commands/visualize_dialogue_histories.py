"""Looking at trajectories: in a browser on this machine, or as a file to keep and send.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded


@recorded("visualize_dialogue_histories", reads=("saved_path",))
def visualize_dialogue_histories(
    saved_path: str,
    export: str | None = None,
    overwrite: bool = False,
    host: str = "127.0.0.1",
    port: int = 9785,
    open_browser: bool = False,
) -> None:
    """Browse a trajectory file: dialogues, answers beside the hidden functions, test by test results.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Graded and ungraded files, ours and published ones, are shown; of worlds that reward
    turns, every turn's reward and how episodes ended. Press ? in the page for its keys. Files of Frontend
    Design have a viewer of their own: visualize_design_dialogue_histories.

    Args:
        saved_path: trajectory file (JSON Lines); may be given without the flag's name.
        export: write the page with all rows to this HTML file, which opens offline, and end.
        overwrite: for --export: replace the file when it exists.
        host: address to listen on. The default lets in this machine only; another one lets in everyone who
            can reach it, without a password.
        port: port to listen on; 0 takes a free one.
        open_browser: open the page in the default browser.
    """
    from pathlib import Path

    from sweet_rl.commands.viewing import ViewFlags, view

    flags = ViewFlags(export, host, port, open_browser, overwrite)
    flags.check()

    from sweet_rl.records import load_trajectories
    from sweet_rl.viewer.code import CodeContents
    from sweet_rl.viewer.game import GameContents, rewards_turns

    trajectories = load_trajectories(saved_path)
    kind = GameContents if rewards_turns(trajectories) else CodeContents
    view(kind(trajectories, Path(saved_path).name), saved_path, flags)
