"""Looking at dialogues of Frontend Design: every draft beside the page that was wanted.

Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("visualize_design_dialogue_histories", reads=("saved_path",))
def visualize_design_dialogue_histories(
    saved_path: str,
    temp_path: str | None = None,
    *,
    export: str | None = None,
    overwrite: bool = False,
    export_mb: float = 100.0,
    host: str = "127.0.0.1",
    port: int = 9785,
    open_browser: bool = False,
    render: bool = False,
    metrics: bool = False,
    browser: str = "chromium",
    network: str = "none",
    allow_scripts: bool = False,
    viewport: str = "1366x768",
    page_timeout_s: float = 30.0,
    browsers: int = 2,
    render_cache: str = "default",
) -> None:
    """Browse a trajectory file of pages: each draft's picture, the target, their difference, the metrics.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Pages are shown as pictures and as text, never as pages. Pictures come from the files
    that rows name; nothing is rendered unless --render or --metrics asks for it. Press ? in the page for its
    keys.

    Args:
        saved_path: trajectory file (JSON Lines); may be given without the flag's name.
        temp_path: folder in which a picture is looked for by its name when it is not where its row says.
        export: write the page with rows and pictures to this HTML file, which opens offline, and end.
        overwrite: for --export: replace the file when it exists.
        export_mb: for --export: megabytes that pictures may take in the file; further ones are left out.
        host: address to listen on. The default lets in this machine only; another one lets in everyone who can reach it, without a password.
        port: port to listen on; 0 takes a free one.
        open_browser: open the page in the default browser.
        render: render drafts and targets that have no picture, as in published files, when they are looked at.
        metrics: grade every draft (without weights) when its dialogue is looked at; renders like --render.
        browser: what renders pages: chromium or firefox.
        network: none (pages get what the package ships) or allow (the published behaviour).
        allow_scripts: run the scripts of pages.
        viewport: width and height of the window that pages are laid out for.
        page_timeout_s: seconds that one page may take.
        browsers: browsers at once.
        render_cache: folder that keeps rendered pages for the next run; default: the user's cache; none keeps none.
    """
    from pathlib import Path

    from sweet_rl.commands.rendering import RenderFlags, make_renderer
    from sweet_rl.commands.viewing import ViewFlags, view

    flags = ViewFlags(export, host, port, open_browser, overwrite)
    flags.check()
    if export_mb < 0:
        raise UsageError(f"--export_mb must not be negative, got {export_mb:g}.")
    rendering = RenderFlags(browser, network, allow_scripts, viewport, page_timeout_s, browsers, render_cache)
    rendering.settings()

    from sweet_rl.records import load_trajectories
    from sweet_rl.viewer.design import DesignContents

    contents = DesignContents(
        load_trajectories(saved_path),
        Path(saved_path).name,
        folder=Path(saved_path).parent,
        elsewhere=Path(temp_path).expanduser() if temp_path is not None else None,
        renderer=make_renderer(rendering) if render or metrics else None,
        metrics=metrics,
    )
    view(contents, saved_path, flags, picture_bytes=int(export_mb * 1_000_000), room_flag="--export_mb")
