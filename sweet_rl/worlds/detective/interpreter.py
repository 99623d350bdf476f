"""Detective in interpreters of its own: a command and a saved position in, a reply and the next position
out.

jericho (GPL, an optional package) is a C library that blocks and could crash: it runs in worker processes
that games share. It finds nouns with spaCy's tagger; here they come from the game's object tree and
dictionary. Templates are filled with them and tried; of the commands that change the game in the same way
the shortest with the most usual verb is listed.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

from sweet_rl.errors import missing_package
from sweet_rl.processes import Methods, WorkerPool, work
from sweet_rl.worlds.adventures import Scene

TIMEOUT_S = 60.0  # for one command, which takes milliseconds: a worker that needs longer hangs


@dataclass(frozen=True, slots=True)
class Position(Scene):
    """A moment of a game, and the opaque `state` that leads back to it."""

    state: bytes = field(default=b"", repr=False)


class Interpreters(WorkerPool):
    """A pool of worker processes for one game file; `workers` is one for each core, four at most, if None."""

    def __init__(self, story: Path, *, workers: int | None = None, timeout_s: float = TIMEOUT_S) -> None:
        arguments = [str(story.resolve())]
        super().__init__(__name__, arguments, workers=workers, timeout_s=timeout_s, called="interpreter")

    async def begin(self) -> Position:
        """The game's first moment, which is always the same."""
        position: Position = await self.ask("begin")
        return position

    async def play(self, state: bytes, command: str) -> Position:
        """What `command` leads to from a saved moment."""
        position: Position = await self.ask("play", state, command, label=command)
        return position

    async def walkthrough(self) -> tuple[str, ...]:
        """The commands that reach the highest score, as jericho ships them."""
        commands: tuple[str, ...] = await self.ask("walkthrough")
        return commands


def start(story: str) -> Methods:
    """What may be asked of the interpreter of a game file."""
    interpreter = Interpreter(Path(story))
    return {
        "begin": interpreter.begin,
        "play": interpreter.play,
        "walkthrough": lambda: tuple(interpreter.frotz.get_walkthrough()),
    }


TEMPLATES = (
    *("north", "south", "west", "east", "northwest", "southwest", "northeast", "southeast", "up", "down"),
    *("take OBJ", "drop OBJ", "eat OBJ", "take all", "wait", "shoot OBJ with OBJ"),
)
"""Of the game's 149 templates that are moves, those that do something that no shorter one does.

Checked at 1,237 places of the walkthrough and of random play from it (templates with two things at a tenth of
them): nothing else does anything that these don't, but for dropping everything at once.
"""

CACHED = 4096  # positions whose actions are remembered

_GRAMMAR_WORDS = frozenset(
    word
    for line in (
        "a an the all and another both but each every everythin except other some then of to on in",
        "it its him his her them their that these this those my me myself self again g oops comma",
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
        "sixteen seventeen eighteen nineteen twenty lit lighted unlit",
        "n s e w ne nw se sw u d o up down north south east west",
        "northeast northwest southeast southwest",
    )
    for word in line.split()
)
"""Words that an Inform dictionary marks as nouns and that name no thing."""

_NO_EFFECT = re.compile(r"\(Taken\)|\(first taking|You can't go")
"""A thing picked up on the way to something pointless, and a wall: only marks of the narrative change."""

_UNKNOWN = re.compile(r"not a verb I recognise|can't see any such thing|didn't understand", re.IGNORECASE)


class Interpreter:
    """The game file in jericho. It remembers the valid actions of positions."""

    def __init__(self, story: Path) -> None:
        try:
            from jericho import FrotzEnv
        except ImportError:
            raise missing_package("jericho", "detective", needed_for="The Detective game") from None
        self.frotz: Any = FrotzEnv(str(story))
        words = self.frotz.get_dictionary()
        self._word_length = max(len(word.word) for word in words)
        self._nouns = {word.word for word in words if word.is_noun} - _GRAMMAR_WORDS
        self._valid: dict[bytes, tuple[str, ...]] = {}

    def begin(self) -> Position:
        narrative, _ = self.frotz.reset()
        return self._position(narrative)

    def play(self, state: bytes, command: str) -> Position:
        """Type `command`, as `adventures.typed` returned it, at a saved moment."""
        if self.frotz._emulator_halted():  # jericho offers no other way to ask
            self.frotz.reset()
        self.frotz.set_state(pickle.loads(state))  # noqa: S301 - our own, made below
        narrative, *_ = self.frotz.step(command)
        return self._position(narrative)

    def _position(self, narrative: str) -> Position:
        frotz = self.frotz
        state = frotz.get_state()
        score, won = int(frotz.get_score()), bool(frotz.victory())
        over = bool(frotz.game_over()) or won
        look = str(frotz.step("look")[0])
        frotz.set_state(state)
        inventory = str(frotz.step("inventory")[0])
        frotz.set_state(state)
        actions = () if over else self.valid_actions(state, f"{look}\n{inventory}")
        kept = pickle.dumps(state, protocol=5)
        return Position(look, inventory, str(narrative), actions, score, over, won, kept)

    def valid_actions(self, state: Any, text: str) -> tuple[str, ...]:
        """The valid actions in `state`, directions first; never none. The game is left in that state."""
        objects = self.frotz.get_world_objects(clean=True)
        player = objects[self.frotz.player_obj_num]
        near = [bytes(objects[thing.num]) for thing in self._in_reach()]
        here = b"".join((bytes(player), bytes(objects[player.parent]), *near, text.encode()))
        if here not in self._valid:
            if len(self._valid) >= CACHED:
                self._valid.clear()
            found = self._try_all(state, self._things(state, text))
            self._valid[here] = tuple(found) or ("wait",)  # time passes, at least
            self.frotz.set_state(state)
        return self._valid[here]

    def _things(self, state: Any, text: str) -> list[str]:
        """One noun for each thing in reach."""
        words = [name for thing in self._in_reach() for name in reversed(thing.name.lower().split())]
        words += re.findall(r"[a-z]+", text.lower())
        nouns = dict.fromkeys(word for word in words if word[: self._word_length] in self._nouns)
        by_description: dict[str, str] = {}
        for noun in nouns:
            self.frotz.set_state(state)
            seen = self.frotz.step(f"examine {noun}")[0]
            if not _UNKNOWN.search(seen):
                by_description.setdefault(seen, noun)
        return list(by_description.values())

    def _in_reach(self) -> Iterator[Any]:
        """The objects of the room and of the player's hands, the player excepted."""
        objects = self.frotz.get_world_objects()
        player = self.frotz.player_obj_num
        roots = [objects[player].child, objects[objects[player].parent].child]
        seen: set[int] = set()
        while roots:
            number = roots.pop()
            while 0 < number < len(objects) and number not in seen:
                seen.add(number)
                if number != player:
                    yield objects[number]
                    roots.append(objects[number].child)
                number = objects[number].sibling

    def _try_all(self, state: Any, nouns: list[str]) -> list[str]:
        """The best command of each way to change the world: a short one, and one that people type."""
        from jericho.util import verb_usage_count

        def how_usual(command: str) -> tuple[int, int]:
            return -len(command.split()), verb_usage_count(command)

        frotz = self.frotz
        frotz.set_state(state)
        # the object tree without what changes by itself
        here, score = bytes(frotz.get_world_objects(clean=True)), frotz.get_score()
        best: dict[tuple[bytes, int], str] = {}
        for template in TEMPLATES:
            for words in permutations(nouns, template.count("OBJ")):
                command = template.replace("OBJ", "{}").format(*words)
                frotz.set_state(state)
                reply, _, over, info = frotz.step(command)
                there = bytes(frotz.get_world_objects(clean=True))
                if (there == here and info["score"] == score and not over) or _NO_EFFECT.search(reply):
                    continue
                key = (there, info["score"])
                best[key] = max(best.get(key, command), command, key=how_usual)
        return sorted(best.values(), key=lambda command: len(command.split()) > 1)


if __name__ == "__main__":  # python -m sweet_rl.worlds.detective.interpreter FD FOLDER STORY
    work(import_module("sweet_rl.worlds.detective.interpreter").start)  # positions are pickled by this name
