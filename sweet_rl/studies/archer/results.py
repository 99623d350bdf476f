"""The results of an online study, as the report page and the table use them.

Reads the files of the runs and of the games that policies were measured on, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean
from typing import Final

from sweet_rl.commands.archer_config import load_config
from sweet_rl.errors import DataError
from sweet_rl.mini.objects.asker import guess
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.studies.archer.recipe import (
    BOUNDS,
    CONFIG,
    EXACT,
    IMITATION,
    LAYERS,
    LEVEL,
    START,
    TEACHER,
    WIDTH,
    OnlineStudy,
    best_asker,
    has_critic,
)
from sweet_rl.studies.archer.swaps import area, names
from sweet_rl.studies.results import (
    Axes,
    Comparison,
    Counted,
    Dialogue,
    Measure,
    Method,
    Points,
    Results,
    Run,
    Turn,
    claims_about,
    claims_over_seeds,
    provenance,
    texts_of,
)
from sweet_rl.types import AgentTurn, Json, StopReason, Trajectory

TEXTS: Final = texts_of(__package__)
TITLES: Final = {name: (title, text) for name, (title, text) in TEXTS["methods"].items()}
"""Every method's name, and what it is, in one sentence."""

CLAIMS: Final = [(text, better, worse) for text, better, worse in TEXTS["claims"]]
"""Orderings of returns, published or of rivals: what is claimed, the better method, the worse one."""

SAVED = (
    (f"PPO needs more games than ArCHer to reach {LEVEL:g}", "ppo", "archer"),
    (f"REINFORCE needs more games than ArCHer to reach {LEVEL:g}", "reinforce", "archer"),
    (f"Online CHAI needs more games than ArCHer to reach {LEVEL:g}", "chai", "archer"),
    ("PPO needs more games than ArCHer with an exact critic", "ppo", EXACT),
)
"""What it takes to learn: the claim, the slower method, the faster one. Published of PPO; and whether it depends on the critic."""

_KEPT = (
    *("iterations", "rollout_size", "warmup_iter", "epochs", "actor_epochs", "batch_size"),
    *("grad_accum_steps", "gamma", "tau", "capacity", "normalize_advantages"),
)

MEASURES = (
    Measure("return", "mean return", "number"),
    Measure("success", "solved"),
    Measure("turns", "turns", "number", better="fewer"),
    Measure("greedy", "greedy return", "number"),
    Measure("fits", "names that fit the answers"),
    Measure("swapped", "critic, swap test", "number", better="fewer"),
    Measure("auc", "the name that wins", "number", "critic"),
    Measure("auc_swapped", "the same after another game's dialogue", "number", "critic"),
    Measure("auc_exact", "the same by what a name gains exactly", "number", "critic"),
)
"""What a policy is measured by, on the same games for all; greedy: its likeliest tokens; fits: of its names after an
answer that rules out words, those that no answer rules out. The critic: the
correlation of its advantages with those after another game's dialogue, 1 where it does not read any; and whether
it tells names that win from names that do not, and how well that can be told: which fitting name wins is chance."""

GAMES = Measure("games", f"games until {LEVEL:g}", "count", better="fewer")
"""Games learned from when two iterations in a row have a mean return that reaches the level, for the first time; all where
none have."""

REACHED = Measure("reached", "reached it")
"""Whether a run ever did."""

CURVES = (
    Axes("return", "mean return", "games played to learn from", main=True),
    Axes("loss", "mean squared error of Q1", "iteration"),
)
"""Of a run: the games that it plays to learn from, and its critic."""


def results(study: OnlineStudy, seconds: Mapping[str, float]) -> Results:
    """Methods with their curves and measurements, and games before and after."""

    def method(name: str, *runs: Run, bound: bool = False) -> Method:
        return Method(name, *TITLES[name], runs, bound=bound)

    part = Comparison(
        "twenty_questions",
        "Twenty Questions",
        own="archer",
        start=START,
        measures=MEASURES,
        curves=CURVES,
        methods=(
            *(
                method(name, *(_run(study, name, seed) for seed in study.numbers))
                for name in (START, *study.methods)
            ),
            method(
                TEACHER,
                *(Run(seed, _measured(_whole(study.teacher(seed)))) for seed in study.numbers),
                bound=True,
            ),
            *(
                method(name, Run(study.first_seed, _measured(_whole(study.bound(name)))), bound=True)
                for name in BOUNDS
            ),
        ),
    )
    return Results(
        "archer",
        "ArCHer and its rivals on Twenty Questions",
        f"Sixteen words, {study.seeds} seed{'s' if study.seeds > 1 else ''}; a GPT-2 of {LAYERS} layers and width {WIDTH}, which first "
        "imitated a scripted player.",
        with_claims([part]),
        tuple(_dialogues(study)),
        settings=_settings(study),
        provenance=provenance(),
        seconds=_by_kind(study, seconds),
        notes=(
            "All methods of a seed begin with the same policy and are measured on the same games.",
            "A turn costs 1, the one that names the word nothing; a game ends after twenty turns at most.",
            "A point of a curve is the mean return of an iteration's own games, by the games learned from before.",
            TEXTS["notes"]["fits"],
            TEXTS["notes"]["swap_test"],
            "Greedy games of CHAI are those of its start: its candidates are then all alike.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ),
    )


def with_claims(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparison of returns with what its numbers say of the claims, and one of games until the level."""
    part = next(each for each in comparisons if each.name == "twenty_questions")
    methods = {method.name: method for method in part.methods}
    pairs, saved = claims_about(CLAIMS, methods), claims_about(SAVED, methods)
    among = len(pairs) + len(saved)
    claimed = replace(part, claims=claims_over_seeds(pairs, methods, "return", among=among))
    if not saved:
        return (claimed,)
    counted = {
        name: replace(method, runs=tuple(Run(run.seed, _until(run.curves["return"])) for run in method.runs))
        for name, method in methods.items()
        if name != START and not method.bound
    }
    games = Comparison(
        "games",
        f"Games until a mean return of {LEVEL:g}",
        own="archer",
        text="Half of the way from naming the words in order to the best play. A run that never reached it counts with all its "
        "games.",
        measures=(GAMES, REACHED),
        methods=tuple(counted.values()),
        claims=claims_over_seeds(saved, counted, "games", among=among),
    )
    return claimed, games


def _until(curve: Points) -> dict[str, Counted]:
    games = games_until(curve, LEVEL)
    whole = curve[-1][0] + (curve[-1][0] - curve[-2][0] if len(curve) > 1 else 1.0)
    found = whole if games is None else games
    return {"games": Counted(found), "reached": Counted(float(games is not None))}


def games_until(curve: Points, level: float) -> float | None:
    """Games that a run had learned from in the second of the first two iterations whose mean is at the level.

    None where it never was.
    """
    return next(
        (games for (_, first), (games, second) in pairwise(curve) if (first + second) / 2 >= level), None
    )


def _measured(games: Sequence[Trajectory]) -> dict[str, Counted]:
    # of the names in a game, whether the answers leave them, where they rule out any
    found = [
        best_asker().fits(said[:turn], words)
        for said in map(_exchanges, games)
        for turn, (words, _) in enumerate(said)
    ]
    fits = [fit for fit in found if fit is not None]
    return {
        "return": Counted(fmean(game.reward or 0.0 for game in games)),
        "success": Counted(fmean(game.stop_reason is StopReason.ENDED for game in games)),
        "turns": Counted(fmean(len(_exchanges(game)) for game in games)),
        **({"fits": Counted(fmean(fits), n=len(fits))} if fits else {}),
    }


def _run(study: OnlineStudy, method: str, seed: int) -> Run:
    curves: dict[str, Points] = {}
    sampled = _whole(study.games(method, seed, greedy=False))
    greedy = _whole(study.games(method, seed, greedy=True))
    measures = _measured(sampled) | {"greedy": Counted(fmean(game.reward or 0.0 for game in greedy))}
    if method != START:
        rows = [row for _, row in read_rows(study.run(method, seed) / "metrics.jsonl")]
        size = int(load_config(CONFIG, study.overrides(method, seed))["rollout_size"])
        # What an iteration plays is the policy that has learned from the games before it.
        played = accumulate((size - row["rollout.failed"] for row in rows), initial=0)
        curves["return"] = tuple((x, row["rollout.mean"]) for x, row in zip(played, rows, strict=False))
        curves["loss"] = tuple((row["step"], row["q1.loss"]) for row in rows if "q1.loss" in row)
        if has_critic(method, study.methods[method]):
            swapped = json.loads(study.swap(method, seed).read_text())
            for key, name in {"correlation": "swapped", "auc": "auc", "auc_swapped": "auc_swapped"}.items():
                if swapped[key] is not None:
                    measures[name] = Counted(swapped[key])
            if (exact := area(named for game in sampled for named in _named(game))) is not None:
                measures["auc_exact"] = Counted(exact)
    return Run(seed, measures, curves)


def _named(game: Trajectory) -> Iterator[tuple[bool, float]]:
    """Of the names in a game: whether it is the one that wins, and what it gains on the best play."""
    said, known = _exchanges(game), names()
    for turn, (words, _) in enumerate(said):
        if words in known:
            wins = words == guess(game.task.hidden_information)
            yield wins, best_asker().advantage(said[:turn], words)


def mean_return(study: OnlineStudy, method: str, seed: int) -> float:
    """Of the games that a policy was measured on."""
    return fmean(game.reward or 0.0 for game in _whole(study.games(method, seed, greedy=False)))


def _whole(path: Path) -> list[Trajectory]:
    games = load_trajectories(path)
    failed = next((game for game in games if game.reward is None), None)
    if failed:
        raise DataError("must be played to the end", path=path, field=str(failed.key), value=failed.error)
    return games


def _exchanges(game: Trajectory) -> list[tuple[str, str]]:
    """What the agent said, and the answer to it; empty where the game ends without one."""
    history = game.dialogue_history
    return [
        (entry.content, history[place + 1].content if place + 1 < len(history) else "")
        for place, entry in enumerate(history)
        if isinstance(entry, AgentTurn)
    ]


def _dialogues(study: OnlineStudy) -> Iterator[Dialogue]:
    """Greedy games of the first seed about the same words: of the start and of ArCHer, the three most changed."""
    before, after = (
        {game.task.task_id: game for game in _whole(study.games(method, study.first_seed, greedy=True))}
        for method in (START, "archer")
    )
    order = sorted(before, key=lambda key: -abs((after[key].reward or 0) - (before[key].reward or 0)))
    for key in order[:3]:
        for method, games in ((START, before), ("archer", after)):
            game = games[key]
            turns = tuple(Turn(said, reply or None) for said, reply in _exchanges(game))
            word = game.task.hidden_information
            yield Dialogue(method, TITLES[method][0], game.reward, solution=word, turns=turns)


def _settings(study: OnlineStudy) -> dict[str, Json]:
    config = load_config(CONFIG, study.overrides(START, study.first_seed))
    return {
        "seeds": list(study.numbers),
        "games of the demonstrator": f"{study.teacher_games} a word, skill {study.skill:g}",
        "games to measure on": f"{study.test_games} a word",
        **{f"imitation: {name}": value for name, value in IMITATION.items()},
        **{name: config[name] for name in _KEPT},
        **{
            f"{TITLES[method][0]}: {name}": value
            for method, own in study.methods.items()
            for name, value in own.items()
        },
    }


def _by_kind(study: OnlineStudy, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of steps of one kind, added up over seeds."""
    kinds = {
        "games of the demonstrator": [study.teacher(seed).name for seed in study.numbers],
        "imitation": [study.run(START, seed).name for seed in study.numbers],
    }
    kinds |= {
        TITLES[method][0]: [study.run(method, seed).name for seed in study.numbers]
        for method in study.methods
    }
    known = {name for names in kinds.values() for name in names}
    kinds["measuring"] = [name for name in seconds if name not in known]
    return {kind: round(sum(seconds.get(name, 0.0) for name in names), 2) for kind, names in kinds.items()}
