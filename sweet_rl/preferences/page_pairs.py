"""Pairs of page dialogues as messages for a vision critic, which is shown the hidden page's picture.

A published pair for pages holds texts: the last prompt and its answer. The agent writes html and
sees no picture; the critic may be shown the page that the human has in mind. Its picture stands in a system
message before the dialogue, where the text critic has the page's source, and where nothing is cut off when a
dialogue is too long. How the published system made these messages is not known; only their form is.

Published behaviour: docs/published/sweet_rl.md#files, #reward-models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweet_rl.errors import DataError
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.types import AgentTurn, Json, Trajectory

INTRODUCTION = "In light that the final answer is this page:"


def shown_pairs(
    pairs: Iterable[tuple[int, Mapping[str, Json]]],
    trajectories: Sequence[Trajectory],
    targets: Sequence[str],
    *,
    path: str,
) -> list[dict[str, Json]]:
    """Each pair as two lists of messages, the target's picture first.

    Args:
        pairs: rows `{"chosen": {"input", "output"}, "rejected": ...}` with their lines, with or without the
            hidden page before the input.
        trajectories: that the pairs were made of.
        targets: the path of each one's target picture, as the messages shall name it.
        path: the pairs' file, for errors.

    Raises:
        DataError: a side is no such object, or none of the trajectories.
    """
    by_key: dict[tuple[Any, Any], int] = {}
    for index, trajectory in enumerate(trajectories):
        last = trajectory.last_turn
        if last is not None:
            by_key.setdefault((last.input, last.output), index)
            by_key.setdefault((with_solution(last.input, trajectory.task.ground_truth), last.output), index)

    def side(row: Mapping[str, Json], line: int, field: str) -> list[Json]:
        value = row.get(field)
        index = by_key.get((value.get("input"), value.get("output"))) if isinstance(value, dict) else None
        if index is None:
            raise DataError(
                "is the last turn of none of the trajectories",
                path=path,
                line=line,
                field=field,
                value=value,
                repair="Name the trajectory file that sweet-rl evaluate_html made these pairs of, as it was then.",
            )
        return [_shown(targets[index]), *_dialogue(trajectories[index])]

    return [{name: side(row, line, name) for name in ("chosen", "rejected")} for line, row in pairs]


def _shown(target: str) -> dict[str, Any]:
    content = [{"type": "text", "text": INTRODUCTION}, {"type": "image", "image": target}]
    return {"role": "system", "content": content}


def _dialogue(trajectory: Trajectory) -> list[Json]:
    """The messages as later prompts had them; the last turn as it was written."""
    *before, last = trajectory.dialogue_history
    messages: list[Json] = [{"role": message.role, "content": message.content} for message in before]
    return [*messages, {"role": "assistant", "content": last.output if isinstance(last, AgentTurn) else ""}]
