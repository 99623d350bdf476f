"""The files that one application shows: what they are, their rows by an index, and what belongs together.

Scores of turns (`sweet-rl credit`) and sampled candidates are shown with the trajectories that they are of:
those of the same task, repeat and turn, and of the same prompt.
"""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, overload

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.runs import has_failed
from sweet_rl.runs.facts import entries_of
from sweet_rl.runs.reading import place_of, read_record
from sweet_rl.statistics import mean_over_tasks, share_over_tasks
from sweet_rl.types import AgentTurn, Json, Trajectory
from sweet_rl.version import __version__
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.documents import read_metrics, read_object
from sweet_rl.viewer.indexing import FileIndex, Row
from sweet_rl.viewer.kinds import LAYOUTS, TRAJECTORIES, FileKind, RowReader, is_report, kind_of
from sweet_rl.viewer.rows import Contents, alternatives, index_of, read_turn
from sweet_rl.worlds import world_named_in

MOST_FILES = 2000
"""Of a folder; a run has some dozens."""

_KEPT = 32
"""Rows that are kept in memory, for neighbours and pictures."""

Making = Callable[[Sequence[Trajectory], str, Path], DesignContents]
"""Makes the contents of a file with pictures, from its rows, its title and its folder."""


class Items(Sequence[Any]):
    """The rows of a file as their kind reads them, each read when it is looked at."""

    def __init__(self, index: FileIndex, reader: RowReader) -> None:
        self._index, self._reader = index, reader
        self._get = functools.lru_cache(_KEPT)(self._read)

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self._get(one) for one in range(*place.indices(len(self)))]
        return self._get(place)

    def forget(self) -> None:
        """After the file has changed."""
        self._get.cache_clear()

    def _read(self, position: int) -> Any:
        row = self._index.row(position)
        return self._reader.item(_identified(row) if self._reader.kind in TRAJECTORIES else row.row)


@dataclass(slots=True)
class Shown:
    """One file of the application; `number` is its place in it."""

    number: int
    path: Path
    name: str
    kind: FileKind
    index: FileIndex | None = None
    items: Items | None = None
    contents: Contents[Any] | None = None
    credits: list[Shown] = field(default_factory=list)
    candidates: list[Shown] = field(default_factory=list)

    def bring_up(self) -> None:
        """Bring the index up to what the file holds now."""
        if self.index is not None and self.index.refresh() and self.items is not None:
            self.items.forget()

    def progress(self) -> tuple[int, int]:
        """How many bytes the index knows, and how many the file has."""
        known = self.index.done_bytes if self.index is not None else 0
        return known, self.path.stat().st_size if self.path.exists() else 0

    def row(self, position: int) -> dict[str, Json]:
        """Everything the page shows of a prepared row."""
        if self.contents is None or self.items is None:
            raise UsageError(f"{self.name} has no rows to look at.")
        shown = self.contents.row(position)
        if self.kind not in TRAJECTORIES:
            return shown
        trajectory: Trajectory = self.items[position]
        return shown | {
            "told": with_solution("", trajectory.task.ground_truth),
            "credit": [found for one in self.credits if (found := _credit_of(one, trajectory))],
            "alternatives": _alternatives_of(self.candidates, trajectory),
            "waiting": [one.name for one in self.candidates if one.index is not None and not one.index.ready],
        }

    def result(self) -> dict[str, Json]:
        """How its episodes did: who played what, and the main number with its interval.

        That is the first one of the `report.json` beside it where that is not older, else one of its rewards.
        """
        if self.index is None or self.kind not in TRAJECTORIES:
            raise UsageError(f"{self.name} holds no episodes.")
        rewards: dict[str, list[float]] = {}
        failed, first = 0, self.index.row(0).row if len(self.index) else {}
        for task, _, entry in self.index.entries():
            own = rewards.setdefault(task, [])
            if has_failed({"stop_reason": entry.get("stop")}):
                failed += 1
            elif entry.get("reward") is not None:
                own.append(entry["reward"])
        tasks = [own for own in rewards.values() if own]
        graded = sum(map(len, tasks))
        name, unit, found = "return", "number", mean_over_tasks(tasks)
        if self.kind == "design":
            name, unit, found = "similarity", "share", mean_over_tasks(tasks, low=0, high=1)
        elif self.kind == "code" and first.get("test_results"):
            right = [[float(reward >= 1) for reward in task] for task in tasks]
            name, unit, found = "success", "share", share_over_tasks(right)
        elif self.kind == "code":
            name = "reward"
        number = {"name": name, "unit": unit, **asdict(found)} if graded else None
        said = first.get("provenance") or {}
        return {
            "number": self._reported() or number,
            "rows": len(self.index),
            "tasks": len(rewards),
            "failed": failed,
            "ungraded": len(self.index) - failed - graded,
            "agent": said.get("agent_model"),
            "human": said.get("env_model"),
            "world": world_named_in(said),
            "page": self.report_page() is not None,
        }

    def _reported(self) -> dict[str, Json] | None:
        report = self.path.with_name("report.json")
        try:
            if self.path.name != "episodes.jsonl" or report.stat().st_mtime_ns < self.path.stat().st_mtime_ns:
                return None
            name, found = next(iter(read_object(report)["measures"].items()))
            numbers = {key: found[key] for key in ("mean", "low", "high")}
            unit = "number" if found["unit"] == "number" else "share"
        except (OSError, UsageError, LookupError, AttributeError, TypeError, StopIteration):
            return None  # none, another program's, or being written
        finite = all(value is None or isinstance(value, (int, float)) for value in numbers.values())
        return {"name": str(name), "unit": unit, **numbers} if finite else None

    def report_page(self) -> Path | None:
        """The page of its report, beside it, if there is one."""
        name = "report.html" if self.path.name == "episodes.jsonl" else f"{self.path.stem}.report.html"
        page = self.path.with_name(name)
        return page if page.is_file() and not page.is_symlink() else None

    def listing(self) -> str:
        """The index of its rows as JSON text."""
        if self.index is None or self.contents is None:
            raise UsageError(f"{self.name} has no rows to list.")
        index, kind = self.index, self.contents.kind
        return index.listing(lambda: index_of(index.entries(), self.name, kind) | {"broken": index.broken})

    def document(self) -> dict[str, Json]:
        """A file that is looked at as a whole."""
        return read_metrics(self.path) if self.kind == "metrics" else read_object(self.path)


class Library:
    """Files and folders that are looked at together.

    Args:
        paths: files, and folders in which all that can be shown is looked for.
        drawing: makes the contents of files with pictures; default: shows the pictures that rows name.
        named: what was asked for, where `paths` were made of it; for titles.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        drawing: Making | None = None,
        named: Sequence[str | Path] | None = None,
    ) -> None:
        found = list(_found([Path(path).expanduser() for path in paths]))
        if not found:
            raise UsageError(
                f"Nothing in {', '.join(map(str, paths))} can be shown: no rows, no metrics, no reports."
            )
        names = _names([path for path, _ in found])
        drawing = drawing or (lambda rows, title, folder: DesignContents(rows, title, folder=folder))
        self.files = [
            _shown(number, path, name, kind, drawing)
            for number, ((path, kind), name) in enumerate(zip(found, names, strict=True))
        ]
        self.title = self.files[0].name if len(self.files) == 1 else _title(named or paths)
        command = shlex.join(["sweet-rl", "view", *map(str, named or paths)])
        made = datetime.now(UTC).isoformat(timespec="seconds")
        self.about = {"version": __version__, "command": command, "made": made}
        self._attach()

    def listing(self) -> list[dict[str, Json]]:
        """What the application says of every file. Scores of turns are shown with their trajectories only."""
        return [_described(one) for one in self.files]

    async def close(self) -> None:
        """Free what looking has needed."""
        for one in self.files:
            if one.contents is not None:
                await one.contents.close()
            if one.index is not None:
                one.index.close()

    def _attach(self) -> None:
        """Give trajectories the files with scores and candidates of their turns."""
        known = {one.path.resolve(): one for one in self.files}
        for one in [one for one in self.files if one.kind in TRAJECTORIES]:
            beside = (
                path.resolve() for path in one.path.parent.glob(f"{_glob(one.path.stem)}.credit.*.jsonl")
            )
            for path in sorted(beside):
                if path not in known and kind_of(path) == "credit":
                    known[path] = _shown(len(self.files), path, path.name, "credit", None)
                    self.files.append(known[path])
        played = [one for one in self.files if one.kind in TRAJECTORIES]
        for one in played:
            credits_ = [other for other in self.files if other.kind == "credit"]
            one.credits = [other for other in credits_ if one in _scored_by(other, played)]
            one.candidates = [other for other in self.files if other.kind == "turns"]


def _scored_by(scores: Shown, played: Sequence[Shown]) -> Sequence[Shown]:
    """The files whose turns a file has scores of, by its name: the one beside it, else any called so."""
    named = [one for one in played if scores.path.name.startswith(f"{one.path.stem}.credit.")]
    beside = [one for one in named if one.path.resolve().parent == scores.path.resolve().parent]
    return beside or named or (played if len(played) == 1 else ())


def _found(paths: Sequence[Path]) -> Iterator[tuple[Path, FileKind]]:
    """Files with their kinds, each once, in the order of the paths."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise UsageError(
                f"There is no file {str(path)!r}. Check the path (it is relative to {str(Path.cwd())!r})."
            )
        for file in _in_folder(path) if path.is_dir() else [path]:
            place = file.resolve()
            try:
                kind = kind_of(file) if place not in seen else None
            except OSError as error:
                raise UsageError(f"Cannot read {str(file)!r}: {error.strerror}.") from error
            if kind is None and not path.is_dir() and place not in seen:
                raise UsageError(
                    f"{str(file)!r} is nothing that is shown here: rows of trajectories, sampled or ranked "
                    "turns, pairs or scores, metrics.jsonl, report.json, run.json; logs of inspect_ai (.eval, .json)."
                )
            seen.add(place)
            if kind is not None:
                yield file, kind


def _in_folder(folder: Path) -> list[Path]:
    """What a run leaves; records of single files go with these."""
    found = []
    for path in entries_of(folder):
        if path.suffix == ".jsonl" or path.name == "run.json" or is_report(path):
            found.append(path)
            if len(found) > MOST_FILES:
                raise UsageError(
                    f"{str(folder)!r} has more than {MOST_FILES} files to show; name a folder in it."
                )
    return found


def _shown(number: int, path: Path, name: str, kind: FileKind, drawing: Making | None) -> Shown:
    one = Shown(number, path, name, kind)
    if kind in LAYOUTS or kind == "credit":
        reader = RowReader(kind)
        one.index = FileIndex(path, kind, reader)
        one.items = Items(one.index, reader)
    if kind == "design" and drawing is not None and one.items is not None:
        one.contents = drawing(one.items, name, path.parent)
    elif kind in LAYOUTS and one.items is not None:
        one.contents = LAYOUTS[kind](one.items, name)
    return one


def _names(paths: Sequence[Path]) -> list[str]:
    """Short names: relative to what all have in common."""
    if len(paths) == 1:
        return [paths[0].name]
    common = os.path.commonpath([path.resolve().parent for path in paths])
    return [path.resolve().relative_to(common).as_posix() for path in paths]


def _title(paths: Sequence[str | Path]) -> str:
    return ", ".join(Path(path).resolve().name for path in paths)[:120]


def _described(one: Shown) -> dict[str, Json]:
    try:
        about = one.path.stat()
        size, changed = (
            about.st_size,
            datetime.fromtimestamp(about.st_mtime, UTC).isoformat(timespec="seconds"),
        )
    except OSError:
        size, changed = 0, None
    record = read_record(one.path if one.kind == "record" else place_of(one.path, folder=False))
    if record is None:  # of a run whose output is the folder
        record = read_record(place_of(one.path.parent, folder=True))
    return {
        "id": one.number,
        "name": one.name,
        "kind": one.kind,
        "bytes": size,
        "changed": changed,
        "record": None if record is None else _short(record),
    }


def _short(record: Mapping[str, Json]) -> dict[str, Json]:
    """What the application says of a run at once; the whole record is a page of its own."""
    usage = record.get("usage")
    used = usage.values() if isinstance(usage, Mapping) else ()
    models = [model for each in used if isinstance(each, Mapping) for model in each if model]
    known = {
        name: record.get(name)
        for name in ("id", "stage", "status", "started", "wall_s", "command", "cost", "numbers")
    }
    versions = record.get("versions")
    version = versions.get("sweet_rl") if isinstance(versions, Mapping) else None
    return known | {"models": list(dict.fromkeys(map(str, models))), "version": version}


def _identified(row: Row) -> dict[str, Json]:
    """With the repeat that the index has counted, which published rows lack."""
    return dict(row.row) | {"sample_index": row.repeat}


def _turns(trajectory: Trajectory) -> list[AgentTurn | None]:
    return [
        message if isinstance(message, AgentTurn) else None
        for message in trajectory.dialogue_history
        if message.role == "assistant"
    ]


def _credit_of(shown: Shown, trajectory: Trajectory) -> dict[str, Json] | None:
    """The scores of a trajectory's turns in one file; those of other texts are counted, not shown."""
    rows = list(_rows_of(shown, trajectory))
    if not rows:
        return None
    turns, other = _turns(trajectory), 0
    found: dict[str, Json] = {}
    for row in rows:
        place = row.get("turn_index")
        turn = turns[place] if isinstance(place, int) and 0 <= place < len(turns) else None
        if row.get("turn_digest") == turn_digest(turn.input if turn else "", turn.output if turn else ""):
            found[str(place)] = {name: row[name] for name in ("hidden", "without_hidden") if name in row}
        else:
            other += 1
    made = rows[0].get("credit")
    return {
        "file": shown.name,
        "critic": rows[0].get("critic"),
        "made": made if isinstance(made, Mapping) else {},
        "turns": found,
        "other": other,
    }


def _alternatives_of(files: Sequence[Shown], trajectory: Trajectory) -> dict[str, Json]:
    """What was sampled for a trajectory's turns, by turn; a file with scores goes before one without."""
    turns = _turns(trajectory)
    found: dict[str, Json] = {}
    for shown in files:
        for row in _rows_of(shown, trajectory):
            try:
                turn = read_turn(row)
            except DataError:
                continue
            place = turn.key[2]
            own = turns[place] if 0 <= place < len(turns) else None
            if own is None or own.input != turn.prompt:
                continue
            known = found.get(str(place))
            if known is None or (known["scored"] is False and turn.scores is not None):
                found[str(place)] = {
                    "file": shown.name,
                    "scored": turn.scores is not None,
                    "candidates": alternatives(turn),
                }
    return found


def _rows_of(shown: Shown, trajectory: Trajectory) -> Iterator[Mapping[str, Json]]:
    if shown.index is None:
        return
    if shown.kind == "credit":
        shown.bring_up()
    elif not shown.index.ready:  # large, and being indexed beside: `waiting` names it
        return
    for position in shown.index.of_task(*trajectory.key):
        yield shown.index.row(position).row


def _glob(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
