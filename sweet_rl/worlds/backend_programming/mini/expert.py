"""The teacher of the embedded agent: plays the worlds of `extras` by asking at random, with noise.

It knows the game (one extra a question, two to find, then answer), not which extras are usual, and it makes
three mistakes now and then. An agent that imitates it starts where SWEET-RL starts: able to play, wasteful.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

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
    """The teacher's next turn.

    Args:
        messages: the dialogue so far, from the request on.
        rng: all randomness comes from it.
        max_turns: agent turns of an episode; the last one has to be the answer.
        noise: how often it errs; default `Noise()`.
        relevant: extras to prefer, for a teacher who knows which matter; those that the request names
            are preferred in any case.
    """
    noise = noise or Noise()
    mine = [message.content for message in messages if message.role == "assistant"]
    asked = [extra for extra in map(extras.asked_about, mine) if extra]
    known = extras.named_amounts([message.content for message in messages[1:] if message.role == "user"])
    left = [extra for extra in extras.EXTRAS if extra not in asked]
    complete = len(known) == extras.CHARGED
    last = len(mine) == max_turns - 1
    answer = f"{ANSWER_MARKER}\n{extras.source(known)}"
    if last or (complete and rng.random() >= noise.late):
        return answer
    if known and not complete and rng.random() < noise.early:
        return answer
    named = _NAMED.search(messages[0].content)
    wanted = [extra for extra in (*relevant, *(named.groups() if named else ())) if extra not in asked]
    if wanted and rng.random() >= noise.astray:
        return extras.question(rng.choice(wanted))
    return extras.question(rng.choice(left))
