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

from sweet_rl.doors.atif_steps import credit_in, is_turn
from sweet_rl.doors.foreign import trajectory_of
from sweet_rl.doors.harbor_trials import reward_of, task_of
from sweet_rl.types import AgentTurn, Json, Message, Trajectory

DOCUMENT = "atif"
"""A row's column with the document that it was read from."""


def read_foreign(document: Mapping[str, Any], path: Path) -> Trajectory:
    """The trajectory of a document, whose reward is its own, or that of the trial whose folder it is in."""
    steps: Sequence[Mapping[str, Any]] = document["steps"]
    name = document.get("trajectory_id") or document.get("session_id") or path.stem
    reward = ((document.get("final_metrics") or {}).get("extra") or {}).get("reward")
    return trajectory_of(
        _messages(steps),
        task_id=task_of(path) or str(name),
        asked=next((_text(one["message"]) for one in steps if one["source"] == "user"), ""),
        reward=reward_of(path) if reward is None else float(reward),
        model=(document.get("agent") or {}).get("model_name"),
        extra={DOCUMENT: dict(document)} | credit_in(filter(is_turn, steps)),
    )


def again(
    document: Mapping[str, Any], turns: Iterable[Mapping[str, Any]], reward: float | None
) -> dict[str, Json]:
    """A document that was read, with what its turns (`extra` of their steps) and it were given since."""
    made = copy.deepcopy(dict(document))
    for step, extra in zip(filter(is_turn, made["steps"]), turns, strict=True):
        if given := {name: extra[name] for name in ("reward", "credit") if name in extra}:
            step["extra"] = (step.get("extra") or {}) | given
    if reward is not None:
        metrics = made["final_metrics"] = made.get("final_metrics") or {}
        metrics["extra"] = (metrics.get("extra") or {}) | {"reward": reward}
    return made


def _messages(steps: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    for step in steps:
        said = "\n".join(filter(None, (_text(step["message"]), *map(_call, step.get("tool_calls") or ()))))
        metrics, extra = step.get("metrics") or {}, step.get("extra") or {}
        if is_turn(step):
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


def _call(call: Mapping[str, Any]) -> str:
    named = {"name": call["function_name"], "arguments": call["arguments"]}
    return f"<tool_call>\n{json.dumps(named, ensure_ascii=False)}\n</tool_call>"


def _text(content: Json) -> str:
    """A text, or parts of which pictures and sounds are named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{part['type']}: {part['source']['path']}]"
        for part in content
    )
