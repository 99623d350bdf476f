"""Lantern: a small text adventure of our own, observed and rewarded like ArCHer's, with no files or packages.

Twelve rooms, 100 points in 14 steps, four ways to die. The variant stands in the task's row; the seed changes
nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from random import Random
from typing import Final

from sweet_rl.contracts import Env, User
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.types import Failure, Json, StopReason, Task
from sweet_rl.worlds.adventures import Adventure, AdventureEnv, Scene
from sweet_rl.worlds.base import Rows
from sweet_rl.worlds.options import AgentRequest, Options, Scores

VARIANTS: Final = {"": range(100), "train": range(80), "test": range(80, 100)}
TIDE_RISES, TIDE_KILLS = 4, 6  # Turns that end in the cave until one is warned, and until one drowns

CARRIED, NOWHERE = "you", "nowhere"  # Places of things in the player's hands, and of things not in the game


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a room. Without the flag `needs` it is `barred`: deadly, or just closed."""

    to: str
    needs: str = ""
    barred: str = ""
    deadly: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    name: str
    lore: str
    exits: Mapping[str, Exit]


@dataclass(frozen=True, slots=True)
class Deed:
    """A command that does something once. Flags name what has happened; `brings` a thing, `uses` one up."""

    command: str
    sets: str
    tells: str
    room: str = ""
    not_room: str = ""
    carrying: Sequence[str] = ()
    after: Sequence[str] = ()
    points: int = 0
    brings: str = ""
    uses: str = ""
    deadly: bool = False
    wins: bool = False


_MAP: Final = tomllib.loads(files(__package__).joinpath("lantern.toml").read_text(encoding="utf-8"))
ROOMS: Final = {
    name: Room(room["name"], room["lore"], {way: Exit(**leads) for way, leads in room["exits"].items()})
    for name, room in _MAP["rooms"].items()
}
THINGS: Final[dict[str, str]] = {thing: about["at"] for thing, about in _MAP["things"].items()}
"""Where each thing is in variant 0."""

FOUND: Final[dict[str, int]] = {thing: about.get("points", 0) for thing, about in _MAP["things"].items()}
"""Points for taking a thing for the first time."""

DEEDS: Final = tuple(Deed(**deed) for deed in _MAP["deeds"])

MOVABLE = ("matches", "lamp", "rope", "wick", "crank", "chart")  # Other variants put them into `OPEN_ROOMS`
OPEN_ROOMS = ("jetty", "path", "garden", "yard", "kitchen", "workshop")  # Entered from the start
REACHED: dict[str, int] = {"gallery": 5}  # Points for entering a room for the first time

_SWAP = {"east": "west", "west": "east"}
_MIRRORED = {
    name: replace(room, exits={_SWAP.get(way, way): leads for way, leads in room.exits.items()})
    for name, room in ROOMS.items()
}
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


def island(variant: int) -> tuple[dict[str, str], Mapping[str, Room]]:
    """Variant 0 is the map; others lay things out by that seed, odd ones swap east and west."""
    draw = Random(variant)
    moved = {thing: draw.choice(OPEN_ROOMS) for thing in MOVABLE} if variant else {}
    return THINGS | moved, _MIRRORED if variant % 2 else ROOMS


class LanternGame:
    def __init__(self, variant: int = 0) -> None:
        self._places, self._rooms = island(variant)
        self._room = "jetty"
        self._flags: set[str] = set()
        self._rewarded: set[str] = set()
        self._cave_turns = self.score = 0
        self.over = self.won = False
        self._told = "The light is out. Before the ship reaches the rocks, it must burn again."

    def do(self, command: str) -> None:
        """One command. After the end nothing happens any more."""
        if self.over:
            return
        self._told = self._act(_understand(command))
        if self._room == "cave" and not self.over:
            self._cave_turns += 1
            if self._cave_turns >= TIDE_KILLS:
                self._told = self._die(f"{self._told} The next wave fills the cave to its roof.")
            elif self._cave_turns >= TIDE_RISES:
                self._told += " The water is at your chest."

    def scene(self) -> Scene:
        """The four parts of an observation: look, inventory, narrative, actions."""
        here, lying, carried = self._rooms[self._room], self._lying(), self._at(CARRIED)
        if self._dark():
            look = (
                f"{here.name}\nIt is pitch dark, and it smells of lamp oil. Stairs lead up; a draught comes "
                "from the north."
            )
        else:
            ways = ", ".join(
                f"{way} to the {self._rooms[leads.to].name}" for way, leads in here.exits.items()
            )
            things = f"\nOn the ground: {', '.join(lying)}." if lying else ""
            look = f"{here.name}\n{here.lore}\nWays: {ways}.{things}"
        inventory = f"You carry: {', '.join(carried)}." if carried else "You carry nothing."
        told = (f"{look}\n", f"{inventory}\n", f"{self._told}\n", self.actions())
        return Scene(*told, score=self.score, over=self.over, won=self.won)

    def actions(self) -> tuple[str, ...]:
        """The commands that change something here; deadly ones included."""
        if self.over:
            return ()
        exits = self._rooms[self._room].exits
        return (
            *(way for way, leads in exits.items() if leads.deadly or self._is_open(leads)),
            *(deed.command for deed in DEEDS if self._can(deed)),
            *(f"take {thing}" for thing in self._lying()),
            *(f"drop {thing}" for thing in self._at(CARRIED)),
        )

    def _act(self, words: str) -> str:
        verb, _, thing = words.partition(" ")
        if leads := self._rooms[self._room].exits.get(words):
            if not self._is_open(leads):
                return self._die(leads.barred) if leads.deadly else leads.barred
            self._room = leads.to
            self._reward(f"at {leads.to}", REACHED.get(leads.to, 0))
            return f"You go on: {self._rooms[leads.to].name}."
        for deed in DEEDS:
            if words == deed.command and self._can(deed):
                self._flags.add(deed.sets)
                self._reward(deed.sets, deed.points)
                if deed.brings:
                    self._places[deed.brings] = self._room
                if deed.uses:
                    self._places[deed.uses] = NOWHERE
                if deed.deadly:
                    return self._die(deed.tells)
                self.over = self.won = deed.wins
                return f"{deed.tells}\n*** You have saved the ship ***" if deed.wins else deed.tells
        if verb in ("take", "drop", "examine") and thing:
            return self._handle(verb, thing)
        if words in _WAYS:
            return "There is no way through there."
        if any(words == deed.command for deed in DEEDS):
            return "That can't be done here and now."
        return _IDLE.get(words, "You don't know how to do that.")

    def _handle(self, verb: str, thing: str) -> str:
        held, lying = self._places.get(thing) == CARRIED, thing in self._lying()
        if verb == "examine" and (held or lying):
            note: str = _MAP["things"][thing]["note"]
            return note
        if verb == "take" and lying:
            self._places[thing] = CARRIED
            self._reward(f"found {thing}", FOUND[thing])
            return f"You take the {thing}."
        if verb == "drop" and held:
            self._places[thing] = self._room
            return f"You put down the {thing}."
        return "You have it already." if verb == "take" and held else "You see nothing like that."

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

    def _dark(self) -> bool:
        return self._room == "cellar" and not self._lit()

    def _can(self, deed: Deed) -> bool:
        return (
            (not deed.room or deed.room == self._room)
            and deed.not_room != self._room
            and deed.sets not in self._flags
            and not (deed.deadly and "lit" in self._flags)
            and all(self._places[thing] == CARRIED for thing in deed.carrying)
            and all(flag in self._flags for flag in deed.after)
        )

    def _at(self, where: str) -> list[str]:
        return [thing for thing, place in self._places.items() if place == where]

    def _lying(self) -> list[str]:
        return [] if self._dark() else self._at(self._room)


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


def solve(variant: int = 0) -> tuple[str, ...]:
    """Commands that win a variant with all 100 points, at most 45 in the first 100 variants; not the shortest ones."""
    places, rooms = island(variant)
    here, commands = "jetty", list[str]()
    wanted = sorted(set(MOVABLE) - {"chart"})

    def gather() -> None:
        for thing in [one for one in wanted if places[one] == here]:
            commands.append(f"take {thing}")
            wanted.remove(thing)

    def walk(goal: str) -> None:
        nonlocal here
        for way in _way(rooms, here, goal):
            commands.append(way)
            here = rooms[here].exits[way].to
            gather()

    gather()
    while wanted:
        walk(places[min(wanted, key=lambda thing: len(_way(rooms, here, places[thing])))])
    for room, command in _MAP["errands"]:
        walk(room)
        commands.append(command)
    return tuple(commands)


def _way(rooms: Mapping[str, Room], start: str, goal: str) -> tuple[str, ...]:
    """The shortest way, whatever bars it; errands are in an order in which nothing does."""
    ways: dict[str, tuple[str, ...]] = {start: ()}
    edge = deque([start])
    while goal not in ways:
        room = edge.popleft()
        for way, leads in rooms[room].exits.items():
            if leads.to not in ways:
                ways[leads.to] = (*ways[room], way)
                edge.append(leads.to)
    return ways[goal]


class LanternEnv(AdventureEnv):
    max_score = 100

    async def _begin(self, task: Task) -> Scene:
        variant = task.extra.get("variant", 0)
        if not isinstance(variant, int) or isinstance(variant, bool):
            detail = f"task {task.task_id!r}: 'variant' must be a whole number, got {variant!r}"
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad_task", detail))
        self._game = LanternGame(variant)
        return self._game.scene()

    async def _play(self, command: str) -> Scene:
        game = self._game
        game.do(command)
        return game.scene()


class Lantern(Adventure):
    name = "lantern"
    scores = Scores(lowest=0.0, highest=100.0)  # the score does not fall
    player_rules = "Type what you want to do; what you can do stands in the list. You have {turns} commands."

    def rows(self, source: str, where: str, *, limit: int | None, seed: int) -> Rows:
        return lantern_tasks(where)

    def make_env(self, options: Options, user: User | None) -> Env:
        return LanternEnv(max_turns=self.turns(options), compat=options.compat)

    async def routes(self, wanted: AgentRequest) -> Mapping[str, Sequence[str]]:
        return {task.task_id: solve(int(task.row.get("variant", 0))) for task in wanted.tasks}

    def settings(self, options: Options) -> dict[str, Json]:
        return super().settings(options) | {"place": None}


def lantern_tasks(split: str = "") -> Rows:
    if split not in VARIANTS:
        raise UsageError(
            f"'lantern:{split}' is no split of lantern. Use 'lantern' for all of it, 'lantern:train' or 'lantern:test'."
        )
    asked = "You are on an island in a text adventure. Light the great lantern again."
    same = {"problem_description": asked, "ground_truth": "100 points"}
    return [{"task_id": f"lantern/{variant}", **same, "variant": variant} for variant in VARIANTS[split]]


WORLD = Lantern()
