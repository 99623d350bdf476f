"""Players of the worlds of `extras`: the teacher of the embedded agent, and what bounds an agent's questions.

The teacher asks at random, with noise. It knows the game (one extra a question, two to find, then answer), not which extras are usual, and it makes
three mistakes now and then. An agent that imitates it starts where SWEET-RL starts: able to play, wasteful.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds.backend_programming.mini import extras

_NAMED = re.compile(r"^They are (\w+) and (\w+)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Noise:
    """How often the teacher errs, as probabilities per turn.

    `early`: answers although something is missing; `late`: asks on although everything is known; `astray`:
    asks about something else although the request names the extras (world `easy`).
    """

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
    """The teacher's next turn."""
    noise = noise or Noise()
    seen = _Seen.of(messages)
    complete = len(seen.known) == extras.CHARGED
    if seen.turns == max_turns - 1 or (complete and rng.random() >= noise.late):
        return seen.answer
    if seen.known and not complete and rng.random() < noise.early:
        return seen.answer
    wanted = seen.fresh((*relevant, *_named(messages[0].content)))
    if wanted and rng.random() >= noise.astray:
        return extras.question(rng.choice(wanted))
    return extras.question(rng.choice(seen.fresh(extras.EXTRAS)))


def insider(messages: Sequence[Message], rng: Random, *, max_turns: int) -> str:
    """The ceiling of asking: knows which extras are usual for this request, asks about those first, never errs."""
    usual = _named(messages[0].content) or extras.usual_for(messages[0].content)
    return say(messages, rng, max_turns=max_turns, noise=Noise(early=0, late=0, astray=0), relevant=usual)


def at_random(messages: Sequence[Message], rng: Random, *, max_turns: int) -> str:
    """The floor of asking: about any extra, asked before or not; answers when it knows all, or has to."""
    seen = _Seen.of(messages)
    if seen.turns == max_turns - 1 or len(seen.known) == extras.CHARGED:
        return seen.answer
    return extras.question(rng.choice(extras.EXTRAS))


PLAYERS: Final[Mapping[str, Callable[..., str]]] = {"expert": say, "insider": insider, "random": at_random}
"""By the names of scripted agents: functions of the dialogue, the generator and `max_turns`."""


class _Seen(NamedTuple):
    """What a dialogue shows to the agent."""

    turns: int
    asked: Sequence[str]
    known: Mapping[str, int]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> _Seen:
        mine = [message.content for message in messages if message.role == "assistant"]
        known = extras.named_amounts([message.content for message in messages[1:] if message.role == "user"])
        return cls(len(mine), [extra for extra in map(extras.asked_about, mine) if extra], known)

    @property
    def answer(self) -> str:
        return f"{ANSWER_MARKER}\n{extras.source(self.known)}"

    def fresh(self, among: Sequence[str]) -> list[str]:
        return [extra for extra in among if extra not in self.asked]


def _named(request: str) -> tuple[str, ...]:
    """The extras that the request names, in the world `easy`."""
    found = _NAMED.search(request)
    return found.groups() if found else ()
