"""The results of a mini study: every method's success and habits, every critic's agreement with the oracle."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from sweet_rl.mini.backend.extras import Verdict, asked_about, judge, usual_for
from sweet_rl.mini.backend.tasks import check_trades
from sweet_rl.preferences.candidates import Candidates, candidates_from_rows
from sweet_rl.preferences.pairs import key_of
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.statistics import area_under_curve
from sweet_rl.studies import results as study_results
from sweet_rl.studies.results import Axes, Comparison, Counted, Dialogue, Frame, Measure, Method, Run, Strip
from sweet_rl.studies.sweet import settings
from sweet_rl.studies.sweet.recipe import DESIGNERS
from sweet_rl.studies.sweet.settings import LINES, Study
from sweet_rl.types import Json, Trajectory

TEXTS: Final = study_results.texts_of(__package__)
METHODS: Final[Mapping[str, tuple[str, str]]] = TEXTS["methods"]
CLAIMS: Final[list[tuple[str, str]]] = TEXTS["claims"]
MEASURES: Final[tuple[Measure, ...]] = TEXTS["measures"]
METRICS: Final[Mapping[str, str]] = TEXTS["metrics"]  # Of pages
PICTURE_WIDTH = 360  # Pixels of a page in the report; what is below 1.5 times that is cut off
TURNS: Final = [Measure(f"in {n}", f"{n} turns", "share", "behaviour", "turns") for n in range(1, 11)]


def results(study: Study, seconds: Mapping[str, float]) -> study_results.Results:
    dialogues = {}
    for name in measured_in(study):
        dialogues[name] = load_trajectories(study.measured(name))
        if trades := study.trades:
            tasks = [each.task for each in dialogues[name]]
            check_trades(tasks, trades, str(study.measured(name)))
    won = {
        name: {each.task.task_id: float(each.reward == 1) for each in played if each.reward is not None}
        for name, played in dialogues.items()
    }
    failed = {name: sum(each.reward is None for each in played) for name, played in dialogues.items()}
    main = Comparison(
        f"trades{trades}" if trades else "mini",
        f"{trades} trade{'s' if trades > 1 else ''}" if trades else f"mini:{study.world}",
        own="sweet",
        start="warm_start",
        measures=(*MEASURES, *TURNS),
        curves=TEXTS["curves"],
        methods=(
            *(_method(study, name, played) for name, played in dialogues.items()),
            Method("critic", "the critic", runs=(Run(study.seed, curves=_curves(study, "critic")),)),
        ),
        claims=tuple(
            study_results.claim_over_tasks(text, ("sweet", won["sweet"]), (worse, won[worse]))
            for text, worse in CLAIMS
            if worse in won
        ),
    )
    success = {name: success_of(study, name)["mean"] for name in ("warm_start", *choosing_agents(study))}
    chosen = comparison_at_test_time("test_time", {study.seed: success}, "A critic chooses at test time")
    pages, strips = page_results(study) if study.page_tasks else (None, ())
    return study_results.Results(
        "sweet",
        f"SWEET-RL and its rivals in the mini benchmark{f', begun with {study.pretrained}' if study.pretrained else ''}",
        "An agent is asked for a function that adds up prices. Which two extras a shop charges for it can only learn "
        f"by asking. Every method learns from the same {study.train_tasks * study.repeats} dialogues about "
        f"{study.train_tasks} tasks and is measured on {study.test_tasks} new ones (mini:{study.world}:{study.test_split}, "
        f"seed {study.seed}).",
        tuple(filter(None, (main, chosen, pages))),
        tuple(_dialogues(study, dialogues)),
        strips,
        settings_of(study),
        study_results.provenance(),
        seconds,
        failures=tuple(f"{METHODS[name][0]}: {n} test episodes failed." for name, n in failed.items() if n),
        credit=_credit(study),
    )


AT_TEST_TIME: Final = Axes("success", "success", "turns to choose from", "share", main=True, log=True)

_NAME: Final = re.compile(r"best_of_(\d+)_by_(\w+)")


def choosing_agents(study: Study) -> list[str]:
    return [settings.chosen_by(critic, turns) for turns in study.best_of for critic in settings.CHOOSERS]


def comparison_at_test_time(
    name: str, success: Mapping[int, Mapping[str, float]], title: str
) -> Comparison | None:
    """Success against the number of turns that a critic chooses from (figure of arXiv 2503.15478); None without."""
    methods = []
    for critic, (title_of_critic, text) in TEXTS["choosers"].items():
        runs = []
        for seed, of_agent in sorted(success.items()):
            found = ((_NAME.fullmatch(agent), value) for agent, value in of_agent.items())
            points = sorted((float(m[1]), value) for m, value in found if m and m[2] == critic)
            if points:  # the best of one turn is the agent as it was
                runs.append(Run(seed, curves={AT_TEST_TIME.name: ((1.0, of_agent["warm_start"]), *points)}))
        if runs:
            methods.append(Method(critic, title_of_critic, text, tuple(runs)))
    made = Comparison(name, title, own="critic", curves=(AT_TEST_TIME,), methods=tuple(methods))
    return made if methods else None


def measured_in(study: Study) -> list[str]:
    return [name for name in METHODS if name not in settings.ALL_WAYS or name in study.ways]


def agreement(study: Study, name: str) -> dict[str, Counted]:
    """How often a critic's scores put a good turn above a bad one, and how many pairs are right."""
    found: dict[str, list[float]] = defaultdict(list)
    rows = ranked_turns(study.ranked(name))
    verdicts = {row.key: verdicts_of(row) for row in rows}
    for row in rows:
        by_verdict = defaultdict(list)
        for verdict, score in zip(verdicts[row.key], row.scores or (), strict=True):
            if score is not None:
                by_verdict[verdict].append(score)
        wasted = [*by_verdict[Verdict.USELESS], *by_verdict[Verdict.REPEATED], *by_verdict[Verdict.NEEDLESS]]
        useful, early = by_verdict[Verdict.USEFUL], by_verdict[Verdict.EARLY]
        for key, good, bad in (
            ("auc_questions", useful, wasted),
            ("auc_useful_early", useful, early),
            ("auc_useless_early", by_verdict[Verdict.USELESS], early),
            ("auc_answering", by_verdict[Verdict.RIGHT], wasted),
        ):
            if good and bad:
                found[key].append(area_under_curve(good, bad))
    for _, pair in read_rows(study.pairs(name)):
        if "chosen_index" in pair:
            of_turn = verdicts[key_of(pair)]
            chosen, rejected = (of_turn[pair[f"{side}_index"]].good for side in ("chosen", "rejected"))
            found["right_pairs"].append(float(chosen > rejected))
            found["wrong_pairs"].append(float(chosen < rejected))
    return {key: Counted(fmean(values), n=len(values)) for key, values in found.items() if values}


def verdicts_of(row: Candidates) -> list[Verdict]:
    return [judge(row.ground_truth, row.before, candidate.text) for candidate in row.candidates]


def ranked_turns(path: Path) -> list[Candidates]:
    return candidates_from_rows(list(read_rows(path)), path=str(path))


def _method(study: Study, name: str, every: Sequence[Trajectory]) -> Method:
    report, updates = _report(study, name), updates_of(study, name)
    trajectories = [trajectory for trajectory in every if trajectory.reward is not None]
    counts = Counter(verdict for trajectory in trajectories for verdict, _ in _verdicts(trajectory))
    measures = {
        key: Counted(report[key]["mean"], report[key].get("low"), report[key].get("high"))
        for key in ("success", "tests_passed")
    }
    measures |= {"failed": Counted(1 - len(trajectories) / len(every))}
    asked = [
        (extra, trajectory.dialogue_history[0].content)
        for trajectory in trajectories
        for entry in trajectory.dialogue_history
        if entry.role == "assistant" and (extra := asked_about(entry.content))
    ]
    if asked:  # of its questions those that were useful, and those about what is mostly charged for there
        measures |= {"useful_share": Counted(counts[Verdict.USEFUL] / len(asked))}
        measures |= {"usual_share": Counted(fmean(extra in usual_for(request) for extra, request in asked))}
    measures |= {str(verdict): Counted(counts[verdict] / len(trajectories)) for verdict in Verdict}
    if study.ranked(name).exists():
        measures |= agreement(study, name)
    pairs = study.path("pairs_guarded.jsonl") if name == "dpo" else study.pairs(name)
    facts = {}  # pairs, or dialogues, that it learnt from
    if name == "rft":
        facts["examples"] = sum(1 for _, row in read_rows(study.dialogues) if row.get("reward") == 1)
    elif pairs.exists():
        facts["examples"] = sum(1 for _ in read_rows(pairs))
    if updates is not None:
        facts["updates"] = updates
    won_by_turns = defaultdict(list)
    for trajectory in trajectories:
        turns = sum(entry.role == "assistant" for entry in trajectory.dialogue_history)
        won_by_turns[f"in {turns}"].append(float(trajectory.reward == 1))
    measures |= {turns: Counted(fmean(won), n=len(won)) for turns, won in won_by_turns.items()}
    run = Run(study.seed, measures, _curves(study, name))
    return Method(name, *METHODS[name], (run,), facts, bound=name in LINES)


def success_of(study: Study, name: str) -> dict[str, float]:
    """Mean success of an agent on the test tasks with its 95 % interval: `mean`, `low`, `high` in [0, 1]."""
    success: dict[str, float] = _report(study, name)["success"]
    return success


def updates_of(study: Study, name: str) -> int | None:
    return max((row["step"] for row in _logged(study, name)), default=None)


def _logged(study: Study, name: str) -> list[dict[str, Json]]:
    path = study.path(name) / "metrics.jsonl"
    rows = (row for _, row in read_rows(path)) if path.exists() else ()
    return [row for row in rows if "loss" in row and "step" in row]


def _curves(study: Study, name: str) -> dict[str, study_results.Points]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in _logged(study, name):
        found["loss"].append((row["step"], row["loss"]))
        if "acc" in row:
            found["accuracy"].append((row["step"], row["acc"]))
        if "reject_reward" in row:
            found["margin"].append((row["step"], row["chosen_reward"] - row["reject_reward"]))
    return {key: tuple(points) for key, points in found.items()}


def _report(study: Study, name: str) -> dict[str, Json]:
    report: dict[str, Json] = json.loads(study.path(f"{name}.test.report.json").read_text())
    columns: dict[str, Json] = report["columns"]["fixed"]
    return columns


def _verdicts(trajectory: Trajectory) -> Iterator[tuple[Verdict, int]]:
    history = trajectory.dialogue_history
    for place, entry in enumerate(history):
        if entry.role == "assistant":
            yield judge(trajectory.task.ground_truth, history[:place], entry.content), place


def _dialogues(study: Study, dialogues: Mapping[str, Sequence[Trajectory]]) -> Iterator[Dialogue]:
    """The same three tasks before and after, with the critic's scores of the turn and its alternatives."""
    sides = {}
    for name in ("warm_start", "sweet"):
        seen = _by_dialogue(study.path(f"{name}.seen.jsonl"))
        sides[name] = {each.key: (each, seen[each.key]) for each in dialogues[name] if each.key in seen}
    before, after = sides.values()
    # first those that were lost before and are won after
    became = {
        key for key in after if key in before and before[key][0].reward != 1 and after[key][0].reward == 1
    }
    for key in sorted(before, key=lambda key: key not in became)[:3]:
        for name, side in sides.items():
            if key in side:
                yield _dialogue(name, *side[key])


def _by_dialogue(path: Path) -> dict[tuple[str, int], list[Candidates]]:
    found: dict[tuple[str, int], list[Candidates]] = defaultdict(list)
    for row in ranked_turns(path):
        found[row.key[:2]].append(row)
    return found


def _credit(study: Study) -> tuple[Dialogue, ...]:
    """The shortest recorded dialogue that was solved in spite of a useless question, as each critic scores it."""
    ranked = {name: study.ranked(name) for name in ("sweet_blind", "sweet") if name in study.ways}
    critics = {name: _by_dialogue(path) for name, path in ranked.items() if path.exists()}
    for each in sorted(load_trajectories(study.dialogues), key=lambda each: len(each.dialogue_history)):
        verdicts = [verdict for verdict, _ in _verdicts(each)]
        whole = all(len(rows[each.key]) == len(verdicts) for rows in critics.values())
        if each.reward == 1 and {Verdict.USEFUL, Verdict.USELESS} <= {*verdicts} and whole:
            found = tuple(_dialogue(name, each, rows[each.key]) for name, rows in critics.items())
            if all(turn.score is not None for dialogue in found for turn in dialogue.turns):
                return found
    return ()


def _dialogue(name: str, trajectory: Trajectory, rows: Sequence[Candidates]) -> Dialogue:
    history = trajectory.dialogue_history
    turns = []
    for (verdict, place), row in zip(_verdicts(trajectory), rows, strict=True):
        # the different candidates, best first and the unscored last, with how often each was drawn
        texts = [candidate.text for candidate in row.candidates]
        counts, scores = Counter(texts), dict(zip(texts, row.scores or (), strict=True))
        verdicts = dict(zip(texts, verdicts_of(row), strict=True))
        found = [
            study_results.Candidate(text, scores[text], counts[text], str(verdicts[text])) for text in counts
        ]
        candidates = tuple(sorted(found, key=lambda one: math.inf if one.score is None else -one.score))
        reply = history[place].content
        human = history[place + 1].content if place + 1 < len(history) else None
        score = next((each.score for each in candidates if each.text == reply), None)
        turns.append(study_results.Turn(reply, human, str(verdict), score, candidates))
    task = trajectory.task
    title = METHODS[name][0]
    return Dialogue(name, title, trajectory.reward, task.problem_description, task.ground_truth, tuple(turns))


def settings_of(study: Study) -> dict[str, Json]:
    own = study.settings
    trained = {
        "critic": own.critic, "policy": own.policy, "blind critic": own.blind_critic, "its policy": own.blind_policy,
        "trajectory DPO": own.dialogue_dpo, "rejection fine-tuning": own.rejection,
    }  # fmt: skip
    if study.pretrained:
        of_all = {name: own.training[name] for name in ("train_batch_size", "bf16") if name in own.training}
        trained = {
            "model": {"name": study.pretrained},
            "imitation": own.imitation,
            "every training": of_all,
            **trained,
        }
        trained["imitation"] = {"dialogues": study.demonstrations, **own.imitation}
    return {
        "train tasks x dialogues": f"{study.train_tasks} x {study.repeats}",
        "test tasks": study.test_tasks,
        "candidates a turn": study.candidates,
        "dialogues of each task with candidates": study.candidates_of,
        "pairs a turn": study.pairs_per_turn,
        "least difference of their scores": own.pairs["margin"],
        "least score of a chosen turn": own.pairs.get("min_score"),
        "least score with the blind critic": own.blind_pairs.get("min_score"),
        **settings.GUARDS,
        **{f"{title}: {name}": value for title, flags in trained.items() for name, value in flags.items()},
    }


# ---- pages


def page_results(study: Study) -> tuple[Comparison, tuple[Strip, ...]]:
    reports: dict[str, dict[str, Json]] = {
        name: json.loads(study.path(f"pages.{name}.report.json").read_text()) for name in DESIGNERS
    }
    improved = load_trajectories(study.path("pages.improver.jsonl"))
    grades = asyncio.run(_grades_by_turn(improved, study))
    designers = []
    for name, report in reports.items():
        measures = {
            metric: Counted(**{key: line["mean"][key] for key in ("mean", "low", "high")})
            for metric, line in report["metrics"].items()
        }
        curves = {"combined": _way_up(grades)} if name == "improver" else {}
        designers.append(Method(name, *DESIGNERS[name], (Run(study.seed, measures, curves),)))
    report = reports["improver"]
    floors: dict[str, dict[str, Counted]] = {}
    for metric, line in report["metrics"].items():
        for floor, value in line["floors"].items():
            floors.setdefault(floor, {})[metric] = Counted(value)
    for name, of in floors.items():
        designers.append(Method(f"floor_{name}", f"floor: {name}", runs=(Run(0, of),)))
    order = [*METRICS, *report["metrics"]]
    measured = (Measure(name, METRICS.get(name, name)) for name in sorted(report["metrics"], key=order.index))
    comparison = Comparison(
        *("pages", "Web pages", ""),
        text=f"Frontend Design on {report['tasks']} pages of mini-web, by designers without a model: they "
        "bound what one can score.",
        measures=tuple(measured),
        curves=(Axes("combined", "the improver's drafts (combined)", "turn", "share"),),
        methods=tuple(designers),
    )
    return comparison, tuple(
        _strip(row, each, study.folder) for row, each in zip(improved[:2], grades, strict=False)
    )


def _way_up(rows: Sequence[Mapping[int, float]]) -> study_results.Points:
    """The mean grade by turn; a dialogue that has ended keeps its last grade."""
    found = []
    kept = dict.fromkeys(range(len(rows)), 0.0)
    for turn in range(max(map(max, rows)) + 1):
        kept |= {place: grades[turn] for place, grades in enumerate(rows) if turn in grades}
        found.append((turn + 1.0, fmean(kept.values())))
    return tuple(found)


async def _grades_by_turn(rows: Sequence[Trajectory], study: Study) -> list[dict[int, float]]:
    """The combined metric of every draft, by turn, for each row."""
    from sweet_rl.browsers import open_renderer
    from sweet_rl.browsers.page import RenderFlags
    from sweet_rl.grading.pages.grader import grade_drafts

    settings = RenderFlags(browsers=1, render_cache=str(study.path("pages.rendered"))).rendering()
    async with open_renderer(settings) as renderer:
        grades = [await grade_drafts(row, renderer, study.folder) for row in rows]
    return [{turn: grade["combined"] for turn, grade in row.items()} for row in grades]


def _strip(row: Trajectory, grades: Mapping[int, float], folder: Path) -> Strip:
    drafts = [draft for draft in row.extra.get("drafts", []) if draft["image"]]
    frames = [
        Frame(f"turn {draft['turn'] + 1}", _small(folder / draft["image"]), grades.get(draft["turn"]))
        for draft in drafts
    ]
    if target := row.extra.get("target_image"):
        frames.append(Frame("target", _small(folder / target)))
    return Strip(row.task.problem_description, tuple(frames))


def _small(path: Path) -> str:
    from PIL import Image

    with Image.open(path) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, image.width * 3 // 2)))
    top.thumbnail((PICTURE_WIDTH, 2 * PICTURE_WIDTH))
    out = io.BytesIO()
    top.save(out, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
