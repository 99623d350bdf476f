"""Lantern: a small text game of our own, observed and rewarded like ArCHer's, with no files or packages.

For tests and quick trials: tens of thousands of steps a second, twelve rooms, 100 points, several variants.
The variant stands in the task's row (`"variant"`); the episode's seed changes nothing.
"""

from __future__ import annotations

import re

from sweet_rl.errors import EpisodeError
from sweet_rl.types import Compat, Failure, StopReason, Task
from sweet_rl.worlds.adventures.env import AdventureEnv, AdventureStep
from sweet_rl.worlds.adventures.scenes import Scene
from sweet_rl.worlds.lantern.map import (
    CARRIED,
    DEEDS,
    FOUND,
    MAX_SCORE,
    NOTES,
    NOWHERE,
    REACHED,
    Deed,
    Exit,
    Room,
    island,
)

TIDE_RISES, TIDE_KILLS = 4, 6
"""Turns that end in the cave until one is warned, and until one drowns."""

BEGINNING = "The light is out. Before the ship reaches the rocks, it must burn again."

_WAYS = ("north", "south", "east", "west", "up", "down")
_SHORT = {way[0]: way for way in _WAYS} | {"l": "look", "i": "inventory", "inv": "inventory", "z": "wait"}
_IDLE = {
    "look": "You take stock.",
    "inventory": "You take stock.",
    "wait": "Time passes.",
    "": "You hesitate.",
}
_VERBS = {"get": "take", "grab": "take", "x": "examine", "read": "examine", "place": "fit", "put": "fit"}
_FILLERS = frozenset(("a", "an", "the", "up", "please", "to"))


class LanternGame:
    """One game of Lantern."""

    def __init__(self, variant: int = 0) -> None:
        land = island(variant)
        self._rooms = land.rooms
        self._places = dict(land.places)
        self._room = "jetty"
        self._flags: set[str] = set()
        self._rewarded: set[str] = set()
        self._cave_turns = 0
        self.score = 0
        self.over = False
        self.won = False
        self._told = BEGINNING

    def do(self, command: str) -> None:
        """One command. After the end nothing happens any more."""
        if self.over:
            return
        words = _understand(command)
        self._told = self._act(words)
        if self._room == "cave" and not self.over:
            self._rise()

    def scene(self) -> Scene:
        """The four parts of an observation: look, inventory, narrative, actions."""
        carried = self._carried()
        inventory = f"You carry: {', '.join(carried)}." if carried else "You carry nothing."
        return Scene(f"{self._look()}\n", f"{inventory}\n", f"{self._told}\n", self.actions())

    def actions(self) -> tuple[str, ...]:
        """The commands that change something here; deadly ones included."""
        if self.over:
            return ()
        ways = [way for way, leads in self._here.exits.items() if leads.deadly or self._is_open(leads)]
        deeds = [deed.command for deed in DEEDS if self._can(deed)]
        takes = [f"take {thing}" for thing in self._lying()]
        drops = [f"drop {thing}" for thing in self._carried()]
        return (*ways, *deeds, *takes, *drops)

    @property
    def _here(self) -> Room:
        return self._rooms[self._room]

    def _act(self, words: str) -> str:
        verb, _, thing = words.partition(" ")
        if words in self._here.exits:
            return self._go(self._here.exits[words])
        for deed in DEEDS:
            if words == deed.command and self._can(deed):
                return self._perform(deed)
        if verb in ("take", "drop", "examine") and thing:
            return self._handle(verb, thing)
        if words in _WAYS:
            return "There is no way through there."
        if any(words == deed.command for deed in DEEDS):
            return "That can't be done here and now."
        return _IDLE.get(words, "You don't know how to do that.")

    def _go(self, leads: Exit) -> str:
        if not self._is_open(leads):
            return self._die(leads.barred) if leads.deadly else leads.barred
        self._room = leads.to
        self._reward(f"at {leads.to}", REACHED.get(leads.to, 0))
        return f"You go on: {self._here.name}."

    def _perform(self, deed: Deed) -> str:
        self._flags.add(deed.sets)
        self._reward(deed.sets, deed.points)
        if deed.brings:
            self._places[deed.brings] = self._room
        if deed.uses:
            self._places[deed.uses] = NOWHERE
        if deed.deadly:
            return self._die(deed.tells)
        if deed.wins:
            self.over = self.won = True
            return f"{deed.tells}\n*** You have saved the ship ***"
        return deed.tells

    def _handle(self, verb: str, thing: str) -> str:
        held, lying = self._places.get(thing) == CARRIED, thing in self._lying()
        if verb == "examine" and (held or lying):
            return NOTES[thing]
        if verb == "take" and lying:
            self._places[thing] = CARRIED
            self._reward(f"found {thing}", FOUND.get(thing, 0))
            return f"You take the {thing}."
        if verb == "drop" and held:
            self._places[thing] = self._room
            return f"You put down the {thing}."
        return "You have it already." if verb == "take" and held else "You see nothing like that."

    def _rise(self) -> None:
        self._cave_turns += 1
        if self._cave_turns >= TIDE_KILLS:
            self._told = self._die(f"{self._told} The next wave fills the cave to its roof.")
        elif self._cave_turns >= TIDE_RISES:
            self._told += " The water is at your chest."

    def _die(self, text: str) -> str:
        self.over = True
        return f"{text}\n*** You have died ***"

    def _reward(self, what: str, points: int) -> None:
        if what not in self._rewarded:
            self._rewarded.add(what)
            self.score += points

    def _is_open(self, leads: Exit) -> bool:
        return not leads.needs or (self._lit() if leads.needs == "light" else leads.needs in self._flags)

    def _lit(self) -> bool:
        return "lit" in self._flags and self._places["lamp"] in (CARRIED, self._room)

    def _can(self, deed: Deed) -> bool:
        return (
            (not deed.room or deed.room == self._room)
            and deed.not_room != self._room
            and deed.sets not in self._flags
            and not (deed.deadly and "lit" in self._flags)
            and all(self._places[thing] == CARRIED for thing in deed.carrying)
            and all(flag in self._flags for flag in deed.after)
        )

    def _dark(self) -> bool:
        return self._room == "cellar" and not self._lit()

    def _carried(self) -> list[str]:
        return [thing for thing, place in self._places.items() if place == CARRIED]

    def _lying(self) -> list[str]:
        if self._dark():
            return []
        return [thing for thing, place in self._places.items() if place == self._room]

    def _look(self) -> str:
        here = self._here
        if self._dark():
            return (
                f"{here.name}\nIt is pitch dark, and it smells of lamp oil. Stairs lead up; a draught comes "
                "from the north."
            )
        ways = ", ".join(f"{way} to the {self._rooms[leads.to].name}" for way, leads in here.exits.items())
        lying = self._lying()
        things = f"\nOn the ground: {', '.join(lying)}." if lying else ""
        return f"{here.name}\n{here.lore}\nWays: {ways}.{things}"


def _understand(command: str) -> str:
    """A command in the game's own words: lower case, short forms written out, articles left out."""
    words: list[str] = re.findall(r"[a-z]+", command.lower())
    if words and words[0] in ("go", "walk", "climb"):
        words = words[1:]
    if len(words) == 1:
        return _SHORT.get(words[0], words[0])
    if words[:2] == ["pick", "up"]:
        words = ["take", *words[2:]]
    if words:
        words[0] = _VERBS.get(words[0], words[0])
    return " ".join(word for index, word in enumerate(words) if index == 0 or word not in _FILLERS)


MAX_TURNS = 50
"""As in ArCHer's; `lantern_solver.solve` needs at most 45 in the first 100 variants."""


class LanternEnv(AdventureEnv):
    """One episode of Lantern."""

    def __init__(self, *, max_turns: int = MAX_TURNS, compat: Compat = "fixed") -> None:
        super().__init__(_Lantern(), max_turns=max_turns, compat=compat)


class _Lantern:
    max_score = MAX_SCORE

    async def begin(self, task: Task, _seed: int) -> AdventureStep:
        variant = task.extra.get("variant", 0)
        if not isinstance(variant, int) or isinstance(variant, bool):
            detail = f"task {task.task_id!r}: 'variant' must be a whole number, got {variant!r}"
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad_task", detail))
        self._game = LanternGame(variant)
        return self._now()

    async def play(self, command: str) -> AdventureStep:
        self._game.do(command)
        return self._now()

    def _now(self) -> AdventureStep:
        game = self._game
        return AdventureStep(game.scene(), game.score, over=game.over, won=game.won)
