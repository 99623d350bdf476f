"""ATIF documents on disk: one for each trajectory in a folder; files and harbor's jobs are read, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from sweet_rl.doors.atif import document_of, trajectory_in
from sweet_rl.doors.atif_foreign import CREDIT, DOCUMENT
from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import turn_digest
from sweet_rl.preferences.turn_keys import KEY_FIELDS, TurnKey, key_of
from sweet_rl.records import read_rows, replace_file
from sweet_rl.types import AgentTurn, Json, Trajectory

ENDING = ".atif.json"


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Make sure, before any work, that a folder may be filled.

    Raises:
        UsageError: it is a file, or holds something already.
    """
    if folder.is_file():
        raise UsageError(f"--output_path {str(folder)!r} is a file; name a folder.")
    if not overwrite and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"{str(folder)!r} holds something already. Pass --overwrite to replace its documents, or choose "
            "another --output_path."
        )


def write_documents(trajectories: Iterable[Trajectory], folder: Path) -> None:
    """Write each trajectory as a document of its own, in place of those that an earlier call wrote."""
    old = set(folder.glob(f"*{ENDING}"))
    for one in trajectories:
        path = folder / f"{quote(one.task.task_id, safe='')}.{one.sample_index}{ENDING}"
        replace_file(path, [json.dumps(document_of(one), ensure_ascii=False, indent=1).encode()])
        old.discard(path)
    for path in old:
        path.unlink()


def read_documents(path: Path) -> list[Trajectory]:
    """The trajectories of a document, or of all documents below a folder; others' repeats are counted.

    Raises:
        DataError: there is none, or it is none.
    """
    paths = [path] if path.is_file() else sorted(path.rglob("*.json"))
    found: list[Trajectory] = []
    repeats: Counter[str] = Counter()
    for one in paths:
        document = json.loads(one.read_text())
        if not isinstance(document, dict) or (
            one != path and not {"schema_version", "steps"} <= document.keys()
        ):
            continue  # another file of a job
        read = trajectory_in(document, one)
        if DOCUMENT in read.extra:
            read = replace(read, sample_index=repeats[read.task.task_id])
        repeats[read.task.task_id] += 1
        found.append(read)
    if not found:
        repair = "A document is a .json file with schema_version and steps."
        raise DataError("holds no ATIF document", path=path, repair=repair)
    return found


def credited(trajectories: Sequence[Trajectory], path: Path) -> list[Trajectory]:
    """Trajectories with the scores of their turns as a column.

    Args:
        trajectories: whose.
        path: file of `sweet-rl credit`.

    Raises:
        DataError: a score is of another text than the turn.
    """
    scores = {key_of(row): (line, row) for line, row in read_rows(path)}
    return [replace(one, extra={**one.extra, CREDIT: _of(one, scores, path)}) for one in trajectories]


def _of(one: Trajectory, scores: Mapping[TurnKey, tuple[int, Json]], path: Path) -> list[Json]:
    """The scores of a trajectory's turns; None for a turn that has none."""
    found: list[Json] = []
    for place, turn in enumerate(entry for entry in one.dialogue_history if isinstance(entry, AgentTurn)):
        line, row = scores.get((*one.key, place), (None, None))
        if row is not None and row["turn_digest"] != turn_digest(turn.input, turn.output):
            raise DataError(
                "is the score of another text than the turn's",
                path=path,
                line=line,
                field="turn_digest",
                value=row["turn_digest"],
                repair="Score this trajectory file again by sweet-rl credit.",
            )
        found.append(row and {name: value for name, value in row.items() if name not in KEY_FIELDS})
    return found
