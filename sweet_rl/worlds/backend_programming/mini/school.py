"""What the embedded agent reads before it plays: texts of the mini worlds, from easy to real.

A large model brings what these texts teach from its pre-training: to copy what it was given, to keep track of
a dialogue, to make use of a solution that stands before it. None of them shows which extras are usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from random import Random
from typing import Final

from sweet_rl.sft_data.schools import Phase, School, Text
from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds.backend_programming.human import ScriptedHuman
from sweet_rl.worlds.backend_programming.mini import expert, extras, row_of
from sweet_rl.worlds.backend_programming.mini.problem import Problem

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


def dialogue(rng: Random, *, named: bool = False, with_solution: bool = False) -> Text:
    """What the noisy teacher and the scripted human say to each other.

    Args:
        rng: all randomness comes from it.
        named: of the world `easy`, where the request names the extras.
        with_solution: put the solution before it; the teacher, too, has mostly read it.
    """
    problem = extras.easy(rng) if named else extras.uniform(rng)
    request = row_of(problem)["problem_description"]
    relevant = dict(problem.rules) if with_solution and rng.random() < 0.7 else {}
    messages = [Message("user", request)]
    while True:
        reply = expert.say(messages, rng, max_turns=extras.MAX_TURNS, relevant=relevant)
        messages.append(Message("assistant", reply))
        if messages[-1].content.startswith(ANSWER_MARKER) or len(messages) == 2 * extras.MAX_TURNS:
            return Text(tuple(messages), problem.source if with_solution else None)
        messages.append(_reply(problem, request, messages))


def drills(rng: Random) -> Iterator[Text]:
    """Phase 1: copying and keeping track."""
    while True:
        yield copying(rng) if rng.random() < 0.4 else enumerating(rng)


def reading(rng: Random) -> Iterator[Text]:
    """Phase 2: dialogues of both worlds, some after their solution, and further drills."""
    while True:
        kind = rng.random()
        if kind < 0.2:
            yield next(drills(rng))
        elif kind < 0.5:
            yield dialogue(rng, named=True)
        else:
            yield dialogue(rng, with_solution=rng.random() < 0.6)


def teaching(rng: Random) -> Iterator[Text]:
    """Phase 3: dialogues as they will be played."""
    while True:
        yield dialogue(rng, named=rng.random() < 0.3)


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
    texts = [copying(rng) for _ in range(_DRILLS)]
    for text in chain(texts, islice(teaching(rng), _DIALOGUES)):
        yield replace(text, solution=text.messages[-1].content.partition("\n")[2])


SCHOOL: Final = School(
    "llm_agent_mini_prompt",
    _corpus,
    (
        Phase("drills", drills, 500, 32, 3e-3, all_tokens=False),
        Phase("reading", reading, 300, 64, 2e-3, all_tokens=True),
        Phase("teaching", teaching, 150, 64, 1.5e-3, all_tokens=False),
    ),
    tuple(map(extras.question, extras.EXTRAS)),
)
