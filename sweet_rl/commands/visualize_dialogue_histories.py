"""Looking at trajectories: in a browser on this machine, or as a file to keep and send (spec §10)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.types import Trajectory


def visualize_dialogue_histories(
    saved_path: str,
    export: str | None = None,
    host: str = "127.0.0.1",
    port: int = 9785,
    open_browser: bool = False,
) -> None:
    """Browse a trajectory file: dialogues, answers beside the hidden functions, test by test results.

    Serves the file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML
    file with --export. Graded and ungraded files, ours and published ones, are shown. Press ? in the page
    for its keys.

    Args:
        saved_path: trajectory file (JSON Lines); may be given without the flag's name.
        export: write the page with all rows to this HTML file, which opens offline, and end.
        host: address to listen on. The default lets nobody but this machine in; another one lets in whoever
            can reach it, without a password.
        port: port to listen on; 0 takes a free one.
        open_browser: open the page in the default browser.
    """
    import sys

    from sweet_rl.records import load_trajectories

    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be between 0 and 65535, got {port}.")
    out = None if export is None else Path(export)
    if out is not None and (out.suffix.lower() not in {".html", ".htm"} or out.is_dir()):
        raise UsageError(f"--export must name an .html file, got {export!r}.")
    trajectories = load_trajectories(saved_path)
    title = Path(saved_path).name
    if out is not None:
        _export(trajectories, out, title, open_browser=open_browser)
        return

    from sweet_rl.viewer.server import is_loopback, serve

    def on_ready(url: str) -> None:
        print(f"{len(trajectories)} rows of {saved_path} at {url} (Ctrl-C ends)", flush=True)
        if open_browser:
            _open(url)

    if not is_loopback(host):
        print(
            f"warning: --host {host} lets every machine that can reach this one read {saved_path}, "
            "without a password.",
            file=sys.stderr,
        )
    serve(trajectories, title=title, host=host, port=port, on_ready=on_ready)


def _export(trajectories: Sequence[Trajectory], out: Path, title: str, *, open_browser: bool) -> None:
    from sweet_rl.viewer.export import export_html

    export_html(trajectories, out, title)
    print(f"{len(trajectories)} rows exported to {out} ({out.stat().st_size / 1e6:.1f} MB)")
    if open_browser:
        _open(out.resolve().as_uri())


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser could be started here; open {url} yourself")
