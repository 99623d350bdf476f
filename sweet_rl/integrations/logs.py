"""Dialogues that other tools recorded, as trajectories: logs of inspect_ai in JSON, documents of ATIF; and ATIF written.

A sample or document of ours holds the whole row and comes back unchanged: in ATIF, harbor's agent trajectory interchange
format, what is ours alone is `extra["sweet_rl"]` of a step and of the document. Hidden solutions are in it as in a trajectory
file. Of other people's the text is read, and the score. Their documents are kept whole beside the dialogue: calls of tools are
`<tool_call>` blocks of the agent's turn, what a step observes is told next, and steps that were copied, or that no model wrote,
are messages without a prompt.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sweet_rl.chat import as_json
from sweet_rl.errors import DataError
from sweet_rl.preferences.credit import credit_in
from sweet_rl.preferences.pairs import KEY_FIELDS
from sweet_rl.records import replace_file, task_from_row, trajectory_from_row, trajectory_to_row
from sweet_rl.types import AgentTurn, Failure, Json, Message, StopReason, Trajectory
from sweet_rl.version import __version__

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
    reward: float | None = None,
    error: str | None = None,
    model: str | None = None,
    **more: Any,
) -> Trajectory:
    """A dialogue, instructions included, with its turns' `input` filled in; no reward where there is an error."""
    history: list[Message] = []
    before: list[Message] = []
    for one in messages:
        said = replace(one, input=as_json(before)) if isinstance(one, AgentTurn) else one
        before.append(said)
        if said.role != "system":
            history.append(said)
    task: dict[str, Json] = {"task_id": task_id, "problem_description": asked, "ground_truth": target}
    task |= {"hidden_information": target, "test_cases": {}}
    return Trajectory(
        task=task_from_row(task),
        dialogue_history=tuple(history),
        answer=next((one.content for one in reversed(history) if one.role == "assistant"), None),
        stop_reason=StopReason.ANSWERED if error is None else StopReason.POLICY_FAILED,
        reward=reward if error is None else None,
        error=None if error is None else Failure("error", error),
        provenance={} if model is None else {"agent_model": model},
        **more,
    )


def _text(content: Any) -> str:
    """A text, or the texts of parts, of which thoughts are left out, and pictures and sounds are named."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        if part["type"] != "reasoning":
            named = f": {part['source']['path']}" if "source" in part else ""
            texts.append(part["text"] if part["type"] == "text" else f"[{part['type']}{named}]")
    return "\n".join(texts)


# ---- logs of inspect_ai


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
    model = str(log["eval"].get("model", "unknown"))
    try:
        whole = (_whole(one, one.get("attachments") or {}) for one in log["samples"])
        return [_trajectory_in(sample, model, path) for sample in whole]
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


def _trajectory_in(sample: Mapping[str, Any], model: str, path: Path) -> Trajectory:
    if row := (sample.get("store") or {}).get(ROW):
        own = trajectory_from_row(row, path=path)
        return replace(own, provenance={"agent_model": model, **own.provenance})
    # The first score, or the first number of it; none where that is no number, as of an unscored sample.
    value: Any = next(iter((sample.get("scores") or {}).values()), {"value": None})["value"]
    value = next(iter(value.values()), None) if isinstance(value, dict) else value
    value = _WORDS.get(value.lower(), value) if isinstance(value, str) else value
    try:
        reward = float(value) if isfinite(float(value)) else None
    except (TypeError, ValueError):
        reward = None
    asked, target = sample["input"], sample["target"]
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
    said, parts = _text(one["content"]), [] if isinstance(one["content"], str) else one["content"]
    if one["role"] != "assistant":
        return Message(one["role"], said)
    thoughts = "\n\n".join(part["reasoning"] for part in parts if part["type"] == "reasoning")
    return AgentTurn("assistant", said, output=said, thoughts=thoughts or None)


# ---- documents of ATIF

OURS = "sweet_rl"
"""Where `extra` of a step or a document has what the format has no place for."""
CREDIT = "turn_credit"
"""A row's column with the credit of its turns, in order: rows of a file of `sweet-rl credit score`, or null."""
DOCUMENT = "atif"
"""A row's column with the document that it was read from."""
SOURCES = ("system", "user", "agent")
VERSION = "ATIF-v1.7"
"""What we write: the first version that has a place for all of it."""


def is_turn(step: Mapping[str, Any]) -> bool:
    """Whether a step of anyone's document is a turn to learn from: a model wrote it, and here first."""
    copied, written = step.get("is_copied_context"), step.get("llm_call_count") != 0
    return step["source"] == "agent" and not copied and written


def step_credit(turns: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    """The column of credit that steps have; nothing where none has any."""
    credit = [(step.get("extra") or {}).get("credit") for step in turns]
    return {CREDIT: credit} if any(one is not None for one in credit) else {}


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


def read_foreign(document: Mapping[str, Any], path: Path) -> Trajectory:
    """The trajectory of another's document, with its own reward, or what the verifier of its trial wrote.

    A trial's folder is called TASK__TRIAL, and has agent/trajectory.json and the folder verifier.
    """
    steps: Sequence[Mapping[str, Any]] = document["steps"]
    trial, verifier = path.parent.parent, path.parent.parent / "verifier"
    name = document.get("trajectory_id") or document.get("session_id") or path.stem
    if path.name == "trajectory.json" and path.parent.name == "agent":
        name = trial.name.rpartition("__")[0] or trial.name or name
    reward = ((document.get("final_metrics") or {}).get("extra") or {}).get("reward")
    if reward is None and (verifier / "reward.json").is_file():
        rewards = json.loads((verifier / "reward.json").read_text())
        reward = rewards.get("reward", next(iter(rewards.values())))
    elif reward is None and (verifier / "reward.txt").is_file():
        reward = (verifier / "reward.txt").read_text()
    return trajectory_of(
        _messages(steps),
        task_id=str(name),
        asked=next((_text(one["message"]) for one in steps if one["source"] == "user"), ""),
        reward=None if reward is None else float(reward),
        model=(document.get("agent") or {}).get("model_name"),
        extra={DOCUMENT: dict(document)} | step_credit(filter(is_turn, steps)),
    )


def _messages(steps: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    for step in steps:
        parts = [_text(step["message"])]
        for call in step.get("tool_calls") or ():
            named = {"name": call["function_name"], "arguments": call["arguments"]}
            parts.append(f"<tool_call>\n{json.dumps(named, ensure_ascii=False)}\n</tool_call>")
        said = "\n".join(filter(None, parts))
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


def document_of(one: Trajectory) -> dict[str, Json]:
    """A trajectory as a document; one that was read from another's becomes that again, with what it was given since."""
    row = trajectory_to_row(one)
    history, credit = row.pop("dialogue_history"), row.pop(CREDIT, None)
    steps = [step_of(place, entry) for place, entry in enumerate(history, 1)]
    turns = [step for step, entry in zip(steps, history, strict=True) if "input" in entry]
    for step, known in zip(turns, credit or (), strict=False):
        step["extra"] |= {} if known is None else {"credit": known}
    earned = {} if one.reward is None else {"extra": {"reward": one.reward}}
    if DOCUMENT in row:
        made: dict[str, Json] = copy.deepcopy(dict(row[DOCUMENT]))
        for step, own in zip(filter(is_turn, made["steps"]), turns, strict=True):
            if given := {name: own["extra"][name] for name in ("reward", "credit") if name in own["extra"]}:
                step["extra"] = (step.get("extra") or {}) | given
        if earned:
            metrics = made["final_metrics"] = made.get("final_metrics") or {}
            metrics["extra"] = (metrics.get("extra") or {}) | earned["extra"]
        return made
    name, known = f"{one.task.task_id}.{one.sample_index}", one.provenance
    counts = [step.get("metrics", {}).get("completion_tokens") for step in turns]
    tokens = {} if None in counts else {"total_completion_tokens": sum(counts)}
    agent = {"name": str(known.get("agent", OURS)), "version": str(known.get("sweet_rl", __version__))}
    return {
        "schema_version": VERSION,
        "session_id": str(known.get("run", name)),
        "trajectory_id": name,
        "agent": agent | ({"model_name": str(known["agent_model"])} if "agent_model" in known else {}),
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)} | tokens | earned,
        "extra": {OURS: row},
    }


def trajectory_in(document: Mapping[str, Any], path: Path) -> Trajectory:
    """The trajectory of a document, ours or another's; `path` is the file that it is in."""
    version, steps = str(document.get("schema_version", "")), document.get("steps")
    if not version.startswith("ATIF-v1.") or not steps or not isinstance(steps, list):
        raise DataError("is no ATIF trajectory of a version 1", path=path, field="schema_version")
    for place, step in enumerate(steps):
        if not isinstance(step, Mapping) or step.get("source") not in SOURCES or "message" not in step:
            repair = f"A step has a message and its source: {', '.join(SOURCES)}."
            raise DataError("is no step", path=path, field=f"steps[{place}]", value=step, repair=repair)
    try:
        row = (document.get("extra") or {}).get(OURS)
        if row is None:
            row = trajectory_to_row(read_foreign(document, path))
        else:
            history = [entry_of(step) for step in steps]
            turns = (step for step, entry in zip(steps, history, strict=True) if "input" in entry)
            row = {**row, "dialogue_history": history, **step_credit(turns)}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        repair = "Every field has the type that ATIF gives it."
        raise DataError(f"is no ATIF trajectory ({error!r})", path=path, repair=repair) from error
    return trajectory_from_row(row, path=path)


ENDING = ".atif.json"
_REPAIR = "A document is a .json file with schema_version and steps; a log of inspect_ai has eval, status and samples."


def write_documents(trajectories: Iterable[Trajectory], folder: Path) -> None:
    """Write each trajectory as a document of its own, in place of those that an earlier call wrote."""
    old = set(folder.glob(f"*{ENDING}"))
    for one in trajectories:
        path = folder / f"{quote(one.task.task_id, safe='')}.{one.sample_index}{ENDING}"
        replace_file(path, [json.dumps(document_of(one), ensure_ascii=False, indent=1).encode()])
        old.discard(path)
    for path in old:
        path.unlink()


def read_documents(path: Path) -> list[Trajectory]:
    """The trajectories of a document, or of all documents below a folder; others' repeats are counted."""
    paths = [path] if path.is_file() else sorted(path.rglob("*.json"))
    found: list[Trajectory] = []
    repeats: Counter[str] = Counter()
    for one in paths:
        try:
            document = json.loads(one.read_bytes())
        except ValueError as error:
            raise DataError(f"is not JSON ({error})", path=one, repair=_REPAIR) from None
        if not isinstance(document, dict) or (
            one != path and not {"schema_version", "steps"} <= document.keys()
        ):
            continue  # another file of a job
        read = trajectory_in(document, one)
        if DOCUMENT in read.extra:
            read = replace(read, sample_index=repeats[read.task.task_id])
        repeats[read.task.task_id] += 1
        found.append(read)
    if not found:
        raise DataError("holds no ATIF document", path=path, repair=_REPAIR)
    return found


def credited(trajectories: Sequence[Trajectory], path: Path) -> list[Trajectory]:
    """Trajectories with the scores of their turns as a column."""
    found = credit_in(path, trajectories)
    if not any(row for scored in found for row in scored):
        repair = "Name what sweet-rl credit score wrote about this trajectory file."
        raise DataError("has no score of any of these turns", path=path, repair=repair)
    credited_ones = []
    for one, scored in zip(trajectories, found, strict=True):
        said = (message for message in one.dialogue_history if message.role == "assistant")
        column = [  # of the turns that a model wrote
            row and {name: value for name, value in row.items() if name not in KEY_FIELDS}
            for message, row in zip(said, scored, strict=True)
            if isinstance(message, AgentTurn)
        ]
        credited_ones.append(replace(one, extra={**one.extra, CREDIT: column}))
    return credited_ones
