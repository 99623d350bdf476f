"""Agent turns of the offline data, the candidates that are sampled for them, and the files that hold both.

Published behaviour: docs/published/sweet_rl.md#files, #sampling, #in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl import tracking
from sweet_rl.cli.progress import Bar, run_until_stopped
from sweet_rl.concurrency import for_each
from sweet_rl.contracts import Sampler
from sweet_rl.errors import DataError, EpisodeError, UsageError
from sweet_rl.flags.shared import Continuing
from sweet_rl.preferences.pairs import (
    KEY_FIELDS,
    TurnKey,
    each_once,
    key_fields,
    key_of,
    twice,
    with_solution,
)
from sweet_rl.records import Journal, trajectories_from_rows
from sweet_rl.runs import HOW_TO_MIX, check_settings, finish, open_journal
from sweet_rl.types import AgentTurn, Completion, Failure, FinishReason, Json, Message, derive_seed, digest


class OfflineTurn(NamedTuple):
    """One agent turn: its identity, the prompt its model was given, and the published fields of its row."""

    key: TurnKey
    prompt: str
    row: Mapping[str, Json]


def offline_turns(
    rows: Sequence[tuple[int, Mapping[str, Json]]],
    fraction: float = 1.0,
    *,
    path: str | Path | None = None,
    published: bool = False,
) -> list[OfflineTurn]:
    """Every agent turn of the first trajectories, a `fraction` of all, that has its prompt, in file order.

    Those of tasks that cannot be graded are passed over, and those of episodes that failed. Published:
    `int(len * fraction)` trajectories, which may be none. Otherwise at least one.
    """
    trajectories = trajectories_from_rows(rows, path=path)
    if not trajectories:
        raise UsageError(f"{str(path)!r} holds no trajectories.")
    if not 0 < fraction <= 1:
        raise UsageError(f"--data_fraction must be above 0 and at most 1, got {fraction}.")
    count = int(len(trajectories) * fraction)
    if count == 0 and published:
        raise UsageError(
            f"--data_fraction {fraction} of {len(trajectories)} trajectories is less than one. Name a larger "
            "fraction; without --compat published at least one is taken."
        )
    turns, chosen = list[OfflineTurn](), trajectories[: max(count, 1)]
    for line, trajectory in each_once(rows, chosen, path):
        if trajectory.failed or trajectory.cannot_be_graded:
            continue
        messages, turn_index, solution = list[dict[str, Json]](), -1, trajectory.task.ground_truth
        for message in trajectory.dialogue_history:
            fields = {name: getattr(message, name, None) for name in ("role", "content", "input", "output")}
            messages.append({name: value for name, value in fields.items() if value is not None})
            turn_index += message.role == "assistant"
            if not isinstance(message, AgentTurn):
                continue
            if trajectory.reward is None:
                repair = "Grade the file first: sweet-rl evaluate_code --saved_path FILE writes the rewards."
                raise DataError("is missing", path=path, line=line, field="reward", repair=repair)
            if not message.input:
                place = f"dialogue_history[{len(messages) - 1}].input"
                repair = "It is the exact prompt that the model was given; leave it out if unknown."
                raise DataError(
                    "must not be empty", path=path, line=line, field=place, value="", repair=repair
                )
            row = {
                "input": message.input,
                "input_with_ground_truth": with_solution(message.input, solution),
                "older_output": message.output,
                "reward": trajectory.reward,
                "ground_truth": solution,
                "messages": list(messages),
            }
            turns.append(OfflineTurn((*trajectory.key, turn_index), message.input, row))
    if not turns:
        raise UsageError(
            f"None of the {len(chosen)} trajectories chosen from {str(path)!r} has an agent turn with "
            "`input` (the prompt its model was given). Simulate with sweet-rl simulate_interactions, or name a "
            "larger --data_fraction."
        )
    return turns


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sampled alternative.

    `token_ids` include the end token when one was generated; None where the sampler returned none. `mean` and
    `total` are the sampler's log-probabilities of these tokens. `cut` says that the token limit ended it, so
    that no end token belongs after it.
    """

    text: str
    token_ids: tuple[int, ...] | None
    mean: float | None
    total: float | None
    cut: bool

    @classmethod
    def of(cls, text: str, sampled: Completion | AgentTurn) -> Candidate:
        """What an agent sampled."""
        total = None if sampled.logprobs is None else math.fsum(sampled.logprobs)
        mean = total / len(sampled.logprobs) if total is not None and sampled.logprobs else None
        return cls(text, sampled.token_ids, mean, total, sampled.finish_reason is FinishReason.LENGTH)

    def closed(self, end_token: str) -> str:
        """The text with the end token behind it, unless the token limit had cut it."""
        return self.text if self.cut else self.text + end_token


@dataclass(frozen=True, slots=True)
class Candidates:
    """A row of a sampled or ranked file. `scores` has one entry for each candidate once it is ranked."""

    key: TurnKey
    line: int
    prompt: str
    ground_truth: str
    candidates: tuple[Candidate, ...]
    tokenizer: str | None = None
    end_token: str | None = None
    scores: tuple[float | None, ...] | None = None
    row: Mapping[str, Json] = field(default_factory=dict)

    @property
    def before(self) -> list[Message]:
        """The dialogue before the turn, from the request on; empty where the file does not hold it."""
        messages = self.row.get("messages") or []  # they end with the turn itself
        return [Message(entry["role"], entry["content"]) for entry in messages[:-1]]


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

    `settings` are what a continued run must share; `failure` is why there are no completions.
    """
    sampled = [Candidate.of(completion.text, completion) for completion in completions]
    row = dict(turn.row) | {
        "additional_outputs": [one.text for one in sampled],
        "additional_reference_logprobs": [one.mean for one in sampled],
        "additional_reference_logprobs_sum": [one.total for one in sampled],
        "additional_token_ids": [None if one.token_ids is None else list(one.token_ids) for one in sampled],
        "additional_finish_reasons": [completion.finish_reason.value for completion in completions],
    }
    row |= key_fields(turn.key) | {"tokenizer": tokenizer, "end_token": end_token, "sampling": dict(settings)}
    if failure is not None:
        row["error"] = {"kind": failure.kind, "detail": failure.detail}
    return row


_REPAIR = "Make the file with sweet-rl sample_best_of_n."
# Of each candidate: the field, the type of an entry, and what that is called.
_COLUMNS: dict[str, tuple[type, str]] = {
    "additional_token_ids": (list, "lists of token ids"),
    "additional_reference_logprobs": (float, "numbers or nulls"),
    "additional_reference_logprobs_sum": (float, "numbers or nulls"),
    "additional_finish_reasons": (str, "strings"),
    "judge_result": (float, "numbers or nulls"),
}


def candidates_from_rows(
    rows: Sequence[tuple[int, Mapping[str, Json]]], *, path: str | Path | None = None
) -> list[Candidates]:
    """Read a sampled or ranked file, ours or a published one.

    A row without identity (published) gets one: a digest of request and solution, the count of earlier rows
    of the same turn, and the number of agent turns before it. DataError names line, field and repair.
    """
    seen, lines, result = Counter[tuple[str, int]](), dict[TurnKey, int](), list[Candidates]()
    for line, row in rows:
        wrong, dialogue = partial(_wrong, path, line, row), row.get("messages")
        known = [
            isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("role", "content"))
            for entry in (dialogue if isinstance(dialogue, list) else [])
        ]
        if dialogue is not None and not (isinstance(dialogue, list) and all(known)):
            raise wrong("messages", "must be a list of messages", "Each has a role and a content.")
        key = _key(row, seen)
        if (earlier := lines.setdefault(key, line)) != line:
            raise twice(path, line, ", ".join(KEY_FIELDS), key, earlier)
        for name, repair in (
            ("input", "It is the prompt that the candidates continue."),
            ("ground_truth", "It is what the critic may know."),
            ("tokenizer", "Leave it out where unknown."),
            ("end_token", "Leave it out where unknown."),
        ):
            needed = name in {"input", "ground_truth"}
            if not isinstance(row.get(name), str) and (needed or row.get(name) is not None):
                raise wrong(name, "must be a string", repair)
        texts = row.get("additional_outputs")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise wrong("additional_outputs", "must be a list of strings")
        columns: dict[str, list[Any]] = {}
        for name, (kind, what) in _COLUMNS.items():
            values = row.get(name)
            columns[name] = [None] * len(texts) if values is None else values
            if not isinstance(columns[name], list) or not all(_fits(value, kind) for value in columns[name]):
                raise wrong(name, f"must be a list of {what}")
            if len(columns[name]) != len(texts):
                raise wrong(name, f"must have {len(texts)} entries, one for each candidate")
        *of_candidates, scores = columns.values()
        result.append(
            Candidates(
                key,
                line,
                row["input"],
                row["ground_truth"],
                tuple(
                    Candidate(
                        text, None if ids is None else tuple(ids), mean, total, why == FinishReason.LENGTH
                    )
                    for text, ids, mean, total, why in zip(texts, *of_candidates, strict=True)
                ),
                row.get("tokenizer"),
                row.get("end_token"),
                scores=tuple(scores) if "judge_result" in row else None,
                row=row,
            )
        )
    return result


def _wrong(
    path: str | Path | None,
    line: int,
    row: Mapping[str, Json],
    name: str,
    problem: str,
    repair: str = _REPAIR,
) -> DataError:
    value = row.get(name, "nothing")
    return DataError(problem, path=path, line=line, field=name, value=value, repair=repair)


def _fits(value: Json, kind: type) -> bool:
    """Whether an entry of a column is of its type, or null."""
    if kind is list and isinstance(value, list):
        return all(isinstance(i, int) and i >= 0 for i in value)
    kinds = (int, float) if kind is float else kind
    return value is None or (isinstance(value, kinds) and not isinstance(value, bool))


def _key(row: Mapping[str, Json], seen: Counter[tuple[str, int]]) -> TurnKey:
    task_id, sample_index, turn_index = (row.get(name) for name in KEY_FIELDS)
    if isinstance(task_id, str) and isinstance(sample_index, int) and isinstance(turn_index, int):
        return task_id, sample_index, turn_index
    messages = row.get("messages") or []
    request = messages[0]["content"] if messages else row.get("input")
    task_id = digest([request, row.get("ground_truth")])
    spoken = sum(message["role"] == "assistant" for message in messages)
    turn_index = max(spoken - 1, 0)  # `messages` end with the turn itself
    seen[task_id, turn_index] += 1
    return task_id, seen[task_id, turn_index] - 1, turn_index


OnSampled = Callable[[OfflineTurn, Sequence[Completion], Failure | None], Awaitable[None]]


async def sample_turns(
    turns: Sequence[OfflineTurn],
    sampler: Sampler,
    on_sampled: OnSampled,
    *,
    n: int,
    seed: int,
    greedy: bool = False,
    concurrency: int = 256,
) -> None:
    """Sample `n` candidates for every turn and hand each turn over when it has them.

    Long prompts come first, so that batches are of like length and the largest one comes early. A turn's
    candidates depend on the seed and the turn's identity only: repeats of a task, whose first prompts are the
    same string, get different ones. Greedy candidates are all alike, so each prompt is asked for one.

    `on_sampled` is given the turn, its candidates, and why there are none when the model could not continue
    this prompt; `concurrency` prompts are in flight at once.
    """
    jobs: dict[tuple[str, int], list[OfflineTurn]] = {}
    for turn in sorted(turns, key=lambda turn: len(turn.prompt), reverse=True):
        job_seed = seed if greedy else derive_seed(seed, *turn.key)
        jobs.setdefault((turn.prompt, job_seed), []).append(turn)

    async def sample(job: tuple[tuple[str, int], list[OfflineTurn]]) -> None:
        (prompt, job_seed), members = job
        failure: Failure | None = None
        completions: list[Completion] = []
        try:
            (completions,) = await sampler.sample([prompt], 1 if greedy else n, seeds=[job_seed])
        except EpisodeError as error:
            failure = error.failure
        for turn in members:
            await on_sampled(turn, completions * (n if greedy else 1), failure)

    await for_each(jobs.items(), sample, at_once=min(concurrency, len(jobs) or 1))


def has_failed(row: Mapping[str, Json]) -> bool:
    """Whether the model could not be asked about a turn; a prompt too long for it is no such failure."""
    error = row.get("error")
    if not isinstance(error, dict) or row.get("additional_outputs"):
        return False
    return error.get("kind") != "context_full"


Work = Callable[[list[Any], Journal, Bar, Any], Coroutine[Any, Any, None]]
"""Makes rows of turns: of the missing ones, in the file, counted on the bar, by what was opened for it."""


def write_turns(
    path: str | Path,
    flags: Continuing,
    turns: Sequence[OfflineTurn | Candidates],
    settings: Mapping[str, Json],
    work: Work,
    *,
    field: str,
    quiet: bool,
    noun: str = "rows",
    digests: Mapping[TurnKey, str] | None = None,
    opened: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> list[dict[str, Json]]:
    """Write a file with a row for every turn: `work` makes what it lacks, then all stand in the order of `turns`.

    A row shows by its prompt that it is of the same turn, or by a digest; one that could not be sampled for is
    made again. `field` of a row holds the settings that it was made with. What `opened` gives the work uses.
    Returns the rows that failed.
    """
    content = "input" if digests is None else "turn_digest"
    wanted = digests or {turn.key: turn.prompt for turn in turns}
    with open_journal(path, to_continue=flags.to_continue, overwrite=flags.overwrite) as journal:
        done: set[TurnKey] = set()
        for line, row in journal.rows:
            key, where = key_of(row), f"{str(path)!r}, line {line}"
            if wanted.get(key) != row.get(content):
                raise UsageError(f"{where}: this row is of a turn that is not among yours. {HOW_TO_MIX}")
            check_settings(row.get(field) or {}, settings, where)
            (done.discard if field == "sampling" and has_failed(row) else done.add)(key)
        journal.rows.clear()
        tracking.sets(settings)
        tracking.writes(path, continues=flags.to_continue)
        todo = [turn for turn in turns if turn.key not in done]

        async def main(with_what: Any) -> None:
            with Bar(len(turns), len(turns) - len(todo), unit="turn", quiet=quiet) as bar:
                await work(todo, journal, bar, with_what)

        if todo:
            with opened() as with_what:
                run_until_stopped(main(with_what), path, len(turns), noun=noun, verb="does")
        return finish(path, {key: place for place, key in enumerate(wanted)}, key=key_of, failed=has_failed)
