"""What the viewer shows of rows: what a file holds, its entries in lists, one row in full, as plain JSON.

`code`, `game` and `design` are kinds of trajectories, `turns` and `pairs` other rows. Entries are small enough for a
hundred thousand rows; a row is made when it is looked at. Nothing is escaped here: the page inserts every text as text.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sweet_rl.chat.turns import common_beginning
from sweet_rl.errors import DataError
from sweet_rl.grading.code import published_code
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.records import trajectory_from_row
from sweet_rl.records.files import parse_line
from sweet_rl.tracking import is_record
from sweet_rl.types import AgentTurn, Json, TestResult, Trajectory, digest
from sweet_rl.viewer.indexing import Entry
from sweet_rl.worlds import world_in

FileKind = Literal["code", "game", "design", "turns", "pairs", "credit", "metrics", "report", "record"]
Row = Mapping[str, Json]

TRAJECTORIES = frozenset({"code", "game", "design"})
SUMMARY_LENGTH = 180
"""Characters of a task's description that the list can show."""
_MARKS = re.compile(r"<\|[^|<>]{1,40}\|>")  # of chat templates


def index_of(entries: Iterable[tuple[str, int, Row]], title: str, kind: FileKind) -> dict[str, Json]:
    """The index of a file from task, repeat and entry of its rows, as columns; `task` is a position in `tasks`."""
    positions: dict[str, int] = {}
    tasks: list[dict[str, str]] = []
    columns: dict[str, list[Json]] = {"task": [], "repeat": []}
    for count, (task, repeat, shown) in enumerate(entries):
        if task not in positions:
            positions[task] = len(tasks)
            tasks.append({"id": task, "summary": shown["summary"]})
        for name, value in {**shown, "task": positions[task], "repeat": repeat}.items():
            if name != "summary":
                columns.setdefault(name, [None] * count).append(value)
    return {"title": title, "kind": kind, "tasks": tasks, "columns": columns}


# ---- trajectories


def entry_of(trajectory: Trajectory) -> dict[str, Json]:
    """What list, filters and summary need of a trajectory of any kind."""
    return {
        "task": trajectory.task.task_id,
        "summary": summary_of(trajectory.task.problem_description),
        "repeat": trajectory.sample_index,
        "reward": trajectory.reward,
        "stop": trajectory.stop_reason,
        "turns": sum(message.role == "assistant" for message in trajectory.dialogue_history),
        "failures": len(trajectory.failures) + (trajectory.error is not None),
    }


def row_of(trajectory: Trajectory) -> dict[str, Json]:
    """The viewer's data of trajectories of any kind.

    A prompt that continues the previous one is written as `more`, what it adds to that: every prompt holds the whole
    conversation, so that a file's size would grow with the square of its turns. `thoughts` are what an agent wrote before
    what the human saw; `output` is the raw text where it is neither that nor what the human saw.
    """
    shown: list[dict[str, Json]] = []
    previous = ""
    for message in trajectory.dialogue_history:
        entry: dict[str, Json] = {"role": message.role, "content": message.content}
        if isinstance(message, AgentTurn):
            thoughts = _thoughts(message)
            if thoughts:
                entry["thoughts"] = thoughts
            elif thoughts is None and message.output != message.content:
                entry["output"] = message.output
            if message.reflection:
                entry["reflection"] = message.reflection
            if message.finish_reason is not None:
                entry["finish"] = message.finish_reason
            if previous and message.input.startswith(previous):
                entry["more"] = message.input[len(previous) :]
            else:
                entry["input"] = message.input
            previous = message.input
            if message.reward is not None:
                entry["reward"] = message.reward
        shown.append(entry)
    return {
        "task_id": trajectory.task.task_id,
        "repeat": trajectory.sample_index,
        "description": trajectory.task.problem_description,
        "messages": shown,
        "reward": trajectory.reward,
        "grades": numbers(trajectory.extra.get("grades")),
        "stop": trajectory.stop_reason,
        "error": asdict(trajectory.error) if trajectory.error else None,
        "failures": [asdict(failure) for failure in trajectory.failures],
        "provenance": dict(trajectory.provenance),
    }


def text_of(trajectory: Trajectory) -> str:
    """The task, its messages and thoughts."""
    parts = [trajectory.task.task_id, trajectory.task.problem_description]
    for message in trajectory.dialogue_history:
        parts.append(message.content)
        if isinstance(message, AgentTurn) and (message.output != message.content or message.thoughts):
            parts.append(_thoughts(message) or message.output)
        if isinstance(message, AgentTurn) and message.reflection:
            parts.append(message.reflection)
    return "\n".join(parts)


def numbers(values: Json) -> dict[str, float]:
    """The numbers of an object by name. Other people's files may hold anything under our names."""
    known = values.items() if isinstance(values, Mapping) else ()
    return {str(name): value for name, value in known if _number(value) is not None}


def summary_of(description: str) -> str:
    """A text on one line, short enough for the list."""
    text = re.sub(r"\s+", " ", description[: 2 * SUMMARY_LENGTH]).strip()
    return text if len(text) <= SUMMARY_LENGTH else f"{text[: SUMMARY_LENGTH - 1].rstrip()}…"


def _thoughts(message: AgentTurn) -> str | None:
    """What the model thought, or what stands before the marker; None where the raw text is neither."""
    if message.thoughts is not None:
        return message.thoughts
    before = message.output.removesuffix(f"OUTPUT:{message.content}")
    return before.strip() if message.content and before != message.output else None


def _code_row(item: Trajectory) -> dict[str, Json]:
    """`answer` is as it was handed in, `code` what the grader takes from it; `tests` are the graded ones, or bare expressions.

    Other people's files may hold anything under our names.
    """
    results, details = item.extra.get("test_results"), item.extra.get("grading_details")
    tests = [{"name": name, "expression": expression} for name, expression in item.task.test_cases.items()]
    if isinstance(results, list):
        names = [field.name for field in fields(TestResult)]
        tests = [
            {name: str(result[name]) for name in names if result.get(name) is not None}
            for result in results
            if isinstance(result, Mapping)
        ]
    told = details.items() if isinstance(details, Mapping) else ()
    notes = {str(name): str(note) for name, note in told if str(name).endswith("_note") and note}
    return row_of(item) | {
        "answer": item.answer,
        "code": None if item.answer is None else published_code(item.answer).strip("\n"),
        "hidden": item.task.ground_truth.strip("\n"),
        "tests": tests,
        "grading_notes": {name.removesuffix("_note"): note for name, note in notes.items()},
    }


def _game_entry(item: Trajectory) -> dict[str, Json]:
    """A task goes by its `name_of`, since descriptions are often the same; `truncated`: whether a row was cut short."""
    return entry_of(item) | {
        "summary": summary_of(name_of(item)),
        "truncated": None if item.stop_reason is None else item.stop_reason.truncated,
        "score": score_name(item),
    }


def score_name(trajectory: Trajectory) -> str:
    """What the world calls the reward of an episode."""
    world = world_in(trajectory.provenance)
    return "return" if world is None else world.scores.name


def rewards_turns(trajectories: Sequence[Trajectory]) -> bool:
    """Whether any of them comes from a world that rewards turns."""
    messages = (message for trajectory in trajectories for message in trajectory.dialogue_history)
    return any(isinstance(message, AgentTurn) and message.reward is not None for message in messages)


def name_of(trajectory: Trajectory) -> str:
    """The title of a task: the errand, or its name and description; never what is hidden from the agent."""
    task = trajectory.task
    errand = task.row.get("instruction") or trajectory.extra.get("instruction")
    told = isinstance(errand, str) and errand.strip()
    return str(errand) if told else f"{task.task_id}: {task.problem_description}"


def kind_of_trajectories(trajectories: Sequence[Trajectory]) -> FileKind:
    """The kind that shows them: games reward turns; pages name a picture (target, draft, or published answer)."""
    if rewards_turns(trajectories):
        return "game"
    pictures = any(
        "target_image" in one.extra or "drafts" in one.extra or (one.answer or "").endswith(".png")
        for one in trajectories
    )
    return "design" if pictures else "code"


# ---- sampled or ranked turns


def _turn_entry(item: Row) -> dict[str, Json]:
    """`spread` is the distance of the best score from the worst."""
    turn = read_turn(item)
    scores = [score for score in turn.scores or () if score is not None]
    return {
        "task": turn.key[0],
        "summary": summary_of(turn.before[0].content if turn.before else turn.prompt),
        "repeat": turn.key[1] if "sample_index" in item else None,
        "turn": turn.key[2],
        "reward": _number(item.get("reward")),
        "stop": "scored" if scores else "sampled",
        "turns": len(turn.candidates),
        "failures": int(item.get("error") is not None),
        "spread": max(scores) - min(scores) if scores else None,
    }


def _turn_text(item: Row) -> str:
    turn = read_turn(item)
    return "\n".join([*(one.content for one in turn.before), *(one.text for one in turn.candidates)])


def _turn_row(item: Row) -> dict[str, Json]:
    turn = read_turn(item)
    return {
        "task_id": turn.key[0],
        "repeat": turn.key[1],
        "turn": turn.key[2],
        "description": turn.before[0].content if turn.before else "",
        "messages": [{"role": one.role, "content": one.content} for one in turn.before],
        "prompt": turn.prompt,
        "taken": str(item.get("older_output") or ""),
        "hidden": turn.ground_truth,
        "reward": _number(item.get("reward")),
        "candidates": alternatives(turn),
        "error": item.get("error"),
        "provenance": {name: item[name] for name in ("ranking", "sampling") if name in item},
    }


def alternatives(turn: Candidates) -> list[dict[str, Json]]:
    """The candidates of a turn as the page shows them."""
    scores = turn.scores or [None] * len(turn.candidates)
    both = zip(turn.candidates, scores, strict=True)
    return [{"text": one.text, "score": score, "logprob": one.mean, "cut": one.cut} for one, score in both]


def read_turn(item: Row) -> Candidates:
    """A row of a sampled or ranked file."""
    (turn,) = candidates_from_rows([(0, item)])
    return turn


def _number(value: Json) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# ---- preference pairs


def _pair_entry(item: Row) -> dict[str, Json]:
    """`guard` says why a row stands in the file that is no pair of two candidates."""
    before, chosen, rejected = _sides(item)
    return {
        "task": str(item.get("task_id") or digest([before])),
        "summary": summary_of(_MARKS.sub(" ", f"{chosen[:1000]} ↔ {rejected[:1000]}")),
        "repeat": None,
        "reward": None,
        "stop": str(item.get("guard") or "pair"),
        "turns": len(chosen) - len(rejected),
        "failures": 0,
    }


def _pair_row(item: Row) -> dict[str, Json]:
    """`before` is what both sides begin with."""
    before, chosen, rejected = _sides(item)
    sides, plain = ("prompt", "chosen", "rejected"), (str, int, float, type(None))
    return {
        "task_id": str(item.get("task_id") or digest([before])),
        "repeat": 0,
        "description": "",
        "before": before,
        "chosen": chosen,
        "rejected": rejected,
        "reward": None,
        "provenance": {
            name: item[name] for name in item if name not in sides and isinstance(item[name], plain)
        },
    }


def _sides(item: Row) -> tuple[str, str, str]:
    """What comes before, and the two sides behind it; with what both begin with taken out of these."""
    chosen, rejected = _text(item, "chosen"), _text(item, "rejected")
    if item.get("prompt"):
        return _text(item, "prompt"), chosen, rejected
    cut = common_beginning(chosen, rejected).rfind("\n") + 1
    return chosen[:cut], chosen[cut:], rejected[cut:]


def _text(item: Row, side: str) -> str:
    """A side as a text; it may be a list of messages, or an object of input and output."""
    value = item.get(side)
    if isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
        said = []
        for message in value:
            parts = message.get("content")  # a picture in it is named
            if isinstance(parts, list):
                named = (one.get("text", "[picture]") if isinstance(one, Mapping) else one for one in parts)
                parts = "".join(map(str, named))
            said.append(f"{message.get('role')}: {parts}")
        value = "\n\n".join(said)
    if isinstance(value, Mapping):
        value = f"{value.get('input', '')}{value.get('output', '')}"
    if not isinstance(value, str):
        repair = "A pair has two texts, or lists of messages."
        raise DataError("must be a string", field=side, value=value, repair=repair)
    return value


# ---- kinds


class Layout(NamedTuple):
    """How the rows of a kind are shown; `row` is missing where pictures are looked for first (`sweet_rl.viewer.design`)."""

    entry: Callable[[Any], dict[str, Json]]
    """What list, filters and summary need of a row, by name: `task`, its `summary`, `repeat` and more."""
    text: Callable[[Any], str]
    """What a search looks through, as `searchableText` in static/source.js does in an exported row."""
    row: Callable[[Any], dict[str, Json]]
    """Everything that the page shows of it."""


def _design_entry(item: Trajectory) -> dict[str, Json]:
    """`floor` is what a blank page scores, `metric` which grade the reward is."""
    metric = metric_of(item)
    floor = floors_of(item).get("blank page", {}).get(metric or "")
    return entry_of(item) | {"floor": floor, "metric": metric}


def metric_of(item: Trajectory) -> str | None:
    """Which grade the reward of a page is."""
    grades = numbers(item.extra.get("grades"))
    return next((name for name, grade in grades.items() if grade == item.reward), None)


def floors_of(item: Trajectory) -> dict[str, dict[str, float]]:
    """What pages of no effort score, by their names."""
    floors = item.extra.get("floors")
    floors = floors if isinstance(floors, Mapping) else {}
    return {str(name): numbers(found) for name, found in floors.items()}


LAYOUTS: Mapping[str, Layout] = {
    "code": Layout(
        lambda item: entry_of(item) | {"published": numbers(item.extra.get("grades")).get("published")},
        lambda item: f"{text_of(item)}\n{item.answer or ''}",
        _code_row,
    ),
    "game": Layout(
        _game_entry,
        lambda item: f"{text_of(item)}\n{name_of(item)}\n{item.answer or ''}",
        lambda item: (
            row_of(item)
            | {"name": name_of(item), "answer": item.answer, "hidden": item.task.hidden_information}
            | {"score": score_name(item)}
        ),
    ),
    "design": Layout(_design_entry, text_of, row_of),
    "turns": Layout(_turn_entry, _turn_text, _turn_row),
    "pairs": Layout(_pair_entry, lambda item: "\n".join(_sides(item)), _pair_row),
}
"""Kinds of files of rows, and what shows them."""


def index_entry(kind: FileKind, row: Row) -> Entry:
    """What an index keeps of a row of this kind."""
    if kind == "credit":
        task, repeat, turn = row.get("task_id"), row.get("sample_index"), row.get("turn_index")
        if not (isinstance(task, str) and isinstance(repeat, int) and isinstance(turn, int)):
            repair = "Make it with sweet-rl credit score."
            raise DataError("has no identity", value=json.dumps(row)[:80], repair=repair)
        shown, text = {}, ""
    else:
        item, layout = trajectory_from_row(row) if kind in TRAJECTORIES else row, LAYOUTS[kind]
        shown, text = layout.entry(item), layout.text(item)
        task = shown["task"]
        repeat = None if kind in TRAJECTORIES and row.get("sample_index") is None else shown["repeat"]
    if repeat is not None and not 0 <= repeat < 2**63:
        problem = "counts its repeat by a number that no file has"
        raise DataError(problem, value=repeat, repair="Count from 0.")
    return Entry(task, repeat, shown, text)


def is_report(path: Path) -> bool:
    """Whether the name is that of an evaluation's report."""
    return path.name == "report.json" or path.name.endswith(".report.json")


def kind_of(path: Path) -> FileKind | None:
    """What a file holds, by its name and its first rows; None where that is nothing that is shown here."""
    if is_record(path) or is_report(path):
        return "record" if is_record(path) else "report"
    if path.suffix != ".jsonl":
        return None
    rows, trajectories = list[dict[str, Json]](), list[Trajectory]()
    with path.open("rb") as file:
        for number, line in enumerate(itertools.islice(file, 100), start=1):
            try:
                rows.append(parse_line(line, path, number))
                if "dialogue_history" not in rows[0]:
                    break
                trajectories.append(trajectory_from_row(rows[-1]))
            except DataError:
                continue
    if not rows:
        if ".credit." in path.name:  # what `sweet-rl credit score` has begun
            return "credit"
        return "metrics" if path.name == "metrics.jsonl" else "code"
    if "dialogue_history" in rows[0]:
        return kind_of_trajectories(trajectories)
    kinds: dict[str, FileKind] = {"additional_outputs": "turns", "turn_digest": "credit", "chosen": "pairs"}
    numeric = path.name == "metrics.jsonl" or rows[0].keys() & {"step", "iteration", "loss"}
    return next((kind for field, kind in kinds.items() if field in rows[0]), "metrics" if numeric else None)
