"""Agent turns of the offline data, and the alternatives that were sampled for them (spec §2.5, §6).

`offline_turns` takes trajectories apart into turns; `sampled_row` writes a turn with its candidates as a row
of a sampled file; `candidates_from_rows` reads such rows, ours or published ones. It samples nothing itself.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError, UsageError
from sweet_rl.preferences.trajectory_pairs import PREFIX
from sweet_rl.preferences.turn_keys import KEY_FIELDS, TurnKey, key_fields
from sweet_rl.records import trajectories_from_rows
from sweet_rl.types import AgentTurn, Completion, Failure, FinishReason, Json, Trajectory, digest

_MESSAGE_FIELDS = ("role", "content", "input", "output")
_REPAIR = "Make the file with sample_best_of_n.py."


@dataclass(frozen=True, slots=True)
class OfflineTurn:
    """One agent turn: the prompt its model was given, and the published fields of its row.

    `turn_index` (the last part of `key`) counts agent turns from 0.
    """

    key: TurnKey
    prompt: str
    row: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sampled alternative.

    `token_ids` include the end token when one was generated; None where the sampler did not tell. `mean` and
    `total` are the sampler's log-probabilities of these tokens. `cut` says that the token limit ended it, so
    that no end token belongs after it.
    """

    text: str
    token_ids: tuple[int, ...] | None
    mean: float | None
    total: float | None
    cut: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """A row of a sampled or ranked file. `scores` has one entry for each candidate once it is ranked."""

    key: TurnKey
    line: int
    prompt: str
    ground_truth: str
    candidates: tuple[Candidate, ...]
    tokenizer: str | None
    end_token: str | None
    scores: tuple[float | None, ...] | None
    row: Mapping[str, Json]


def choose_trajectories(
    trajectories: Sequence[Trajectory],
    fraction: float,
    *,
    shuffle_seed: int | None = None,
    published: bool = False,
) -> list[int]:
    """Indices of the trajectories that are sampled for, in file order.

    Published: the first `int(len * fraction)` (spec §6), which may be none. Otherwise at least one; with a
    seed, those of randomly chosen tasks instead of the first ones (spec §11.4, item 51).

    Raises:
        UsageError: the fraction is not in (0, 1], or chooses nothing.
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

    Args:
        rows: numbered rows of a trajectory file, graded.
        fraction: see `choose_trajectories`.
        path: the file, for errors.
        shuffle_seed: see `choose_trajectories`.
        published: likewise.

    Raises:
        DataError: a row is broken, has no reward, or stands there twice.
        UsageError: there is nothing to sample for; says why.
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
            raise _twice(path, line, "task_id, sample_index", trajectory.key, lines[trajectory.key])
        lines[trajectory.key] = line
        turns += _turns(trajectory, path, line)
    if not turns:
        raise UsageError(
            f"None of the {len(chosen)} trajectories chosen from {str(path)!r} has an agent turn with "
            "`input` (the prompt its model was given). Simulate with simulate_interactions.py, or name a "
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
                    repair="Grade the file first: evaluate_code.py --saved_path FILE writes the rewards.",
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


def with_solution(prompt: str, ground_truth: str) -> str:
    """The prompt as the critic reads it: the hidden solution directly before it (spec §4.3)."""
    return PREFIX.format(ground_truth=ground_truth) + prompt


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
        turn: what was sampled for.
        completions: the candidates; none when it failed.
        tokenizer: digest of the tokenizer that the token ids are of.
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


def candidates_from_rows(
    rows: Sequence[tuple[int, Mapping[str, Json]]], *, path: str | Path | None = None
) -> list[Candidates]:
    """Read a sampled or ranked file, ours or a published one.

    A row without identity (published) gets one: a digest of request and solution, the count of earlier rows
    of the same turn, and the number of agent turns before it.

    Raises:
        DataError: names line, field and repair.
    """
    seen: Counter[tuple[str, int]] = Counter()
    lines: dict[TurnKey, int] = {}
    result: list[Candidates] = []
    for line, row in rows:
        key = _key(row, seen)
        if key in lines:
            raise _twice(path, line, ", ".join(KEY_FIELDS), key, lines[key])
        lines[key] = line
        result.append(_candidates(row, key, path, line))
    return result


def _candidates(row: Mapping[str, Json], key: TurnKey, path: str | Path | None, line: int) -> Candidates:
    reader = _Columns(row, path, line)
    texts = reader.column("additional_outputs", str, "strings")
    n = len(texts)
    means = reader.column("additional_reference_logprobs", float, "numbers or nulls", n)
    totals = reader.column("additional_reference_logprobs_sum", float, "numbers or nulls", n)
    ids = reader.column("additional_token_ids", list, "lists of token ids", n)
    reasons = reader.column("additional_finish_reasons", str, "strings", n)
    scores = reader.column("judge_result", float, "numbers or nulls", n) if "judge_result" in row else None
    return Candidates(
        key=key,
        line=line,
        prompt=reader.text("input", "It is the prompt that the candidates continue."),
        ground_truth=reader.text("ground_truth", "It is what the critic may know."),
        candidates=tuple(
            Candidate(
                text=texts[i],
                token_ids=None if ids[i] is None else tuple(ids[i]),
                mean=means[i],
                total=totals[i],
                cut=reasons[i] == FinishReason.LENGTH,
            )
            for i in range(n)
        ),
        tokenizer=reader.optional_text("tokenizer"),
        end_token=reader.optional_text("end_token"),
        scores=None if scores is None else tuple(scores),
        row=row,
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The checked fields of one row."""

    row: Mapping[str, Json]
    path: str | Path | None
    line: int

    def text(self, field: str, repair: str) -> str:
        value = self.row.get(field)
        if not isinstance(value, str):
            raise self._fail(field, "must be a string", repair)
        return value

    def optional_text(self, field: str) -> str | None:
        return None if self.row.get(field) is None else self.text(field, "Leave it out where unknown.")

    def column(self, field: str, kind: type, what: str, length: int | None = None) -> list[Any]:
        """A list with one entry for each candidate; nulls where the field is missing and may be."""
        values = self.row.get(field)
        if values is None and length is not None:
            return [None] * length
        kinds = (int, float) if kind is float else kind
        nulls = length is not None
        if not isinstance(values, list) or not all(
            (value is None and nulls) or (isinstance(value, kinds) and not isinstance(value, bool))
            for value in values
        ):
            raise self._fail(field, f"must be a list of {what}", _REPAIR)
        if length is not None and len(values) != length:
            raise self._fail(field, f"must have {length} entries, one for each candidate", _REPAIR)
        if kind is list and not all(
            isinstance(i, int) and i >= 0 for ids in values if ids is not None for i in ids
        ):
            raise self._fail(field, f"must be a list of {what}", _REPAIR)
        return values

    def _fail(self, field: str, problem: str, repair: str) -> DataError:
        value = self.row.get(field, "nothing")
        return DataError(problem, path=self.path, line=self.line, field=field, value=value, repair=repair)


def _key(row: Mapping[str, Json], seen: Counter[tuple[str, int]]) -> TurnKey:
    task_id, sample_index, turn_index = (row.get(name) for name in KEY_FIELDS)
    if isinstance(task_id, str) and isinstance(sample_index, int) and isinstance(turn_index, int):
        return task_id, sample_index, turn_index
    messages = row.get("messages") or []
    request = messages[0].get("content") if messages and isinstance(messages[0], dict) else row.get("input")
    task_id = digest([request, row.get("ground_truth")])
    spoken = sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)
    turn_index = max(spoken - 1, 0)  # `messages` end with the turn itself
    seen[task_id, turn_index] += 1
    return task_id, seen[task_id, turn_index] - 1, turn_index


def _twice(path: str | Path | None, line: int, field: str, value: Json, earlier: int) -> DataError:
    return DataError(
        "stands in the file twice",
        path=path,
        line=line,
        field=field,
        value=value,
        repair=f"Delete this line or line {earlier}.",
    )
