"""Agent turns of the offline data, and their rows with the candidates that were sampled.

`offline_turns` takes trajectories apart into turns; `sampled_row` writes a turn with its candidates as a row
of a sampled file. It samples nothing itself.

Published behaviour: docs/published/sweet_rl.md#files, #sampling, #in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.trajectory_pairs import TurnKey, key_fields, twice, with_solution
from sweet_rl.records import trajectories_from_rows
from sweet_rl.types import AgentTurn, Completion, Failure, Json, Trajectory

_MESSAGE_FIELDS = ("role", "content", "input", "output")


@dataclass(frozen=True, slots=True)
class OfflineTurn:
    """One agent turn: the prompt its model was given, and the published fields of its row.

    `turn_index` (the last part of `key`) counts agent turns from 0.
    """

    key: TurnKey
    prompt: str
    row: Mapping[str, Json]


def choose_trajectories(
    trajectories: Sequence[Trajectory],
    fraction: float,
    *,
    shuffle_seed: int | None = None,
    published: bool = False,
) -> list[int]:
    """Indices of the trajectories that are sampled for, in file order.

    Published: the first `int(len * fraction)`, which may be none. Otherwise at least one; with a
    seed, those of randomly chosen tasks instead of the first ones.
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"--data_fraction must be above 0 and at most 1, got {fraction}.")
    count = int(len(trajectories) * fraction)
    if count == 0 and published:
        raise UsageError(
            f"--data_fraction {fraction} of {len(trajectories)} trajectories is less than one. Name a larger "
            "fraction; without --compat published at least one is taken."
        )
    order = list(range(len(trajectories)))
    if shuffle_seed is not None:
        tasks = list(dict.fromkeys(trajectory.task.task_id for trajectory in trajectories))
        random.Random(shuffle_seed).shuffle(tasks)
        place = {task_id: i for i, task_id in enumerate(tasks)}
        order.sort(key=lambda i: place[trajectories[i].task.task_id])
    return sorted(order[: max(count, 1)])


def offline_turns(
    rows: Sequence[tuple[int, Mapping[str, Json]]],
    fraction: float = 1.0,
    *,
    path: str | Path | None = None,
    shuffle_seed: int | None = None,
    published: bool = False,
) -> list[OfflineTurn]:
    """Every agent turn of the chosen trajectories that has its prompt, in file order.

    Those of tasks that cannot be graded are passed over, and those of episodes that failed.
    """
    trajectories = trajectories_from_rows(rows, path=path)
    if not trajectories:
        raise UsageError(f"{str(path)!r} holds no trajectories.")
    turns: list[OfflineTurn] = []
    chosen = choose_trajectories(trajectories, fraction, shuffle_seed=shuffle_seed, published=published)
    lines: dict[tuple[str, int], int] = {}
    for index in chosen:
        line, trajectory = rows[index][0], trajectories[index]
        if trajectory.key in lines:
            raise twice(path, line, "task_id, sample_index", trajectory.key, lines[trajectory.key])
        lines[trajectory.key] = line
        if not (trajectory.failed or trajectory.cannot_be_graded):
            turns += _turns(trajectory, path, line)
    if not turns:
        raise UsageError(
            f"None of the {len(chosen)} trajectories chosen from {str(path)!r} has an agent turn with "
            "`input` (the prompt its model was given). Simulate with sweet-rl simulate_interactions, or name a "
            "larger --data_fraction."
        )
    return turns


def _turns(trajectory: Trajectory, path: str | Path | None, line: int) -> list[OfflineTurn]:
    found: list[OfflineTurn] = []
    messages: list[dict[str, Json]] = []
    turn_index = 0
    for message in trajectory.dialogue_history:
        entry: dict[str, Any] = {name: getattr(message, name, None) for name in _MESSAGE_FIELDS}
        messages.append({name: value for name, value in entry.items() if value is not None})
        if isinstance(message, AgentTurn):
            if trajectory.reward is None:
                raise DataError(
                    "is missing",
                    path=path,
                    line=line,
                    field="reward",
                    repair="Grade the file first: sweet-rl evaluate_code --saved_path FILE writes the rewards.",
                )
            if not message.input:
                raise DataError(
                    "must not be empty",
                    path=path,
                    line=line,
                    field=f"dialogue_history[{len(messages) - 1}].input",
                    value="",
                    repair="It is the exact prompt that the model was given; leave it out if unknown.",
                )
            found.append(
                OfflineTurn(
                    key=(*trajectory.key, turn_index),
                    prompt=message.input,
                    row={
                        "input": message.input,
                        "input_with_ground_truth": with_solution(message.input, trajectory.task.ground_truth),
                        "older_output": message.output,
                        "reward": trajectory.reward,
                        "ground_truth": trajectory.task.ground_truth,
                        "messages": list(messages),
                    },
                )
            )
        turn_index += message.role == "assistant"
    return found


def sampled_row(
    turn: OfflineTurn,
    completions: Sequence[Completion],
    *,
    tokenizer: str | None,
    end_token: str | None,
    settings: Mapping[str, Json],
    failure: Failure | None = None,
) -> dict[str, Json]:
    """The row of a sampled file: published fields, then ours.

    Args:
        completions: the candidates; none when it failed.
        end_token: the text of the token that ends a turn.
        settings: what a continued run must share.
        failure: why there are no candidates.
    """
    totals = [None if c.logprobs is None else math.fsum(c.logprobs) for c in completions]
    row = dict(turn.row) | {
        "additional_outputs": [completion.text for completion in completions],
        "additional_reference_logprobs": [
            total / len(completion.logprobs) if total is not None and completion.logprobs else None
            for total, completion in zip(totals, completions, strict=True)
        ],
        "additional_reference_logprobs_sum": totals,
        "additional_token_ids": [None if c.token_ids is None else list(c.token_ids) for c in completions],
        "additional_finish_reasons": [completion.finish_reason.value for completion in completions],
    }
    row |= key_fields(turn.key) | {"tokenizer": tokenizer, "end_token": end_token, "sampling": dict(settings)}
    if failure is not None:
        row["error"] = {"kind": failure.kind, "detail": failure.detail}
    return row
