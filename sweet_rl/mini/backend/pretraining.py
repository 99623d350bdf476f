"""What the embedded agent reads before it plays, from easy to real, and what is measured then.

These texts teach to copy, to keep track of a dialogue, to use a solution that stands before it. None shows which extras are
usual: a critic can only be better than one without the solution if the model under both reads solutions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Final

from sweet_rl.mini.backend import extras
from sweet_rl.mini.backend.families import Problem
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.mini.backend.tasks import TRADES, problems, row_of
from sweet_rl.mini.pretraining import Ask, Figure, Phase, PretrainingTexts, Text
from sweet_rl.types import ANSWER_MARKER, Message

UNINFORMED = extras.Noise(early=0.04)  # Early answers are there to be unlearnt from outcomes

INFORMED = extras.Noise(early=0.0, astray=0.5)
"""A teacher who has read the solution; half of its questions are any question, drawn turn by turn."""

_DRILLS, _DIALOGUES = 3000, 100

MISSES = 5  # Told texts are looked at after 0 to 4 wasted questions: a reader must not conclude from them

QUESTIONS = tuple(map(extras.question, extras.EXTRAS))
_BEGINNINGS = (*QUESTIONS, f"{ANSWER_MARKER}\n")
_HUMAN = ScriptedHuman()


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment at which something is still to be asked, with what has been asked about."""

    problem: Problem
    asked: tuple[str, ...] = ()

    def text(self, solution: str | None = None) -> Text:
        return replace(_dialogue(self.problem, self.asked), solution=solution)


def figures(ask: Ask, *, each: int = 60, dialogues: int = 300) -> list[Figure]:
    drawn = problems(TRADES, TRADES, "dev", 0)
    moments = [[_moment(next(drawn), misses) for _ in range(each)] for misses in range(MISSES)]
    rows = [moment for row in moments for moment in row]
    wrong = [  # problems that charge for neither extra
        next(other for other in drawn if not set(_charged(other)) & set(_charged(moment.problem)))
        for moment in rows
    ]
    right = ask([moment.text(moment.problem.source) for moment in rows], QUESTIONS)
    areas = [area_of(moment, logprobs) for moment, logprobs in zip(rows, right, strict=True)]
    halfway = [_moment(next(drawn), 1, found=1) for _ in range(each)]
    answers = [row[0] for row in ask([m.text(m.problem.source) for m in halfway], _BEGINNINGS[-1:])]
    first = list(islice(drawn, 10 * each))
    untold = ask([Moment(problem).text() for problem in first], QUESTIONS)
    misled = ask([m.text(other.source) for m, other in zip(rows, wrong, strict=True)], QUESTIONS)
    blind = fmean(area_of(Moment(p), logprobs) for p, logprobs in zip(first, untold, strict=True))
    return [
        Figure("P(charged), right solution", charged_share(rows, right), low=0.5),
        Figure("P(charged), wrong solution", charged_share(rows, misled), high=0.25),
        *(
            Figure(f"AUC, right solution, {n} misses", fmean(areas[n * each : (n + 1) * each]), low=0.98)
            for n in range(MISSES)
        ),
        Figure("AUC, no solution", blind, low=0.47, high=0.53),
        Figure("P(early answer), right solution", fmean(map(math.exp, answers))),
        *habits(ask, list(islice(drawn, dialogues))),
    ]


def charged_share(moments: Sequence[Moment], logprobs: Sequence[Sequence[float]]) -> float:
    """The mean probability (0 to 1) of asking about what is charged for."""
    shares = []
    for moment, row in zip(moments, logprobs, strict=True):
        by_extra, charged = dict(zip(extras.EXTRAS, row, strict=True)), _charged(moment.problem)
        shares.append(sum(math.exp(one) for extra, one in by_extra.items() if extra in charged))
    return fmean(shares)


def area_of(moment: Moment, logprobs: Sequence[float]) -> float:
    """The chance that a charged extra is likelier to be asked about than a free one that was not asked about."""
    by_extra = dict(zip(extras.EXTRAS, logprobs, strict=True))
    good = [by_extra[extra] for extra in _charged(moment.problem)]
    bad = [one for extra, one in by_extra.items() if extra not in (*_charged(moment.problem), *moment.asked)]
    return fmean((g > b) + 0.5 * (g == b) for g in good for b in bad)


def gap(asked: Sequence[str], logprobs: Sequence[float]) -> float:
    """Nats from the likeliest repeated question up to the mean of the fresh ones."""
    by_extra = dict(zip(extras.EXTRAS, logprobs, strict=True))
    fresh = fmean(one for extra, one in by_extra.items() if extra not in asked)
    return fresh - max(by_extra[extra] for extra in asked)


def habits(ask: Ask, tasks: Sequence[Problem]) -> Iterator[Figure]:
    """What an agent without a solution does in whole dialogues, drawn at temperature 1; other turns end a dialogue."""
    rng, gaps = Random(0), []
    repeated = early = other = 0.0
    playing: list[tuple[Problem, tuple[str, ...]]] = [(problem, ()) for problem in tasks]
    for turn in range(extras.MAX_TURNS):
        going_on = []
        logprobs = ask([_dialogue(*one) for one in playing], _BEGINNINGS)
        for (problem, asked), row in zip(playing, logprobs, strict=True):
            *asking, answering = map(math.exp, row)
            chances = dict(zip(extras.EXTRAS, asking, strict=True))
            found = len(set(asked) & set(_charged(problem)))
            if asked:
                gaps.append(gap(asked, row[: len(extras.EXTRAS)]))
            repeated += sum(chances[extra] for extra in set(asked))
            early += answering * (found < extras.CHARGED and turn < extras.MAX_TURNS - 1)
            other += 1 - sum(asking) - answering
            (drawn,) = rng.choices([*chances, ""], [*asking, max(0.0, 1 - sum(asking))])
            if drawn:
                going_on.append((problem, (*asked, drawn)))
        playing = going_on
    yield Figure("nats of a repeated question below fresh ones", fmean(gaps) if gaps else math.nan, low=6.0)
    yield Figure("repetitions a dialogue", repeated / len(tasks), high=0.02)
    yield Figure("early answers a dialogue", early / len(tasks))
    yield Figure("turns that are no question and no answer", other / len(tasks))


def _charged(problem: Problem) -> list[str]:
    return [extra for extra, _ in problem.rules]


def _moment(problem: Problem, misses: int, found: int = 0) -> Moment:
    free = [extra for extra in extras.EXTRAS if extra not in _charged(problem)]
    missed = Random(problem.source).sample(free, misses)
    return Moment(problem, (*missed, *_charged(problem)[:found]))


def _dialogue(problem: Problem, asked: Sequence[str]) -> Text:
    request = row_of(problem)["problem_description"]
    messages = [Message("user", request)]
    for extra in asked:
        messages.append(Message("assistant", extras.question(extra)))
        messages.append(_reply(problem, request, messages))
    return Text(tuple(messages))


def copying(rng: Random) -> Text:
    """The person says at once what there is to know; the agent writes it down."""
    problem = extras.uniform(rng)
    facts = [f'If "{extra}" is in the extras, the price goes up by {by}.' for extra, by in problem.rules]
    rng.shuffle(facts)
    return Text((*(Message("user", fact) for fact in facts), _answer(problem)))


def enumerating(rng: Random) -> Text:
    """The agent asks about every extra, each once, then answers: to learn to keep track of its questions."""
    problem = extras.uniform(rng)
    messages: list[Message] = []
    for extra in rng.sample(extras.EXTRAS, len(extras.EXTRAS)):
        messages.append(Message("assistant", extras.question(extra)))
        messages.append(_reply(problem, "", messages))
    return Text((*messages, _answer(problem)))


def dialogue(rng: Random, *, named: bool = False) -> Text:
    return _played(extras.easy(rng) if named else extras.uniform(rng), rng, UNINFORMED)


def informed(rng: Random, wasted: int = 0) -> Text:
    problem = extras.uniform(rng)
    free = [extra for extra in extras.EXTRAS if extra not in _charged(problem)]
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
    noise: extras.Noise,
    relevant: Collection[str] = (),
    wasted: Sequence[str] = (),
) -> Text:
    request = row_of(problem)["problem_description"]
    messages = [Message("user", request)]
    while True:
        number = len(messages) // 2
        turn = extras.say(messages, rng, max_turns=extras.MAX_TURNS, noise=noise, relevant=relevant)
        if number < len(wasted):
            turn = extras.question(wasted[number])
        messages.append(Message("assistant", turn))
        if messages[-1].content.startswith(ANSWER_MARKER) or len(messages) == 2 * extras.MAX_TURNS:
            return Text(tuple(messages), problem.source if relevant else None, len(wasted))
        messages.append(_reply(problem, request, messages))


def _answer(problem: Problem) -> Message:
    return Message("assistant", f"{ANSWER_MARKER}\n{problem.source}")


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


TEXTS: Final = PretrainingTexts(
    "llm_agent_mini_prompt",
    _corpus,
    (
        # Muon, as AdamW takes four times the steps to find what was asked and what the solution says.
        Phase("drills", drills, 300, 16, 3e-3, 0.02),
        Phase("reading", reading, 900, 16, 3e-3, 0.02),
        Phase("practice", partial(reading, most_wasted=4), 900, 32, 1.5e-3, 0.01, more=100, limit=2500),
    ),
    (*QUESTIONS, *map(extras.shop, extras.TRADES)),
    once=QUESTIONS,
    figures=figures,
    card=Path(__file__).with_name("card.txt").read_text("utf-8"),
)
