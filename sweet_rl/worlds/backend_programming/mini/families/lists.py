"""Families over lists: points for results, counts of readings, shortlists."""

from __future__ import annotations

from random import Random

from sweet_rl.worlds.backend_programming.mini.problem import Problem

_RESULTS = (
    ("match_points", "throws", "throw", "points"),
    ("sales_bonus", "sales", "sale", "bonus"),
    ("step_score", "days", "day", "score"),
)
_RESULT_REQUESTS = (
    (
        "Can you write a Python function that goes through a list of {items} and adds up the {points}? "
        "Good ones give something, bad ones cost something, and there is a bonus too."
    ),
    (
        "I need a Python function for a small contest. It takes the list of {items} and returns the "
        "{points}. You can ask me how we count."
    ),
    (
        "Please write a Python function that turns a list of numbers, the {items}, into {points}. The "
        "better the {item}, the more it is worth."
    ),
)


def results(rng: Random) -> Problem:
    """Points for high values, a penalty for low ones, and a bonus for a long list."""
    name, items, item, points = rng.choice(_RESULTS)
    low = rng.randint(4, 20)
    high = low + rng.randint(5, 30)
    gain, loss, many, bonus = rng.randint(3, 12), rng.randint(1, 6), rng.randint(4, 6), rng.randint(13, 40)
    source = f"""\
def {name}({items}):
    {points} = 0
    for {item} in {items}:
        if {item} >= {high}:
            {points} += {gain}
        elif {item} < {low}:
            {points} -= {loss}
    if len({items}) >= {many}:
        {points} += {bonus}
    return {points}"""
    middle = (low + high) // 2
    inputs: tuple[list[int], ...] = (
        [high],
        [high - 1, high, high],
        [low, low - 1],
        [low - 1, low - 1, low - 2],
        [middle] * (many - 1) + [high + 2],
        [middle] * (many - 2) + [high],
        [low - 1, high + 5, high, high],
        [low] * many + [low - 3],
        [high] * (many + 1),
        [],
    )
    request = rng.choice(_RESULT_REQUESTS).format(items=items, item=item, points=points)
    return Problem(
        source, request, (low, high, gain, loss, many, bonus), tuple((values,) for values in inputs)
    )


_READINGS = (
    ("sort_readings", "temperatures", "temperature", (("cold", "fine", "hot"), ("low", "normal", "high"))),
    ("group_ages", "ages", "age", (("child", "adult", "senior"), ("young", "middle", "old"))),
    ("count_parcels", "weights", "weight", (("small", "medium", "large"), ("light", "normal", "heavy"))),
)
_READING_REQUESTS = (
    (
        "I have a list of {items} and I want a Python function that counts how many fall into each of my "
        "groups. Some entries are nonsense and should not count."
    ),
    (
        "Please write a Python function which takes the {items} and returns a dictionary that says how "
        "many there are of each kind. I can tell you how I tell them apart."
    ),
    (
        "Could you write a Python function that sorts a list of {items} into three groups and gives me "
        "the counts?"
    ),
)


def readings(rng: Random) -> Problem:
    """Counts of three groups, leaving out values below a limit; gives a dictionary."""
    name, items, item, names = rng.choice(_READINGS)
    labels = rng.choice(names)
    broken = rng.randint(1, 9)
    low = broken + rng.randint(6, 25)
    high = low + rng.randint(6, 40)
    source = f"""\
def {name}({items}):
    counts = {{"{labels[0]}": 0, "{labels[1]}": 0, "{labels[2]}": 0}}
    for {item} in {items}:
        if {item} < {broken}:
            continue
        if {item} < {low}:
            counts["{labels[0]}"] += 1
        elif {item} <= {high}:
            counts["{labels[1]}"] += 1
        else:
            counts["{labels[2]}"] += 1
    return counts"""
    inputs = (
        [broken, broken - 1, low],
        [low - 1, low, high],
        [high, high + 1],
        [broken - 1, high + 1, high + 9],
        [low - 2, low - 1, broken],
        [low + 2, high - 1, high + 5, broken + 1],
        [broken - 1],
        [high + 3, high + 1, low + 1],
        [low] * rng.randint(4, 6) + [high + 1],
        [broken] * rng.randint(4, 6) + [low],
    )
    request = rng.choice(_READING_REQUESTS).format(items=items)
    return Problem(source, request, (*labels, broken, low, high), tuple((values,) for values in inputs))


_SHORTLISTS = (
    ("shortlist", "hotels", "hotel", ("name", "title"), ("price", "cost"), ("stars", "rating")),
    ("pick_flats", "flats", "flat", ("street", "address"), ("rent", "price"), ("rooms", "size")),
    ("choose_phones", "phones", "phone", ("model", "name"), ("price", "cost"), ("battery", "hours")),
)
_SHORTLIST_REQUESTS = (
    (
        "I'm looking at a long list of {items}. Can you write a Python function that keeps only those "
        "that suit me and returns the best few? I know what I want, just ask."
    ),
    (
        "Please write a Python function that gets my list of {items} and gives back a short list. A "
        "{item} has to be good and must not be too expensive."
    ),
    (
        "I'd like a Python function to narrow down a list of {items} for me, with my own limits on money "
        "and quality. Each {item} is a dictionary."
    ),
)


def shortlist(rng: Random) -> Problem:
    """Dictionaries within two limits, as a sorted list of names, cut to a few; gives a list."""
    name, items, item, *fields = rng.choice(_SHORTLISTS)
    label, price, quality = (rng.choice(options) for options in fields)
    most, least = rng.randint(30, 180), rng.randint(3, 12)
    few, extra = rng.randint(2, 4), rng.randint(3, 20)
    order = rng.choice(("", ", reverse=True"))
    source = f"""\
def {name}({items}):
    picks = []
    for {item} in {items}:
        if {item}["{price}"] + {extra} <= {most} and {item}["{quality}"] >= {least}:
            picks.append({item}["{label}"])
    return sorted(picks{order})[:{few}]"""
    names = ["Ash", "Birch", "Cedar", "Elm", "Fir", "Lime", "Oak", "Pine"]
    rng.shuffle(names)
    edge = most - extra

    def rows(*entries: tuple[int, int]) -> list[dict[str, object]]:
        return [
            {label: chosen, price: cost, quality: good}
            for chosen, (cost, good) in zip(names, entries, strict=False)
        ]

    inputs = (
        rows((edge, least), (edge + 1, least), (edge, least - 1)),
        rows((edge + 1, least + 2), (5, least)),
        rows((edge, least - 1), (8, least + 1), (edge, least)),
        rows(*[(9, least + 2)] * (few + 1)),
        rows(*[(edge - 1, least + 1)] * (few + 3)),
        rows((edge - 2, least + 1), (edge + 5, least + 3), (edge, least + 5), (4, least)),
        rows((edge + 2, least), (6, least - 2)),
        rows(*[(7, least - 1)] * 2, *[(7, least)] * (few - 1)),
        rows((edge + 1, least), (edge + 1, least), (edge, least)),
        rows((1, least - 1), (edge, least), (1, least), (edge + 1, 99)),
    )
    request = rng.choice(_SHORTLIST_REQUESTS).format(items=items, item=item)
    rules = (label, price, quality, most, least, few, extra, order)
    return Problem(source, request, rules, tuple((listed,) for listed in inputs))
