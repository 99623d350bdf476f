"""Stage 2 for worlds that reward turns: nothing to grade, but a table and preference pairs."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags.shared import Evaluation, Margin


@dataclass(frozen=True, kw_only=True)
class GameFlags(Evaluation, Margin):
    """Games."""


@recorded("evaluate_games", reads=("saved_path",))
@stage(
    "saved_path",
    defaults={"margin": 1.0},
    helps={
        "saved_path": "trajectory file of sweet-rl simulate_interactions, of a --world that rewards turns.",
        "margin": "by how much the returns of a pair differ at least.",
        "overwrite": "replace files of pairs, and a report of another file, when they exist.",
    },
    narrow={"margin": {"at_least": None, "above": 0}},
)
def evaluate_games(flags: GameFlags, /) -> None:
    """Report trajectories of worlds that reward turns; write preference pairs.

    Question games, adventures and the shop give rewards as they are played, so there is nothing to grade. The
    table shows the return, the share of episodes that the world itself brought to an end (a solved game, a
    purchase), the turns, and where worlds report it the share that was won, with 95 % confidence intervals over tasks. Of any two episodes of a task whose
    returns differ by the margin, the better one is preferred; the pairs train critics and policies as those
    of sweet-rl evaluate_code do.
    """
    from sweet_rl.commands import game_evaluation
    from sweet_rl.commands.evaluation import check_outputs

    check_outputs(flags)
    game_evaluation.run(flags)
