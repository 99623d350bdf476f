"""The shared part of what shows files: to a browser on this machine, or as files that open offline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sweet_rl import tracking
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Listening, ListeningPort, Overwriting, SavedPath, TempPath
from sweet_rl.pages.flags import RenderFlags

if TYPE_CHECKING:
    from sweet_rl.types import Trajectory
    from sweet_rl.viewer.design import DesignContents
    from sweet_rl.viewer.library import Library

_PICTURE_MB = 100.0


@dataclass(frozen=True, kw_only=True)
class ShowFlags(Overwriting, ListeningPort):
    """Where files are to be looked at."""

    export: str | None = flag(
        None,
        "write everything to this HTML file, which opens offline, and end; more than 50 MB become a folder of that name.",
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


@dataclass(frozen=True, kw_only=True)
class ViewFlags(SavedPath, ShowFlags, Listening):
    """Where a file is to be looked at."""


@dataclass(frozen=True, kw_only=True)
class DrawingFlags(TempPath, RenderFlags):
    """Pictures."""

    export_mb: float = flag(
        _PICTURE_MB,
        "for --export: megabytes that pictures may take in one file; further ones are left out.",
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

    def contents(self, rows: Sequence[Trajectory], title: str, folder: Path) -> DesignContents:
        """What shows the rows of a file of pages."""
        from sweet_rl.pages import open_renderer
        from sweet_rl.viewer.design import DesignContents

        return DesignContents(
            rows,
            title,
            folder=folder,
            elsewhere=Path(self.temp_path).expanduser() if self.temp_path is not None else None,
            renderer=open_renderer(self.rendering()) if self.render or self.metrics else None,
            metrics=self.metrics,
        )


VIEW_HELPS: Final = {
    "saved_path": "trajectory file (JSON Lines); may be given without the flag's name.",
    "overwrite": "for --export: replace the file when it exists.",
    "host": "address to listen at. The default lets in this machine only; another one lets in everyone who can reach it and has the printed address.",
    "temp_path": "folder in which a picture is searched by its name when it is not at the path in its row.",
}
"""What some flags mean wherever files are shown."""


def show(
    paths: Sequence[str], flags: ShowFlags, drawing: DrawingFlags | None = None, *, host: str = "127.0.0.1"
) -> None:
    """Serve until interrupted, or export.

    Args:
        paths: files and folders.
        flags: where to.
        drawing: how pictures are found and made.
        host: the address to listen at.

    Raises:
        UsageError: there is nothing to show; what is exported exists already.
    """
    from sweet_rl.viewer.library import Library

    library = Library(paths, drawing=None if drawing is None else drawing.contents)
    if flags.export is not None:
        megabytes = _PICTURE_MB if drawing is None else drawing.export_mb
        _export(library, flags.export, flags, int(megabytes * 1_000_000))
        return
    from sweet_rl.command_line.process import inert
    from sweet_rl.serving import is_loopback
    from sweet_rl.viewer.server import serve

    if not is_loopback(host):
        print(
            f"warning: --host {host} lets every machine that can reach this one and knows the printed address read "
            f"{inert(', '.join(paths))}; what is sent is not encrypted.",
            file=sys.stderr,
        )
    serve(library, host=host, port=flags.port, on_ready=_announce(library, flags))


def _export(library: Library, name: str, flags: ShowFlags, picture_bytes: int) -> None:
    from sweet_rl.viewer.export import export, folder_of

    folder = folder_of(library, name)
    if folder is not None and folder.exists() and not flags.overwrite:
        raise UsageError(
            f"There are more than 50 MB to export: they become the folder {str(folder)!r}, which exists already. Pass "
            "--overwrite to replace it, or choose another --export."
        )
    for one in library.files:
        tracking.reads("paths", str(one.path))
    tracking.writes(folder or name, folder=folder is not None)
    made = export(library, name, picture_bytes=picture_bytes)
    files = [made.path] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{made.rows:,} rows exported to {made.path} ({size / 1e6:.1f} MB)")
    if made.left_out:
        print(
            f"{made.left_out} of {made.pictures} pictures found no room in it; --export_mb of "
            "`sweet-rl view` gives them more."
        )
    if flags.open_browser:
        _open(made.path.resolve().as_uri())


def _announce(library: Library, flags: ShowFlags) -> Callable[[str], None]:
    def on_ready(url: str) -> None:
        count = sum(one.kind != "credit" for one in library.files)  # scores are shown with their dialogues
        what = library.title if count == 1 else f"{count} files of {library.title}"
        print(f"{what} at {url} (Ctrl-C ends)", flush=True)
        if flags.open_browser:
            _open(url)

    return on_ready


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"no browser could be started here; open {url} yourself")
