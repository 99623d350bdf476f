"""The objects of a household: furniture of each kind of room, things, where they fit, their uses.

Names are ALFWorld's; which thing fits where is our own, smaller choice. Nothing here is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Furniture(NamedTuple):
    """How many receptacles of a kind a room may have."""

    kind: str
    fewest: int
    most: int


ROOMS: Final[Mapping[str, tuple[Furniture, ...]]] = {
    "kitchen": (
        Furniture("Fridge", 1, 1),
        Furniture("Microwave", 1, 1),
        Furniture("SinkBasin", 1, 1),
        Furniture("CounterTop", 1, 2),
        Furniture("Cabinet", 2, 4),
        Furniture("Drawer", 1, 3),
        Furniture("DiningTable", 1, 1),
        Furniture("GarbageCan", 1, 1),
        Furniture("CoffeeMachine", 0, 1),
    ),
    "bathroom": (
        Furniture("SinkBasin", 1, 2),
        Furniture("CounterTop", 1, 1),
        Furniture("Cabinet", 2, 4),
        Furniture("Toilet", 1, 1),
        Furniture("Shelf", 1, 2),
        Furniture("GarbageCan", 1, 1),
    ),
    "bedroom": (
        Furniture("Bed", 1, 1),
        Furniture("Desk", 1, 1),
        Furniture("SideTable", 1, 2),
        Furniture("Drawer", 2, 4),
        Furniture("Shelf", 1, 3),
        Furniture("Safe", 0, 1),
        Furniture("GarbageCan", 1, 1),
    ),
}

OPENABLE: Final = frozenset(("Fridge", "Microwave", "Cabinet", "Drawer", "Safe"))

_FOOD: Final = ("Fridge", "Microwave", "SinkBasin", "CounterTop", "DiningTable", "GarbageCan")
_DISHES: Final = ("Cabinet", "CounterTop", "DiningTable", "SinkBasin")
_CUTLERY: Final = ("Drawer", "CounterTop", "DiningTable", "SinkBasin")
_SMALL: Final = ("Drawer", "Shelf", "SideTable", "Desk", "Bed", "Safe")

FITS: Final[Mapping[str, tuple[str, ...]]] = {
    "Tomato": _FOOD,
    "Apple": _FOOD,
    "Potato": _FOOD,
    "Egg": _FOOD,
    "Bread": ("Fridge", "Microwave", "CounterTop", "DiningTable", "GarbageCan"),
    "Lettuce": ("Fridge", "SinkBasin", "CounterTop", "DiningTable", "GarbageCan"),
    "Mug": (*_DISHES, "Fridge", "Microwave", "CoffeeMachine"),
    "Plate": (*_DISHES, "Fridge", "Microwave"),
    "Bowl": (*_DISHES, "Fridge", "Microwave"),
    "Fork": _CUTLERY,
    "Spoon": _CUTLERY,
    "SaltShaker": ("Cabinet", "Drawer", "CounterTop", "DiningTable"),
    "SoapBar": ("SinkBasin", "CounterTop", "Cabinet", "Toilet", "GarbageCan", "Shelf"),
    "Cloth": ("SinkBasin", "CounterTop", "Cabinet", "Shelf", "Toilet"),
    "ToiletPaper": ("CounterTop", "Cabinet", "Toilet", "Shelf", "GarbageCan"),
    "SprayBottle": ("CounterTop", "Cabinet", "Toilet", "Shelf", "GarbageCan"),
    "Candle": ("CounterTop", "Cabinet", "Toilet", "Shelf"),
    "Book": ("Bed", "Desk", "Drawer", "Shelf", "SideTable"),
    "CD": (*_SMALL, "GarbageCan"),
    "CellPhone": _SMALL,
    "Pen": (*_SMALL, "GarbageCan"),
    "Pencil": (*_SMALL, "GarbageCan"),
    "KeyChain": _SMALL,
    "AlarmClock": ("Desk", "Shelf", "SideTable", "Drawer"),
}
"""What may be put where; things also begin there, but for odd places."""

NEVER_AT_FIRST: Final = frozenset(("Microwave", "GarbageCan", "CoffeeMachine", "Toilet"))
"""Nothing is left there before the game begins."""

THINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "kitchen": (
        *("Tomato", "Apple", "Potato", "Egg", "Bread", "Lettuce"),
        *("Mug", "Plate", "Bowl", "Fork", "Spoon", "SaltShaker"),
    ),
    "bathroom": ("SoapBar", "Cloth", "ToiletPaper", "SprayBottle", "Candle"),
    "bedroom": ("Book", "CD", "CellPhone", "Pen", "Pencil", "KeyChain", "AlarmClock"),
}
"""What lies about in a room."""

HEATABLE: Final = frozenset(("Tomato", "Apple", "Potato", "Egg", "Bread", "Mug", "Plate"))
COOLABLE: Final = frozenset(("Tomato", "Apple", "Potato", "Egg", "Bread", "Lettuce", "Mug", "Plate", "Bowl"))
CLEANABLE: Final = frozenset(
    (
        *("Tomato", "Apple", "Potato", "Egg", "Lettuce", "Mug", "Plate", "Bowl"),
        *("Fork", "Spoon", "SoapBar", "Cloth"),
    )
)

LAMP: Final = "DeskLamp"
LAMP_STANDS_ON: Final = ("Desk", "SideTable")

BEGINS: Final[Mapping[str, frozenset[str]]] = {
    thing: frozenset(places) - NEVER_AT_FIRST for thing, places in (*FITS.items(), (LAMP, LAMP_STANDS_ON))
}
"""Where a thing may lie before the game begins, the lamp included."""
