"""The results of an online study, from the files of the runs and of the games that policies were measured on."""

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
from sweet_rl.studies import results as study_results
from sweet_rl.studies.archer import recipe
from sweet_rl.studies.archer.recipe import LEVEL, START, OnlineStudy, best_asker
from sweet_rl.studies.results import Comparison, Counted, Measure, Method, Points, Results, Run, claims_about
from sweet_rl.types import AgentTurn, Json, StopReason, Trajectory

TEXTS: Final = study_results.texts_of(__package__)
TITLES: Final[Mapping[str, tuple[str, str]]] = TEXTS["methods"]
CLAIMS: Final[list[tuple[str, str, str]]] = TEXTS["claims"]
SAVED: Final = [(text.format(level=LEVEL), slower, faster) for text, slower, faster in TEXTS["saved"]]

GAMES = Measure("games", f"games until {LEVEL:g}", "count", better="fewer")
"""Games learned from when two iterations in a row have a mean return at the level, for the first time; all where none have."""


def results(study: OnlineStudy, seconds: Mapping[str, float]) -> Results:
    methods = [
        Method(name, *TITLES[name], tuple(_run(study, name, seed) for seed in study.numbers))
        for name in (START, *study.methods)
    ]
    games = {recipe.TEACHER: [(seed, study.teacher(seed)) for seed in study.numbers]}
    games |= {name: [(study.first_seed, study.bound(name))] for name in recipe.BOUNDS}
    for name, paths in games.items():
        runs = tuple(Run(seed, _measured(_whole(path))) for seed, path in paths)
        methods.append(Method(name, *TITLES[name], runs, bound=True))
    part = Comparison(
        "twenty_questions",
        "Twenty Questions",
        own="archer",
        start=START,
        measures=TEXTS["measures"],
        curves=TEXTS["curves"],
        methods=tuple(methods),
    )
    config = load_config(recipe.CONFIG, study.overrides(START, study.first_seed))
    settings: dict[str, Json] = {
        "seeds": list(study.numbers),
        "games of the demonstrator": f"{study.teacher_games} a word, skill {study.skill:g}",
        "games to measure on": f"{study.test_games} a word",
        **{f"imitation: {name}": value for name, value in recipe.IMITATION.items()},
        **{name: config[name] for name in TEXTS["shown"].split()},
    }
    for method, own in study.methods.items():
        settings |= {f"{TITLES[method][0]}: {name}": value for name, value in own.items()}
    return Results(
        "archer",
        "ArCHer and its rivals on Twenty Questions",
        "A tiny agent asks yes-or-no questions to find out which of sixteen words is meant; a turn costs 1, naming the word "
        "nothing. Having imitated a scripted player, it goes on to learn from its own games, by each method: "
        f"{study.seeds} seed{'s' if study.seeds > 1 else ''}, a GPT-2 of {recipe.LAYERS} layers and width {recipe.WIDTH}.",
        with_claims([part]),
        tuple(_dialogues(study)),
        settings=settings,
        provenance=study_results.provenance(),
        seconds=seconds,
        notes=tuple(TEXTS["notes"]),
    )


def with_claims(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparison of returns with what its numbers say of the claims, and one of games until the level."""
    part = next(each for each in comparisons if each.name == "twenty_questions")
    methods = {method.name: method for method in part.methods}
    pairs, saved = claims_about(CLAIMS, methods), claims_about(SAVED, methods)
    among = len(pairs) + len(saved)
    claimed = replace(
        part, claims=tuple(study_results.claim_over_seeds(*claim, "return", among=among) for claim in pairs)
    )
    if not saved:
        return (claimed,)
    counted = {}
    for method in (each for each in methods.values() if each.name != START and not each.bound):
        runs = []
        for run in method.runs:
            curve = run.curves["return"]
            reached = games_until(curve, LEVEL)
            whole = curve[-1][0] + (curve[-1][0] - curve[-2][0] if len(curve) > 1 else 1.0)
            needed = Counted(whole if reached is None else reached)
            runs.append(Run(run.seed, {"games": needed, "reached": Counted(float(reached is not None))}))
        counted[method.name] = replace(method, runs=tuple(runs))
    games = Comparison(
        "games",
        f"Games until a mean return of {LEVEL:g}",
        own="archer",
        text="Half of the way from naming the words in order to the best play. A run that never reached it counts with all "
        "its games.",
        measures=(GAMES, Measure("reached", "reached it")),
        methods=tuple(counted.values()),
        claims=tuple(
            study_results.claim_over_seeds(*claim, "games", among=among)
            for claim in claims_about(SAVED, counted)
        ),
    )
    return claimed, games


def games_until(curve: Points, level: float) -> float | None:
    """Games learned from at the end of the first two iterations in a row whose mean is at the level, or None."""
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
        size = int(load_config(recipe.CONFIG, study.overrides(method, seed))["rollout_size"])
        # What an iteration plays is the policy that has learned from the games before it.
        played = accumulate((size - row["rollout.failed"] for row in rows), initial=0)
        curves["return"] = tuple((x, row["rollout.mean"]) for x, row in zip(played, rows, strict=False))
        curves["loss"] = tuple((row["step"], row["q1.loss"]) for row in rows if "q1.loss" in row)
        if recipe.has_critic(method, study.methods[method]):
            swapped = json.loads(study.swap(method, seed).read_text())
            for key, name in {"correlation": "swapped", "auc": "auc", "auc_swapped": "auc_swapped"}.items():
                if swapped[key] is not None:
                    measures[name] = Counted(swapped[key])
            # of the names in a game, whether it is the one that wins, and what it gains on the best play
            named = [
                (words == guess(game.task.hidden_information), best_asker().advantage(said[:turn], words))
                for game, said in ((game, _exchanges(game)) for game in sampled)
                for turn, (words, _) in enumerate(said)
                if words in recipe.names()
            ]
            if (exact := recipe.area(named)) is not None:
                measures["auc_exact"] = Counted(exact)
    return Run(seed, measures, curves)


def mean_return(study: OnlineStudy, method: str, seed: int) -> float:
    return fmean(game.reward or 0.0 for game in _whole(study.games(method, seed, greedy=False)))


def _whole(path: Path) -> list[Trajectory]:
    games = load_trajectories(path)
    failed = next((game for game in games if game.reward is None), None)
    if failed:
        raise DataError("must be played to the end", path=path, field=str(failed.key), value=failed.error)
    return games


def _exchanges(game: Trajectory) -> list[tuple[str, str]]:
    history = game.dialogue_history
    return [
        (entry.content, history[place + 1].content if place + 1 < len(history) else "")
        for place, entry in enumerate(history)
        if isinstance(entry, AgentTurn)
    ]


def _dialogues(study: OnlineStudy) -> Iterator[study_results.Dialogue]:
    """Greedy games of the first seed about the same words: of the start and of ArCHer, the three most changed."""
    before, after = (
        {game.task.task_id: game for game in _whole(study.games(method, study.first_seed, greedy=True))}
        for method in (START, "archer")
    )
    order = sorted(before, key=lambda key: -abs((after[key].reward or 0) - (before[key].reward or 0)))
    for key in order[:3]:
        for method, games in ((START, before), ("archer", after)):
            game = games[key]
            turns = tuple(study_results.Turn(said, reply or None) for said, reply in _exchanges(game))
            word = game.task.hidden_information
            yield study_results.Dialogue(method, TITLES[method][0], game.reward, solution=word, turns=turns)
