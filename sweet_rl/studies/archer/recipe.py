"""The steps of `demo_archer`: games of a teacher, policies that imitate them, online algorithms; each seed has its own.

What all runs have in common is in configs/archer/demo_20q.yaml, what each method has of its own in `METHODS`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

from sweet_rl.commands.archer_config import quoted
from sweet_rl.mini.objects.asker import BestAsker, guess
from sweet_rl.pipelines.steps import Step
from sweet_rl.statistics import area_under_curve
from sweet_rl.studies.runner import Chain, call
from sweet_rl.worlds import load_tasks

Overrides: TypeAlias = Mapping[str, Any]  # What a method has beside the configuration that all share

CONFIG: Final = "demo_20q"
TASKS: Final = "twenty-questions:sixteen"

TEACHER: Final = "hasty"
SKILL: Final = 0.3  # Of the teacher: the share of games in which it asks; in the others it only names words
TEACHER_GAMES, TEST_GAMES = 160, 20  # Games for each word: to imitate, and to measure every policy on
WIDTH, LAYERS = 64, 2  # Of the policy, with whose layers a critic begins

_SETTINGS: Final = tomllib.loads(files(__package__).joinpath("settings.toml").read_text("utf-8"))
IMITATION: Final[Overrides] = _SETTINGS["imitation"]
METHODS: Final[Mapping[str, Overrides]] = _SETTINGS["methods"]
ARCHER: Final = METHODS["archer"]

EXACT: Final = "archer_exact"  # ArCHer with the exact advantage of the best play in the place of its critic's

ABLATIONS: Final = ("archer_single", "archer_at_once", EXACT, "chai")  # Run where they are asked for
# Scripted players, and games of each word to say how good
BOUNDS: Final = {"best": 1, "namer": 1, "random": TEST_GAMES}
# Whose cost in games is counted: half of the way from naming words in order to the best play
LEVEL: Final = -5.5
START = "start"  # What stands for the policy before online learning, where methods are named
_TEST_SEED = 1_000  # Added to a seed: its test games, the same for all of its policies


@dataclass(frozen=True, slots=True)
class OnlineStudy:
    """What a study is made of; `methods` are each seed's runs, with what each has beside the configuration."""

    folder: Path
    seeds: int = 1
    first_seed: int = 0
    iterations: int | None = None
    skill: float = SKILL
    teacher_games: int = TEACHER_GAMES
    test_games: int = TEST_GAMES
    methods: Mapping[str, Overrides] = field(default_factory=lambda: METHODS)

    @property
    def numbers(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    def run(self, method: str, seed: int) -> Path:
        """The folder that the run of a method with a seed writes to; of `START`, that of the policy before it."""
        return self.folder / f"{method}-{seed}"

    def teacher(self, seed: int) -> Path:
        return self.folder / f"{TEACHER}-{seed}.jsonl"

    def bound(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def games(self, method: str, seed: int, *, greedy: bool) -> Path:
        return self.folder / f"{method}-{seed}.{'greedy' if greedy else 'sampled'}.jsonl"

    def swap(self, method: str, seed: int) -> Path:
        """How far the critic's advantages move with the dialogue of another game."""
        return self.folder / f"{method}-{seed}.swap.json"

    def overrides(self, method: str, seed: int) -> tuple[str, ...]:
        """Overrides of a run beside its configuration; of `START`, what a policy needs to play."""
        policy = quoted(self.run(START, seed) / "policy")
        own = self.methods[method] if method != START else {"agent_type": "online_filteredbc"}
        overrides = {**own, "seed": seed, "policy_lm": policy, "critic_lm": policy}
        overrides |= {"save_path": quoted(self.run(method, seed)), "quiet": "true"}
        if self.iterations is not None:
            overrides["iterations"] = self.iterations
        return tuple(f"{name}={value}" for name, value in overrides.items())


def rounds(study: OnlineStudy) -> list[list[Chain]]:
    """All chains; those of a round need what the rounds before it made."""
    begins: list[Chain] = []
    for seed in study.numbers:
        games, start = study.teacher(seed), study.run(START, seed)
        playing = {"skill": study.skill, "repeats": study.teacher_games, "seed": seed}
        imitating = {"seed": seed, "width": WIDTH, "layers": LAYERS, **IMITATION}
        learning = call("sweet_rl.studies.archer.steps:imitate", start, (str(games), str(start)), imitating)
        begins.append((_scripted(games, TEACHER, playing), learning, *_measure(study, START, seed)))
    for name, repeats in BOUNDS.items():
        begins.append((_scripted(study.bound(name), name, {"repeats": repeats}),))
    runs: list[Chain] = []
    for seed, method in product(study.numbers, study.methods):
        chain = (_learn(study, method, seed), *_measure(study, method, seed))
        if has_critic(method, study.methods[method]):
            played, output = study.games(method, seed, greedy=False), study.swap(method, seed)
            words = (str(played), str(output), *study.overrides(method, seed))
            chain = (*chain, call("sweet_rl.studies.archer.steps:swap", output, words))
        runs.append(chain)
    return [begins, runs]


def _scripted(output: Path, player: str, flags: Mapping[str, Any]) -> Step:
    first = {"task_type": "twenty_questions", "agent_model": player}
    flags = {**first, **flags, "overwrite": True, "quiet": True}
    return call("simulate_interactions", output, (TASKS, str(output)), flags)


def _learn(study: OnlineStudy, method: str, seed: int) -> Step:
    output, overrides = study.run(method, seed), study.overrides(method, seed)
    if method == EXACT:
        return call("sweet_rl.studies.archer.steps:learn_exactly", output, overrides)
    return call("run_archer", output, overrides, {"config_name": CONFIG})


def _measure(study: OnlineStudy, method: str, seed: int) -> list[Step]:
    """Sampled games, and a greedy one for each word: there is only one of those."""
    calls = []
    for greedy in (False, True):
        output = study.games(method, seed, greedy=greedy)
        flags: dict[str, Any] = {"games": 1 if greedy else study.test_games, "seed": _TEST_SEED + seed}
        flags |= {"greedy": True} if greedy else {}
        flags |= {"trained": True} if method != START else {}
        words = (str(output), *study.overrides(method, seed))
        calls.append(call("sweet_rl.studies.archer.steps:measure", output, words, flags))
    return calls


def has_critic(method: str, overrides: Overrides) -> bool:
    return method != EXACT and overrides["agent_type"] in ("archer", "chai")


@cache
def best_asker() -> BestAsker:
    """The best play of the study's words, which knows what an utterance gains and which names fit."""
    return BestAsker([task.hidden_information for task in load_tasks(TASKS)])


@cache
def names() -> frozenset[str]:
    return frozenset(guess(task.hidden_information) for task in load_tasks(TASKS))


def area(valued: Iterable[tuple[bool, float]]) -> float | None:
    """How often what is good has a higher value than what is not (under the ROC curve); None without both."""
    by_kind: dict[bool, list[float]] = {True: [], False: []}
    for good, value in valued:
        by_kind[good].append(value)
    return area_under_curve(by_kind[True], by_kind[False]) if by_kind[True] and by_kind[False] else None
