"""The shared part of the viewers' commands: to a browser on this machine, or to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Listening, Overwriting, SavedPath

if TYPE_CHECKING:
    from sweet_rl.viewer.content import Contents


@dataclass(frozen=True, kw_only=True)
class ViewFlags(SavedPath, Listening, Overwriting):
    """Where a file is to be looked at."""

    export: str | None = flag(
        None, "write the page with all rows to this HTML file, which opens offline, and end."
    )
    open_browser: bool = flag(False, "open the page in the default browser.")

    def check_together(self) -> None:
        """Whether the page may be written there.

        Raises:
            UsageError: it is no name of a page, or there is one.
        """
        super().check_together()
        if self.export is None:
            return
        from sweet_rl.runs import new_file

        out = Path(self.export)
        if out.suffix.lower() not in {".html", ".htm"} or out.is_dir():
            raise UsageError(f"--export must name an .html file, got {self.export!r}.")
        new_file(out, "export", overwrite=self.overwrite)


VIEW_HELPS: Final = {
    "saved_path": "trajectory file (JSON Lines); may be given without the flag's name.",
    "overwrite": "for --export: replace the file when it exists.",
    "host": "address to listen at. The default lets in this machine only; another one lets in everyone who can reach it, without a password.",
}
"""What some flags mean in both viewers."""


def view(contents: Contents, flags: ViewFlags, *, picture_bytes: int = 0, room_flag: str = "") -> None:
    """Serve until interrupted, or export.

    Args:
        contents: what is shown; closed at the end.
        flags: where it comes from, and where to.
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
            f"warning: --host {flags.host} lets every machine that can reach this one read {flags.saved_path}, "
            "without a password.",
            file=sys.stderr,
        )
    serve(contents, host=flags.host, port=flags.port, on_ready=_announce(contents, flags))


def _announce(contents: Contents, flags: ViewFlags) -> Callable[[str], None]:
    def on_ready(url: str) -> None:
        print(f"{len(contents)} rows of {flags.saved_path} at {url} (Ctrl-C ends)", flush=True)
        if flags.open_browser:
            _open(url)

    return on_ready


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser could be started here; open {url} yourself")
