"""Finds records below a folder, files without one, and inputs that have changed since."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sweet_rl.chat.names import folder_of
from sweet_rl.runs.digests import entries_of, unchanged
from sweet_rl.runs.reading import read_record
from sweet_rl.tracking import RECORD, is_record
from sweet_rl.types import Json

_DATA: Final = frozenset({".jsonl", ".json", ".html", ".parquet", ".safetensors", ".pdf", ".png", ".txt"})
"""Suffixes of what stages write."""

_SILENT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """A record and its path (the first one, where several outputs have it)."""

    place: Path
    content: Mapping[str, Json]

    @property
    def status(self) -> str:
        """As recorded; also whether a running one has been silent for a minute."""
        status = str(self.content["status"])
        if status != "running":
            return status
        try:
            seen = datetime.fromisoformat(str(self.content.get("updated")))
        except ValueError:
            return "interrupted"
        silent = (datetime.now(UTC) - seen).total_seconds()
        return "running" if silent < _SILENT_S else "interrupted"


@dataclass(frozen=True, slots=True)
class Survey:
    """The records below a folder.

    `unrecorded` are files that no run says it wrote. `stale` are paths that a run's record no longer fits: an
    input or an output file that is another one now, or not there any more.
    """

    runs: list[Found]
    unrecorded: list[Path]
    stale: list[tuple[Found, str, str]]


def survey(folder: Path) -> Survey:
    """Everything below a folder, oldest run first."""
    files = list(entries_of(folder))
    found: dict[str, Found] = {}
    for place in files:
        if is_record(place) and (content := read_record(place)) is not None:
            found.setdefault(str(content["id"]), Found(place, content))
    runs = sorted(found.values(), key=lambda run: (str(run.content.get("started")), str(run.content["id"])))
    outputs = {path for run in runs for path in _outputs(run)}
    folders = {place.parent.resolve() for place in files if place.name == RECORD and read_record(place)}
    return Survey(
        runs,
        [path for path in files if path.suffix in _DATA and not _is_known(path.resolve(), outputs, folders)],
        [(run, source, how) for run in runs for source, how in [*_stale(run), *_lost(run, runs)]],
    )


def _is_known(path: Path, outputs: set[Path], folders: set[Path]) -> bool:
    return is_record(path) or path in outputs or any(above in folders for above in path.parents)


def _outputs(run: Found) -> Iterable[Path]:
    for output in run.content.get("outputs") or []:
        if (path := _now_at(run, str(output.get("path")))) is not None:
            yield path


def _stale(run: Found) -> Iterable[tuple[str, str]]:
    own = {
        str(output.get("path")): output for output in run.content.get("outputs") or [] if "sha256" in output
    }
    for entry in run.content.get("inputs") or []:
        source = str(entry.get("source"))
        if "sha256" not in entry or folder_of(source) is not None:  # ours are checked where they are loaded
            continue
        path = _now_at(run, source)
        then = own.get(source, entry)  # what it has changed itself
        same = None if path is None else unchanged(path, then)
        if not same:
            yield source, "input changed" if same is False else "input gone"


def _lost(run: Found, runs: Sequence[Found]) -> Iterable[tuple[str, str]]:
    """Files that the run wrote last, and that are others now."""
    written = str(run.content.get("updated"))
    later = {path for one in runs if str(one.content.get("updated")) > written for path in _outputs(one)}
    for entry in run.content.get("outputs") or []:
        if "sha256" not in entry or "files" in entry:
            continue
        path = _now_at(run, str(entry["path"]))
        if path is None:
            yield str(entry["path"]), "output gone"
        elif path not in later and not unchanged(path, entry):
            yield str(entry["path"]), "output changed"


def _now_at(run: Found, path: str) -> Path | None:
    """Where a path of the record is now: as then, or as far from the record as then; None where nowhere."""
    then = Path(str(run.content.get("folder") or ""), path).expanduser()
    if then.exists():
        return then.resolve()
    for output in run.content.get("outputs") or []:
        made = Path(str(run.content.get("folder") or ""), str(output.get("path"))).expanduser()
        was_in = made if run.place.name == RECORD else made.parent
        moved = Path(os.path.normpath(run.place.parent / os.path.relpath(then, was_in)))
        if moved.exists():
            return moved.resolve()
    return None
