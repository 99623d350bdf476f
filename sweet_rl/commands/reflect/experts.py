"""What the embedded player knows of a game that it plays: the oracle's next action, and words for it."""

from __future__ import annotations

from functools import partial

from sweet_rl.sft_data.react import Words
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.teacher.lessons import thought as household_thought
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
from sweet_rl.worlds.dangerous_taxi.teacher.words import thought as taxi_thought


class TaxiExpert:
    """Knows the shortest way of a taxi game."""

    def __init__(self, game: TaxiGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """Where things stand, and what is next."""
        return partial(taxi_thought, None, None, self._game.state)

    def label(self) -> str:
        """The label of the oracle's first action; "0" where nothing is left to do."""
        return next((str(action) for action in self._game.best_actions()), "0")


class HouseholdExpert:
    """Asks the planner; once for each state."""

    def __init__(self, game: HouseholdGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """The task, and what is next."""
        plan = self._game.expert_plan()
        return partial(household_thought, self._game.text, self._game.commands, plan, None)

    def label(self) -> str:
        """The label of the planner's next command; the first one where there is no plan."""
        return self._game.expert_label() or self._game.labels[0]


class NoExpert:
    """Knows nothing: for games that a model plays."""

    def thought(self) -> Words:
        """No thought: an empty text."""
        return lambda _: ""

    def label(self) -> str:
        """No action: an empty label."""
        return ""
