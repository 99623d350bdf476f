"""Lantern's island: rooms, things, actions and their points. Data and words only; rules are elsewhere.

The story is our own: the great lantern of a lighthouse has gone out, a ship is coming, and the player has
to find what it takes to light it again. 100 points in 14 steps, four ways to die.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

MAX_SCORE = 100

CARRIED = "you"
"""The place of a thing in the player's hands."""

NOWHERE = "nowhere"
"""The place of a thing that is not in the game yet, or not any more."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of a room. Without the flag `needs` it is `barred`: deadly, or just closed."""

    to: str
    needs: str = ""
    barred: str = ""
    deadly: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """`lore` is its description by `look`; `name` its heading."""

    name: str
    lore: str
    exits: Mapping[str, Exit]


@dataclass(frozen=True, slots=True)
class Deed:
    """A command that does something once: where, with what in hand, after what, and with what result.

    Flags are names of what has happened. `brings` puts a thing into the room, `uses` takes one away.
    """

    command: str
    sets: str
    tells: str
    room: str = ""
    not_room: str = ""
    carrying: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    points: int = 0
    brings: str = ""
    uses: str = ""
    deadly: bool = False
    wins: bool = False


ROOMS: dict[str, Room] = {
    "jetty": Room(
        "Jetty",
        "Planks slick with spray. Far out, a ship's bell rings, closer than it should be.",
        {"north": Exit("path")},
    ),
    "path": Room(
        "Shingle Path",
        "Stones crunch underfoot. Above you the lighthouse stands black against the sky.",
        {"south": Exit("jetty"), "north": Exit("yard"), "west": Exit("garden"), "east": Exit("cliff")},
    ),
    "garden": Room(
        "Walled Garden",
        "Cabbages gone to seed around an old well. Its windlass has a square hole where a crank belongs.",
        {"east": Exit("path")},
    ),
    "cliff": Room(
        "Cliff Edge",
        "The ground ends. An iron post leans over the drop, and far below water moves in a cave.",
        {
            "west": Exit("path"),
            "down": Exit(
                "cave", "rope", "You climb, you slip, and the rocks are a long way down.", deadly=True
            ),
        },
    ),
    "cave": Room(
        "Tide Cave",
        "A wet vault, noisy with the sea. Every wave comes in a little farther than the last.",
        {"up": Exit("cliff")},
    ),
    "yard": Room(
        "Keeper's Yard",
        "Flagstones and a flapping line of washing. The tower's door is banded with iron.",
        {
            "south": Exit("path"),
            "west": Exit("kitchen"),
            "east": Exit("workshop"),
            "north": Exit("foot", "door", "The tower's door is locked."),
        },
    ),
    "kitchen": Room(
        "Kitchen",
        "A cold stove, a table laid for one. A cupboard with a brass lock hangs beside the cellar stairs.",
        {"east": Exit("yard"), "down": Exit("cellar")},
    ),
    "cellar": Room(
        "Cellar",
        "Low and damp, and it smells of lamp oil. A hatch gapes in the middle of the floor.",
        {
            "up": Exit("kitchen"),
            "north": Exit("store", "light", "In the dark you walk straight into an open hatch.", deadly=True),
        },
    ),
    "store": Room(
        "Oil Store",
        "Casks on trestles. Only one of them still sounds full, and its tap drips.",
        {"south": Exit("cellar")},
    ),
    "workshop": Room(
        "Workshop",
        "Shavings, a vice, and hooks with the outlines of tools that somebody borrowed.",
        {"west": Exit("yard")},
    ),
    "foot": Room(
        "Tower Foot",
        "A round room full of echoes. Iron steps wind upwards.",
        {"south": Exit("yard"), "up": Exit("gallery")},
    ),
    "gallery": Room(
        "Lamp Room",
        "Glass all around. In the middle stands the great lantern: no lens, no wick, an empty bowl.",
        {"down": Exit("foot")},
    ),
}

THINGS: dict[str, str] = {
    "matches": "workshop",
    "lamp": "jetty",
    "rope": "garden",
    "wick": "kitchen",
    "crank": "path",
    "chart": "yard",
    "brass key": NOWHERE,
    "flask": NOWHERE,
    "lens": "cave",
    "iron key": "cave",
}
"""Where each thing is in variant 0."""

MOVABLE = ("matches", "lamp", "rope", "wick", "crank", "chart")
"""Things that other variants put elsewhere, into `OPEN_ROOMS`."""

OPEN_ROOMS = ("jetty", "path", "garden", "yard", "kitchen", "workshop")
"""Rooms that can be entered from the start."""

FOUND: dict[str, int] = {"matches": 5, "flask": 5, "lens": 10}
"""Points for taking a thing for the first time."""

REACHED: dict[str, int] = {"gallery": 5}
"""Points for entering a room for the first time."""

NOTES: dict[str, str] = {
    "matches": "A dry box, half full. It says: never near open oil.",
    "lamp": "A small storm lamp with a glass that keeps its flame away from everything.",
    "rope": "Tarred and sound, long enough for a cliff.",
    "wick": "A thick ring of woven cotton, made for something bigger than a hand lamp.",
    "crank": "A bent iron handle with a square end.",
    "chart": "A sea chart. Somebody has circled the rocks and written: no light, no ship.",
    "brass key": "Small, green and wet.",
    "flask": "A tin flask with a screw top.",
    "lens": "A heavy disc of ridged glass, without a scratch.",
    "iron key": "As long as your hand.",
}

DEEDS: tuple[Deed, ...] = (
    Deed(
        "light lamp",
        "blast",
        "The match flares, and so does the air. The cellar's fumes were waiting for this.",
        room="cellar",
        carrying=("matches", "lamp"),
        deadly=True,
    ),
    Deed(
        "light lamp",
        "lit",
        "The storm lamp takes the flame and keeps it.",
        not_room="cellar",
        carrying=("matches", "lamp"),
        points=5,
    ),
    Deed(
        "turn windlass",
        "wound",
        "The crank fits. A bucket comes up, and in it lies a brass key.",
        room="garden",
        carrying=("crank",),
        points=10,
        brings="brass key",
    ),
    Deed(
        "unlock cupboard",
        "cupboard",
        "The brass lock gives way. Behind the door stands a flask.",
        room="kitchen",
        carrying=("brass key",),
        points=5,
        brings="flask",
    ),
    Deed(
        "fill flask",
        "oil",
        "Oil runs from the tap until the flask is heavy.",
        room="store",
        carrying=("flask",),
        points=10,
    ),
    Deed(
        "tie rope",
        "rope",
        "You knot the rope to the post. It reaches all the way down.",
        room="cliff",
        carrying=("rope",),
        points=10,
        uses="rope",
    ),
    Deed(
        "unlock door",
        "door",
        "The iron key turns with a groan. The tower is open.",
        room="yard",
        carrying=("iron key",),
        points=10,
    ),
    Deed(
        "fit lens",
        "lens",
        "The lens settles into its frame.",
        room="gallery",
        carrying=("lens",),
        points=5,
        uses="lens",
    ),
    Deed(
        "fit wick",
        "wick",
        "The wick closes around the burner.",
        room="gallery",
        carrying=("wick",),
        points=5,
        uses="wick",
    ),
    Deed(
        "pour oil",
        "bowl",
        "The bowl drinks the whole flask.",
        room="gallery",
        carrying=("flask",),
        after=("oil",),
        points=5,
        uses="flask",
    ),
    Deed(
        "light lantern",
        "beam",
        "The great lantern catches. A beam swings out over the water, and the ship's bell turns away.",
        room="gallery",
        carrying=("matches",),
        after=("lens", "wick", "bowl"),
        points=10,
        wins=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Island:
    """One variant of the game: where things lie, and whether east and west have changed sides."""

    places: Mapping[str, str]
    rooms: Mapping[str, Room]


def island(variant: int) -> Island:
    """Variant 0 is the map above; every other number lays things out by that seed."""
    places = dict(THINGS)
    if variant:
        draw = Random(variant)
        places |= {thing: draw.choice(OPEN_ROOMS) for thing in MOVABLE}
    return Island(places, _MIRRORED if variant % 2 else ROOMS)


def _mirrored(room: Room) -> Room:
    swap = {"east": "west", "west": "east"}
    return Room(room.name, room.lore, {swap.get(way, way): leads for way, leads in room.exits.items()})


_MIRRORED = {name: _mirrored(room) for name, room in ROOMS.items()}
