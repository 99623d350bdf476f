"""ATIF documents on disk: one for each trajectory in a folder; files and harbor's jobs are read, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from sweet_rl.doors.atif import document_of, trajectory_in
from sweet_rl.doors.atif_foreign import DOCUMENT
from sweet_rl.doors.atif_steps import CREDIT
from sweet_rl.errors import DataError
from sweet_rl.preferences.credit import Scored, credit_in
from sweet_rl.preferences.trajectory_pairs import KEY_FIELDS
from sweet_rl.records import replace_file
from sweet_rl.types import AgentTurn, Trajectory

ENDING = ".atif.json"
_REPAIR = "A document is a .json file with schema_version and steps."


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
        try:
            document = json.loads(one.read_bytes())
        except ValueError as error:
            raise DataError(f"is not JSON ({error})", path=one, repair=_REPAIR) from None
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
        raise DataError("holds no ATIF document", path=path, repair=_REPAIR)
    return found


def credited(trajectories: Sequence[Trajectory], path: Path) -> list[Trajectory]:
    """Trajectories with the scores of their turns as a column.

    Args:
        trajectories: whose.
        path: file of `sweet-rl credit`.

    Raises:
        DataError: a score is of another text than the turn, or no turn has one.
    """
    found = credit_in(path, trajectories)
    if not any(row for scored in found for row in scored):
        repair = "Name what sweet-rl credit wrote about this trajectory file."
        raise DataError("has no score of any of these turns", path=path, repair=repair)
    return [
        replace(one, extra={**one.extra, CREDIT: list(_column(one, scored))})
        for one, scored in zip(trajectories, found, strict=True)
    ]


def _column(one: Trajectory, scored: Sequence[Scored | None]) -> Iterator[Scored | None]:
    """Of the turns that a model wrote."""
    said = (message for message in one.dialogue_history if message.role == "assistant")
    for message, row in zip(said, scored, strict=True):
        if isinstance(message, AgentTurn):
            yield row and {name: value for name, value in row.items() if name not in KEY_FIELDS}
