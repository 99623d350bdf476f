"""The gates of an agent of the mini worlds, by agents whose figures are known by hand."""

import math

import pytest

from sweet_rl.mini.backend import extras, pretraining
from sweet_rl.mini.backend.families import Problem
from sweet_rl.mini.pretraining import Figure

PROBLEM = Problem(extras.source({"delivery": 3, "tuning": 7}), "", (("delivery", 3), ("tuning", 7)), ())


def saying(chances):
    """An agent that says sentences with the chances that a function of its text gives them."""

    def ask(texts, sentences):
        return [[math.log(chances(text).get(one, 1e-9)) for one in sentences] for text in texts]

    return ask


def asked(text):
    return [message.content for message in text.messages if message.role == "assistant"]


def even(text):
    return dict.fromkeys(pretraining.QUESTIONS, 1 / 12)


def fresh(text):
    left = [question for question in pretraining.QUESTIONS if question not in asked(text)]
    return dict.fromkeys(left, 1 / len(left))


def reader(text):
    """Asks about what stands in the solution, three times of four."""
    found = [extras.question(extra) for extra in extras.EXTRAS if f'"{extra}"' in (text.solution or "")]
    found = [question for question in found if question not in asked(text)]
    chances = fresh(text)
    return {q: c / 4 + 3 / 4 * (q in found) / len(found) if found else c for q, c in chances.items()}


def measured(chances):
    found = pretraining.figures(saying(chances), each=8, dialogues=20)
    return {figure.name: figure for figure in found}


def test_an_agent_that_reads_and_remembers_passes_every_gate():
    figures = measured(reader)
    assert all(figure.passed for figure in figures.values())
    assert figures["AUC, no solution"].value == 0.5  # ties
    right = figures["P(charged), right solution"].value
    # 3/4, and 2 of the 12 to 8 fresh ones, a quarter of the time
    assert right == pytest.approx(3 / 4 + sum(2 / left for left in (12, 11, 10, 9, 8)) / 5 / 4)
    assert figures["AUC, right solution, 4 misses"].value == 1.0
    assert figures["repetitions a dialogue"].value == pytest.approx(0, abs=1e-6)


def test_an_agent_that_does_not_read_is_told_apart():
    figures = measured(fresh)
    share = sum(2 / left for left in (12, 11, 10, 9, 8)) / 5
    for which in ("right", "wrong"):
        assert figures[f"P(charged), {which} solution"].value == pytest.approx(share)
    assert not figures["P(charged), right solution"].passed
    assert figures["P(charged), wrong solution"].passed
    assert figures["AUC, right solution, 0 misses"].value == 0.5
    assert not figures["AUC, right solution, 0 misses"].passed


def test_an_agent_that_forgets_is_told_apart():
    figures = measured(even)
    assert figures["nats of a repeated question below fresh ones"].value == pytest.approx(0)
    assert not figures["nats of a repeated question below fresh ones"].passed
    # after n turns 12 x (1 - (11/12)^n) questions have been asked, each of which is repeated with 1/12
    expected = sum(1 - (11 / 12) ** turn for turn in range(6))
    assert figures["repetitions a dialogue"].value == pytest.approx(expected, abs=0.15)
    assert not figures["repetitions a dialogue"].passed


def test_early_answers_and_other_turns_are_counted_by_their_chances():
    def hasty(text):
        return {pretraining.QUESTIONS[0]: 0.5, "I WANT TO ANSWER:\n": 0.25}

    figures = measured(hasty)
    turns = sum(0.5**turn for turn in range(5))  # a dialogue goes on where a question was drawn
    assert figures["early answers a dialogue"].value == pytest.approx(turns / 4, abs=0.12)
    assert figures["turns that are no question and no answer"].value == pytest.approx(turns / 4, abs=0.12)
    assert figures["P(early answer), right solution"].value == pytest.approx(0.25)


def test_area_and_gap_by_hand():
    logprobs = [-1.0, -2.0, -3.0, -4.0, *[-9.0] * 6, -2.0, -9.0]  # tuning is the eleventh
    moment = pretraining.Moment(PROBLEM, ("storage",))
    # free and fresh: wrapping -2, insurance -3, assembly -4, six at -9; delivery wins all 9, tuning 8 and a tie
    assert pretraining.area_of(moment, logprobs) == pytest.approx((9 + 8.5) / 18)
    fresh_ones = [-1.0, -2.0, -4.0, *[-9.0] * 6, -2.0, -9.0]
    assert pretraining.gap(("insurance",), logprobs) == pytest.approx(sum(fresh_ones) / 11 + 3.0)
    share = pretraining.charged_share([moment], [logprobs])
    assert share == pytest.approx(math.exp(-1) + math.exp(-2))


def test_what_is_not_a_number_passes_no_gate():
    assert Figure("x", 0.5).passed
    assert not Figure("x", math.nan).passed
    assert not Figure("x", 0.02, high=0.0199).passed
    assert str(Figure("x", 0.4, low=0.47, high=0.53)) == "x 0.400 (has to be at least 0.47 and at most 0.53)"


def test_the_likeliest_repeated_question_counts():
    first, second, *fresh = extras.EXTRAS
    by_extra = {first: -9.0, second: -1.5} | dict.fromkeys(fresh, -3.0)
    logprobs = [by_extra[extra] for extra in extras.EXTRAS]
    assert pretraining.gap([first, second], logprobs) == -3.0 - -1.5
    assert pretraining.gap([first], [-9.0, *[-3.0] * 11]) == 6.0
