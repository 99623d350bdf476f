"""The results of an online study, as the report page and the table use them.

Reads the files of the runs and of the games that policies were measured on, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import fmean

from sweet_rl.commands.archer_config import load_config
from sweet_rl.errors import DataError
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.studies.archer.recipe import (
    CONFIG,
    CRITICS,
    IMITATION,
    LAYERS,
    METHODS,
    START,
    WIDTH,
    OnlineStudy,
)
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Dialogue,
    Estimate,
    Measure,
    Method,
    Points,
    Results,
    Run,
    Turn,
    claim_over_seeds,
    provenance,
)
from sweet_rl.types import AgentTurn, Json, StopReason, Trajectory

TITLES = {
    START: ("Start", "Imitates a scripted asker; all methods of a seed begin with it."),
    "archer": (
        "ArCHer",
        "A critic of whole utterances, learned from remembered games; the policy follows its advantage.",
    ),
    "chai": (
        "Online CHAI",
        "The same critic chooses among five utterances of the policy, which stays as it is.",
    ),
    "online_filteredbc": ("Online Filtered BC", "Imitates the best tenth of the games it has played."),
}
"""Every method's name, and what it is, in one sentence."""

_SHOWN_GAMES = 3
_KEPT = (
    "iterations",
    "rollout_size",
    "warmup_iter",
    "epochs",
    "actor_epochs",
    "batch_size",
    "grad_accum_steps",
    "critic_lr",
    "lm_lr",
    "gamma",
    "tau",
)


MEASURES = (
    Measure("return", "mean return", "number"),
    Measure("success", "solved"),
    Measure("turns", "turns", "number", better="fewer"),
    Measure("greedy", "greedy return", "number"),
    Measure("swapped", "critic, swap test", "number", better="fewer"),
)
"""What a policy is measured by, on the same games for all; greedy: its likeliest tokens. The critic: the
correlation of its advantages with those after another game's dialogue; 1 where it does not read any."""

_SWAP_TEST = (
    "Swap test: no critic is told the word. Its advantages with the dialogue of another word's game, as long as "
    "its own, have this correlation with the right ones: near 1, it does not read the dialogue."
)

CURVES = (
    Axes("return", "mean return", "environment steps (questions asked)", main=True),
    Axes("loss", "mean squared error of Q1", "iteration"),
)
"""Of a run: the games that it plays to learn from, and its critic."""


def results(study: OnlineStudy, seconds: Mapping[str, float]) -> Results:
    """Methods with their curves and measurements, and games before and after."""
    methods = {name: _method(study, name) for name in (START, *METHODS)}
    own, start = methods["archer"], methods[START]
    pairs = [(f"{methods[name].title} improves on its start", methods[name], start) for name in METHODS]
    pairs += [
        (f"{own.title} beats {methods[name].title}", own, methods[name])
        for name in METHODS
        if name != "archer"
    ]
    part = Comparison(
        "twenty_questions",
        "Twenty Questions",
        own="archer",
        start=START,
        measures=MEASURES,
        curves=CURVES,
        methods=tuple(methods.values()),
        claims=tuple(claim_over_seeds(*pair, "return") for pair in pairs),
    )
    return Results(
        "archer",
        "ArCHer and its rivals on Twenty Questions",
        f"Ten words, {study.seeds} seeds; a GPT-2 of {LAYERS} layers and width {WIDTH}, which first "
        "imitated a scripted asker.",
        (part,),
        tuple(_dialogues(study)),
        settings=_settings(study),
        provenance=provenance(),
        seconds=_by_kind(study, seconds),
        notes=(
            "All methods of a seed begin with the same policy and are measured on the same games.",
            "A turn costs 1, the one that names the word nothing; a game ends after twenty turns at most.",
            _SWAP_TEST,
            "Greedy games of CHAI are those of its start: its candidates are then all alike.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ),
    )


def _method(study: OnlineStudy, name: str) -> Method:
    return Method(name, *TITLES[name], tuple(_run(study, name, seed) for seed in range(study.seeds)))


def _run(study: OnlineStudy, method: str, seed: int) -> Run:
    curves: dict[str, Points] = {}
    if method != START:
        rows = [row for _, row in read_rows(study.run(method, seed) / "metrics.jsonl")]
        # What an iteration plays is the policy that has learned from the steps before it.
        steps = [0, *(row["env_steps"] for row in rows)]
        curves["return"] = tuple((x, row["rollout.mean"]) for x, row in zip(steps, rows, strict=False))
        curves["loss"] = tuple((row["step"], row["q1.loss"]) for row in rows if "q1.loss" in row)
    sampled = _games(study, method, seed, greedy=False)
    greedy = _games(study, method, seed, greedy=True)
    measures = {
        "return": fmean(game.reward or 0.0 for game in sampled),
        "success": fmean(game.stop_reason is StopReason.ENDED for game in sampled),
        "turns": fmean(len(_turns(game)) for game in sampled),
        "greedy": fmean(game.reward or 0.0 for game in greedy),
    }
    if method in CRITICS:
        correlation = json.loads(study.swap(method, seed).read_text())["correlation"]
        measures |= {} if correlation is None else {"swapped": correlation}
    return Run(seed, {key: Estimate(mean) for key, mean in measures.items()}, curves)


def _games(study: OnlineStudy, method: str, seed: int, *, greedy: bool) -> list[Trajectory]:
    """Games that a policy was measured on.

    Raises:
        DataError: one of them failed: a mean over the others would say something else.
    """
    path = study.games(method, seed, greedy=greedy)
    games = load_trajectories(path)
    failed = next((game for game in games if game.reward is None), None)
    if failed:
        raise DataError("must be played to the end", path=path, field=str(failed.key), value=failed.error)
    return games


def _turns(game: Trajectory) -> list[AgentTurn]:
    return [entry for entry in game.dialogue_history if isinstance(entry, AgentTurn)]


def _dialogues(study: OnlineStudy) -> list[Dialogue]:
    """Greedy games of the first seed about the same words: of the start and of ArCHer, most changed first."""
    before, after = (
        {game.task.task_id: game for game in _games(study, method, 0, greedy=True)}
        for method in (START, "archer")
    )
    order = sorted(before, key=lambda key: -abs((after[key].reward or 0) - (before[key].reward or 0)))
    return [
        _dialogue(name, games[key])
        for key in order[:_SHOWN_GAMES]
        for name, games in ((START, before), ("archer", after))
    ]


def _dialogue(method: str, game: Trajectory) -> Dialogue:
    history = game.dialogue_history
    turns = [
        Turn(entry.content, history[place + 1].content if place + 1 < len(history) else None)
        for place, entry in enumerate(history)
        if isinstance(entry, AgentTurn)
    ]
    word = game.task.hidden_information
    return Dialogue(method, TITLES[method][0], game.reward, solution=word, turns=tuple(turns))


def _settings(study: OnlineStudy) -> dict[str, Json]:
    config = load_config(CONFIG, study.overrides("archer", 0))
    return {
        "games of the asker": f"{study.teacher_games} a word, skill {study.skill:g}",
        "games to measure on": f"{study.test_games} a word",
        **{f"imitation: {name}": value for name, value in IMITATION.items()},
        **{name: config[name] for name in _KEPT},
    }


def _by_kind(study: OnlineStudy, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of steps of one kind, added up over seeds."""
    seeds = range(study.seeds)
    kinds = {"games of the asker": [study.teacher.name]}
    kinds["imitation"] = [study.start(seed).name for seed in seeds]
    kinds |= {TITLES[method][0]: [study.run(method, seed).name for seed in seeds] for method in METHODS}
    known = {name for names in kinds.values() for name in names}
    kinds["measuring"] = [name for name in seconds if name not in known]
    return {kind: round(sum(seconds.get(name, 0.0) for name in names), 2) for kind, names in kinds.items()}
