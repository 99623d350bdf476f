"""The objects as tasks: rows that `sweet_rl.records.task_from_row` reads.

The words: 157 objects in 17 categories, a list of ten, and one of sixteen. The first two and their order are the
published ones, spellings included; the sixteen are our choice.

Published behaviour: docs/published/archer.md#twenty-questions, #ten-words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sweet_rl.prompts import fill, load_prompt
from sweet_rl.types import Json
from sweet_rl.worlds.question_games.tasks import FIRST_OBSERVATION, split_of

OBJECTS_BY_CATEGORY: Final[dict[str, tuple[str, ...]]] = {
    "Sports": (
        "Basketball",
        "Football",
        "Baseball",
        "Soccer ball",
        "Golf ball",
        "Tennis ball",
        "Volleyball",
        "Tennis racket",
        "Baseball bat",
        "Helmet",
    ),
    "Animals": (
        "Cat",
        "Dog",
        "Horse",
        "Cow",
        "Sheep",
        "Rabbit",
        "Lion",
        "Tiger",
        "Bear",
        "Elephant",
    ),
    "Fruits": (
        "Apple",
        "Banana",
        "Orange",
        "Strawberry",
        "Grape",
        "Watermelon",
        "Pineapple",
        "Mango",
        "Cantaloupe",
        "Peach",
    ),
    "Vehicles": (
        "Car",
        "Truck",
        "Motorcycle",
        "Boat",
        "Airplane;Plane",
        "Train",
        "Bus",
        "Helicopter",
        "Scooter",
        "Ship",
    ),
    "Clothes": (
        "Shirt",
        "Pants;Pant;Pair of pants",
        "Jacket",
        "Dress",
        "Skirt",
        "Belt",
        "Shoes;Shoe;Pair of shoes",
        "Boots;Boot;Pair of boots",
        "Socks;Sock;Pair of socks",
        "Hat",
        "Scarf",
    ),
    "Electronics": (
        "Computer",
        "Smartphone",
        "Television;TV",
        "Headphone;Headphones;Pair of headphones",
        "Monitor;Computer monitor",
        "Camera",
        "Microwave;Microwave oven",
        "Refrigerator",
        "Blender",
        "Computer keyboard;Keyboard",
    ),
    "Musical Instruments": (
        "Piano",
        "Guitar",
        "Drum;Drums",
        "Violin",
        "Saxophone",
        "Flute",
        "Trumpet",
        "Clarinet",
        "Harp",
        "Trombone",
    ),
    "Furniture": (
        "Chair",
        "Table",
        "Bed",
        "Desk",
        "Couch",
        "Dresser",
        "Bookcase",
        "Nightstand",
        "Mattress",
        "Pillow",
    ),
    "Office Supplies": (
        "Pen",
        "Paper;Piece of paper",
        "Stapler",
        "Printer",
        "Calculator",
        "Battery;Battery pack;Pack of batteries",
        "Toothbrush",
        "Toothpaste",
        "Pencil",
        "Sharpie",
        "Scissors;Pair of scissors",
        "Key",
        "Diary",
        "Calendar",
    ),
    "Vegetables": (
        "Carrot",
        "Potato",
        "Broccoli",
        "Tomato",
        "Onion",
        "Spinach",
        "Corn",
        "Peas;Pea",
        "Celery",
        "Cucumber",
    ),
    "Art": (
        "Painting;Canvas painting;Oil painting;Watercolor painting",
        "Paintbrush",
        "Canvas;Painting canvas",
        "Eraser;Pencil eraser",
        "Marker",
        "Glue;Glue stick;Bottle of glue",
        "Sculpture",
    ),
    "Kitchen Tools": (
        "Knife",
        "Spoon",
        "Fork",
        "Plate",
        "Bowl",
        "Cooking pot;Pot",
        "Pan;Saucepan;Frying pan",
        "Cup",
        "Chopstick;Chopsticks;Pair of chopsticks",
        "Whisk",
    ),
    "Nature": (
        "Rock",
        "Tree",
        "Bush",
        "Mountain",
        "Forest",
        "Ocean",
        "Sea",
        "Lake",
        "River",
        "Meteorite",
        "Cactus",
    ),
    "Toys": (
        "Lego;Lego set",
        "Doll;Toy doll;Plush doll",
        "Kite",
        "Puzzle;Jigsaw puzzle",
    ),
    "Jewelry": (
        "Earring;Earrings;Pair of earrings",
        "Necklace",
        "Bracelet",
        "Ring",
        "Brooch",
        "Hairclip",
        "Pendant",
        "Watch",
        "Locket",
    ),
    "Garden Supplies": (
        "Gloves;Glove;Pair of gloves",
        "Shovel",
        "Rake",
        "Watering can",
        "Lawn mower",
    ),
    "Tools": (
        "Hammer",
        "Screwdriver",
        "Wrench",
        "Saw",
        "Pliers;plier;Pair of pliers",
        "Drill",
    ),
}
"""Category to objects; a semicolon separates an object's names, the first of which its oracle is given."""

TEN_OBJECTS: Final = (1, 11, 21, 31, 41, 51, 61, 71, 81, 91)
"""Places of the ten-word variant's objects in the whole list, counted from 0."""

SIXTEEN_OBJECTS: Final = (
    0, 1, 7, 15, 21, 31, 36, 58, 61, 70, 73, 89, 91, 113, 123, 147,
)  # fmt: skip
"""Likewise those of our game of sixteen: `questions.FOUR` has another row of answers for each of them."""


def twenty_questions_tasks(split: str = "") -> list[dict[str, Json]]:
    """The objects of Twenty Questions."""
    rows = [
        _object_row(number, category, names)
        for number, (category, names) in enumerate(
            (category, names) for category, entries in OBJECTS_BY_CATEGORY.items() for names in entries
        )
    ]
    places = {"ten": TEN_OBJECTS, "sixteen": SIXTEEN_OBJECTS}.get(split)
    if places is not None:
        return [rows[index] for index in places]
    return split_of(rows, split, "twenty-questions", ("ten", "sixteen", "train", "test"))


def ten_words() -> list[str]:
    """The ten objects of the smaller game, as its instruction names them: lower case, first names."""
    return [row["aliases"][0] for row in twenty_questions_tasks("ten")]


def sixteen_words() -> list[str]:
    """The objects of our own small game, lower case, first names: as many as four answers tell apart."""
    return [row["aliases"][0] for row in twenty_questions_tasks("sixteen")]


def ask_for_object_template(words: Sequence[str] | None = None) -> str:
    """The instruction for chat models, with `{obs}` where the game goes.

    Our own wording of the published prompt: the objects, a game as an example, the JSON that
    `asking.decode_question` reads. No chat markers and no begin token are in it.
    """
    named = ", ".join(ten_words() if words is None else words)
    return fill(load_prompt("ask_for_object_prompt"), words=named)


def _object_row(number: int, category: str, names: str) -> dict[str, Json]:
    aliases = names.lower().split(";")
    return {
        "task_id": f"twenty_questions/{number}",
        "problem_description": FIRST_OBSERVATION,
        "ground_truth": aliases[0],
        "hidden_information": aliases[0],
        "aliases": aliases,
        "category": category,
    }
