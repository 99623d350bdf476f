"""A text game as a world: turns, their limit, rewards from the score. Which game it is, it is handed.

A turn's reward is what the score rose by. The game's own end (won, lost) terminates the
episode; `max_turns` truncates it.

Interpreters know commands that are not moves. Some write files or keep a second copy of the game that other
episodes would meet (`save`, `script`, `undo`): those never reach the game. Others end or restart the session,
open a menu that waits for keys, or come from the game's debugging (`purloin` fetches anything from anywhere):
those are refused unless the published behaviour is asked for.

Published behaviour: docs/published/archer.md (text games).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from sweet_rl.errors import UsageError
from sweet_rl.types import Compat, Message, Observation, StepResult, StopReason, Task
from sweet_rl.worlds.adventures.scenes import Scene

REFUSED_ALWAYS = frozenset(
    ("save", "restore", "script", "transcript", "noscript", "unscript", "recording", "replay", "undo")
)
"""Files and second copies."""

REFUSED = REFUSED_ALWAYS | frozenset(
    (
        *("quit", "q", "die", "restart", "verify", "help", "about", "info", "information", "manual"),
        *("actions", "changes", "daemons", "timers", "messages", "routines", "trace", "tree", "scope"),
        *("showobj", "showverb", "purloin", "abstract", "goto", "gonear", "random"),
    )
)
"""Also the session, menus, and the game's debugging."""

REFUSAL = "[That is no move of this game.]"
"""What the world says instead."""

COMMAND_BYTES = 198
"""What fits into the interpreter's input line, as UTF-8."""

_DICTIONARY_LENGTH = 9
_ALWAYS = frozenset(word[:_DICTIONARY_LENGTH] for word in REFUSED_ALWAYS)
_BY_DEFAULT = frozenset(word[:_DICTIONARY_LENGTH] for word in REFUSED)


def first_line(action: str) -> str:
    """The agent's text up to its first newline."""
    return action.partition("\n")[0]


def typed(action: str) -> str:
    """What of an action reaches the game's keyboard: one line, at most `COMMAND_BYTES` long.

    Control characters and backslashes, which an interpreter takes for keys, become blanks.
    """
    line = "".join(char if char.isprintable() and char != "\\" else " " for char in first_line(action))
    return line.encode("utf-8", errors="replace")[:COMMAND_BYTES].decode("utf-8", errors="ignore")


def is_refused(command: str, *, published: bool = False) -> bool:
    """Whether the command, or one of several in a line, is none that an agent may give."""
    refused = _ALWAYS if published else _BY_DEFAULT
    for sentence in re.split(r"[.,;:\"]|\bthen\b", command.lower()):
        words = sentence.split()
        if words and words[0][:_DICTIONARY_LENGTH] in refused:
            return True
    return False


@dataclass(frozen=True, slots=True)
class AdventureStep:
    """What one command did to a game: the scene after it, the score so far, and whether the game ended."""

    scene: Scene
    score: int
    over: bool = False
    won: bool = False


class Game(Protocol):
    """One game; can be reset any number of times."""

    max_score: int

    async def begin(self, task: Task, seed: int) -> AdventureStep:
        """The first moment. Raises EpisodeError where there is no such game."""
        ...

    async def play(self, command: str) -> AdventureStep:
        """One command of one line, possibly empty. Raises EpisodeError when the game breaks."""
        ...


class AdventureEnv:
    """One episode of a text game.

    Args:
        compat: "published" joins the parts of an observation as published and lets the agent type more of the
            game's own commands (see `commands`); "fixed" keeps the parts and the agent's moves apart from
            what is none.
    """

    def __init__(self, game: Game, *, max_turns: int = 50, compat: Compat = "fixed") -> None:
        if max_turns < 1:
            raise UsageError(f"max_turns must be at least 1, got {max_turns}.")
        if compat not in {"fixed", "published"}:
            raise UsageError(f"compat must be 'fixed' or 'published', got {compat!r}.")
        self._game = game
        self._max_turns = max_turns
        self._published = compat == "published"
        self._done = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin the game; whatever was played before is forgotten."""
        self._done = True
        self._task_id, self._seed, self._steps = task.task_id, seed, 0
        self._latest = await self._game.begin(task, seed)
        self._messages: tuple[Message, ...] = (self._say(self._latest),)
        self._done = False
        return self._observe()

    async def step(self, action: str) -> StepResult:
        """One command: the first line of `action`, empty or not."""
        if self._done:
            return StepResult(action, action, None, terminated=True)
        self._steps += 1
        before = self._latest.score
        self._done = True  # should the game break
        self._latest = await self._play(typed(action))
        latest = self._latest
        self._messages = (*self._messages, Message("assistant", first_line(action)), self._say(latest))
        truncated = self._steps >= self._max_turns and not latest.over
        self._done = latest.over or truncated
        reason = StopReason.ENDED if latest.over else StopReason.TURN_LIMIT if truncated else None
        return StepResult(
            content=first_line(action),
            output=action,
            observation=self._observe(),
            reward=float(latest.score - before),
            terminated=latest.over,
            truncated=truncated,
            stop_reason=reason,
            info={"game": {"score": latest.score, "max_score": self._game.max_score, "won": latest.won}},
        )

    async def close(self) -> None:
        """Nothing to free: what runs the game outlives the episode."""
        self._done = True

    async def _play(self, command: str) -> AdventureStep:
        if is_refused(command, published=self._published):
            scene = self._latest.scene
            refused = Scene(scene.look, scene.inventory, f"\n{REFUSAL}\n", scene.actions)
            return AdventureStep(refused, self._latest.score)
        return await self._game.play(command)

    def _say(self, latest: AdventureStep) -> Message:
        scene = latest.scene
        if self._published:
            return Message("user", scene.published())
        if latest.over:  # nothing is left to be looked at, carried or done
            scene = Scene("", "", scene.narrative, ())
        return Message("user", scene.text())

    def _observe(self) -> Observation:
        return Observation(self._task_id, self._messages, self._seed)
