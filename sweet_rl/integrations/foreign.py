"""Dialogues that other tools recorded, as trajectories; of inspect_ai's logs the JSON format, which needs no
package.

A sample of ours holds the whole row and comes back unchanged; of other people's the text is read, and the
score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from sweet_rl.chat import as_json
from sweet_rl.errors import DataError
from sweet_rl.records import task_from_row, trajectory_from_row
from sweet_rl.types import AgentTurn, Failure, Json, Message, StopReason, Trajectory

ROW = "sweet_rl_row"
"""Where in a sample's store its episode is."""

_WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""What inspect_ai takes words of its scorers for; its own reader takes all other words for 0."""

_ATTACHED = "attachment://"
"""Before the digest of a long text, which stands once among a sample's `attachments`."""


def trajectory_of(
    messages: Iterable[Message],
    *,
    task_id: str,
    asked: str,
    target: str = "",
    sample_index: int = 0,
    reward: float | None = None,
    error: str | None = None,
    model: str | None = None,
    extra: dict[str, Json] | None = None,
) -> Trajectory:
    """A trajectory of a dialogue, instructions included; the `input` of its turns is filled in. No reward
    where there is an error.
    """
    history: list[Message] = []
    before: list[Message] = []
    for one in messages:
        said = replace(one, input=as_json(before)) if isinstance(one, AgentTurn) else one
        before.append(said)
        if said.role != "system":
            history.append(said)
    task = {
        "task_id": task_id,
        "problem_description": asked,
        "ground_truth": target,
        "hidden_information": target,
        "test_cases": {},
    }
    return Trajectory(
        task=task_from_row(task),
        dialogue_history=tuple(history),
        answer=next((one.content for one in reversed(history) if one.role == "assistant"), None),
        sample_index=sample_index,
        stop_reason=StopReason.ANSWERED if error is None else StopReason.POLICY_FAILED,
        reward=reward if error is None else None,
        error=None if error is None else Failure("error", error),
        provenance={} if model is None else {"agent_model": model},
        extra=extra or {},
    )


def no_log(path: Path, why: object) -> DataError:
    """The error for a file that is no log."""
    repair = "Name a whole .eval or .json file, as inspect eval or sweet-rl export wrote it."
    return DataError(f"is no log of inspect_ai ({why})", path=path, repair=repair)


def trajectories_in(log: Any, path: Path) -> list[Trajectory]:
    """The trajectories of a log as plain objects; `path` is its file."""
    if not isinstance(log, Mapping) or not isinstance(log.get("eval"), Mapping) or "status" not in log:
        raise no_log(path, "it has no `eval` and `status`")
    if not log.get("samples"):
        raise no_log(path, "it holds no samples: it was written without them, or none was finished")
    try:
        return [
            _trajectory_in(_whole(one, one.get("attachments") or {}), log["eval"], path)
            for one in log["samples"]
        ]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise no_log(path, f"a sample cannot be read: {error!r}") from error


def _whole(value: Json, attached: Mapping[str, str]) -> Any:
    """With the texts that it names instead of holding them."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_whole(one, attached) for one in value]
    if isinstance(value, dict):
        return {name: value[name] if name == "events" else _whole(value[name], attached) for name in value}
    return value


def _trajectory_in(sample: Mapping[str, Any], played: Mapping[str, Any], path: Path) -> Trajectory:
    model = str(played.get("model", "unknown"))
    if row := (sample.get("store") or {}).get(ROW):
        own = trajectory_from_row(row, path=path)
        return replace(own, provenance={"agent_model": model, **own.provenance})
    asked, target, reward = sample["input"], sample["target"], _reward(sample)
    error, limit = sample.get("error"), sample.get("limit")
    why = None if error is None else str(error["message"])
    if why is None and reward is None and limit is not None:
        why = f"a limit of inspect_ai's ended it: {limit['type']}"
    return trajectory_of(
        [_ours(one, path) for one in sample["messages"]],
        task_id=str(sample["id"]),
        asked=asked if isinstance(asked, str) else "\n\n".join(_text(one["content"]) for one in asked),
        target=target if isinstance(target, str) else "\n".join(target),
        sample_index=int(sample["epoch"]) - 1,
        reward=reward,
        error=why,
        model=model,
    )


def _ours(one: Mapping[str, Any], path: Path) -> Message:
    """A message of theirs as text, in which pictures and the like are named, with its thoughts."""
    if one["role"] == "tool" or one.get("tool_calls"):
        raise DataError("has calls of tools, which are no dialogue of texts", path=path, field="messages")
    if one["role"] != "assistant":
        return Message(one["role"], _text(one["content"]))
    parts = [] if isinstance(one["content"], str) else one["content"]
    thoughts = [part["reasoning"] for part in parts if part["type"] == "reasoning"]
    said = _text(one["content"])
    return AgentTurn("assistant", said, output=said, thoughts="\n\n".join(thoughts) or None)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}]"
        for part in content
        if part["type"] != "reasoning"
    )


def _reward(sample: Mapping[str, Any]) -> float | None:
    """The first score, or the first number of it; None where that is no number, as of an unscored sample."""
    first = next(iter((sample.get("scores") or {}).values()), None)
    value = None if first is None else first["value"]
    if isinstance(value, dict):
        value = next(iter(value.values()), None)
    if isinstance(value, str):
        value = _WORDS.get(value.lower(), value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None
