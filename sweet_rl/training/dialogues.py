"""Texts to imitate: dialogues of trajectory files, and the preferred sides of pair files. No torch.

Published behaviour: docs/published/sweet_rl.md#trajectory-pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import listed
from sweet_rl.records import read_rows, trajectories_from_rows
from sweet_rl.training.data import read_pair
from sweet_rl.training.settings import DataSettings, SelectionSettings
from sweet_rl.types import FinishReason, Json, Trajectory


@dataclass(frozen=True, slots=True)
class TextRow:
    """One text and the place it comes from. `prompt` is "" when the text is a whole dialogue.

    `cut` is True where the token limit ended the text, so that no end token belongs behind it; `ids` are the
    response's sampled ones, of the tokenizer with the digest `tokenizer`.
    """

    prompt: str
    text: str
    path: str
    line: int
    cut: bool = False
    ids: tuple[int, ...] | None = None
    tokenizer: str | None = None

    @property
    def place(self) -> str:
        """The row's position as `file:line`, for messages."""
        return f"{self.path}:{self.line}"


@dataclass(slots=True)
class SelectionReport:
    """How many rows there were, and how many of them are not trained on; `lines` says it to people."""

    rows: int = 0
    failed: int = 0
    unfinished: int = 0
    not_gradable: int = 0
    below: int = 0
    not_best: int = 0

    def lines(self, selection: SelectionSettings) -> list[str]:
        """One line for each thing worth knowing."""
        of = f"of {self.rows:,} dialogues"
        counts = {
            f"{self.failed:,} {of} left out: the episode failed": self.failed,
            f"{self.unfinished:,} {of} left out: they do not end with an agent turn": self.unfinished,
            f"{self.not_gradable:,} {of} left out: their tasks cannot be graded": self.not_gradable,
            f"{self.below:,} {of} left out: reward below --min_reward {selection.min_reward}": self.below,
            f"{self.not_best:,} {of} left out: not the best of their task": self.not_best,
        }
        return [line for line, count in counts.items() if count]


def read_texts(data: DataSettings, selection: SelectionSettings) -> tuple[list[TextRow], SelectionReport]:
    """All texts of the comma-separated files, in order: dialogues that are selected, or preferred sides.

    What a file holds is decided by its first row: `dialogue_history` makes it a trajectory file, anything
    else a pair file.

    Raises:
        UsageError: no such file, nothing is left, or a selection by reward from a pair file.
        DataError: names the row that is neither, or that lacks a reward where one is needed.
    """
    report, texts = SelectionReport(), list[TextRow]()
    names = listed(data.dataset)
    for name in names:
        if Path(name).suffix.lower() != ".jsonl":
            raise UsageError(f"--dataset {name!r}: trajectories and pairs are read from .jsonl files.")
        rows = list(read_rows(name))[: data.max_samples]
        if rows and "dialogue_history" in rows[0][1]:
            texts += _dialogues(rows, name, selection, report)
        elif rows:
            texts += _preferred(rows, name, data, selection)
    if not texts:
        raise UsageError(
            f"There is nothing to imitate in {data.dataset!r}"
            + "".join(f"; {line}" for line in report.lines(selection))
            + ". Lower --min_reward, or sample more dialogues (--best_of_n)."
        )
    return texts, report


def _dialogues(
    rows: Sequence[tuple[int, Json]], path: str, selection: SelectionSettings, report: SelectionReport
) -> list[TextRow]:
    trajectories = trajectories_from_rows(rows, path=path)
    report.rows += len(rows)
    played = [
        (line, trajectory)
        for (line, _), trajectory in zip(rows, trajectories, strict=True)
        if not trajectory.failed
    ]
    report.failed += len(rows) - len(played)
    finished = [(line, trajectory) for line, trajectory in played if trajectory.last_turn is not None]
    report.unfinished += len(played) - len(finished)
    if selection.min_reward is not None or selection.best_of_task:
        gradable = [item for item in finished if not item[1].cannot_be_graded]
        report.not_gradable += len(finished) - len(gradable)
        finished = gradable
    if selection.min_reward is not None:
        good = [item for item in finished if _reward(item, path) >= selection.min_reward]
        report.below += len(finished) - len(good)
        finished = good
    if selection.best_of_task:
        best: dict[str, tuple[int, Trajectory]] = {}
        for item in finished:
            held = best.setdefault(item[1].task.task_id, item)
            if _reward(item, path) > _reward(held, path):
                best[item[1].task.task_id] = item
        report.not_best += len(finished) - len(best)
        finished = list(best.values())
    return [_text(trajectory, path, line) for line, trajectory in finished]


def _text(trajectory: Trajectory, path: str, line: int) -> TextRow:
    """The whole dialogue as the model saw and wrote it (without the hidden solution)."""
    last = trajectory.last_turn
    if last is None:
        raise ValueError(f"trajectory {trajectory.key} does not end with an agent turn")
    return TextRow("", last.input + last.output, path, line, cut=last.finish_reason is FinishReason.LENGTH)


def _reward(item: tuple[int, Trajectory], path: str) -> float:
    line, trajectory = item
    if trajectory.reward is None:
        raise DataError(
            "is missing",
            path=path,
            line=line,
            field="reward",
            repair="Grade the file with evaluate_code.py, or leave --min_reward and --best_of_task out.",
        )
    return trajectory.reward


def _preferred(
    rows: Sequence[tuple[int, Json]], path: str, data: DataSettings, selection: SelectionSettings
) -> list[TextRow]:
    if selection.min_reward is not None or selection.best_of_task:
        raise UsageError(
            f"--min_reward and --best_of_task select dialogues by their reward, which the rows of {path!r} "
            "do not have. Leave them out, or name a trajectory file."
        )
    pairs = [
        read_pair(row | {data.rejected_key: row.get(data.chosen_key)}, path, line, data) for line, row in rows
    ]
    return [
        TextRow(pair.prompt, pair.chosen, path, pair.line, ids=pair.chosen_ids, tokenizer=pair.tokenizer)
        for pair in pairs
    ]
