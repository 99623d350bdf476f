"""What the embedded agent reads before it plays: texts of the mini worlds, from easy to real.

A large model brings what these texts teach from its pre-training: to copy what it was given, to keep track of
a dialogue, to make use of a solution that stands before it. None of them shows which extras are usual.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random
from typing import Final

from sweet_rl.reflect_data.pretraining import Phase, School, Text
from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds.backend_programming.human import ScriptedHuman
from sweet_rl.worlds.backend_programming.mini import expert, extras, row_of
from sweet_rl.worlds.backend_programming.mini.gates import figures
from sweet_rl.worlds.backend_programming.mini.problem import Problem

UNINFORMED = expert.Noise(early=0.04)
"""Early answers are there to be unlearnt from outcomes."""

INFORMED = expert.Noise(early=0.0, astray=0.5)
"""Of a teacher who has read the solution. Half of its questions are any question, drawn turn by turn: if it were
half of the dialogues, wasted questions would tell a reader that the next one is wasted, too. It never
answers early, so that a critic that has read the solution does not begin with a liking for that."""

_DRILLS, _DIALOGUES = 3000, 100
"""What the tokenizer is learnt from."""


def copying(rng: Random) -> Text:
    """The person says at once what there is to know; the agent writes it down."""
    problem, charges = _problem(rng)
    facts = [f'If "{extra}" is in the extras, the price goes up by {charges[extra]}.' for extra in charges]
    rng.shuffle(facts)
    return Text((*(Message("user", fact) for fact in facts), _answer(problem)))


def enumerating(rng: Random) -> Text:
    """The agent asks about every extra, each once, then answers: to learn to keep track of its questions."""
    problem, _ = _problem(rng)
    messages: list[Message] = []
    for extra in rng.sample(extras.EXTRAS, len(extras.EXTRAS)):
        messages.append(Message("assistant", extras.question(extra)))
        messages.append(_reply(problem, "", messages))
    return Text((*messages, _answer(problem)))


def dialogue(rng: Random, *, named: bool = False) -> Text:
    """What the noisy teacher and the scripted human say to each other."""
    return _played(extras.easy(rng) if named else extras.uniform(rng), rng, UNINFORMED)


def informed(rng: Random, wasted: int = 0) -> Text:
    """The same after the solution, which the teacher has read, too."""
    problem = extras.uniform(rng)
    free = [extra for extra in extras.EXTRAS if extra not in dict(problem.rules)]
    return _played(problem, rng, INFORMED, dict(problem.rules), rng.sample(free, wasted))


def drills(rng: Random) -> Iterator[Text]:
    """Phase 1: copying and keeping track."""
    while True:
        yield copying(rng) if rng.random() < 0.4 else enumerating(rng)


def reading(rng: Random, *, most_wasted: int = 0) -> Iterator[Text]:
    """Phases 2 and 3: dialogues as they will be played, half of them after their solution, and the short drill."""
    while True:
        kind = rng.random()
        if kind < 0.1:
            yield copying(rng)
        elif kind < 0.6:
            yield informed(rng, rng.randint(0, most_wasted))
        else:
            yield dialogue(rng, named=kind < 0.7)


def _played(
    problem: Problem,
    rng: Random,
    noise: expert.Noise,
    relevant: Collection[str] = (),
    wasted: Sequence[str] = (),
) -> Text:
    """A dialogue whose teacher prefers the relevant extras, after some wasted questions."""
    request = row_of(problem)["problem_description"]
    messages = [Message("user", request)]
    while True:
        number = len(messages) // 2
        turn = expert.say(messages, rng, max_turns=extras.MAX_TURNS, noise=noise, relevant=relevant)
        messages.append(
            Message("assistant", extras.question(wasted[number]) if number < len(wasted) else turn)
        )
        if messages[-1].content.startswith(ANSWER_MARKER) or len(messages) == 2 * extras.MAX_TURNS:
            return Text(tuple(messages), problem.source if relevant else None, len(wasted))
        messages.append(_reply(problem, request, messages))


def _problem(rng: Random) -> tuple[Problem, dict[str, int]]:
    problem = extras.uniform(rng)
    return problem, dict(problem.rules)


def _answer(problem: Problem) -> Message:
    return Message("assistant", f"{ANSWER_MARKER}\n{problem.source}")


_HUMAN = ScriptedHuman()


def _reply(problem: Problem, request: str, messages: Sequence[Message]) -> Message:
    dialogue = messages if request else [Message("user", ""), *messages]
    return Message("user", _HUMAN.answer(request, problem.source, dialogue))


def _corpus() -> Iterator[Text]:
    """What the tokenizer is learnt from, solutions too: the same for every agent."""
    rng = Random(0)
    drilled = (copying(rng) for _ in range(_DRILLS))
    played = (dialogue(rng, named=rng.random() < 0.3) for _ in range(_DIALOGUES))
    for text in chain(drilled, played):
        yield replace(text, solution=text.messages[-1].content.partition("\n")[2])


_QUESTIONS = tuple(map(extras.question, extras.EXTRAS))

_CARD = """\
# The embedded agent of the mini benchmark, seed {seed}

A Llama of 0.7 million parameters, two layers of width 128, with a tokenizer of its own whose tokens are as long as
a line. Made from nothing, on generated texts only: `sweet-rl make_embedded_agent FOLDER --seed {seed}`.

It can play the worlds `trades`, `usual` and `easy` (docs/mini.md): it asks about one extra a turn, keeps track of
what it has asked, and writes down the amounts. After a solution it asks mostly about what stands there, so
that a critic made of it can read what is hidden. Now and then it answers early or asks on: that is left to learn.

It cannot do anything else: it knows no English and no Python beyond the lines of these worlds. It does not
know which extras are usual, in any trade. What it reads a solution for is taught, not brought from pre-training, and
a solution in other words says nothing to it.

Measured on mini:trades:dev; gates were fixed before any study:
"""

SCHOOL: Final = School(
    "llm_agent_mini_prompt",
    _corpus,
    (
        # Muon, as AdamW takes four times the steps to find what was asked and what the solution says.
        Phase("drills", drills, 300, 16, 3e-3, 0.02),
        Phase("reading", reading, 900, 16, 3e-3, 0.02),
        Phase("practice", partial(reading, most_wasted=4), 900, 32, 1.5e-3, 0.01, more=100, limit=2500),
    ),
    (*_QUESTIONS, *map(extras.shop, extras.TRADES)),
    once=_QUESTIONS,
    figures=figures,
    card=_CARD,
)
