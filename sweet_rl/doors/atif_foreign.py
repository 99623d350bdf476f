"""ATIF documents that others wrote, as trajectories; the document is kept whole beside the dialogue.

Calls of tools are text of the agent's turn, each in a `<tool_call>` block as open models write them; what a
step observes is told to the agent next. Steps that were copied as context, or that no model wrote, are no
turns to learn from: they are messages without a prompt.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.doors.foreign import trajectory_of
from sweet_rl.errors import DataError
from sweet_rl.types import AgentTurn, Json, Message, Trajectory

CREDIT = "turn_credit"
"""A row's column with the credit of its turns, in order: rows of a file of `sweet-rl credit`, or null."""
DOCUMENT = "atif"
"""A row's column with the document that it was read from."""


def read_foreign(document: Mapping[str, Any], path: Path) -> Trajectory:
    """The trajectory of a document, whose reward is its own, or that of the trial whose folder it is in.

    Raises:
        DataError: a step is of no known source.
    """
    steps: Sequence[Mapping[str, Any]] = document["steps"]
    if wrong := [one["source"] for one in steps if one["source"] not in {"system", "user", "agent"}]:
        raise DataError("is no source of a step", path=path, field="steps", value=wrong[0])
    trial = path.parent.parent
    in_trial = (
        path.name == "trajectory.json" and path.parent.name == "agent"
    )  # TASK__ID/agent/trajectory.json
    name = document.get("trajectory_id") or document.get("session_id") or path.stem
    return trajectory_of(
        _messages(steps),
        task_id=trial.name.rpartition("__")[0] or trial.name if in_trial else str(name),
        asked=next((_text(one["message"]) for one in steps if one["source"] == "user"), ""),
        reward=_reward(document, trial / "verifier"),
        model=document["agent"].get("model_name"),
        extra={DOCUMENT: dict(document)} | credit_in(filter(_is_turn, steps)),
    )


def again(
    document: Mapping[str, Any], turns: Iterable[Mapping[str, Any]], reward: float | None
) -> dict[str, Json]:
    """A document that was read, with what its turns (`extra` of their steps) and it were given since."""
    made = copy.deepcopy(dict(document))
    for step, extra in zip(filter(_is_turn, made["steps"]), turns, strict=True):
        if given := {name: extra[name] for name in ("reward", "credit") if name in extra}:
            step["extra"] = (step.get("extra") or {}) | given
    if reward is not None:
        metrics = made["final_metrics"] = made.get("final_metrics") or {}
        metrics["extra"] = (metrics.get("extra") or {}) | {"reward": reward}
    return made


def credit_in(turns: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    """The column of credit that steps have; nothing where none has any."""
    credit = [(step.get("extra") or {}).get("credit") for step in turns]
    return {CREDIT: credit} if any(one is not None for one in credit) else {}


def _is_turn(step: Mapping[str, Any]) -> bool:
    copied, written = step.get("is_copied_context"), step.get("llm_call_count") != 0
    return step["source"] == "agent" and not copied and written


def _messages(steps: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    for step in steps:
        calls = [
            {"name": one["function_name"], "arguments": one["arguments"]}
            for one in step.get("tool_calls") or ()
        ]
        blocks = [f"<tool_call>\n{json.dumps(one, ensure_ascii=False)}\n</tool_call>" for one in calls]
        said = "\n".join(part for part in (_text(step["message"]), *blocks) if part)
        metrics, extra = step.get("metrics") or {}, step.get("extra") or {}
        if _is_turn(step):
            ids, logprobs = metrics.get("completion_token_ids"), metrics.get("logprobs")
            yield AgentTurn(
                "assistant",
                said,
                output=said,
                token_ids=None if ids is None else tuple(ids),
                logprobs=None if logprobs is None else tuple(logprobs),
                reward=extra.get("reward"),
                thoughts=step.get("reasoning_content"),
            )
        else:
            yield Message("assistant" if step["source"] == "agent" else step["source"], said)
        results = (step.get("observation") or {}).get("results") or ()
        if told := "\n".join(filter(None, (_text(one.get("content")) for one in results))):
            yield Message("user", told)


def _text(content: Json) -> str:
    """A text, or parts of which pictures and sounds are named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}: {part['source']['path']}]"
        for part in content
    )


def _reward(document: Mapping[str, Any], verifier: Path) -> float | None:
    """What the document says, else what the verifier of harbor's trial wrote."""
    own = ((document.get("final_metrics") or {}).get("extra") or {}).get("reward")
    if own is not None:
        return float(own)
    if (verifier / "reward.json").is_file():
        rewards = json.loads((verifier / "reward.json").read_text())
        return float(rewards.get("reward", next(iter(rewards.values()))))
    text = verifier / "reward.txt"
    return float(text.read_text()) if text.is_file() else None
