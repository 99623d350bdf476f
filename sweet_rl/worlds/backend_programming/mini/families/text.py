"""Families about text: labels made from names, and points for words."""

from __future__ import annotations

from random import Random

from sweet_rl.worlds.backend_programming.mini.problem import Problem

_WORDS = (
    "Amber",
    "Bell",
    "Cloud",
    "Dune",
    "Ember",
    "Field",
    "Grove",
    "Harbour",
    "Island",
    "Juniper",
    "Kite",
    "Lagoon",
)
_LABELS = (
    ("make_label", "title", "label"),
    ("file_name", "caption", "name"),
    ("short_code", "product", "code"),
)
_LABEL_REQUESTS = (
    (
        "I need a Python function that makes a {label} from a {text}, the way our old system did. It has "
        "to look exactly the same, so ask me how it is built."
    ),
    (
        "Can you write a Python function that cleans up a {text} and turns it into a {label}? It is about "
        "the letters, what goes between the words, and the length."
    ),
    (
        "Please write a Python function which gets a {text} and returns a {label}. Short ones are treated "
        "a little differently."
    ),
)


def label(rng: Random) -> Problem:
    """Upper or lower case, words joined by a sign, a fill for few words, a prefix, a greatest length."""
    name, text, made = rng.choice(_LABELS)
    case = rng.choice(("lower", "upper"))
    joint = rng.choice(("-", "_", ".", "+", "/", "~"))
    fill = rng.choice("xyzqk") + str(rng.randint(2, 99))
    prefix = rng.choice(("id", "no", "it", "my", "new", "ref")) + rng.choice(("#", ":", "=", "@"))
    few, length = rng.randint(2, 4), rng.randint(11, 24)
    source = f"""\
def {name}({text}):
    words = {text}.{case}().split()
    {made} = "{joint}".join(words)
    if len(words) < {few}:
        {made} += "{fill}"
    return "{prefix}" + {made}[:{length}]"""

    def title(count: int) -> str:
        return " ".join(rng.sample(_WORDS, count))

    inputs = (
        rng.choice(_WORDS),
        title(few - 1),
        title(few),
        title(few + 1),
        title(8),
        title(7).swapcase(),
        f"  {title(2)} ",
        f"{title(1)}   {title(1)}",
        "A b C d"[: 2 * few - 3],
        "a B c D"[: 2 * few - 1],
    )
    request = rng.choice(_LABEL_REQUESTS).format(label=made, text=text)
    return Problem(
        source, request, (case, joint, fill, prefix, few, length), tuple((text,) for text in inputs)
    )


_GAMES = (
    ("word_score", "word", "score"),
    ("name_points", "name", "points"),
    ("tile_value", "tiles", "value"),
)
_GAME_REQUESTS = (
    (
        "We play a word game at home and I want a Python function for the {score} of a {word}. Some "
        "letters are special, and so are long ones and the beginning."
    ),
    (
        "Please write a Python function that says what a {word} is worth in our game. I can explain the "
        "rules if you ask."
    ),
    (
        "Could you write me a Python function that gets a {word} and returns its {score}? We made up the "
        "rules ourselves."
    ),
)
_LETTERS = "bcdfghjklmnpqrstvwxz"


def word_game(rng: Random) -> Problem:
    """Points for each letter, more for a special one, a bonus for length, more for the right beginning."""
    name, word, score = rng.choice(_GAMES)
    special, first = rng.sample(_LETTERS, 2)
    each, extra, start = rng.randint(1, 5), rng.randint(2, 15), rng.randint(3, 20)
    long, bonus = rng.randint(5, 8), rng.randint(6, 30)
    source = f"""\
def {name}({word}):
    letters = {word}.lower()
    {score} = len(letters) * {each} + letters.count("{special}") * {extra}
    if letters.startswith("{first}"):
        {score} += {start}
    if len(letters) > {long}:
        {score} += {bonus}
    return {score}"""
    inputs = (
        first + "a" * (long - 1),
        "a" * (long + 1),
        special + "e" * (long - 1),
        (special + "o") * long,
        first.upper() + "i",
        special.upper() * 2 + "u",
        "e" * long + first,
        first + special + first,
        "ea" * rng.randint(2, 4) + special,
        "",
    )
    request = rng.choice(_GAME_REQUESTS).format(word=word, score=score)
    rules = (special, first, each, extra, start, long, bonus)
    return Problem(source, request, rules, tuple((text,) for text in inputs))
