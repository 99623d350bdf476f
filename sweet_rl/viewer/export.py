"""The viewer as one file: page and rows together. It opens offline and can be sent to somebody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sweet_rl.records import replace_file
from sweet_rl.types import Trajectory
from sweet_rl.viewer.content import make_index, make_row
from sweet_rl.viewer.page import build_page, data_block


def export_html(trajectories: Sequence[Trajectory], out: str | Path, title: str) -> None:
    """Write the viewer with all rows to `out`, at once or not at all.

    Args:
        trajectories: in the order in which they are to be listed.
        out: the HTML file; its folder is made where missing.
        title: what the window and the page are called, usually the name of the trajectory file.

    Raises:
        StorageError: the disk is full or read-only; an older file is as it was.
    """
    replace_file(out, (chunk.encode() for chunk in _chunks(trajectories, title)))


def _chunks(trajectories: Sequence[Trajectory], title: str) -> Iterator[str]:
    """One row at a time: prompts and all, a file can be larger than what one would like to hold twice."""
    page = build_page(title, served=False)
    yield page.head
    yield from data_block("index", [make_index(trajectories, title)])
    yield from data_block("rows", map(make_row, trajectories))
    yield page.tail
