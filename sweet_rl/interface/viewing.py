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
from sweet_rl.viewer.code import CodeContents
from sweet_rl.viewer.content import Contents
from sweet_rl.viewer.export import export_html
from sweet_rl.viewer.game import GameContents, rewards_turns


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
        what: trajectories, or a file of them.
        path: the .html file; default: a temporary one.
        overwrite: replace it when it exists.
        height: of the frame in a notebook, in pixels.

    Returns:
        The page: the last line of a notebook's cell shows it, `view(...).open()` a browser.

    Raises:
        UsageError: there are no episodes, or they are of web pages; the file exists.
        DataError: a row is wrong.
    """
    is_file = isinstance(what, (str, Path))
    trajectories = load_trajectories(what) if isinstance(what, (str, Path)) else list(what)
    if not trajectories:
        raise UsageError("There are no episodes to look at.")
    if any("target_image" in one.extra for one in trajectories):
        raise UsageError(
            "Episodes with pictures are shown by `sweet-rl visualize_design_dialogue_histories`."
        )
    if path is None:
        out = Path(tempfile.mkdtemp(prefix="sweet_rl_view_")) / "episodes.html"
    else:
        out = Path(path)
        new_file(out, "path", overwrite=overwrite)
    title = Path(str(what)).name if is_file else f"{len(trajectories)} episodes"
    kind = GameContents if rewards_turns(trajectories) else CodeContents
    contents: Contents = kind(trajectories, title)
    in_thread(lambda: export_html(contents, out))
    return View(out, height)
