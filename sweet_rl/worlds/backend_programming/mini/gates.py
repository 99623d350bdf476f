"""What an agent has to be able to do before a study begins with it, measured on mini:trades:dev.

Fixed beforehand, and not by what came of studies (docs/mini.md): that a critic made of this agent can read a
solution, that its policy keeps track of what it has asked, and that it does not know the usual extras.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from statistics import fmean

from sweet_rl.reflect_data.pretraining import Ask, Figure, Text
from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds.backend_programming.human import ScriptedHuman
from sweet_rl.worlds.backend_programming.mini import TRADES, extras, problems, row_of
from sweet_rl.worlds.backend_programming.mini.problem import Problem

MISSES = 5
"""Told texts are looked at after 0 to 4 wasted questions: a reader must not conclude from them."""

QUESTIONS = tuple(map(extras.question, extras.EXTRAS))
_BEGINNINGS = (*QUESTIONS, f"{ANSWER_MARKER}\n")
_HUMAN = ScriptedHuman()


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment at which something is still to be asked, with what has been asked about."""

    problem: Problem
    asked: tuple[str, ...] = ()

    def text(self, solution: str | None = None) -> Text:
        """The dialogue so far, after a solution where one is given."""
        return Text(tuple(_dialogue(self.problem, self.asked)), solution)


def figures(ask: Ask, *, each: int = 60, dialogues: int = 300) -> list[Figure]:
    """All gates of an agent."""
    drawn = _tasks()
    moments = [[_moment(next(drawn), misses) for _ in range(each)] for misses in range(MISSES)]
    rows = [moment for row in moments for moment in row]
    wrong = [_with_others(moment, drawn) for moment in rows]
    right = ask([moment.text(moment.problem.source) for moment in rows], QUESTIONS)
    areas = [area_of(moment, logprobs) for moment, logprobs in zip(rows, right, strict=True)]
    halfway = [_moment(next(drawn), 1, found=1) for _ in range(each)]
    answers = [row[0] for row in ask([m.text(m.problem.source) for m in halfway], _BEGINNINGS[-1:])]
    first = list(islice(drawn, 10 * each))
    untold = ask([Moment(problem).text() for problem in first], QUESTIONS)
    return [
        Figure("P(charged), right solution", charged_share(rows, right), low=0.5),
        Figure(
            "P(charged), wrong solution",
            charged_share(
                rows,
                ask([m.text(other.source) for m, other in zip(rows, wrong, strict=True)], QUESTIONS),
            ),
            high=0.25,
        ),
        *(
            Figure(f"AUC, right solution, {n} misses", fmean(areas[n * each : (n + 1) * each]), low=0.98)
            for n in range(MISSES)
        ),
        Figure(
            "AUC, no solution",
            fmean(area_of(Moment(p), logprobs) for p, logprobs in zip(first, untold, strict=True)),
            low=0.47,
            high=0.53,
        ),
        Figure("P(early answer), right solution", fmean(map(math.exp, answers))),
        *habits(ask, list(islice(drawn, dialogues))),
    ]


def charged_share(moments: Sequence[Moment], logprobs: Sequence[Sequence[float]]) -> float:
    """The mean probability (0 to 1) of asking about what is charged for."""
    return fmean(
        sum(
            math.exp(one)
            for extra, one in zip(extras.EXTRAS, row, strict=True)
            if extra in _charged(m.problem)
        )
        for m, row in zip(moments, logprobs, strict=True)
    )


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
    """What an agent without a solution does in whole dialogues, its turns drawn at temperature 1.

    Repetitions and early answers are sums of probabilities over the turns of the dialogues that were drawn.
    A turn that is neither a question nor an answer ends its dialogue.
    """
    rng, gaps = Random(0), []
    repeated = early = other = 0.0
    playing: list[tuple[Problem, tuple[str, ...]]] = [(problem, ()) for problem in tasks]
    for turn in range(extras.MAX_TURNS):
        going_on = []
        logprobs = ask([Text(tuple(_dialogue(*one))) for one in playing], _BEGINNINGS)
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


def _tasks() -> Iterator[Problem]:
    return problems(TRADES, TRADES, "dev", 0)


def _charged(problem: Problem) -> list[str]:
    return [extra for extra, _ in problem.rules]


def _moment(problem: Problem, misses: int, found: int = 0) -> Moment:
    free = [extra for extra in extras.EXTRAS if extra not in _charged(problem)]
    missed = Random(problem.source).sample(free, misses)
    return Moment(problem, (*missed, *_charged(problem)[:found]))


def _with_others(moment: Moment, drawn: Iterator[Problem]) -> Problem:
    """A problem that charges for neither extra of this one."""
    return next(other for other in drawn if not set(_charged(other)) & set(_charged(moment.problem)))


def _dialogue(problem: Problem, asked: Sequence[str]) -> Iterator[Message]:
    request = row_of(problem)["problem_description"]
    messages = [Message("user", request)]
    yield messages[0]
    for extra in asked:
        messages.append(Message("assistant", extras.question(extra)))
        yield messages[-1]
        messages.append(Message("user", _HUMAN.answer(request, problem.source, messages)))
        yield messages[-1]
