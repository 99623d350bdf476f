"""What the online study is made of: its game, how its policies begin, its methods and the settings of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from sweet_rl.mini.objects.asker import BestAsker
from sweet_rl.mini.objects.oracle import answer
from sweet_rl.worlds import load_tasks

Overrides: TypeAlias = Mapping[str, Any]
"""What a method has beside the configuration that all share."""

CONFIG: Final = "demo_20q"
TASKS: Final = "twenty-questions:sixteen"

TEACHER: Final = "hasty"
SKILL: Final = 0.3
"""Of the teacher: the share of games in which it asks. In the others it only names words, and so wins its
soonest games by luck."""

TEACHER_GAMES, TEST_GAMES = 160, 20
"""Games for each word: to imitate, and to measure every policy on."""

WIDTH, LAYERS = 64, 2
"""Of the policy. A critic begins with the policy's own layers, so that it can read a dialogue."""

IMITATION: Final[Overrides] = {
    "learning_rate": 2e-3,
    "iterations": 12,
    "batch_size": 128,
    "grad_accum_steps": 1,
    "max_grad_norm": 1.0,
    "whole_games": True,
}
"""How the policies are made that online learning begins with: after half as many iterations most of them name
words whatever the answers were (docs/archer_demo.md#other-seeds)."""

ARCHER: Final[Overrides] = {"agent_type": "archer", "critic_lr": 1e-3, "lm_lr": 3e-4}

EXACT: Final = "archer_exact"
"""ArCHer with the exact advantage of the best play in the place of its critic's (`exact`)."""

METHODS: Final[Mapping[str, Overrides]] = {
    "archer": ARCHER,
    "chai": {"agent_type": "chai", "critic_lr": 1e-3},
    "online_filteredbc": {"agent_type": "online_filteredbc", "lm_lr": 1e-4},
    "ppo": {"agent_type": "ppo", "lm_lr": 1e-3, "critic_lr": 1e-2, "actor_epochs": 12, "warmup_iter": 0},
    "reinforce": {"agent_type": "reinforce", "lm_lr": 5e-4, "actor_epochs": 4, "warmup_iter": 0},
    "archer_single": {**ARCHER, "double_critic": "false"},
    "archer_at_once": {**ARCHER, "warmup_iter": 0},
    EXACT: {**ARCHER, "warmup_iter": 0, "actor_epochs": 12},
}
"""Of each method its own settings. The ablations take the settings of the whole; without a critic that has to
learn first, the policy makes as many steps as PPO's, and from the first iteration on."""

ABLATIONS: Final = ("archer_single", "archer_at_once", EXACT, "chai")
"""Run where they are asked for: they take as long as ArCHer does, and the slowest rival even longer."""

BOUNDS: Final = {"best": 1, "namer": 1, "random": TEST_GAMES}
"""Scripted players that bound what can be reached, and how many games of each word say how good they are."""

LEVEL: Final = -5.5
"""The return whose cost in games is counted: half of the way from naming the words in order to the best play."""

_CRITICS: Final = ("archer", "chai")


def has_critic(method: str, overrides: Overrides) -> bool:
    """Whether a method learns a critic of utterances."""
    return method != EXACT and overrides["agent_type"] in _CRITICS


@cache
def best_asker() -> BestAsker:
    """The best play of the study's words, which knows what an utterance gains and which names fit."""
    return BestAsker(answer, [task.hidden_information for task in load_tasks(TASKS)])
