"""Pairs of whole trajectories of one task: the stage-1 data of SWEET-RL.

Code (`trajectory_pairs`): a task gives pairs when its best repeat is right (reward at least 1): the first
best one is preferred to every repeat with a smaller reward. Pages (`margin_pairs`): of any two
repeats whose rewards differ by a margin the better one is preferred.

Published behaviour: docs/published/sweet_rl.md#trajectory-pairs, #grading-pages, #files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Json, Trajectory

PREFIX = "In light that the final answer is: {ground_truth}."
"""What precedes a dialogue whose reader is given the hidden solution."""


class TrajectoryPair(NamedTuple):
    """Row indices of the preferred and the other repeat of one task."""

    chosen: int
    rejected: int


def trajectory_pairs(
    rewards: Sequence[float], groups: Sequence[Sequence[int]], usable: Sequence[bool] | None = None
) -> list[TrajectoryPair]:
    """All pairs, in task order, then repeat order.

    `rewards` and `usable` are of rows, `groups` the places of each task's repeats
    (`sweet_rl.records.rows.group_by_task`). A row without a final agent turn is not usable.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        members = [row for row in group if usable is None or usable[row]]
        best = max((rewards[row] for row in members), default=0.0)
        if best < 1:
            continue
        chosen = next(row for row in members if rewards[row] == best)
        pairs.extend(TrajectoryPair(chosen, row) for row in members if rewards[row] < best)
    return pairs


def margin_pairs(
    rewards: Sequence[float | None],
    groups: Sequence[Sequence[int]],
    margin: float,
    usable: Sequence[bool] | None = None,
) -> list[TrajectoryPair]:
    """All pairs of repeats whose rewards differ by `margin` (above 0) or more, in task order, then repeat order.

    Rows without a reward stand in no pair; otherwise as `trajectory_pairs`.
    """
    pairs: list[TrajectoryPair] = []
    for group in groups:
        known = [
            (row, reward)
            for row in group
            if (reward := rewards[row]) is not None and (usable is None or usable[row])
        ]
        for (row, reward), (later, other) in combinations(known, 2):
            if abs(reward - other) >= margin:
                pairs.append(TrajectoryPair(row, later) if reward > other else TrajectoryPair(later, row))
    return pairs


def with_solution(prompt: str, ground_truth: str) -> str:
    """The prompt as the critic reads it: the hidden solution directly before it."""
    return PREFIX.format(ground_truth=ground_truth) + prompt


def pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, Json]]:
    """The pairs as rows of a published preference file: `{"chosen": text, "rejected": text}`.

    A text is the last turn's prompt and output. Where that does not hold what an earlier turn was given and
    wrote (a chat template that strips thoughts from the history), the row has `chosen_turns` or
    `rejected_turns`, too: every turn of the agent as `{"input", "output"}`.
    """
    rows = []
    for pair in pairs:
        row: dict[str, Json] = {}
        for side, number in (("chosen", pair.chosen), ("rejected", pair.rejected)):
            trajectory = trajectories[number]
            solution = trajectory.task.ground_truth if with_ground_truth else None
            last = _last_turn(trajectory)
            row[side] = ("" if solution is None else with_solution("", solution)) + last.input + last.output
            turns = [turn for turn in trajectory.dialogue_history if isinstance(turn, AgentTurn)]
            if any(not later.input.startswith(turn.input + turn.output) for turn, later in pairwise(turns)):
                row[f"{side}_turns"] = [
                    {
                        "input": turn.input if solution is None else with_solution(turn.input, solution),
                        "output": turn.output,
                    }
                    for turn in turns
                ]
        rows.append(row)
    return rows


def turn_pair_rows(
    trajectories: Sequence[Trajectory], pairs: Sequence[TrajectoryPair], *, with_ground_truth: bool
) -> list[dict[str, dict[str, str]]]:
    """The pairs as rows of a published file for pages: `{"input", "output"}` on each side."""

    def side(row: int) -> dict[str, str]:
        last = _last_turn(trajectories[row])
        ground_truth = trajectories[row].task.ground_truth
        prompt = with_solution(last.input, ground_truth) if with_ground_truth else last.input
        return {"input": prompt, "output": last.output}

    return [{"chosen": side(pair.chosen), "rejected": side(pair.rejected)} for pair in pairs]


def _last_turn(trajectory: Trajectory) -> AgentTurn:
    if trajectory.last_turn is None:
        raise ValueError(f"trajectory {trajectory.key} does not end with an agent turn")
    return trajectory.last_turn


TurnKey = tuple[str, int, int]
"""task_id, sample_index, turn_index; the last counts the agent's turns from 0."""

KEY_FIELDS = ("task_id", "sample_index", "turn_index")
"""The fields of a row that hold its key."""


def key_of(row: Mapping[str, Json]) -> TurnKey:
    """The identity of a row that our stages wrote."""
    return row.get("task_id", ""), row.get("sample_index", 0), row.get("turn_index", 0)


def key_fields(key: TurnKey) -> dict[str, Json]:
    """The identity as fields of a row."""
    return dict(zip(KEY_FIELDS, key, strict=True))


def twice(path: str | Path | None, line: int, field: str, value: Json, earlier: int) -> DataError:
    """The error of a row with the same identity as line `earlier`."""
    return DataError(
        "is in the file twice",
        path=path,
        line=line,
        field=field,
        value=value,
        repair=f"Delete this line or line {earlier}.",
    )
