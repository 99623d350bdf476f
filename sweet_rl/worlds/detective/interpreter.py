"""One game in one interpreter: a command and a saved position in, a reply and the next position out.

Runs in a worker process and knows nothing of episodes: a position is all it needs, so that one interpreter
serves any number of games. The interpreter is jericho's (GPL, an optional package), the only place that
imports it.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweet_rl.errors import missing_package
from sweet_rl.worlds.detective.valid_actions import ActionFinder


@dataclass(frozen=True, slots=True)
class Position:
    """A moment of a game: what the four parts of an observation say, the score, and how to return to it.

    `look` and `inventory` are asked for and undone; `narrative` is what the last command brought. `state` is
    opaque. `over` is whether the game ended, `won` how.
    """

    look: str
    inventory: str
    narrative: str
    actions: tuple[str, ...]
    score: int
    max_score: int
    over: bool
    won: bool
    state: bytes = field(repr=False)


class Interpreter:
    """The game file in jericho.

    Args:
        story: a game that jericho knows (checked by the caller).

    Raises:
        UsageError: jericho is not installed.
    """

    def __init__(self, story: Path) -> None:
        try:
            from jericho import FrotzEnv
        except ImportError:
            raise missing_package("jericho", "detective", needed_for="The Detective game") from None
        self._frotz: Any = FrotzEnv(str(story))
        self._finder = ActionFinder(self._frotz)

    def begin(self, *, with_actions: bool) -> Position:
        """The game's first moment; the same every time."""
        narrative, _ = self._frotz.reset()
        return self._position(narrative, with_actions=with_actions)

    def play(self, state: bytes, command: str, *, with_actions: bool) -> Position:
        """Type `command` at a saved moment; one that `commands.typed` returned."""
        self._return_to(state)
        narrative, *_ = self._frotz.step(command)
        return self._position(narrative, with_actions=with_actions)

    def walkthrough(self) -> tuple[str, ...]:
        """The commands that reach the highest score, as jericho ships them."""
        return tuple(self._frotz.get_walkthrough())

    def _return_to(self, state: bytes) -> None:
        if self._frotz._emulator_halted():  # jericho offers no other way to ask
            self._frotz.reset()
        self._frotz.set_state(pickle.loads(state))  # noqa: S301 - our own, made below

    def _position(self, narrative: str, *, with_actions: bool) -> Position:
        frotz = self._frotz
        state = frotz.get_state()
        score, won, over = frotz.get_score(), frotz.victory(), frotz.game_over() or frotz.victory()
        look = str(frotz.step("look")[0])
        frotz.set_state(state)
        inventory = str(frotz.step("inventory")[0])
        frotz.set_state(state)
        actions: tuple[str, ...] = ()
        if with_actions and not over:
            actions = self._finder.find(state, f"{look}\n{inventory}")
        return Position(
            look=look,
            inventory=inventory,
            narrative=str(narrative),
            actions=actions,
            score=int(score),
            max_score=int(frotz.get_max_score()),
            over=bool(over),
            won=bool(won),
            state=pickle.dumps(state, protocol=5),
        )
