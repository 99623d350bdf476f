"""What came of a mini study: every method's success and habits, every critic's agreement with the oracle.

Reads the files of the stages and nothing else; the result is one JSON object, which the report page draws
(`sweet_rl.studies.report.study`).
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.studies.sweet.recipe import CRITIC, DIALOGUE_DPO, POLICY, REJECTION, SWEETS, Study
from sweet_rl.tasks.mini import extras
from sweet_rl.tasks.mini.judge import Verdict, judge
from sweet_rl.types import AgentTurn, Json, Message, Trajectory

METHODS = {
    "warm_start": ("warm start", "The agent before any training on outcomes: it imitates a noisy teacher."),
    "rft": ("rejection fine-tuning", "Fine-tuned on the dialogues that ended in success."),
    "dpo": ("trajectory DPO", "Multi-turn DPO: successful dialogues against failed ones of the same task."),
    "sweet": ("SWEET-RL", "DPO on single turns, ranked by a critic that knows the hidden solution."),
    "sweet_paper": ("SWEET-RL, paper's advantage", "The critic's reference knows the solution, too (eq. 3)."),
    "sweet_no_hidden": ("SWEET-RL, blind critic", "Ablation: the critic does not know the hidden solution."),
    "sweet_no_normalisation": ("SWEET-RL, sums", "Ablation: no length normalisation in the critic."),
}
"""Every agent that is measured: its title, and what it is, in one sentence."""

DIALOGUES = 3
"""How many tasks are shown with their dialogues before and after."""


def results(study: Study) -> dict[str, Json]:
    """The study as the report page wants it; floats of rates are in [0, 1]."""
    return {
        "methods": [_method(study, name) for name in METHODS],
        "critics": [_critic(study, way.name) for way in SWEETS],
        "curves": [_curve(study, name) for name in ("critic", "rft", "dpo", "sweet")],
        "dialogues": _dialogues(study),
    }


def _method(study: Study, name: str) -> dict[str, Json]:
    title, explanation = METHODS[name]
    report = _report(study, name)
    trajectories = load_trajectories(study.path(f"{name}.test.jsonl"))
    counts = Counter(verdict for trajectory in trajectories for verdict, _ in _verdicts(trajectory))
    asked = [extra for trajectory in trajectories for extra in _questions(trajectory)]
    return {
        "name": name,
        "title": title,
        "explanation": explanation,
        "examples": _examples(study, name),
        "updates": updates_of(study, name),
        "episodes": len(trajectories),
        "success": report["success"],
        "tests_passed": report["tests_passed"],
        "by_turns": _by_turns(trajectories),
        "verdicts": {str(verdict): counts[verdict] / len(trajectories) for verdict in Verdict},
        "usual_share": sum(extra in extras.USUAL for extra in asked) / len(asked) if asked else None,
    }


def success_of(study: Study, name: str) -> dict[str, float]:
    """Mean success of an agent on the test tasks with its 95 % interval: `mean`, `low`, `high` in [0, 1]."""
    success: dict[str, float] = _report(study, name)["success"]
    return success


def updates_of(study: Study, name: str) -> int | None:
    """Optimizer steps of a training; None for an agent that was not trained."""
    path = study.path(name) / "metrics.jsonl"
    rows = (row for _, row in read_rows(path)) if path.exists() else ()
    return max((row["step"] for row in rows if "loss" in row and "step" in row), default=None)


def _report(study: Study, name: str) -> dict[str, Json]:
    report: dict[str, Json] = json.loads(study.path(f"{name}.test.report.json").read_text())
    columns: dict[str, Json] = report["columns"]["fixed"]
    return columns


def _examples(study: Study, name: str) -> int | None:
    """Pairs, or dialogues, that a method learnt from."""
    if name == "warm_start":
        return None
    if name == "rft":
        return sum(1 for _, row in read_rows(study.dialogues) if row.get("reward") == 1)
    return sum(1 for _ in read_rows(study.path("pairs.jsonl" if name == "dpo" else f"{name}.pairs.jsonl")))


def _by_turns(trajectories: Sequence[Trajectory]) -> list[dict[str, Json]]:
    episodes, successes = Counter[int](), Counter[int]()
    for trajectory in trajectories:
        turns = sum(isinstance(entry, AgentTurn) for entry in trajectory.dialogue_history)
        episodes[turns] += 1
        successes[turns] += trajectory.reward == 1
    return [{"turns": n, "episodes": episodes[n], "successes": successes[n]} for n in sorted(episodes)]


def _verdicts(trajectory: Trajectory) -> Iterable[tuple[Verdict, int]]:
    """The oracle's word on every agent turn, with the turn's place in the history."""
    history = trajectory.dialogue_history
    for place, entry in enumerate(history):
        if entry.role == "assistant":
            yield judge(trajectory.task.ground_truth, history[:place], entry.content), place


def _questions(trajectory: Trajectory) -> list[str]:
    said = (entry.content for entry in trajectory.dialogue_history if entry.role == "assistant")
    return [extra for extra in map(extras.asked_about, said) if extra]


def _critic(study: Study, name: str) -> dict[str, Json]:
    """How often a critic's scores put a good turn above a bad one, by the oracle: areas under the curve."""
    questions, answering = [], []
    for row in _ranked(study.path(f"{name}.ranked.jsonl")):
        verdicts = _candidate_verdicts(row)
        scored = [(v, s) for v, s in zip(verdicts, row.scores or (), strict=True) if s is not None]
        useful = [score for verdict, score in scored if verdict is Verdict.USEFUL]
        wasted = [s for v, s in scored if v in {Verdict.USELESS, Verdict.REPEATED, Verdict.NEEDLESS}]
        right = [score for verdict, score in scored if verdict is Verdict.RIGHT]
        early = [score for verdict, score in scored if verdict is Verdict.EARLY]
        if useful and wasted:
            questions.append(area_under_curve(useful, wasted))
        if right and wasted:  # everything is known: answer now
            answering.append(area_under_curve(right, wasted))
        if early and (useful or wasted):  # something is missing: ask on
            answering.append(area_under_curve(useful + wasted, early))
    return {
        "name": name,
        "title": METHODS[name][0],
        "auc_questions": _mean(questions),
        "auc_answering": _mean(answering),
        "turns_questions": len(questions),
        "turns_answering": len(answering),
    }


def area_under_curve(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a good one scores above a bad one, ties counted half."""
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return wins / (len(good) * len(bad))


def _candidate_verdicts(row: Candidates) -> list[Verdict]:
    messages = _before(row)
    return [judge(row.ground_truth, messages, candidate.text) for candidate in row.candidates]


def _before(row: Candidates) -> list[Message]:
    """The dialogue before the turn, without the turn itself."""
    return [Message(entry["role"], entry["content"]) for entry in row.row["messages"][:-1]]


def _ranked(path: Path) -> list[Candidates]:
    return candidates_from_rows(list(read_rows(path)), path=str(path))


def _curve(study: Study, name: str) -> dict[str, Json]:
    path = study.path(name) / "metrics.jsonl"
    rows = [row for _, row in read_rows(path)] if path.exists() else []
    points = [
        {
            "update": row["step"],
            "loss": row["loss"],
            "accuracy": row.get("acc"),
            "margin": row["chosen_reward"] - row["reject_reward"] if "reject_reward" in row else None,
        }
        for row in rows
        if "loss" in row and "step" in row
    ]
    title = "the critic" if name == "critic" else METHODS[name][0]
    return {"name": name, "title": title, "points": points}


def _dialogues(study: Study) -> list[dict[str, Json]]:
    """The same tasks before and after, with the critic's scores of what was said and could have been said."""
    shown = []
    sides = [(name, _seen(study, name)) for name in ("warm_start", "sweet")]
    improved = [
        key
        for key in sides[0][1]
        if key in sides[1][1] and sides[0][1][key][0].reward != 1 and sides[1][1][key][0].reward == 1
    ]
    for key in [*improved, *(key for key in sides[0][1] if key not in improved)][:DIALOGUES]:
        for name, seen in sides:
            if key in seen:
                shown.append(_dialogue(name, *seen[key]))
    return shown


def _seen(study: Study, name: str) -> dict[str, tuple[Trajectory, list[Candidates]]]:
    """Trajectories whose every turn has been looked at by the critic, by task."""
    rows: dict[str, list[Candidates]] = {}
    for row in _ranked(study.path(f"{name}.seen.jsonl")):
        rows.setdefault(row.key[0], []).append(row)
    return {
        trajectory.task.task_id: (trajectory, rows[trajectory.task.task_id])
        for trajectory in load_trajectories(study.path(f"{name}.test.jsonl"))
        if trajectory.task.task_id in rows
    }


def _dialogue(name: str, trajectory: Trajectory, rows: Sequence[Candidates]) -> dict[str, Json]:
    history = trajectory.dialogue_history
    turns = []
    for (verdict, place), row in zip(_verdicts(trajectory), rows, strict=True):
        candidates = _distinct(row)
        said = history[place].content
        turns.append(
            {
                "agent": said,
                "human": history[place + 1].content if place + 1 < len(history) else None,
                "verdict": str(verdict),
                "score": next((c["score"] for c in candidates if c["text"] == said), None),
                "candidates": candidates,
            }
        )
    return {
        "title": METHODS[name][0],
        "method": name,
        "reward": trajectory.reward,
        "request": trajectory.task.problem_description,
        "solution": trajectory.task.ground_truth,
        "turns": turns,
    }


def _distinct(row: Candidates) -> list[dict[str, Json]]:
    """The different candidates of a turn, best first and the unscored last, with how often each was drawn."""
    counts = Counter(candidate.text for candidate in row.candidates)
    scores = {c.text: score for c, score in zip(row.candidates, row.scores or (), strict=True)}
    verdicts = dict(zip((c.text for c in row.candidates), _candidate_verdicts(row), strict=True))
    found = [
        {"text": text, "score": scores[text], "count": counts[text], "verdict": str(verdicts[text])}
        for text in counts
    ]
    return sorted(found, key=lambda one: -(one["score"] if one["score"] is not None else float("-inf")))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def describe(study: Study) -> dict[str, Json]:
    """What the report says about a study besides its numbers."""
    return {
        "title": "SWEET-RL and its rivals in the mini benchmark",
        "subtitle": (
            f"World {study.world!r}, seed {study.seed}: {study.train_tasks} tasks, {study.repeats} dialogues "
            "each, for every method the same; "
            f"measured on {study.test_tasks} tasks of mini:{study.test_split}."
        ),
        "settings": {
            "train tasks x dialogues": f"{study.train_tasks} x {study.repeats}",
            "test tasks": study.test_tasks,
            "candidates a turn": study.candidates,
            "part of the dialogues sampled anew": study.turns_fraction,
            "pairs a turn": study.pairs_per_turn,
            **{f"critic: {name}": value for name, value in CRITIC.items()},
            **{f"policy: {name}": value for name, value in POLICY.items()},
            **{f"trajectory DPO: {name}": value for name, value in DIALOGUE_DPO.items()},
            **{f"rejection fine-tuning: {name}": value for name, value in REJECTION.items()},
        },
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "notes": [],
    }


def table(found: Mapping[str, Json]) -> str:
    """The methods' numbers and the critics' agreement with the oracle, as plain text."""
    header = f"{'method':<30}{'success %':>10}  {'95 % interval':<15}{'tests passed %':>15}"
    lines = [f"{header}{'examples':>10}{'updates':>9}"]
    for method in found["methods"]:
        success, passed = method["success"], method["tests_passed"]
        interval = f"[{100 * success['low']:.1f}, {100 * success['high']:.1f}]"
        examples, updates = method["examples"] or "", method["updates"] or ""
        lines.append(
            f"{method['title']:<30}{100 * success['mean']:>10.1f}  {interval:<15}"
            f"{100 * passed['mean']:>15.1f}{examples:>10}{updates:>9}"
        )
    lines += ["", f"{'critic (AUC against the oracle)':<34}{'questions':>10}{'answering':>11}"]
    for critic in found["critics"]:
        numbers = [critic["auc_questions"], critic["auc_answering"]]
        shown = ["-" if number is None else f"{number:.2f}" for number in numbers]
        lines.append(f"{critic['title']:<34}{shown[0]:>10}{shown[1]:>11}")
    return "\n".join(lines)
