"""The scripted player of Guess My City: it reasons from answers, and never sees what is hidden."""

import asyncio
from itertools import pairwise

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.cities.asker import QUESTIONS, CityAsker
from sweet_rl.mini.cities.oracle import CityOracle
from sweet_rl.mini.cities.table import cities
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation
from sweet_rl.worlds.guess_my_city.world import GuessMyCityEnv, guess_my_city_tasks

ORACLE = CityOracle()
TASKS = [task_from_row(row) for row in guess_my_city_tasks()]


def play(tasks, **settings):
    played = []

    async def keep(trajectory):
        played.append(trajectory)

    policy = CityAsker(ORACLE.answer, list(cities()), **settings)
    asyncio.run(
        rollout(
            schedule(tasks, 1, seed=0),
            make_env=lambda: GuessMyCityEnv(ORACLE),
            policy=policy,
            on_finished=keep,
            concurrency=4,
        )
    )
    return played


def test_it_finds_every_third_city_within_ten_questions():
    played = play(TASKS[::3])
    assert all(game.stop_reason == "ended" for game in played)
    assert min(game.reward for game in played) >= -9
    assert sum(game.reward for game in played) / len(played) > -8


def test_without_skill_it_needs_more_questions_but_reasons_all_the_same():
    skilled, random = (sum(game.reward for game in play(TASKS[::5], skill=skill)) for skill in (1.0, 0.0))
    assert random < skilled


def test_it_never_asks_twice_and_never_guesses_a_city_that_an_answer_ruled_out():
    for game in play(TASKS[::9], skill=0.3):
        asked = [turn.content for turn in game.dialogue_history if turn.role == "assistant"]
        assert len(asked) == len(set(asked))
        for question, answer in pairwise(game.dialogue_history):
            if question.role == "assistant":
                assert ORACLE.answer(game.task.hidden_information, question.content) == answer.content


def test_the_same_dialogue_and_seed_get_the_same_turn():
    asker = CityAsker(ORACLE.answer, list(cities()))
    seen = Observation("guess_my_city/0", (Message("user", "Questions:\n"),), seed=5)
    first, again = (asyncio.run(asker.act(seen)).completion.text for _ in range(2))
    assert first == again
    assert first in {form for forms in QUESTIONS.values() for form in forms}


def test_answers_that_fit_no_city_do_not_stop_it():
    asker = CityAsker(ORACLE.answer, ["Paris, France", "Rome, Italy"])
    dialogue = (
        Message("user", "Questions:\n"),
        Message("assistant", "Is it in Asia?"),
        Message("user", "Yes."),
        Message("assistant", "Is your city Rome?"),
        Message("user", "No."),
    )
    said = asyncio.run(asker.act(Observation("x", dialogue, seed=0))).completion.text
    assert said == "Is your city Paris?"


def test_all_wordings_of_a_question_get_the_same_answer_and_it_is_yes_or_no():
    for forms in QUESTIONS.values():
        for city in cities():
            (answer,) = {ORACLE.answer(city, form) for form in forms}
            assert answer in {"Yes.", "No."}, (city, forms)


@pytest.mark.parametrize("skill", [-0.1, 1.5])
def test_a_skill_is_a_probability(skill):
    with pytest.raises(UsageError, match=f"got {skill}"):
        CityAsker(ORACLE.answer, list(cities()), skill=skill)


def test_no_cities_is_an_error():
    with pytest.raises(UsageError, match="got none"):
        CityAsker(ORACLE.answer, [])
