"""Families about judging and planning: grades, ready times, doses, badges."""

from __future__ import annotations

from random import Random

from sweet_rl.worlds.backend_programming.mini.problem import Problem

_GRADES = (
    ("final_grade", "score", "days_late", ("honours", "distinction", "merit", "pass", "retake", "fail")),
    ("rate_essay", "marks", "errors", ("excellent", "good", "solid", "weak", "poor", "redo")),
    ("judge_dive", "rating", "faults", ("gold", "silver", "bronze", "finalist", "none", "out")),
)
_GRADE_REQUESTS = (
    (
        "Hello, I need a Python function that turns the {score} and the {penalty} into a grade, the way "
        "we do it here. The grade is a word."
    ),
    (
        "Can you write a Python function for our grading? It gets the {score} and the number of "
        "{penalty}, which cost something, and it should return one of our grades."
    ),
    (
        "I'm tired of grading by hand. Please write a Python function that gives the right word for the "
        "{score}, taking the {penalty} into account. We also have a small bonus for everybody."
    ),
)


def grade(rng: Random) -> Problem:
    """A bonus, a penalty for each fault, and four grades."""
    name, score, penalty, words = rng.choice(_GRADES)
    labels = [words[index] for index in sorted(rng.sample(range(len(words)), 4))]
    bonus, cost = rng.randint(1, 9), rng.randint(2, 7)
    low = rng.randint(35, 50)
    middle = low + rng.randint(9, 18)
    top = middle + rng.randint(9, 18)
    source = f"""\
def {name}({score}, {penalty}):
    points = {score} + {bonus} - {penalty} * {cost}
    if points >= {top}:
        return "{labels[0]}"
    elif points >= {middle}:
        return "{labels[1]}"
    elif points >= {low}:
        return "{labels[2]}"
    else:
        return "{labels[3]}\""""
    inputs = (
        (top - bonus, 0),
        (top - bonus - 1, 0),
        (middle - bonus, 0),
        (middle - bonus - 1, 0),
        (low - bonus, 0),
        (low - bonus - 1, 0),
        (top - bonus + cost, 1),
        (top - bonus + 2 * cost - 1, 2),
        (low - bonus + 3 * cost, 3),
        (low - bonus + 2 * cost - 1, 2),
    )
    request = rng.choice(_GRADE_REQUESTS).format(score=score, penalty=penalty.replace("_", " "))
    return Problem(source, request, (*labels, bonus, cost, low, middle, top), inputs)


_READY = (
    ("pickup_time", "order_time", "cakes"),
    ("ready_at", "arrival_time", "shirts"),
    ("collection_time", "upload_time", "prints"),
)
_READY_REQUESTS = (
    (
        "My customers always ask when they can collect their {items}. Please write a Python function that "
        "gets {when} (in minutes since midnight) and the number of {items}, and says the time like on a "
        "clock."
    ),
    (
        "Can you help me with a Python function for my shop? Given {when}, counted in minutes from "
        "midnight, and how many {items} there are, it should tell when everything is ready. Late orders "
        "have to wait."
    ),
    (
        "I need a Python function that works out when an order of {items} is done. How long we take "
        "depends on the number, and large orders take longer. Times come in as minutes after midnight."
    ),
)
_NEXT_DAY = ("tomorrow", "next day", "come back tomorrow", "not today")


def ready_time(rng: Random) -> Problem:
    """Minutes for each item, more for a large order, and a word when it is too late; gives a clock time."""
    name, when, items = rng.choice(_READY)
    start, each = rng.randint(5, 25), rng.randint(3, 9)
    many, more = rng.randint(4, 9), rng.randint(10, 40)
    closing, late = rng.randint(190, 240) * 5, rng.choice(_NEXT_DAY)
    source = f"""\
def {name}({when}, {items}):
    minutes = {when} + {start} + {items} * {each}
    if {items} > {many}:
        minutes += {more}
    if minutes > {closing}:
        return "{late}"
    return f"{{minutes // 60:02d}}:{{minutes % 60:02d}}\""""
    last = closing - start - each
    inputs = (
        (last, 1),
        (last + 1, 1),
        (480, many),
        (rng.randint(430, 600), many + 1),
        (rng.randint(600, 800), many + 3),
        (closing - rng.randint(5, 20), 2),
        (600 - start - 2 * each, 2),
        (rng.randint(361, 420), many - 1),
        (655 - start - 3 * each, 3),
        (0, 1),
    )
    request = rng.choice(_READY_REQUESTS).format(when=f"the {when.replace('_', ' ')}", items=items)
    return Problem(source, request, (start, each, many, more, closing, late), inputs)


_AMOUNTS = (
    ("dose", "weight", "age", "millilitres"),
    ("feed_portion", "weight", "months", "grams"),
    ("paint_needed", "area", "coats", "litres"),
)
_AMOUNT_REQUESTS = (
    (
        "I need a Python function that tells how many {unit} to use, from the {first} and the {second}. "
        "We round to what is easy to measure, and there is a smallest amount."
    ),
    (
        "Please write me a Python function which converts the {first} to {unit} the way we do it. The "
        "{second} matters too, and the result should be something one can measure."
    ),
    (
        "Could you write a Python function for the right amount in {unit}? It knows the {first} and the "
        "{second}; the rest you have to ask me."
    ),
)


def amount(rng: Random) -> Problem:
    """A rate and a base, less below some limit, rounded to one decimal, with a smallest amount."""
    name, first, second, unit = rng.choice(_AMOUNTS)
    # No fives: the rounded numbers stay clear of ties, where the order of a sum would decide.
    rate, base = (
        rng.randint(1, 6) + rng.choice((12, 13, 17, 23, 27, 34, 38, 42, 46, 63, 67, 74, 86)) / 100,
        rng.randint(10, 40),
    )
    limit, less = rng.randint(3, 15), rng.randint(12, 45)
    least = rng.randint(46, 60)
    source = f"""\
def {name}({first}, {second}):
    {unit} = {first} * {rate} + {base}
    if {second} < {limit}:
        {unit} -= {less}
    return max(round({unit}, 1), {least})"""
    inputs = (
        (71, limit),
        (71, limit - 1),
        (10 * rng.randint(10, 14) + 1, limit + 1),
        (10 * rng.randint(14, 19) + 3, 1),
        (0, 1),
        (1, limit),
        (10 * rng.randint(9, 11) + 2, limit - 2),
        (10 * rng.randint(20, 30) + 4, limit),
        (10 * rng.randint(6, 8) + 6, limit + 5),
        (83, limit - 1),
    )
    request = rng.choice(_AMOUNT_REQUESTS).format(unit=unit, first=first, second=second)
    return Problem(source, request, (rate, base, limit, less, least), inputs)
