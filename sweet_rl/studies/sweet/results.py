"""The results of a mini study: every method's success and habits, every critic's agreement with the oracle.

Reads the files of the stages and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.studies.report.words import GOOD
from sweet_rl.studies.results import (
    Axes,
    Candidate,
    Claim,
    Comparison,
    Dialogue,
    Ending,
    Estimate,
    Measure,
    Method,
    Points,
    Results,
    Run,
    Turn,
    claim_over_tasks,
    provenance,
)
from sweet_rl.studies.sweet.pages import page_results
from sweet_rl.studies.sweet.recipe import CRITIC, DIALOGUE_DPO, POLICY, REJECTION, SWEETS, Study
from sweet_rl.types import AgentTurn, Json, Trajectory
from sweet_rl.worlds.backend_programming.mini.judge import Verdict, habits, judge

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

CLAIMS = (
    ("SWEET-RL beats the warm start", "warm_start"),
    ("SWEET-RL beats rejection fine-tuning", "rft"),
    ("SWEET-RL beats trajectory DPO", "dpo"),
    ("A critic that knows the solution helps", "sweet_no_hidden"),
    ("Length normalisation helps", "sweet_no_normalisation"),
)
"""What is claimed of SWEET-RL, and of which method it is not true then."""

DIALOGUES = 3
"""How many tasks are shown with their dialogues before and after."""


MEASURES = (
    Measure("success", "success"),
    Measure("tests_passed", "tests passed"),
    Measure("useful_share", "useful questions"),
    Measure("usual_share", "usual extras asked", better=""),
    *(
        Measure(str(verdict), str(verdict), "number", "behaviour", "more" if GOOD[str(verdict)] else "fewer")
        for verdict in Verdict
    ),
    Measure("auc_questions", "AUC of questions", "number", "critic"),
    Measure("auc_answering", "AUC of the moment to answer", "number", "critic"),
)
"""What is measured; of the questions, the shares that were useful, and about what is usually charged for."""

CURVES = (
    Axes("loss", "loss", "update"),
    Axes("accuracy", "pairs in the right order", "update", "share"),
    Axes("margin", "margin, chosen over rejected", "update"),
)
"""Of a training."""


def results(study: Study, seconds: Mapping[str, float]) -> Results:
    """The study as its page and its table want it."""
    methods = tuple(_method(study, name) for name in METHODS)
    critic = Method("critic", "the critic", runs=(Run(study.seed, curves=_curves(study, "critic")),))
    main = Comparison(
        "mini",
        f"mini:{study.world}",
        own="sweet",
        start="warm_start",
        measures=MEASURES,
        curves=CURVES,
        methods=(*methods, critic),
        claims=tuple(_claim(study, text, "sweet", worse) for text, worse in CLAIMS),
    )
    pages = page_results(study)
    return Results(
        "sweet",
        "SWEET-RL and its rivals in the mini benchmark",
        f"World {study.world!r}, seed {study.seed}: {study.train_tasks} tasks, {study.repeats} dialogues "
        "each, for every method the same; "
        f"measured on {study.test_tasks} tasks of mini:{study.test_split}.",
        (main, pages[0]) if pages else (main,),
        tuple(_dialogues(study)),
        pages[1] if pages else (),
        _settings(study),
        provenance(),
        seconds,
        failures=tuple(_failures(study)),
    )


def _claim(study: Study, text: str, better: str, worse: str) -> Claim:
    """Success on the tasks that both were measured on."""
    sides = [
        (name, {t.task.task_id: float(t.reward == 1) for t in _measured(study, name) if t.reward is not None})
        for name in (better, worse)
    ]
    return claim_over_tasks(text, *sides)


def _measured(study: Study, name: str) -> list[Trajectory]:
    return load_trajectories(study.path(f"{name}.test.jsonl"))


def _failures(study: Study) -> Iterator[str]:
    """Episodes that are in no number."""
    for name, (title, _) in METHODS.items():
        failed = sum(trajectory.reward is None for trajectory in _measured(study, name))
        if failed:
            yield f"{title}: {failed} test episodes failed."


def _method(study: Study, name: str) -> Method:
    title, explanation = METHODS[name]
    report = _report(study, name)
    trajectories = _measured(study, name)
    counts = Counter(verdict for trajectory in trajectories for verdict, _ in _verdicts(trajectory))
    measures = {key: _estimate(report[key]) for key in ("success", "tests_passed")}
    found = habits((trajectory.task.ground_truth, trajectory.dialogue_history) for trajectory in trajectories)
    shares = {"useful_share": found.useful_share, "usual_share": found.usual_share}
    measures |= {key: Estimate(share) for key, share in shares.items() if share is not None}
    measures |= {str(verdict): Estimate(counts[verdict] / len(trajectories)) for verdict in Verdict}
    if name in {way.name for way in SWEETS}:
        measures |= _critic(study, name)
    learned = {"examples": _examples(study, name), "updates": updates_of(study, name)}
    run = Run(study.seed, measures, _curves(study, name), tuple(_endings(trajectories)))
    return Method(name, title, explanation, (run,), {key: n for key, n in learned.items() if n is not None})


def _estimate(report: Mapping[str, Json]) -> Estimate:
    return Estimate(report["mean"], report.get("low"), report.get("high"))


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


def _endings(trajectories: Sequence[Trajectory]) -> Iterator[Ending]:
    episodes, successes = Counter[int](), Counter[int]()
    for trajectory in trajectories:
        turns = sum(isinstance(entry, AgentTurn) for entry in trajectory.dialogue_history)
        episodes[turns] += 1
        successes[turns] += trajectory.reward == 1
    return (Ending(turns, episodes[turns], successes[turns]) for turns in sorted(episodes))


def _verdicts(trajectory: Trajectory) -> Iterable[tuple[Verdict, int]]:
    """The oracle's word on every agent turn, with the turn's place in the history."""
    history = trajectory.dialogue_history
    for place, entry in enumerate(history):
        if entry.role == "assistant":
            yield judge(trajectory.task.ground_truth, history[:place], entry.content), place


def _critic(study: Study, name: str) -> dict[str, Estimate]:
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
    found = {"auc_questions": questions, "auc_answering": answering}
    return {key: Estimate(fmean(areas), n=len(areas)) for key, areas in found.items() if areas}


def area_under_curve(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a good one scores above a bad one, ties counted half."""
    wins = sum((g > b) + 0.5 * (g == b) for g in good for b in bad)
    return wins / (len(good) * len(bad))


def _candidate_verdicts(row: Candidates) -> list[Verdict]:
    messages = row.before
    return [judge(row.ground_truth, messages, candidate.text) for candidate in row.candidates]


def _ranked(path: Path) -> list[Candidates]:
    return candidates_from_rows(list(read_rows(path)), path=str(path))


def _curves(study: Study, name: str) -> dict[str, Points]:
    path = study.path(name) / "metrics.jsonl"
    rows = [row for _, row in read_rows(path)] if path.exists() else []
    rows = [row for row in rows if "loss" in row and "step" in row]
    found = {
        "loss": [(row["step"], row["loss"]) for row in rows],
        "accuracy": [(row["step"], row["acc"]) for row in rows if "acc" in row],
        "margin": [
            (row["step"], row["chosen_reward"] - row["reject_reward"])
            for row in rows
            if "reject_reward" in row
        ],
    }
    return {key: tuple(points) for key, points in found.items() if points}


def _dialogues(study: Study) -> list[Dialogue]:
    """The same tasks before and after, with the critic's scores of the turn and its alternatives."""
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


def _dialogue(name: str, trajectory: Trajectory, rows: Sequence[Candidates]) -> Dialogue:
    history = trajectory.dialogue_history
    turns = []
    for (verdict, place), row in zip(_verdicts(trajectory), rows, strict=True):
        candidates = _distinct(row)
        reply = history[place].content
        human = history[place + 1].content if place + 1 < len(history) else None
        score = next((each.score for each in candidates if each.text == reply), None)
        turns.append(Turn(reply, human, str(verdict), score, candidates))
    task = trajectory.task
    return Dialogue(
        name, METHODS[name][0], trajectory.reward, task.problem_description, task.ground_truth, tuple(turns)
    )


def _distinct(row: Candidates) -> tuple[Candidate, ...]:
    """The different candidates of a turn, best first and the unscored last, with how often each was drawn."""
    counts = Counter(candidate.text for candidate in row.candidates)
    scores = {c.text: score for c, score in zip(row.candidates, row.scores or (), strict=True)}
    verdicts = dict(zip((c.text for c in row.candidates), _candidate_verdicts(row), strict=True))
    found = [Candidate(text, scores[text], counts[text], str(verdicts[text])) for text in counts]
    return tuple(sorted(found, key=lambda one: -(one.score if one.score is not None else float("-inf"))))


def _settings(study: Study) -> dict[str, Json]:
    return {
        "train tasks x dialogues": f"{study.train_tasks} x {study.repeats}",
        "test tasks": study.test_tasks,
        "candidates a turn": study.candidates,
        "part of the dialogues sampled anew": study.turns_fraction,
        "pairs a turn": study.pairs_per_turn,
        **{f"critic: {name}": value for name, value in CRITIC.items()},
        **{f"policy: {name}": value for name, value in POLICY.items()},
        **{f"trajectory DPO: {name}": value for name, value in DIALOGUE_DPO.items()},
        **{f"rejection fine-tuning: {name}": value for name, value in REJECTION.items()},
    }
