"""A repository explored in a dialogue: two questions a step, the published way.

First the state without its actions, and the request for an analysis; then the list of actions, and the
request for a choice. A model sees all messages before, or, Markov, only those of the step.

Published behaviour: docs/published/reflect_rl.md#episodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from sweet_rl.chat.reflect_format import resolve_label, split_prompt
from sweet_rl.prompts import packaged_text
from sweet_rl.reflect_data.teachers import Asked, Teacher
from sweet_rl.text_game import GameStep
from sweet_rl.types import Failure, Message, derive_seed
from sweet_rl.worlds.auto_explore import ACTION_HEAD
from sweet_rl.worlds.auto_explore.commands import unwrap
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.teacher.search import Explorer
from sweet_rl.worlds.auto_explore.teacher.words import second_thought, thought

_HEAD: Final = ACTION_HEAD


class Turn(NamedTuple):
    """One step of a talk. `command` is None where the reply named nothing that was on offer."""

    reflection: str
    reply: str
    command: str | None
    moved: GameStep

    @property
    def failure(self) -> Failure | None:
        """The reply that could not be read, word for word."""
        return None if self.command is not None else Failure("malformed_reply", self.reply)


class ExploreTalk:
    """One teacher in one game.

    Args:
        game: begun; the talk takes its steps.
        teacher: who is asked. The embedded one sees what a model sees, and of a file that it opened it knows
            whether that is right.
        markov: a model is shown nothing of earlier steps.
    """

    def __init__(
        self,
        game: ExploreGame,
        question: str,
        teacher: Teacher,
        *,
        seed: int,
        markov: bool = False,
    ) -> None:
        self.game = game
        self.cost = 0.0
        self._teacher, self._seed, self._markov = teacher, seed, markov
        self._explorer = Explorer(question, game.targets, seed=seed)
        self._history: list[Message] = []
        self._asked = 0
        self._look()

    def follow(self, command: str) -> GameStep:
        """Take a step without asking anybody: a command that is on offer."""
        if command not in self.game.offered.values():
            raise LookupError(command)
        folder = self.game.sandbox.cwd
        moved = self.game.step(command)
        self.cost += moved.cost
        self._explorer.forget_content()
        self._look()
        if command.startswith("cat "):
            name = unwrap(command.partition(" ")[2])
            self._explorer.read(f"{folder}/{name}" if folder else name, str(moved.info["result"]))
        return moved

    async def turn(self, *, wrong: bool = False) -> Turn:
        """Ask for an analysis and for a choice, and run the chosen command."""
        if self._markov:
            self._history.clear()
        search = self._explorer.search(self.game.sandbox.cwd)
        before, after = split_prompt(self.game.text, _HEAD)
        request = _prompt("explore_teacher_wrong" if wrong else "explore_teacher_analyse")
        words = second_thought if wrong else thought
        reflection = await self._ask(f"{before}\n{request}", lambda draws: words(search, draws))
        best = search.plan.command
        label = next((label for label, command in self.game.offered.items() if command == best), best)
        choose = f"{after.lstrip()}{_prompt('explore_teacher_choose')}"
        reply = await self._ask(choose, lambda _: label)
        chosen = resolve_label(reply, self.game.offered)
        if chosen is None:
            moved = self.game.step(reply)
            self.cost += moved.cost
            self._explorer.forget_content()
            return Turn(reflection, reply, None, moved)
        command = self.game.offered[chosen]
        return Turn(reflection, reply, command, self.follow(command))

    async def _ask(self, text: str, known: Callable[[random.Random], str]) -> str:
        """One question and its answer, which both become history."""
        self._history.append(Message("user", text))
        system = Message("system", _prompt("explore_teacher_system"))
        asked = Asked([system, *self._history], known, derive_seed(self._seed, self._asked))
        self._asked += 1
        reply = await self._teacher.say(asked)
        self._history.append(Message("assistant", reply))
        return reply

    def _look(self) -> None:
        sandbox = self.game.sandbox
        self._explorer.look(sandbox.cwd, sandbox.entries())


def _prompt(name: str) -> str:
    return packaged_text(name)
