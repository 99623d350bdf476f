"""The expert of DangerousTaxi: the oracle's next action, and an explanation."""

from __future__ import annotations

from functools import partial

from sweet_rl.sft_data.react import Words
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
from sweet_rl.worlds.dangerous_taxi.teacher.words import thought


class TaxiExpert:
    """Knows the shortest way of a taxi game."""

    def __init__(self, game: TaxiGame) -> None:
        self._game = game

    def thought(self) -> Words:
        """The positions of everything, and the next action."""
        return partial(thought, None, None, self._game.state)

    def label(self) -> str:
        """The label of the oracle's first action; "0" where nothing is left to do."""
        return next((str(action) for action in self._game.best_actions()), "0")
