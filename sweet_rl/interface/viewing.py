"""Episodes as a page: in a notebook, in a browser, or as a file that opens offline."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.interface.waiting import in_thread
from sweet_rl.records import replace_rows, trajectory_to_row
from sweet_rl.runs import new_file
from sweet_rl.types import Trajectory
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.export import export
from sweet_rl.viewer.library import Library

PICTURE_BYTES = 100_000_000
"""Room for pictures in a page."""


class View:
    """A page with all episodes in it, which loads nothing else; in a notebook it shows itself.

    Attributes:
        path: of the HTML file.
        height: of the frame in a notebook, in pixels.
    """

    def __init__(self, path: Path, height: int) -> None:
        self.path, self.height = path, height

    def open(self) -> bool:
        """Show it in the default browser; False where none could be started."""
        return webbrowser.open(self.path.resolve().as_uri())

    def _repr_html_(self) -> str:
        page = html.escape(self.path.read_text(encoding="utf-8"))
        frame = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe title="{html.escape(self.path.name)}" style="{frame}" srcdoc="{page}"></iframe>'

    def __repr__(self) -> str:
        return f"View({str(self.path)!r})"


def view(
    what: str | Path | Iterable[Trajectory],
    path: str | Path | None = None,
    *,
    overwrite: bool = False,
    height: int = 700,
) -> View:
    """Make a page of episodes; what `sweet-rl view --export` does.

    Args:
        what: trajectories, or a file of them; the pictures that they name become part of the page.
        path: the .html file; default: a temporary one.
        overwrite: replace it when it exists.
        height: of the frame in a notebook, in pixels.

    Returns:
        The page: the last line of a notebook's cell shows it, `view(...).open()` a browser.

    Raises:
        UsageError: there are no episodes; the file exists.
    """
    trajectories = None if isinstance(what, (str, Path)) else list(what)
    if trajectories == []:
        raise UsageError("There are no episodes to look at.")
    if path is None:
        out = Path(tempfile.mkdtemp(prefix="sweet_rl_view_")) / "episodes.html"
    else:
        out = Path(path)
        new_file(out, "path", overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix="sweet_rl_view_") as folder:
        if trajectories is None:
            source, beside = Path(str(what)), Path(str(what)).parent
        else:
            source, beside = Path(folder, f"{len(trajectories)} episodes.jsonl"), Path.cwd()
            replace_rows(source, map(trajectory_to_row, trajectories))
        library = Library([source], drawing=lambda rows, title, _: DesignContents(rows, title, folder=beside))
        in_thread(lambda: export(library, out, picture_bytes=PICTURE_BYTES, one_file=True))
    return View(out, height)
