"""What a critic is worth at test time: the agent as it was takes the turn of N that the critic likes best.

The figure of SWEET-RL (arXiv 2503.15478, test-time scaling). A critic that is given the solution is an upper
line: at test time nobody has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sweet_rl.studies.results import Axes, Comparison, Method, Run
from sweet_rl.studies.sweet.settings import CHOOSERS, UNTRAINED, Study

TITLES: Final = {
    "critic": (
        "critic, given the solution",
        "An upper line: at test time nobody has the solution. Its score is less the sampler's, which has none.",
    ),
    "critic_blind": ("blind critic", "It has seen dialogues and their outcomes only."),
    UNTRAINED: ("untrained critic, given the solution", "What the warm start makes of a solution."),
}

SUCCESS: Final = Axes("success", "success", "turns to choose from", "share", main=True, log=True)

_NAME: Final = re.compile(r"best_of_(\d+)_by_(\w+)")


def chosen_by(critic: str, turns: int) -> str:
    """Name of the agent that takes the best of so many turns by a critic of `CHOOSERS`."""
    return f"best_of_{turns}_by_{critic}"


def choosing_agents(study: Study) -> list[str]:
    """Names of all agents of a study whose turns a critic chooses."""
    return [chosen_by(critic, turns) for turns in study.best_of for critic in CHOOSERS]


def comparison_at_test_time(
    name: str, success: Mapping[int, Mapping[str, float]], title: str
) -> Comparison | None:
    """Success against the number of turns.

    Args:
        success: of every agent, by seed and name; those of other agents are left alone.

    Returns:
        A curve of every seed for each critic; None where no critic chose.
    """
    methods = []
    for critic, title_and_text in TITLES.items():
        runs = tuple(
            Run(seed, curves={SUCCESS.name: points})
            for seed, found in sorted(success.items())
            if (points := _points(found, critic))
        )
        if runs:
            methods.append(Method(critic, *title_and_text, runs=runs))
    return (
        Comparison(name, title, own="critic", curves=(SUCCESS,), methods=tuple(methods)) if methods else None
    )


def _points(success: Mapping[str, float], critic: str) -> tuple[tuple[float, float], ...]:
    """The best of one turn is the agent as it was."""
    found = ((_NAME.fullmatch(name), value) for name, value in success.items())
    points = sorted((float(match[1]), value) for match, value in found if match and match[2] == critic)
    return ((1.0, success["warm_start"]), *points) if points else ()
