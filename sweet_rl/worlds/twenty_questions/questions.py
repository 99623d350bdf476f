"""What the scripted asker of Twenty Questions can ask, and how it names an object.

Each entry is one question in one to three wordings. Whom a question separates from whom the asker finds out
from the one who tells it answers; nothing here knows an object.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sweet_rl.worlds.twenty_questions.tasks import sixteen_words

BASIC: Final[tuple[tuple[str, ...], ...]] = (
    ("Is it alive?", "Is it a living thing?"),
    ("Is it an animal?",),
    ("Can you eat it?", "Is it edible?", "Is it food?"),
    ("Is it made of metal?", "Is it mostly metal?"),
    ("Is it made of wood?",),
    ("Does it use electricity?", "Is it electronic?"),
    ("Can you wear it?", "Is it clothing?"),
    ("Is it bigger than a person?", "Is it large?"),
    ("Does it fit in a pocket?", "Can you hold it in one hand?"),
    ("Is it a vehicle?", "Does it have wheels?"),
    ("Is it a musical instrument?", "Does it make music?"),
    ("Is it furniture?", "Do you sit on it?"),
    ("Do you write with it?",),
    ("Is it sharp?", "Do you cut with it?"),
    ("Is it used in sports?", "Is it a ball?"),
    ("Is it soft?",),
    ("Would you find it in an office?",),
)
"""Enough for a handful of words."""

MORE: Final[tuple[tuple[str, ...], ...]] = (
    ("Is it man-made?", "Is it natural?"),
    ("Would you find it outdoors?", "Is it usually found outside?"),
    ("Would you find it in a kitchen?", "Is it used in the kitchen?"),
    ("Would you find it in a bedroom?",),
    ("Would you find it in a school?",),
    ("Is it a tool?",),
    ("Is it round?",),
    ("Is it long and thin?",),
    ("Is it flat?",),
    ("Is it made of plastic?",),
    ("Is it made of cloth?", "Is it made of fabric?"),
    ("Is it made of leather?",),
    ("Is it red?",),
    ("Is it green?",),
    ("Is it yellow?",),
    ("Is it white?",),
    ("Is it brown?",),
    ("Is it black?",),
    ("Is it orange in color?",),
    ("Is it a fruit?",),
    ("Is it a vegetable?",),
    ("Does it grow on trees?",),
    ("Does it grow underground?",),
    ("Does it have seeds?",),
    ("Do you peel it?",),
    ("Is it sweet?",),
    ("Is it crunchy?",),
    ("Is it kept as a pet?",),
    ("Is it a farm animal?",),
    ("Is it a wild animal?", "Is it dangerous?"),
    ("Does it eat meat?",),
    ("Does it have stripes?",),
    ("Does it have horns?",),
    ("Does it have long ears?",),
    ("Can it fly?", "Does it fly?"),
    ("Does it float on water?", "Does it travel on water?"),
    ("Does it have an engine?",),
    ("Does it have two wheels?",),
    ("Does it have windows?",),
    ("Can it carry many passengers?",),
    ("Do you wear it on your head?",),
    ("Do you wear it on your feet?",),
    ("Do you wear it on your legs?",),
    ("Do you wear it around your neck?",),
    ("Do you wear it on your hands?",),
    ("Does it keep you warm?",),
    ("Is it worn mostly by women?",),
    ("Is it jewelry?",),
    ("Does it come in pairs?",),
    ("Does it have buttons?",),
    ("Does it have a screen?",),
    ("Does it have a handle?",),
    ("Does it have strings?",),
    ("Do you blow into it?",),
    ("Does it have keys?",),
    ("Is it made of brass?",),
    ("Is it loud?",),
    ("Do you sleep on it?",),
    ("Does it have legs?",),
    ("Does it have drawers?",),
    ("Do you put things on it?",),
    ("Does it contain ink?",),
    ("Do you draw with it?",),
    ("Is it made of paper?",),
    ("Do you read it?",),
    ("Do you use it in the bathroom?",),
    ("Do you eat with it?",),
    ("Do you cook with it?",),
    ("Does it hold liquid?",),
    ("Does it have moving parts?",),
    ("Is it used for cleaning?",),
    ("Is it art?",),
    ("Does it have branches?",),
    ("Is it made of water?",),
    ("Is it salty?",),
    ("Is it a toy?", "Do children play with it?"),
    ("Does it have a face?",),
    ("Is it used in gardening?", "Is it a garden tool?"),
    ("Does it turn screws?",),
    ("Is it expensive?",),
    ("Is it heavy?",),
    ("Does it bounce?",),
    ("Do you kick it?",),
    ("Do you throw it?",),
    ("Is it used to fasten things?", "Is it sticky?"),
    ("Does it tell time?",),
    ("Is it bigger than a car?",),
    ("Is it bigger than a cat?",),
    ("Is it longer than a foot?",),
    ("Is it worn around the waist?",),
    ("Do you hang it on a wall?",),
    ("Does it have teeth?",),
    ("Does it have a lid?",),
    ("Does it have sleeves?",),
    ("Does it have pieces?",),
    ("Is it electric?",),
    ("Does it come from space?",),
    ("Is it juicy?",),
    ("Does it have a reed?",),
    ("Do you hit things with it?",),
)
"""For all 157, beside `BASIC`."""

FOUR: Final[tuple[tuple[str, ...], ...]] = (
    ("Is it made of metal?",),
    ("Would you find it outdoors?",),
    ("Would you find it in a school?",),
    ("Is it bigger than a cat?",),
)
"""Enough for the game of sixteen (`words.SIXTEEN_OBJECTS`): each halves them, whatever the others say."""

_FEW_WORDS = 20
"""Up to so many words the basic questions can distinguish."""

_THE = frozenset({"ocean", "sea"})
_BARE = frozenset(
    {
        "pants", "shoes", "boots", "socks", "scissors", "peas", "gloves", "pliers", "paper", "toothpaste",
        "spinach", "corn", "broccoli", "celery", "glue", "lego",
    }
)  # fmt: skip


def guess(word: str) -> str:
    """The question that names an object: "Is it an apple?", "Is it pants?"; the name comes last."""
    if word in _BARE:
        return f"Is it {word}?"
    if word in _THE:
        return f"Is it the {word}?"
    return f"Is it {'an' if word[0] in 'aeiou' else 'a'} {word}?"


def questions_about(words: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """What a scripted player may ask about these words, which are the objects' first names."""
    if set(words) == set(sixteen_words()):
        return FOUR
    return BASIC if len(words) <= _FEW_WORDS else BASIC + MORE
