"""The world of the embedded agent: what a shop charges for two of twelve extras, which only the human knows.

A dialogue is won by asking about the right ones before the turns run out. Three worlds share it (docs/world_code.md): in
`usual` nine in ten are of four usual extras; in `trades` each of up to 40 trades has four of its own; in `easy` the
request names the two, and what is to be learnt is not to make the mistakes of a noisy teacher.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple

from sweet_rl.mini.backend.families import Family, Problem
from sweet_rl.types import ANSWER_MARKER, Message, derive_seed

USUAL = ("delivery", "wrapping", "insurance", "assembly")
EXTRAS = (
    *USUAL, "engraving", "storage", "polishing", "framing", "painting", "cleaning", "tuning", "samples",
)  # fmt: skip
CHARGED = 2  # extras that cost something, in every problem; the request says how many
USUALLY = 0.9  # the chance that one is drawn from the usual ones, in the worlds `usual` and `trades`
AMOUNTS = range(2, 10)
MAX_TURNS = 6  # of the agent in an episode, the answer included: five questions for twelve extras
TRADES = tuple(  # what the shop of a request is, in the world `trades`: the first K of them
    """
    bakery florist grocer tailor brewery jeweller printer butcher toyshop joiner pharmacy saddler winery bookshop
    potter dairy locksmith hatter garage weaver creamery cobbler nursery glazier roastery draper smithy perfumer
    stationer tannery furrier vineyard luthier mill sawmill tinsmith cooper chandler carpenter fishmonger
    """.split()
)

_REQUESTS = (
    "I need a Python function for the total price of an order. Two of our extras cost something.",
    "Please write a Python function that adds up what a customer pays. We charge for two extras.",
    "Can you write a Python function for our prices? Two extras are not free.",
)
_SHOP = re.compile(r"^Our shop is a (\w+)\.$", re.MULTILINE)
_ASKED = re.compile(r"Do you charge for (\w+)\?")
_NAMED = re.compile(r"^They are (\w+) and (\w+)\.$", re.MULTILINE)
_TOLD = re.compile(r'If "(\w+)" is in the extras, the price goes up by (\d+)\.')

SOURCE = re.compile(
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
    """A problem for pre-training only: any two extras, which the request does not name; half name a trade."""
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
    return f"Do you charge for {extra}?"


def asked_about(text: str) -> str | None:
    match = _ASKED.fullmatch(text)
    return match[1] if match else None


def named_amounts(replies: Sequence[str]) -> dict[str, int]:
    return {match[1]: int(match[2]) for reply in replies for match in _TOLD.finditer(reply)}


def source(charges: Mapping[str, int]) -> str:
    """The function that charges these amounts, extras in the order of `EXTRAS`."""
    lines = ["def total(price, extras):"]
    for extra in EXTRAS:
        if extra in charges:
            lines += [f'    if "{extra}" in extras:', f"        price += {charges[extra]}"]
    return "\n".join([*lines, "    return price"])


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


@dataclass(frozen=True, slots=True)
class Noise:
    """How often the teacher errs a turn: answers too `early`, asks on too `late`, asks `astray` of the request."""

    early: float = 0.01
    late: float = 0.05
    astray: float = 0.3


def say(
    messages: Sequence[Message],
    rng: Random,
    *,
    max_turns: int,
    noise: Noise | None = None,
    relevant: Collection[str] = (),
) -> str:
    noise = noise or Noise()
    seen = _Seen.of(messages)
    complete = len(seen.known) == CHARGED
    if seen.turns == max_turns - 1 or (complete and rng.random() >= noise.late):
        return seen.answer
    if seen.known and not complete and rng.random() < noise.early:
        return seen.answer
    wanted = seen.fresh((*relevant, *_named(messages[0].content)))
    if wanted and rng.random() >= noise.astray:
        return question(rng.choice(wanted))
    return question(rng.choice(seen.fresh(EXTRAS)))


def insider(messages: Sequence[Message], rng: Random, *, max_turns: int) -> str:
    """The ceiling of asking: knows which extras are usual for this request, asks about those first, never errs."""
    usual = _named(messages[0].content) or usual_for(messages[0].content)
    return say(messages, rng, max_turns=max_turns, noise=Noise(early=0, late=0, astray=0), relevant=usual)


def at_random(messages: Sequence[Message], rng: Random, *, max_turns: int) -> str:
    """The floor of asking: about any extra, asked before or not; answers when it knows all, or has to."""
    seen = _Seen.of(messages)
    if seen.turns == max_turns - 1 or len(seen.known) == CHARGED:
        return seen.answer
    return question(rng.choice(EXTRAS))


PLAYERS: Final[Mapping[str, Callable[..., str]]] = {"expert": say, "insider": insider, "random": at_random}
"""By the names of scripted agents: functions of the dialogue, the generator and `max_turns`."""


class _Seen(NamedTuple):
    turns: int
    asked: Sequence[str]
    known: Mapping[str, int]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> _Seen:
        mine = [message.content for message in messages if message.role == "assistant"]
        known = named_amounts([message.content for message in messages[1:] if message.role == "user"])
        return cls(len(mine), [extra for extra in map(asked_about, mine) if extra], known)

    @property
    def answer(self) -> str:
        return f"{ANSWER_MARKER}\n{source(self.known)}"

    def fresh(self, among: Sequence[str]) -> list[str]:
        return [extra for extra in among if extra not in self.asked]


def _named(request: str) -> tuple[str, ...]:
    found = _NAMED.search(request)
    return found.groups() if found else ()


class Verdict(StrEnum):
    """What one agent turn was. The good ones are `USEFUL` and `RIGHT`."""

    USEFUL = "useful question"  # About an extra that costs something and was not known
    USELESS = "useless question"  # About an extra that is free
    REPEATED = "repeated question"
    NEEDLESS = "needless question"  # Asked although everything was known
    RIGHT = "right answer"
    EARLY = "early answer"  # Handed in before everything was known, with turns left to ask
    FORCED = "incomplete last answer"
    """Handed in before everything was known, in the last turn: the questions before it were the mistake."""
    WRONG = "miscopied answer"  # Everything was known, and the answer is wrong all the same
    OTHER = "neither question nor answer"

    @property
    def good(self) -> bool:
        return self in {Verdict.USEFUL, Verdict.RIGHT}


def judge(solution: str, messages: Sequence[Message], turn: str) -> Verdict:
    asked = {asked_about(message.content) for message in messages if message.role == "assistant"}
    known = named_amounts([message.content for message in messages[1:] if message.role == "user"])
    complete = len(known) == CHARGED
    if ANSWER_MARKER in turn:
        if not complete:
            taken = sum(message.role == "assistant" for message in messages)
            return Verdict.FORCED if taken == MAX_TURNS - 1 else Verdict.EARLY
        return Verdict.RIGHT if turn == f"{ANSWER_MARKER}\n{solution}" else Verdict.WRONG
    extra = asked_about(turn)
    if extra is None:
        return Verdict.OTHER
    if complete:
        return Verdict.NEEDLESS
    if extra in asked:
        return Verdict.REPEATED
    return Verdict.USEFUL if f'"{extra}"' in solution else Verdict.USELESS
