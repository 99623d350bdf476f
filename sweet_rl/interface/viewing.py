"""Episodes as a page: in a notebook, in a browser, or as a file that opens offline."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from sweet_rl.errors import UsageError
from sweet_rl.interface.waiting import in_thread
from sweet_rl.records import load_trajectories
from sweet_rl.runs import new_file
from sweet_rl.types import Trajectory
from sweet_rl.viewer.choosing import PICTURE_BYTES, contents_of
from sweet_rl.viewer.export import export_html


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
    """Make a page of episodes; what `visualize_dialogue_histories --export` does.

    Args:
        what: trajectories, or a file of them; the pictures that they name become part of the page.
        path: the .html file; default: a temporary one.
        overwrite: replace it when it exists.
        height: of the frame in a notebook, in pixels.

    Returns:
        The page: the last line of a notebook's cell shows it, `view(...).open()` a browser.

    Raises:
        UsageError: there are no episodes; the file exists.
        DataError: a row is wrong.
    """
    is_file = isinstance(what, (str, Path))
    trajectories = load_trajectories(what) if isinstance(what, (str, Path)) else list(what)
    if not trajectories:
        raise UsageError("There are no episodes to look at.")
    if path is None:
        out = Path(tempfile.mkdtemp(prefix="sweet_rl_view_")) / "episodes.html"
    else:
        out = Path(path)
        new_file(out, "path", overwrite=overwrite)
    title = Path(str(what)).name if is_file else f"{len(trajectories)} episodes"
    folder = Path(str(what)).parent if is_file else Path.cwd()
    contents = contents_of(trajectories, title, folder=folder)
    in_thread(lambda: export_html(contents, out, picture_bytes=PICTURE_BYTES))
    return View(out, height)
