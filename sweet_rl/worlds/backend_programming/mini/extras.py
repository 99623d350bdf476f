"""The world of the embedded agent: what a shop charges for its extras.

Every problem is the same small function: a price goes up by so much for each of two extras. Which two of
twelve they are, and how much, only the human knows, and reveals only what is asked for. So a dialogue is won
by asking about the right extras before the turns run out: a question about an extra that is free is a turn
wasted.

Three worlds share it and differ in what there is to learn (docs/mini.md):

- `usual`: nine times in ten an extra that costs something is one of four usual ones. Only many hidden
  solutions, or the results of many dialogues, show which. A won dialogue still holds about
  three wasted questions of five: learning from whole dialogues means learning much of the waste, too.
- `trades`: the same, but the request names the shop's trade, and each of up to 40 trades has four usual extras
  of its own. Outcomes show little of each; a solution shows which questions of its dialogue were useful.
- `easy`: all extras are equally likely, and the request names the two. What is to be learnt is only not to
  make the mistakes of a noisy teacher, and these are independent of each other: keeping the won dialogues
  removes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from random import Random

from sweet_rl.types import derive_seed
from sweet_rl.worlds.backend_programming.mini.problem import Family, Problem

USUAL = ("delivery", "wrapping", "insurance", "assembly")
OTHER = ("engraving", "storage", "polishing", "framing", "painting", "cleaning", "tuning", "samples")
EXTRAS = USUAL + OTHER

CHARGED = 2
"""Extras that cost something, in every problem; the request says how many."""

USUALLY = 0.9
"""The chance that a charged extra is drawn from the usual ones, in the worlds `usual` and `trades`."""

# fmt: off
TRADES = (
    "bakery", "florist", "grocer", "tailor", "brewery", "jeweller", "printer", "butcher", "toyshop", "joiner",
    "pharmacy", "saddler", "winery", "bookshop", "potter", "dairy", "locksmith", "hatter", "garage", "weaver",
    "creamery", "cobbler", "nursery", "glazier", "roastery", "draper", "smithy", "perfumer", "stationer",
    "tannery", "furrier", "vineyard", "luthier", "mill", "sawmill", "tinsmith", "cooper", "chandler",
    "carpenter", "fishmonger",
)
# fmt: on
"""What the shop of a request is, in the world `trades`: the first K of them."""

AMOUNTS = range(2, 10)

MAX_TURNS = 6
"""Agent turns of an episode, the answer included: five questions for twelve extras."""

_REQUESTS = (
    "I need a Python function for the total price of an order. Two of our extras cost something.",
    "Please write a Python function that adds up what a customer pays. We charge for two extras.",
    "Can you write a Python function for our prices? Two extras are not free.",
)
_SHOP = re.compile(r"^Our shop is a (\w+)\.$", re.MULTILINE)
_ASKED = re.compile(r"Do you charge for (\w+)\?")
_TOLD = re.compile(r'If "(\w+)" is in the extras, the price goes up by (\d+)\.')

_SOURCE = re.compile(
    r'def total\(price, extras\):\n(    if "\w+" in extras:\n        price \+= \d+\n)*    return price'
)


def usual(rng: Random) -> Problem:
    """A problem whose charged extras are mostly the usual ones."""
    return _problem(rng, _charged(rng, USUAL))


def of_trades(count: int) -> Family:
    """Problems of the first `count` trades, each as likely; what is charged for are mostly its usual extras."""

    def trades(rng: Random) -> Problem:
        trade = rng.choice(TRADES[:count])
        return _problem(rng, _charged(rng, usual_in(trade)), shop(trade))

    return trades


def easy(rng: Random) -> Problem:
    """A problem in which any two extras are charged for, and the request says which."""
    charged = rng.sample(EXTRAS, CHARGED)
    return _problem(rng, charged, f"They are {charged[0]} and {charged[1]}.\n")


def uniform(rng: Random) -> Problem:
    """A problem in which any two extras are charged for, and the request does not say which: for pre-training only.

    Half of the requests name a trade, which says nothing here.
    """
    more = shop(rng.choice(TRADES)) if rng.random() < 0.5 else ""
    return _problem(rng, rng.sample(EXTRAS, CHARGED), more)


def usual_in(trade: str) -> tuple[str, ...]:
    """The four usual extras of a trade: drawn once and for all from its name, in the order of `EXTRAS`."""
    drawn = Random(derive_seed("usual extras", trade)).sample(EXTRAS, len(USUAL))
    return tuple(sorted(drawn, key=EXTRAS.index))


def usual_for(request: str) -> tuple[str, ...]:
    """The extras that are mostly charged for where this is asked: its trade's, or `USUAL`."""
    named = _SHOP.search(request)
    return usual_in(named[1]) if named else USUAL


def shop(trade: str) -> str:
    """The line of a request that names the trade: one token of the embedded agent."""
    return f"Our shop is a {trade}.\n"


def question(extra: str) -> str:
    """How an agent asks about an extra."""
    return f"Do you charge for {extra}?"


def asked_about(text: str) -> str | None:
    """The extra that a question is about; None for anything else."""
    match = _ASKED.fullmatch(text)
    return match[1] if match else None


def named_amounts(replies: Sequence[str]) -> dict[str, int]:
    """The amounts that the person has named so far, by extra."""
    return {match[1]: int(match[2]) for reply in replies for match in _TOLD.finditer(reply)}


def source(charges: Mapping[str, int]) -> str:
    """The function that charges these amounts, extras in the order of `EXTRAS`."""
    lines = ["def total(price, extras):"]
    for extra in EXTRAS:
        if extra in charges:
            lines += [f'    if "{extra}" in extras:', f"        price += {charges[extra]}"]
    return "\n".join([*lines, "    return price"])


def is_source(text: str) -> bool:
    """Whether a function is one of these worlds."""
    return _SOURCE.fullmatch(text) is not None


def _charged(rng: Random, usually: Sequence[str]) -> set[str]:
    others = [extra for extra in EXTRAS if extra not in usually]
    charged: set[str] = set()
    while len(charged) < CHARGED:
        charged.add(rng.choice(usually if rng.random() < USUALLY else others))
    return charged


def _problem(rng: Random, charged: Collection[str], more: str = "") -> Problem:
    charges = {extra: rng.choice(AMOUNTS) for extra in EXTRAS if extra in charged}
    first, second = charges
    free = [extra for extra in EXTRAS if extra not in charges]
    baskets = [[first]] * 3 + [[second]] * 3 + [[first, second]] * 2 + [[]] * 2
    inputs = tuple(
        (rng.randint(10, 99), rng.sample([*basket, *rng.sample(free, 2)], len(basket) + 2))
        for basket in baskets
    )
    return Problem(source(charges), f"{rng.choice(_REQUESTS)}\n{more}", tuple(charges.items()), inputs)
