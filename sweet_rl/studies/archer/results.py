"""What came of an online study, as the report page and the table want it.

Reads the files of the runs and of the games that policies were measured on, and nothing else.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from statistics import fmean

from sweet_rl.commands.archer_config import load_config
from sweet_rl.errors import DataError
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.studies.archer.recipe import CONFIG, IMITATION, LAYERS, METHODS, START, WIDTH, OnlineStudy
from sweet_rl.studies.report.online_data import OnlineMethod, read_online_study
from sweet_rl.studies.report.online_numbers import gained, mean_of
from sweet_rl.types import AgentTurn, Json, StopReason, Trajectory

TITLES = {
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


def results(study: OnlineStudy) -> dict[str, Json]:
    """Methods with their curves and measurements, and games before and after."""
    return {
        "methods": [
            {
                "name": TITLES[method][0],
                "description": TITLES[method][1],
                "seeds": [_run(study, method, seed) for seed in range(study.seeds)],
            }
            for method in METHODS
        ],
        "dialogues": _dialogues(study),
    }


def _run(study: OnlineStudy, method: str, seed: int) -> dict[str, Json]:
    rows = [row for _, row in read_rows(study.run(method, seed) / "metrics.jsonl")]
    # What an iteration plays is the policy that has learned from the steps before it.
    steps = [0, *(row["env_steps"] for row in rows)]
    return {
        "seed": seed,
        **_measured(study, START, seed, "start"),
        **_measured(study, method, seed, "end"),
        "curve": [[before, row["rollout.mean"]] for before, row in zip(steps, rows, strict=False)],
        "loss": [[row["step"], row["q1.loss"]] for row in rows if "q1.loss" in row],
    }


def _measured(study: OnlineStudy, method: str, seed: int, name: str) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for greedy, prefix in ((False, name), (True, f"greedy_{name}")):
        games = _games(study, method, seed, greedy=greedy)
        found |= {
            prefix: fmean(game.reward or 0.0 for game in games),
            f"{prefix}_success": fmean(_solved(game) for game in games),
            f"{prefix}_turns": fmean(len(_turns(game)) for game in games),
        }
    return found


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


def _solved(game: Trajectory) -> bool:
    return game.stop_reason is StopReason.ENDED


def _turns(game: Trajectory) -> list[AgentTurn]:
    return [entry for entry in game.dialogue_history if isinstance(entry, AgentTurn)]


def _dialogues(study: OnlineStudy) -> list[dict[str, Json]]:
    """Greedy games of the first seed about the same words: of the start and of ArCHer, most changed first."""
    before, after = (
        {game.task.task_id: game for game in _games(study, method, 0, greedy=True)}
        for method in (START, "archer")
    )
    order = sorted(before, key=lambda key: -abs((after[key].reward or 0) - (before[key].reward or 0)))
    return [
        _dialogue(name, games[key])
        for key in order[:_SHOWN_GAMES]
        for name, games in (("Start", before), (TITLES["archer"][0], after))
    ]


def _dialogue(name: str, game: Trajectory) -> dict[str, Json]:
    history = game.dialogue_history
    turns = [
        [entry.content, history[place + 1].content if place + 1 < len(history) else ""]
        for place, entry in enumerate(history)
        if isinstance(entry, AgentTurn)
    ]
    return {"title": game.task.hidden_information, "method": name, "return": game.reward, "turns": turns}


def describe(study: OnlineStudy, seconds: Mapping[str, float]) -> dict[str, Json]:
    """What the report says about a study besides its numbers."""
    config = load_config(CONFIG, study.overrides("archer", 0))
    return {
        "title": "ArCHer and its rivals on Twenty Questions",
        "subtitle": (
            f"Ten words, {study.seeds} seeds; a GPT-2 of {LAYERS} layers and width {WIDTH}, which first "
            "imitated a scripted asker."
        ),
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "settings": {
            "games of the asker": f"{study.teacher_games} a word, skill {study.skill:g}",
            "games to measure on": f"{study.test_games} a word",
            **{f"imitation: {name}": value for name, value in IMITATION.items()},
            **{name: config[name] for name in _KEPT},
        },
        "seconds": _by_kind(study, seconds),
        "notes": [
            "All methods of a seed begin with the same policy and are measured on the same games.",
            "Greedy games of CHAI are those of its start: its candidates are then all alike.",
            "Seconds are added up over runs; some of them ran at the same time.",
        ],
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


def table(found: Mapping[str, Json]) -> str:
    """Returns before and after by method, as plain text."""
    head = f"{'mean return':<22}{'start':>8}{'end':>8}{'end - start':>13}  {'95 % interval':<18}"
    return "\n".join([f"{head}{'solved %':>15}{'greedy':>16}", *map(_line, read_online_study(found).methods)])


def _line(method: OnlineMethod) -> str:
    gain = gained(method)
    if gain is None:
        return f"{method.name:<22}  not measured"
    span = "" if gain.low is None or gain.high is None else f"[{gain.low:+.2f}, {gain.high:+.2f}]"
    runs = method.seeds
    start = _written([run.start.mean_return for run in runs], 2)
    end = _written([run.end.mean_return for run in runs], 2)
    solved = [
        _written([100 * (run.start.success or 0) for run in runs], 1),
        _written([100 * (run.end.success or 0) for run in runs], 1),
    ]
    greedy = [
        _written([run.greedy_start.mean_return for run in runs], 2),
        _written([run.greedy_end.mean_return for run in runs], 2),
    ]
    return (
        f"{method.name:<22}{start:>8}{end:>8}{gain.mean:>+13.2f}  {span:<18}"
        f"{' > '.join(solved):>15}{' > '.join(greedy):>16}"
    )


def _written(values: Sequence[float | None], digits: int) -> str:
    mean = mean_of(values)
    return "-" if mean is None else f"{mean:.{digits}f}"
