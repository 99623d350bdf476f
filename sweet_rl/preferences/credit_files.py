"""Credit files read again: what `sweet-rl credit` says of the turns of trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.credit import Way, own_turns
from sweet_rl.preferences.turn_keys import key_of
from sweet_rl.records import read_rows
from sweet_rl.types import Json, Trajectory

Scored = dict[str, Json]
"""A turn's row of a credit file (`TurnCredit.as_row`)."""

_AGAIN = "Score this trajectory file again by sweet-rl credit."


def credit_in(path: str | Path, trajectories: Sequence[Trajectory]) -> list[list[Scored | None]]:
    """The row of every agent turn, in order; None for a turn that the file says nothing of.

    Args:
        path: of the file; rows about other trajectories are not looked at.
        trajectories: whose turns they are.

    Raises:
        DataError: a row is no turn's, or of another text than the turn is now.
    """
    known: dict[tuple[str, int, int], tuple[int, Scored]] = {}
    for line, row in read_rows(path):
        if "turn_digest" not in row:
            raise DataError("is not there", path=path, line=line, field="turn_digest", repair=_AGAIN)
        known[key_of(row)] = line, row
    found: list[list[Scored | None]] = []
    for trajectory in trajectories:
        found.append([])
        for turn in own_turns(trajectory):
            line, scored = known.get(turn.key, (0, None))
            if scored is not None and scored["turn_digest"] != turn.turn_digest:
                raise DataError(
                    f"is of another text than turn {turn.key[2]} of {turn.key[:2]}",
                    path=path,
                    line=line,
                    field="turn_digest",
                    value=scored["turn_digest"],
                    repair=_AGAIN,
                )
            found[-1].append(scored)
    return found


def advantages_in(path: str | Path, trajectories: Sequence[Trajectory], way: Way) -> list[list[float | None]]:
    """The advantage of every agent turn, None where the critic gave none.

    Args:
        path: of the file.
        trajectories: whose turns they are.
        way: which of the two scores.

    Raises:
        DataError: as `credit_in`.
        UsageError: a turn has no row, or none of this way.
    """
    found: list[list[float | None]] = []
    for trajectory, scored in zip(trajectories, credit_in(path, trajectories), strict=True):
        for number, row in enumerate(scored):
            if row is None or way not in row:
                what = "row" if row is None else f"score {way!r}"
                raise UsageError(
                    f"{str(path)!r} has no {what} for turn {number} of {trajectory.key}. Run sweet-rl credit "
                    "on these trajectories to its end."
                )
        found.append([row[way]["advantage"] for row in scored if row is not None])
    return found
