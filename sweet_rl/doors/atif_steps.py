"""Messages of ours as steps of an ATIF document, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweet_rl.types import Json

OURS = "sweet_rl"
"""Where `extra` of a step or a document has what the format has no place for."""
CREDIT = "turn_credit"
"""A row's column with the credit of its turns, in order: rows of a file of `sweet-rl credit`, or null."""
SOURCES = ("system", "user", "agent")


def step_of(place: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a row as the step of this number; of a turn of the agent `extra` is always there."""
    rest = dict(entry)
    role, text = rest.pop("role"), rest.pop("content")
    step = {"step_id": place, "source": "agent" if role == "assistant" else role, "message": text}
    if "input" not in rest:
        return step
    if "thoughts" in rest:
        step["reasoning_content"] = rest.pop("thoughts")
    metrics = {}
    if "token_ids" in rest:
        metrics["completion_token_ids"] = rest.pop("token_ids")
        metrics["completion_tokens"] = len(metrics["completion_token_ids"])
    if "logprobs" in rest:
        metrics["logprobs"] = rest.pop("logprobs")
    if metrics:
        step["metrics"] = metrics
    reward = {"reward": rest.pop("reward")} if "reward" in rest else {}
    return step | {"extra": {**reward, OURS: rest}}


def entry_of(step: Mapping[str, Any]) -> dict[str, Any]:
    """The message of a row that `step_of` made a step of."""
    extra, metrics = step.get("extra") or {}, step.get("metrics") or {}
    known = {
        "thoughts": step.get("reasoning_content"),
        "token_ids": metrics.get("completion_token_ids"),
        "logprobs": metrics.get("logprobs"),
        "reward": extra.get("reward"),
    }
    role = "assistant" if step["source"] == "agent" else step["source"]
    entry = {"role": role, "content": step["message"], **extra.get(OURS, {})}
    return entry | {name: value for name, value in known.items() if value is not None}


def is_turn(step: Mapping[str, Any]) -> bool:
    """Whether a step of anyone's document is a turn to learn from: a model wrote it, and here first."""
    copied, written = step.get("is_copied_context"), step.get("llm_call_count") != 0
    return step["source"] == "agent" and not copied and written


def credit_in(turns: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    """The column of credit that steps have; nothing where none has any."""
    credit = [(step.get("extra") or {}).get("credit") for step in turns]
    return {CREDIT: credit} if any(one is not None for one in credit) else {}
