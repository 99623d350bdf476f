"""Families about prices and points: parcels, bills, loyalty points, shared bills."""

from __future__ import annotations

from random import Random

from sweet_rl.worlds.backend_programming.mini.problem import Problem, half

_PARCELS = (
    ("shipping_cost", "weight", "zone", "cost", ("local", "national", "abroad", "island")),
    ("courier_fee", "kilos", "area", "fee", ("city", "suburb", "village", "harbour")),
    ("delivery_price", "kilos", "region", "price", ("north", "south", "east", "coast")),
)
_PARCEL_REQUESTS = (
    (
        "Hi! I run a small shop and I need a Python function for what we charge to send a parcel. It "
        "depends on how heavy the parcel is and where it goes, and heavy ones cost extra. Ask me if you "
        "need to know our prices."
    ),
    (
        "Can you write a Python function that works out the price of sending a parcel from the {weight} "
        "and the {zone}? We have our own price list, with something extra for heavy parcels and an upper "
        "limit."
    ),
    (
        "I keep mixing up our parcel prices. Please write me a Python function that gets the {weight} and "
        "the {zone} and tells me what to charge."
    ),
)


def parcel(rng: Random) -> Problem:
    """A base price for the zone, extra for each unit above a free weight, and a cap."""
    name, weight, zone, cost, zones = rng.choice(_PARCELS)
    first, second = rng.sample(zones, 2)
    prices = rng.sample(range(3, 16), 3)
    free, rate = rng.randint(3, 14), half(rng, 1, 6)
    cap = max(prices) + rng.randint(10, 30)
    source = f"""\
def {name}({weight}, {zone}):
    if {zone} == "{first}":
        {cost} = {prices[0]}
    elif {zone} == "{second}":
        {cost} = {prices[1]}
    else:
        {cost} = {prices[2]}
    if {weight} > {free}:
        {cost} += ({weight} - {free}) * {rate}
    return min({cost}, {cap})"""
    other = rng.choice([name for name in zones if name not in (first, second)])
    inputs = (
        (free, first),
        (free + 1, first),
        (free + 2, second),
        (free - 0.5, second),
        (1, other),
        (free + 3, other),
        (free + rng.randint(40, 60), first),
        (free + 4, first),
        (2, second),
        (free + 1, other),
    )
    request = rng.choice(_PARCEL_REQUESTS).format(weight=weight, zone=zone)
    return Problem(source, request, (first, second, *prices, free, rate, cap), inputs)


_BILLS = (
    ("water_bill", "cubic_metres", "is_pensioner"),
    ("phone_bill", "minutes", "is_student"),
    ("power_bill", "units", "is_member"),
)
_BILL_REQUESTS = (
    (
        "I need a Python function for the monthly bills of our customers. It gets how much somebody used "
        "and whether the discount applies to them. There is a fixed part and the rate changes when "
        "somebody uses a lot."
    ),
    (
        "Could you help me with a Python function that turns the {usage} a household used into an amount "
        "to pay? Some people get a discount, and nobody pays less than our minimum."
    ),
    (
        "Please write a Python function that computes what a customer owes us, from the {usage} and a "
        "flag for the discount. The tariff is our own, so you will have to ask me about it."
    ),
)


def bill(rng: Random) -> Problem:
    """A fixed part, two rates with a step between them, a discount, and a minimum."""
    name, usage, flag = rng.choice(_BILLS)
    step, low, high = rng.randint(20, 90), half(rng, 1, 3), half(rng, 4, 8)
    fixed, discount = rng.randint(4, 25), rng.randint(3, 15)
    minimum = fixed + rng.randint(5, 15)
    source = f"""\
def {name}({usage}, {flag}):
    basic = min({usage}, {step}) * {low}
    extra = max({usage} - {step}, 0) * {high}
    amount = {fixed} + basic + extra
    if {flag}:
        amount -= {discount}
    return max(amount, {minimum})"""
    inputs = (
        (step, False),
        (step + 1, False),
        (step + 10, True),
        (step - 1, True),
        (step // 2 + 15, False),
        (0, False),
        (0, True),
        (step + rng.randint(20, 60), False),
        (step + 3, True),
        (step - 2, False),
    )
    request = rng.choice(_BILL_REQUESTS).format(usage=usage.replace("_", " "))
    return Problem(source, request, (step, low, high, fixed, discount, minimum), inputs)


_LOYALTY = (
    ("loyalty_points", "euros", "visits", "points"),
    ("bonus_stars", "dollars", "orders", "stars"),
    ("club_miles", "pounds", "trips", "miles"),
)
_LEVELS = ("bronze", "silver", "gold", "ruby", "guest", "regular", "friend", "star", "classic", "plus")
_LOYALTY_REQUESTS = (
    (
        "We have a customer club and I want a Python function that gives the {points} somebody has earned "
        "and the level they are on, as a tuple. It gets the {money} they spent and their number of "
        "{visits}."
    ),
    (
        "Can you write me a Python function for our loyalty programme? From the {money} spent and the "
        "{visits} it should give a tuple of {points} and level. Loyal customers earn more."
    ),
    (
        "I'd like a Python function that says how many {points} a customer gets and which level that "
        "makes. The rules are in my head, so just ask."
    ),
)


def loyalty(rng: Random) -> Problem:
    """Points for money, a bonus for many visits, and three levels; gives a tuple."""
    name, money, visits, points = rng.choice(_LOYALTY)
    per, often, bonus = rng.randint(2, 9), rng.randint(4, 15), rng.randint(10, 60)
    middle = rng.randint(30, 80)
    top = middle + rng.randint(40, 120)
    levels = rng.sample(_LEVELS, 3)
    source = f"""\
def {name}({money}, {visits}):
    {points} = {money} // {per}
    if {visits} >= {often}:
        {points} += {bonus}
    if {points} >= {top}:
        level = "{levels[0]}"
    elif {points} >= {middle}:
        level = "{levels[1]}"
    else:
        level = "{levels[2]}"
    return ({points}, level)"""
    inputs = (
        (top * per, 1),
        (top * per - 1, often - 1),
        (middle * per, 0),
        (middle * per - 1, 2),
        ((top - bonus) * per, often),
        ((top - bonus) * per - per, often),
        (3 * per + 1, often - 1),
        (3 * per + 1, often),
        (2 * top * per + per - 1, often + 3),
        (per - 1, 0),
    )
    request = rng.choice(_LOYALTY_REQUESTS).format(points=points, money=money, visits=visits)
    return Problem(source, request, (per, often, bonus, middle, top, *levels), inputs)


_SHARES = (
    ("split_bill", "total", "people", ("each", "tip"), ("share", "service"), ("per_person", "extra")),
    ("share_rent", "rent", "tenants", ("each", "costs"), ("part", "extras"), ("monthly", "added")),
    ("divide_costs", "costs", "friends", ("each", "fee"), ("part", "added"), ("to_pay", "surcharge")),
)
_SHARE_REQUESTS = (
    (
        "Please write a Python function that divides the {total} among the {people}. Something is added "
        "on top, depending on how many there are, and I want a dictionary back."
    ),
    (
        "We always argue about money. Can you write a Python function that takes the {total} and the "
        "number of {people} and says in a dictionary what each one pays and what was added?"
    ),
    (
        "I need a Python function for sharing the {total} between {people}. Larger groups are charged "
        "differently. Ask me about the details."
    ),
)


def shares(rng: Random) -> Problem:
    """Something is added to a total, by group size, and each pays a rounded part; gives a dictionary."""
    name, total, people, *labels = rng.choice(_SHARES)
    each, added = rng.choice(labels)
    large, small_fee, large_fee = rng.randint(4, 9), rng.randint(2, 9), rng.randint(11, 25)
    least = rng.randint(5, 12)
    source = f"""\
def {name}({total}, {people}):
    if {people} >= {large}:
        extra = {large_fee}
    else:
        extra = {small_fee}
    part = round(({total} + extra) / {people}, 2)
    return {{"{each}": max(part, {least}), "{added}": extra}}"""
    inputs = (
        (large * 20, large),
        (large * 20, large - 1),
        (rng.randint(200, 300) * 2, large + 1),
        (rng.randint(40, 90), 2),
        (101, 3),
        (0, large + 2),
        (1, 3),
        (1000, 7),
        (rng.randint(500, 900), large),
        (77.5, 1),
    )
    request = rng.choice(_SHARE_REQUESTS).format(total=total, people=people)
    return Problem(source, request, (each, added, large, small_fee, large_fee, least), inputs)
