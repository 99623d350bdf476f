"""The files that one application shows: what they are, their rows by an index, and what belongs together.

What turns were worth, scores of turns (`sweet-rl credit score`) and sampled candidates are shown with the trajectories that they are of:
those of the same task, repeat and turn, and of the same prompt.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.records import trajectory_from_row
from sweet_rl.records.files import parse_line
from sweet_rl.runs import has_failed
from sweet_rl.runs.facts import entries_of, place_of, read_record
from sweet_rl.statistics import mean_over_tasks, share_over_tasks
from sweet_rl.tracking import RECORD
from sweet_rl.types import AgentTurn, Json, Trajectory
from sweet_rl.version import __version__
from sweet_rl.viewer.design import DesignContents
from sweet_rl.viewer.indexing import FileIndex
from sweet_rl.viewer.rows import (
    LAYOUTS,
    TRAJECTORIES,
    FileKind,
    alternatives,
    index_entry,
    index_of,
    is_report,
    kind_of,
    read_turn,
)
from sweet_rl.worlds import world_in, world_named_in

MOST_FILES = 2000
"""Of a folder; a run has some dozens."""

Making = Callable[[Callable[[int], Trajectory], Path], DesignContents]
"""Makes the pictures of a file, of what reads its rows, and its folder."""


class Shown:
    """One file of the application; `number` is its place in it. `item` is a row as its kind reads it."""

    def __init__(self, number: int, path: Path, name: str, kind: FileKind, drawing: Making | None) -> None:
        self.number, self.path, self.name, self.kind = number, path, name, kind
        self.index: FileIndex | None = None
        self.pictures: DesignContents | None = None
        self.credits: list[Shown] = []
        self.candidates: list[Shown] = []
        if kind in LAYOUTS or kind == "credit":
            index = self.index = FileIndex(path, kind, functools.partial(index_entry, kind))

            @functools.lru_cache(32)  # for neighbours and pictures
            def item(position: int) -> Any:
                found = index.row(position)
                if kind not in TRAJECTORIES:
                    return found.row
                # published rows lack their repeat
                return trajectory_from_row({**found.row, "sample_index": found.repeat})

            self.item = item
        if kind == "design" and drawing is not None:
            self.pictures = drawing(self.item, path.parent)

    def bring_up(self) -> None:
        """Bring the index up to what the file holds now."""
        if self.index is not None and self.index.refresh():
            self.item.cache_clear()

    def progress(self) -> tuple[int, int]:
        """How many bytes the index knows, and how many the file has."""
        known = self.index.done_bytes if self.index is not None else 0
        return known, self.path.stat().st_size if self.path.exists() else 0

    def row(self, position: int) -> dict[str, Json]:
        """Everything the page shows of a prepared row, with the scores and alternatives of its turns."""
        if self.kind not in LAYOUTS:
            raise UsageError(f"{self.name} has no rows to look at.")
        trajectory = self.item(position)
        shown = LAYOUTS[self.kind].row(trajectory) if self.pictures is None else self.pictures.row(position)
        if self.kind not in TRAJECTORIES:
            return shown
        turns = [one for one in trajectory.dialogue_history if one.role == "assistant"]
        by_place = {place: one for place, one in enumerate(turns) if isinstance(one, AgentTurn)}
        credit = []
        for file in self.credits:
            if rows := list(file._rows_of(trajectory)):
                made, found, other = rows[0].get("credit"), dict[str, Json](), 0
                for row in rows:  # scores of other texts are counted, not shown
                    turn = by_place.get(place := row["turn_index"])
                    given = (turn.input, turn.output) if turn else ("", "")
                    if row.get("turn_digest") == turn_digest(*given):
                        scores = ("hidden", "without_hidden", "scores", "why", "measured")
                        found[str(place)] = {name: row[name] for name in scores if name in row}
                    else:
                        other += 1
                about = {"made": made if isinstance(made, Mapping) else {}, "turns": found, "other": other}
                about["settings"] = rows[0].get("settings") or {}
                credit.append({"file": file.name, "critic": rows[0].get("critic")} | about)
        sampled: dict[str, dict[str, Json]] = {}
        for file in self.candidates:
            for row in file._rows_of(trajectory):
                with contextlib.suppress(DataError):
                    ranked = read_turn(row)
                    place, scored = ranked.key[2], ranked.scores is not None
                    known = sampled.get(str(place))
                    ours = place in by_place and by_place[place].input == ranked.prompt
                    if ours and (known is None or (scored and not known["scored"])):
                        one = {"file": file.name, "scored": scored, "candidates": alternatives(ranked)}
                        sampled[str(place)] = one
        told = with_solution("", trajectory.task.ground_truth)
        return shown | {"told": told, "credit": credit, "alternatives": sampled}

    def _rows_of(self, trajectory: Trajectory) -> Iterator[Mapping[str, Json]]:
        """Rows of the same task and repeat."""
        self.bring_up()
        if self.index is not None:
            for position in self.index.of_task(*trajectory.key):
                yield self.index.row(position).row

    def result(self) -> dict[str, Json]:
        """How its episodes did, and the main number: a `report.json`'s that is not older, else of its rewards."""
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
        said = first.get("provenance") or {}
        world = world_in(said)
        name = world.scores.name if world else "return" if self.kind == "game" else "reward"
        unit, found = "number", mean_over_tasks(tasks)
        if self.kind == "design":
            name, unit, found = "similarity", "share", mean_over_tasks(tasks, low=0, high=1)
        elif self.kind == "code" and first.get("test_results"):
            right = [[float(reward >= 1) for reward in task] for task in tasks]
            name, unit, found = "success", "share", share_over_tasks(right)
        number = {"name": name, "unit": unit, **asdict(found)} if graded else None
        report = self.path.with_name("report.json")
        try:
            newest = max(report, self.path, key=lambda one: one.stat().st_mtime_ns)
            if self.path.name == "episodes.jsonl" and newest == report:
                name, told = next(iter(read_object(report)["measures"].items()))
                mean = {key: told[key] for key in ("mean", "low", "high")}
                unit = "number" if told["unit"] == "number" else "share"
                if all(value is None or isinstance(value, (int, float)) for value in mean.values()):
                    number = {"name": str(name), "unit": unit, **mean}
        except (OSError, UsageError, LookupError, AttributeError, TypeError, StopIteration):
            pass  # none, another program's, or being written
        counts = {"rows": len(self.index), "tasks": len(rewards), "failed": failed}
        players = {"agent": said.get("agent_model"), "human": said.get("env_model")}
        ungraded, page = len(self.index) - failed - graded, self.report_page() is not None
        about = {"ungraded": ungraded, **players, "world": world_named_in(said), "page": page}
        return {"number": number, **counts, **about}

    def report_page(self) -> Path | None:
        """The page of its report, beside it, if there is one."""
        name = "report.html" if self.path.name == "episodes.jsonl" else f"{self.path.stem}.report.html"
        page = self.path.with_name(name)
        return page if page.is_file() and not page.is_symlink() else None

    def listing(self) -> str:
        """The index of its rows as JSON text."""
        index = self.index
        if index is None or self.kind not in LAYOUTS:
            raise UsageError(f"{self.name} has no rows to list.")
        return index.listing(
            lambda: index_of(index.entries(), self.name, self.kind) | {"broken": index.broken}
        )

    def document(self) -> dict[str, Json]:
        """A file that is looked at as a whole."""
        return read_metrics(self.path) if self.kind == "metrics" else read_object(self.path)

    def described(self) -> dict[str, Json]:
        """What it is, and the record of its run; of a run whose output is the folder, that of the folder."""
        size, changed, said = 0, None, None
        with contextlib.suppress(OSError):
            state = self.path.stat()
            size = state.st_size
            changed = datetime.fromtimestamp(state.st_mtime, UTC).isoformat(timespec="seconds")
        record = read_record(self.path if self.kind == "record" else place_of(self.path, folder=False))
        record = read_record(place_of(self.path.parent, folder=True)) if record is None else record
        if record is not None:  # the whole record is a page of its own
            names = ("id", "stage", "status", "started", "wall_s", "command", "cost", "numbers")
            usage, versions = record.get("usage"), record.get("versions")
            used = usage.values() if isinstance(usage, Mapping) else ()
            models = [str(model) for each in used if isinstance(each, Mapping) for model in each if model]
            version = versions.get("sweet_rl") if isinstance(versions, Mapping) else None
            said = {name: record.get(name) for name in names}
            said |= {"models": list(dict.fromkeys(models)), "version": version}
        about = {"id": self.number, "name": self.name, "kind": self.kind, "bytes": size}
        return about | {"changed": changed, "record": said}


class Library:
    """Files and folders that are looked at together; `drawing` makes pictures, by default those that rows name."""

    def __init__(self, paths: Sequence[str | Path], *, drawing: Making | None = None) -> None:
        found = list(_found([Path(path).expanduser() for path in paths]))
        if not found:
            named_here = ", ".join(map(str, paths))
            raise UsageError(f"Nothing in {named_here} can be shown: no rows, no metrics, no reports.")
        names = [found[0][0].name]
        if len(found) > 1:  # relative to what all have in common
            places = [path.resolve() for path, _ in found]
            common = os.path.commonpath([place.parent for place in places])
            names = [place.relative_to(common).as_posix() for place in places]
        drawing = drawing or (lambda read, folder: DesignContents(read, folder=folder))
        both = enumerate(zip(found, names, strict=True))
        self.files = [Shown(number, path, name, kind, drawing) for number, ((path, kind), name) in both]
        several = ", ".join(Path(path).resolve().name for path in paths)[:120]
        self.title = self.files[0].name if len(self.files) == 1 else several
        command = shlex.join(["sweet-rl", "view", *map(str, paths)])
        made = datetime.now(UTC).isoformat(timespec="seconds")
        self.about = {"version": __version__, "command": command, "made": made}
        known = {one.path.resolve() for one in self.files}
        played = [one for one in self.files if one.kind in TRAJECTORIES]
        for one in played:
            names = [f"{glob.escape(one.path.stem)}.{end}" for end in ("credit.*.jsonl", "measured.jsonl")]
            for path in sorted(path.resolve() for name in names for path in one.path.parent.glob(name)):
                if path not in known and kind_of(path) == "credit":
                    known.add(path)
                    self.files.append(Shown(len(self.files), path, path.name, "credit", None))
            one.candidates = [other for other in self.files if other.kind == "turns"]
        for scores in [other for other in self.files if other.kind == "credit"]:
            # of the one beside it that is called so, else of any called so
            name, ends = scores.path.name, (".credit.", ".measured.")
            fits = [one for one in played if name.removeprefix(one.path.stem).startswith(ends)]
            beside = [one for one in fits if one.path.resolve().parent == scores.path.resolve().parent]
            for one in beside or fits or (played if len(played) == 1 else ()):
                one.credits.append(scores)

    def listing(self) -> list[dict[str, Json]]:
        """What the application says of every file. Scores of turns are shown with their trajectories only."""
        return [one.described() for one in self.files]

    async def close(self) -> None:
        """Free what looking has needed."""
        for one in self.files:
            if one.pictures is not None:
                await one.pictures.close()
            if one.index is not None:
                one.index.close()


def _found(paths: Sequence[Path]) -> Iterator[tuple[Path, FileKind]]:
    """Files with their kinds, each once, in the order of the paths."""
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            here = str(Path.cwd())
            raise UsageError(f"There is no file {str(path)!r}. Check the path (it is relative to {here!r}).")
        files = [path]
        if path.is_dir():  # what a run leaves; records of single files go with these
            every = entries_of(path)
            files = [one for one in every if one.suffix == ".jsonl" or one.name == RECORD or is_report(one)]
            if len(files) > MOST_FILES:
                problem = f"{str(path)!r} has more than {MOST_FILES} files to show"
                raise UsageError(f"{problem}; name a folder in it.")
        for file in files:
            place = file.resolve()
            try:
                kind = kind_of(file) if place not in seen else None
            except OSError as error:
                raise UsageError(f"Cannot read {str(file)!r}: {error.strerror}.") from error
            if kind is None and not path.is_dir() and place not in seen:
                raise UsageError(
                    f"{str(file)!r} is nothing that is shown here: rows of trajectories, sampled or ranked "
                    "turns, pairs or scores, metrics.jsonl, report.json, run.json."
                )
            seen.add(place)
            if kind is not None:
                yield file, kind


# ---- files that are looked at as a whole

MOST_POINTS: Final = 2000
"""Of a curve; of more rows every n-th is shown, and the page says so."""

_STEPS: Final = ("step", "iteration", "iter")

Curve: TypeAlias = list[tuple[float, float]]
"""Steps in their order, each with a number."""


def read_metrics(path: Path) -> dict[str, Json]:
    """The curves of a metrics file. Torn and foreign lines are passed over."""
    rows: list[dict[str, Json]] = []
    for number, line in enumerate(_content(path).split(b"\n")):
        with contextlib.suppress(DataError):
            rows += [parse_line(line, path, number)] if line.strip() else []
    thin = max(1, -(-len(rows) // MOST_POINTS))
    curves = {name: points[::thin] for name, points in curves_of(rows).items()}
    return {"rows": len(rows), "every": thin, "curves": curves}


def curves_of(rows: Iterable[Mapping[str, Json]]) -> dict[str, Curve]:
    """The numbers of rows by name, each with its row's `step`, `iteration` or `iter`, else the place."""
    curves: dict[str, Curve] = {}
    for place, row in enumerate(rows):
        numbers = dict(_numbers(row))
        step = next((numbers[name] for name in _STEPS if name in numbers), place)
        for name, value in numbers.items():
            if name not in _STEPS:
                curves.setdefault(name, []).append((step, value))
    return curves


def read_object(path: Path) -> dict[str, Json]:
    """A file of one JSON object."""
    try:
        found = json.loads(_content(path))
    except ValueError as error:
        raise UsageError(f"{str(path)!r} is no JSON file ({error}); it may be written just now.") from None
    if not isinstance(found, dict):
        raise UsageError(f"{str(path)!r} holds no JSON object.")
    return found


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"Cannot read {str(path)!r}: {error.strerror}.") from error


def _numbers(row: Mapping[str, Json], prefix: str = "") -> list[tuple[str, float]]:
    """All numbers of an object, those inside others by names with dots."""
    found: list[tuple[str, float]] = []
    for name, value in row.items():
        if isinstance(value, Mapping):
            found += _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            found.append((f"{prefix}{name}", value))
    return found
