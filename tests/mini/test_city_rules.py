"""Guess My City: the rules of the oracle's questions, its agreement with people, and the player who asks it."""

import asyncio
import json
from itertools import pairwise

import oracle_cities
import pytest

from sweet_rl.mini.cities.asker import QUESTIONS, CityAsker
from sweet_rl.mini.cities.oracle import FUNCTIONS, CityOracle, Rule, _rules, holds, names_it, value
from sweet_rl.mini.cities.question import read_question
from sweet_rl.mini.cities.table import cities, read
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation
from sweet_rl.worlds.guess_my_city import GuessMyCityEnv, guess_my_city_tasks

TASKS = [task_from_row(row) for row in guess_my_city_tasks()]
ORACLE = CityOracle()
CITIES = list(cities().values())
SAID = read_question("Is it red?")


def test_every_rule_of_the_table_can_be_followed_and_every_list_is_used():
    for rule in (rule for rules in _rules().values() for rule in rules):
        assert rule.rules in {"", *_rules()}, rule
        assert rule.by in {"", *FUNCTIONS}, rule
        rule.fits(SAID)  # its phrases and regular expressions can be read
        if not (rule.by or rule.rules):
            told = [rule.answer(city, SAID) for city in CITIES]
            named = [
                one
                for city, one in zip(CITIES, told, strict=True)
                if isinstance(one, str) and names_it(city, one)
            ]
            assert not named, rule
    used = {rule.rules for rules in _rules().values() for rule in rules}
    asked = {"open", "either", "yes", "plain", "capital_of_country", "place", "water", "height", "mountain"}
    assert set(read("questions")["rules"]) == (used | asked) - {""}


def test_a_rule_that_says_something_says_it_of_most_cities():
    for rule in (rule for rules in _rules().values() for rule in rules if rule.say):
        told = [rule.answer(city, SAID) for city in CITIES]
        assert told.count(None) <= 3, rule
        assert all("{" not in one for one in told if one), rule


def test_a_word_that_no_rule_and_a_field_that_no_city_has_are_refused():
    with pytest.raises(TypeError, match="asks"):
        Rule(asks="flag")
    with pytest.raises(AttributeError, match="mayor"):
        value("mayor", CITIES[0])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("capital", True), ("not capital", False), ("name = Lima | Paris", True),
        ("languages = French", True), ("water has Seine", True), ("water has Lake", False),
        ("people < 1", False), ("height >= 500", False), ("coast or water", True),
        ("coast and water", False), ("topic.metro and not land.island", True), ("never", False),
        ("", True),
    ],
)  # fmt: skip
def test_conditions(condition, expected):
    assert holds(condition, cities()["Paris, France"]) is expected


def test_agreement_with_the_held_out_half_stays_where_it_is(shared):
    data = shared / "data" / "games" / "guess_my_city.json"
    if not data.exists():
        pytest.skip(f"no dialogues at {data}")
    found = oracle_cities.compare(json.loads(data.read_text())[1::10])  # every fifth dialogue of that half
    told = found.agree + len(found.disagreements)
    assert found.yes_no > 1000
    assert found.agree / told > 0.86
    assert told / found.yes_no > 0.95
    assert found.open_unsure / found.open < 0.06


def play(tasks, **settings):
    played = []

    async def keep(trajectory):
        played.append(trajectory)

    policy = CityAsker(list(cities()), **settings)
    games = {"make_env": lambda: GuessMyCityEnv(ORACLE), "policy": policy, "on_finished": keep}
    asyncio.run(rollout(schedule(tasks, 1, seed=0), concurrency=4, **games))
    return played


def test_it_finds_cities_within_ten_questions_and_without_skill_needs_more():
    skilled, random = play(TASKS[::4]), play(TASKS[::4], skill=0.0)
    assert all(game.stop_reason == "ended" for game in skilled)
    assert min(game.reward for game in skilled) >= -9
    assert sum(game.reward for game in skilled) / len(skilled) > -8
    assert sum(game.reward for game in random) < sum(game.reward for game in skilled)


def test_it_never_asks_twice_and_never_guesses_a_city_that_an_answer_ruled_out():
    for game in play(TASKS[::12], skill=0.3):
        asked = [turn.content for turn in game.dialogue_history if turn.role == "assistant"]
        assert len(asked) == len(set(asked))
        for question, answer in pairwise(game.dialogue_history):
            if question.role == "assistant":
                assert ORACLE.answer(game.task.hidden_information, question.content) == answer.content


def test_answers_that_fit_no_city_do_not_stop_it():
    asker = CityAsker(["Paris, France", "Rome, Italy"])
    said = ("Questions:\n", "Is it in Asia?", "Yes.", "Is your city Rome?", "No.")
    dialogue = tuple(Message(("user", "assistant")[place % 2], text) for place, text in enumerate(said))
    said = asyncio.run(asker.act(Observation("x", dialogue, seed=0))).completion.text
    assert said == "Is your city Paris?"


def test_all_wordings_of_a_question_get_the_same_answer_and_it_is_yes_or_no():
    for forms in QUESTIONS.values():
        for city in cities():
            (answer,) = {ORACLE.answer(city, form) for form in forms}
            assert answer in {"Yes.", "No."}, (city, forms)
