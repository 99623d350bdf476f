"""Numbers of a run: `metrics.jsonl`, one JSON object a line, and the last ones before a run diverged."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweet_rl import tracking
from sweet_rl.errors import DataError, NonFiniteError, StorageError
from sweet_rl.records import replace_rows
from sweet_rl.types import Json


def finite(values: Mapping[str, Any]) -> dict[str, Json]:
    """Numbers as JSON has them: non-finite ones become null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


class MetricsLog:
    """Appends lines to a file, and reports them (`sweet_rl.tracking`); only the first process has one.

    Args:
        path: the file; None: write nothing.
        after_step: lines of later steps are dropped: a resumed run writes them again. 0 starts a new file.
    """

    def __init__(self, path: Path | None, *, after_step: int = 0) -> None:
        self._path = path
        if path is None:
            return
        kept = [row for row in _rows(path) if row["step"] <= after_step] if after_step else []
        replace_rows(path, kept)

    def append(self, values: Mapping[str, Any]) -> None:
        """Add one line; what a crash of the machine loses, a resumed run writes again."""
        if self._path is not None:
            tracking.logs(values["step"], values)
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(finite(values)) + "\n")
            except OSError as error:
                raise StorageError(
                    f"Cannot write to {str(self._path)!r}: {error.strerror}. Free some space, then resume "
                    "from the newest checkpoint."
                ) from error


class Guard:
    """Keeps what is NaN or infinite from the weights, and says what came before it.

    Args:
        what: is trained, as in "the critic".
        unit: what its optimizer steps are counted in.
        tries: what to try, by flags, as the beginning of a sentence.
    """

    def __init__(self, what: str, tries: str, *, unit: str = "update") -> None:
        self._what, self._tries, self._unit = what, tries, unit
        self._last: deque[str] = deque(maxlen=3)
        self._done = 0

    def note(self, number: int, loss: float, norm: float) -> None:
        """The loss and the gradient's norm of an update that was made."""
        self._last.append(f"{self._unit} {number}: loss {loss:.4g}, norm {norm:.4g}")

    def check(self, loss: float, norm: float, rows: str, number: int | None = None) -> None:
        """Call it before every optimizer step, on each process with the same numbers."""
        self._done = self._done + 1 if number is None else number
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise self.error(self._done, f"loss {loss:.4g}, norm of the gradient {norm:.4g}", rows)
        self.note(self._done, loss, norm)

    def error(self, number: int, now: str, rows: str, kept: str = "") -> NonFiniteError:
        """The error of an update that must not be made: what it has `now`, before, by which rows."""
        before = f" Before: {'; '.join(self._last)}." if self._last else " It was the first since the start."
        return NonFiniteError(
            f"{self._unit.capitalize()} {number} of {self._what} is not a finite number ({now}); it was not "
            f"made, and the weights are as before.{before} Its rows: {rows}. {kept}{self._tries}"
        )


def last_step(path: Path) -> int:
    """The last step in a log; 0 without one."""
    return max((row["step"] for row in _rows(path)), default=0)


def _rows(path: Path) -> list[dict[str, Json]]:
    """The lines that name a step; a torn last one is left out: its step is done again."""
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().rpartition(b"\n")[0].splitlines(), start=1):
        try:
            row = json.loads(line)
            if isinstance(row.get("step"), int):
                found.append(row)
        except (ValueError, AttributeError) as error:
            raise DataError(
                f"is no JSON object ({error})", path=path, line=number, repair="Remove the line."
            ) from error
    return found
