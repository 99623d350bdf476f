"""What the viewers' commands have in common: to a browser on this machine, or to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.runs import new_file
from sweet_rl.viewer.content import Contents


@dataclass(frozen=True, slots=True)
class ViewFlags:
    """Where a file is to be looked at; the fields are flags under the same names."""

    export: str | None
    host: str
    port: int
    open_browser: bool
    overwrite: bool = False

    def check(self) -> None:
        """Find what is wrong before anything is read.

        Raises:
            UsageError: a flag has a value that it cannot have.
        """
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port must be between 0 and 65535, got {self.port}.")
        if self.export is None:
            return
        out = Path(self.export)
        if out.suffix.lower() not in {".html", ".htm"} or out.is_dir():
            raise UsageError(f"--export must name an .html file, got {self.export!r}.")
        new_file(out, "export", overwrite=self.overwrite)


def view(
    contents: Contents, saved_path: str, flags: ViewFlags, *, picture_bytes: int = 0, room_flag: str = ""
) -> None:
    """Serve until interrupted, or export.

    Args:
        contents: what is shown; closed at the end.
        saved_path: the file it comes from, for messages.
        flags: where to.
        picture_bytes: room for pictures in an exported file.
        room_flag: the flag that gives them more.
    """
    if flags.export is not None:
        from sweet_rl.viewer.export import export_html

        out = Path(flags.export)
        tracking.writes(out)
        embedded = export_html(contents, out, picture_bytes=picture_bytes)
        print(f"{len(contents)} rows exported to {out} ({out.stat().st_size / 1e6:.1f} MB)")
        if embedded.left_out:
            print(
                f"{embedded.left_out} of {embedded.pictures} pictures found no room in it; "
                f"{room_flag} gives them more."
            )
        if flags.open_browser:
            _open(out.resolve().as_uri())
        return
    from sweet_rl.serving import is_loopback
    from sweet_rl.viewer.server import serve

    if not is_loopback(flags.host):
        print(
            f"warning: --host {flags.host} lets every machine that can reach this one read {saved_path}, "
            "without a password.",
            file=sys.stderr,
        )
    serve(contents, host=flags.host, port=flags.port, on_ready=_announce(contents, saved_path, flags))


def _announce(contents: Contents, saved_path: str, flags: ViewFlags) -> Callable[[str], None]:
    def on_ready(url: str) -> None:
        print(f"{len(contents)} rows of {saved_path} at {url} (Ctrl-C ends)", flush=True)
        if flags.open_browser:
            _open(url)

    return on_ready


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser could be started here; open {url} yourself")
