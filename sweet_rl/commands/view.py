"""Shows what runs have left, to a browser on this machine or as files that open offline.

The last two are the published scripts' names for `sweet-rl view` of one file.
Published behaviour: docs/published/sweet_rl.md#viewers-and-filter.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sweet_rl import browsers, tracking
from sweet_rl.browsers.page import RenderFlags
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Listening, Overwriting, SavedPath, TempPath
from sweet_rl.runs import new_file

if TYPE_CHECKING:
    from sweet_rl.types import Trajectory
    from sweet_rl.viewer.design import DesignContents

_PICTURE_MB = 100.0
_PORT: Final = 9785


@group("The viewer")
class ShowFlags(Overwriting, Listening):
    export: str | None = flag(
        None,
        "write everything to this HTML file, which opens offline, and exit; above 50 MB it becomes a folder of that name.",
    )

    def check_together(self) -> None:
        """Whether the page may be written there."""
        if self.export is None:
            return
        out = Path(self.export)
        if out.suffix.lower() not in {".html", ".htm"} or out.is_dir():
            raise UsageError(f"--export must name an .html file, got {self.export!r}.")
        new_file(out, "export", overwrite=self.overwrite)


@group("The viewer")
class ViewFlags(SavedPath, ShowFlags):
    pass


@group("Pictures")
class DrawingFlags(TempPath, RenderFlags):
    export_mb: float = flag(
        _PICTURE_MB,
        "with --export: most megabytes of pictures in one file; further pictures are left out.",
        at_least=0,
    )
    render: bool = flag(
        False,
        "render drafts and targets without a picture, as in published files, when their dialogue is opened.",
    )
    metrics: bool = flag(
        False, "grade every draft (without CLIP) when its dialogue is opened; renders like --render."
    )

    def contents(self, read: Callable[[int], Trajectory], folder: Path) -> DesignContents:
        """The pictures of a file of pages."""
        from sweet_rl.viewer.design import DesignContents

        return DesignContents(
            read,
            folder=folder,
            elsewhere=Path(self.temp_path).expanduser() if self.temp_path is not None else None,
            renderer=browsers.open_renderer(self.rendering()) if self.render or self.metrics else None,
            metrics=self.metrics,
        )


VIEW_HELPS: Final = {
    "port": f"port to listen on, which must be free; 0: any free one. Default {_PORT}, or a free one if that is taken.",
    "host": "address to listen on. The default accepts connections from this machine only; another one "
    "accepts everyone who can reach it and has the printed address.",
    "temp_path": "folder that is searched for a picture's file name if the picture is not at the path in its row.",
}
"""What some flags mean wherever files are shown."""


def show(paths: Sequence[str], flags: ShowFlags, drawing: DrawingFlags | None = None) -> None:
    """Serve until interrupted, or export."""
    from sweet_rl.viewer.library import Library

    library, host = Library(paths, drawing=None if drawing is None else drawing.contents), flags.host
    if flags.export is not None:
        from sweet_rl.viewer.export import export, folder_of

        folder = folder_of(library, flags.export)
        if folder is not None and folder.exists() and not flags.overwrite:
            raise UsageError(
                f"There are more than 50 MB to export: they become the folder {str(folder)!r}, which exists already. "
                "Pass --overwrite to replace it, or choose another --export."
            )
        for one in library.files:
            tracking.reads("paths", str(one.path))
        tracking.writes(folder or flags.export, folder=folder is not None)
        megabytes = _PICTURE_MB if drawing is None else drawing.export_mb
        made = export(library, flags.export, picture_bytes=int(megabytes * 1_000_000))
        files = [made.path] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        print(f"{made.rows:,} rows exported to {made.path} ({size / 1e6:.1f} MB)")
        if made.left_out:
            print(
                f"{made.left_out} of {made.pictures} pictures found no room in it; --export_mb of "
                "`sweet-rl view` gives them more."
            )
        return
    from sweet_rl.cli.main import inert
    from sweet_rl.serving import is_loopback
    from sweet_rl.viewer.server import serve

    if not is_loopback(host):
        print(
            f"warning: --host {host} lets every machine that can reach this one and knows the printed address read "
            f"{inert(', '.join(paths))}; what is sent is not encrypted.",
            file=sys.stderr,
        )
    port = _PORT if flags.port is None else flags.port
    if flags.port is None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            socket.create_server((host, port), family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # anything else is said where it is listened on
                print(f"Port {port} is taken: a free one is used.", file=sys.stderr)
                port = 0
    count = sum(one.kind != "credit" for one in library.files)  # scores are shown with their dialogues
    what = library.title if count == 1 else f"{count} files of {library.title}"
    serve(
        library,
        host=host,
        port=port,
        on_ready=lambda url: print(f"{what} at {url} (Ctrl-C ends)", flush=True),
    )


@recorded("view")
@stage(helps={name: VIEW_HELPS[name] for name in ("port", "host", "temp_path")})
def view(flags: ShowFlags, drawing: DrawingFlags, /, *paths: str) -> None:
    """Look at files and folders of runs in a browser: dialogues, candidates, pairs, metrics, reports, records.

    Several runs are shown side by side, with the tasks that only one of them solves; dialogues show the
    critic's score of every turn if `sweet-rl credit score` has written them. A hidden index is kept beside each
    file, so that a large file opens quickly the second time. The page is served until you press Ctrl-C, to
    this machine only and only at the printed address; or use --export to write everything into one page.
    Press ? in the page for its keys.

    The smallest run: sweet-rl view runs

    Args:
        flags: where to.
        drawing: pictures.
        paths: files of rows, metrics.jsonl, reports and records of runs, or folders with such files.
    """
    if not paths:
        raise UsageError("Name at least one file or folder, for example: sweet-rl view runs")
    show(paths, flags, drawing)


@recorded("visualize_dialogue_histories", reads=("saved_path",))
@stage(
    "saved_path",
    "export",
    "overwrite",
    "host",
    "port",
    helps={name: VIEW_HELPS[name] for name in ("port", "host")},
)
def visualize_dialogue_histories(flags: ViewFlags, /) -> None:
    """Browse a trajectory file: dialogues with their tests, rewards of turns, or pictures.

    The same as `sweet-rl view FILE`. Shows graded and ungraded files, ours and published ones: answers beside
    the hidden functions, with the result of every test; the reward of every turn and how episodes ended;
    drafts beside the target picture. Serves the file to a browser on this machine until you press Ctrl-C, or
    writes one self-contained HTML file with --export. Press ? in the page for its keys.
    """
    show([flags.saved_path], flags)


@group("Pictures")
class DesignViewFlags(ViewFlags, DrawingFlags):
    pass


@recorded("visualize_design_dialogue_histories", reads=("saved_path",))
@stage("saved_path", "temp_path", helps=VIEW_HELPS)
def visualize_design_dialogue_histories(flags: DesignViewFlags, /) -> None:
    """Browse a trajectory file of pages: each draft's picture, the target, their difference, the metrics.

    The same as `sweet-rl view FILE`. Pages are shown as pictures and as source text, never as live pages.
    Pictures come from the files that rows name; nothing is rendered without --render or --metrics. Serves the
    file to a browser on this machine until you press Ctrl-C, or writes one self-contained HTML file with
    --export. Press ? in the page for its keys.
    """
    show([flags.saved_path], flags, flags)
