"""Guess My City without a model: true answers, no guesses and no leaks; the rules of the oracle; the player who asks."""

import asyncio
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import oracle_cities
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweet_rl.errors import UsageError
from sweet_rl.mini.cities import oracle
from sweet_rl.mini.cities.asker import QUESTIONS, CityAsker
from sweet_rl.mini.cities.oracle import CANNOT, FUNCTIONS, NOT_SURE, CityOracle, Rule, holds, value
from sweet_rl.mini.cities.table import WEATHER, cities, countries, plain, read, read_question, topics
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation, UserContext
from sweet_rl.worlds.guess_my_city import GuessMyCityEnv, guess_my_city_tasks

ORACLE = CityOracle()
TASKS = [task_from_row(row) for row in guess_my_city_tasks()]
EXPECTED = Path(__file__).parent / "tables" / "city_questions.tsv"
TABLE = tomllib.loads(EXPECTED.with_suffix(".toml").read_text("utf-8"))
OPEN_QUESTIONS, HOMES, OPEN_TEMPLATES, ASKED_FOR_IT = (
    TABLE[name] for name in ("open", "homes", "templates", "for_its_name")
)
FULL = {city.name: key for key, city in cities().items()}
CITIES = list(cities().values())
SAID = read_question("Is it red?")


def test_answers_that_a_person_would_expect():
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    rows = [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]
    assert [(city, question, ORACLE.answer(FULL[city], question)) for city, question, _ in rows] == rows


def test_every_city_of_the_published_list_and_no_other(shared):
    words = json.loads((shared / "goldens" / "archer" / "word_lists.json").read_text())
    assert set(cities()) == set(words["guess_my_city"])
    assert len(cities()) == 91


def test_the_table_fits_together():
    names = {city.name for city in cities().values()}
    for city in cities().values():
        assert city.weather in WEATHER
        assert -90 <= city.at[0] <= 90
        assert -180 <= city.at[1] <= 180
        assert min(len(city.sights), len(city.food), len(city.famous)) >= 2
        assert set(city.near).isdisjoint(city.coast)
        assert city.land.coasts or not city.coast  # no coast in a landlocked country
    for topic in topics().values():
        assert topic.cities <= names, topic.name
    for land in countries().values():
        assert not set(land.neighbours) & {land.name, *land.also}
        for back in (countries()[other].neighbours for other in land.neighbours if other in countries()):
            assert {land.name, *land.also} & set(back), land.name


@pytest.mark.parametrize("told", OPEN_TEMPLATES)
def test_open_questions_about_your_city_are_answered_for_every_city(told):
    for template in OPEN_TEMPLATES[told]:
        for number, key in enumerate(cities()):
            question = template.format(home=HOMES[number % len(HOMES)])
            answer = ORACLE.answer(key, question)
            assert answer not in {NOT_SURE, CANNOT}, (key, question)
            assert re.search(told, answer), (key, question, answer)


@pytest.mark.parametrize(
    "question",
    [
        "Who is the mayor of your city?", "What famous person was born in your city?",
        "What is the longest river in your country?", "Who is the president of your country?",
    ],
)  # fmt: skip
def test_what_is_not_in_the_table_is_not_answered_from_something_else(question):
    assert {ORACLE.answer(key, question) for key in cities()} == {NOT_SURE}


def names_it(city, answer):
    """By letters, spaces and accents aside: the hardest of the rules by which a world hides an answer."""
    letters = "".join(plain(answer).split())
    return any("".join(plain(name).split()) in letters for name in city.names)


def test_asked_for_its_name_it_does_not_tell():
    for number, (key, city) in enumerate(cities().items()):
        for template in ASKED_FOR_IT:
            answer = ORACLE.answer(key, template.format(home=HOMES[number % len(HOMES)]))
            assert answer in {CANNOT, NOT_SURE}, (key, template, answer)
        assert not names_it(city, ORACLE.answer(key, f"What is {city.name} known for?"))


_WORDS = st.sampled_from(
    [
        *("what", "which", "where", "how", "is", "are", "your city's", "your city", "your country"),
        *("the", "of", "name", "called", "nickname", "known for", "famous for", "river", "state"),
        *("capital", "airport", "museum", "tower", "best", "main", "province", "water", "tell me"),
        *("or", "and", "near", "old", "not"),
        *(one for city in cities().values() for one in (city.name, *city.sights)),
    ]
)


@given(st.sampled_from(sorted(cities())), st.lists(_WORDS, min_size=1, max_size=9).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_no_answer_to_anything_holds_the_name_or_another_name_of_it(key, words):
    assert not names_it(cities()[key], ORACLE.answer(key, f"{words}?"))


def test_no_answer_to_any_open_question_holds_a_name_unless_asked_for_it():
    """Letters count: "climate" holds "lima", and the world would hide the whole answer."""
    asked = [*ASKED_FOR_IT, *(one for many in OPEN_TEMPLATES.values() for one in many)]
    for number, (key, city) in enumerate(cities().items()):
        told = [ORACLE.answer(key, question) for question in OPEN_QUESTIONS]
        assert all(answer.endswith(".") and len(answer) <= 160 for answer in told)
        home = HOMES[number % len(HOMES)]
        told += [ORACLE.answer(key, question.format(home=home)) for question in asked]
        assert not [answer for answer in told if names_it(city, answer)], key
        assert ORACLE.answer(key, "Which country is it in?").startswith("It is ")


def test_through_the_world_the_name_stays_hidden_and_the_guess_wins():
    async def play(*questions):
        env = GuessMyCityEnv(ORACLE)
        await env.reset(next(one for one in TASKS if one.hidden_information == "Lima, Peru"), seed=0)
        return [await env.step(question) for question in questions]

    named, told, won = asyncio.run(
        play("What is the name of your city?", "What is the climate like?", "Is your home town Lima?")
    )
    assert named.observation.messages[-1].content == "I can't answer that question."
    assert told.observation.messages[-1].content == "It is mild and often cloudy, and it hardly ever rains."
    assert (named.reward, won.reward, won.terminated) == (-1, 0, True)


def test_each_city_says_yes_to_its_own_name_and_no_to_others():
    for key, city in cities().items():
        for name in city.names:
            assert ORACLE.answer(key, f"Is your home town {name}?") == "Yes.", name
        for other in cities().values():
            if other is not city:
                assert ORACLE.answer(key, f"Is your city {other.name}?") == "No.", (key, other.name)


@pytest.mark.parametrize(
    "said", ["", " ", "\n", "?", "???", "🙂", "a" * 10_000, "Is " * 3000 + "?", "\udc80", "1,2.3.4?"]
)
def test_odd_input_is_answered_honestly(said):
    assert ORACLE.answer("Paris, France", said) in {NOT_SURE, "No."}


def test_it_is_a_user_that_reads_the_last_message_and_knows_91_cities():
    said = (Message("user", "Questions:\n"), Message("assistant", "Is it in Asia?\n"))
    reply = asyncio.run(ORACLE.reply(UserContext("Questions:\n", "Tokyo, Japan", said)))
    assert (reply.content, reply.failure) == ("Yes.", None)
    asyncio.run(ORACLE.close())
    with pytest.raises(UsageError, match=r"91 cities.*'Atlantis, Sea'"):
        ORACLE.answer("Atlantis, Sea", "Is it in Asia?")
    assert ORACLE.answer("tokyo,japan", "Is it in Asia?") == "Yes."


# ---- rules, agreement with people, the player


def test_every_rule_of_the_table_can_be_followed_and_says_something_of_most_cities():
    lists = oracle._rules()
    for rule in (rule for rules in lists.values() for rule in rules):
        assert rule.rules in {"", *lists}, rule
        assert rule.by in {"", *FUNCTIONS}, rule
        rule.fits(SAID)  # its phrases and regular expressions can be read
        if not (rule.by or rule.rules):
            told = [(city, rule.answer(city, SAID)) for city in CITIES]
            assert not [one for city, one in told if isinstance(one, str) and names_it(city, one)], rule
            if rule.say:
                assert sum(one is None for _, one in told) <= 3, rule
                assert all("{" not in one for _, one in told if one), rule
    used = {rule.rules for rules in lists.values() for rule in rules}
    asked = {"open", "either", "yes", "plain", "capital_of_country", "place", "water", "height", "mountain"}
    assert set(read("questions")["rules"]) == (used | asked) - {""}
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
    data = (shared / "data/games/guess_my_city.json").read_text()
    found = oracle_cities.compare(json.loads(data)[1::10])  # every fifth dialogue of that half
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
