"""The table of questions: every rule of it can be followed, for every city, and none gives the name away."""

import pytest

from sweet_rl.mini.cities.oracle import FUNCTIONS, CityOracle, Rule, _rules, holds, names_it, value
from sweet_rl.mini.cities.question import read_question
from sweet_rl.mini.cities.table import cities, read

ORACLE = CityOracle()
CITIES = list(cities().values())
SAID = read_question("Is it red?")


@pytest.mark.parametrize("name", _rules())
def test_every_rule_of_the_table_can_be_followed(name):
    for rule in _rules()[name]:
        assert rule.rules in {"", *_rules()}, rule
        assert rule.by in {"", *FUNCTIONS}, rule
        rule.fits(SAID)  # its phrases and regular expressions can be read
        if rule.by or rule.rules:
            continue
        for city in CITIES:
            told = rule.answer(city, SAID)
            assert told is None or isinstance(told, bool) or not names_it(city, told), (rule, city)


def test_a_rule_that_says_something_says_it_of_most_cities():
    for rule in (rule for rules in _rules().values() for rule in rules if rule.say):
        told = [rule.answer(city, SAID) for city in CITIES]
        assert told.count(None) <= 3, rule
        assert all("{" not in one for one in told if one), rule


def test_every_list_of_rules_is_used():
    used = {rule.rules for rules in _rules().values() for rule in rules}
    asked = {"open", "either", "yes", "plain", "capital_of_country", "place", "water", "height", "mountain"}
    assert set(read("questions")["rules"]) == (used | asked) - {""}


def test_a_word_that_no_rule_has_is_refused():
    with pytest.raises(TypeError, match="asks"):
        Rule(asks="flag")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("capital", True),
        ("not capital", False),
        ("name = Lima | Paris", True),
        ("languages = French", True),
        ("water has Seine", True),
        ("water has Lake", False),
        ("people < 1", False),
        ("height >= 500", False),
        ("coast or water", True),
        ("coast and water", False),
        ("topic.metro and not land.island", True),
        ("never", False),
        ("", True),
    ],
)
def test_conditions(condition, expected):
    assert holds(condition, cities()["Paris, France"]) is expected


def test_a_field_that_no_city_has_is_an_error():
    with pytest.raises(AttributeError, match="mayor"):
        value("mayor", CITIES[0])


@pytest.mark.parametrize(
    ("city", "question", "answer"),
    [
        ("Bogota, Colombia", "Is it in the north or the south?", "It is in the centre of its country."),
        ("Berlin, Germany", "Is it in South East Asia or Europe?", "Yes."),
        ("Shenyang, China", "What is the name of the palace?", "I can't answer that question."),
        ("Paris, France", "What is its nickname?", "I can't answer that question."),
        ("Medellin, Colombia", "What river runs through it?", "A river of the same name runs through it."),
        ("Kinshaha, Congo", "Which country is it in?", "It is in the Democratic Republic of the Congo."),
    ],
)
def test_answers(city, question, answer):
    assert ORACLE.answer(city, question) == answer
