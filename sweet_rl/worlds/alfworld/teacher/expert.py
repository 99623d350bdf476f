"""The expert of household games: the planner's next command, and an explanation."""

from __future__ import annotations

from functools import partial

from sweet_rl.sft_data.react import Words
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.teacher.lessons import thought


class HouseholdExpert:
    """Asks the planner; once for each state."""

    def __init__(self, game: HouseholdGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """The task and the next command."""
        plan = self._game.expert_plan()
        return partial(thought, self._game.text, self._game.commands, plan, None)

    def label(self) -> str:
        """The label of the planner's next command; the first one where there is no plan."""
        return self._game.expert_label() or self._game.labels[0]
