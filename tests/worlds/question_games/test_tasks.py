"""The word lists and their splits."""

import json

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.records import task_from_row
from sweet_rl.worlds.guess_my_city.world import CITIES, OTHER_NAMES, city_names, guess_my_city_tasks
from sweet_rl.worlds.question_games.game import decode_question
from sweet_rl.worlds.twenty_questions.world import (
    OBJECTS_BY_CATEGORY,
    TEN_OBJECTS,
    ask_for_object_template,
    ten_words,
    twenty_questions_tasks,
)


def test_lists_are_the_published_ones(shared):
    lists = json.loads((shared / "goldens/archer/word_lists.json").read_text())
    assert {key: list(names) for key, names in OBJECTS_BY_CATEGORY.items()} == lists[
        "twenty_questions_categories"
    ]
    assert [names for group in OBJECTS_BY_CATEGORY.values() for names in group] == lists["twenty_questions"]
    assert list(TEN_OBJECTS) == lists["llm_subset_indices"]
    assert list(CITIES) == lists["guess_my_city"]


def test_a_row_of_each_game():
    assert twenty_questions_tasks()[34] == {
        "task_id": "twenty_questions/34",
        "problem_description": "Questions:\n",
        "ground_truth": "airplane",
        "hidden_information": "airplane",
        "aliases": ["airplane", "plane"],
        "category": "Vehicles",
    }
    assert guess_my_city_tasks()[2] == {
        "task_id": "guess_my_city/2",
        "problem_description": "Questions:\n",
        "ground_truth": "Bombay, India",
        "hidden_information": "Bombay, India",
        "aliases": ["bombay", "mumbai"],
    }
    assert task_from_row(guess_my_city_tasks()[2]).hidden_information == "Bombay, India"


def test_ten_words(shared):
    lists = json.loads((shared / "goldens/archer/env_expected.json").read_text())
    rows = twenty_questions_tasks("ten")
    assert [row["aliases"] for row in rows] == lists["llm_twenty_questions"]["word_list"]
    assert ten_words()[4] == "pants"


@pytest.mark.parametrize(
    ("tasks", "total", "held_out"), [(twenty_questions_tasks, 157, 31), (guess_my_city_tasks, 91, 18)]
)
def test_splits_share_nothing_and_miss_nothing(tasks, total, held_out):
    train, test = tasks("train"), tasks("test")
    assert (len(tasks()), len(test)) == (total, held_out)
    assert sorted(row["task_id"] for row in train + test) == sorted(row["task_id"] for row in tasks())
    assert test == tasks("test")
    places = [int(row["task_id"].rpartition("/")[2]) for row in test]
    assert places == sorted(places)


def test_held_out_objects_stay_the_same():
    """They are part of what a result means: whoever changes them must say so."""
    assert [row["ground_truth"] for row in twenty_questions_tasks("test")][:3] == [
        "volleyball",
        "cow",
        "apple",
    ]


@pytest.mark.parametrize(("tasks", "split"), [(twenty_questions_tasks, "dev"), (guess_my_city_tasks, "ten")])
def test_unknown_splits_are_refused(tasks, split):
    with pytest.raises(UsageError, match=f":{split}' is no split"):
        tasks(split)


def test_no_two_cities_share_a_name():
    names = [name for city in city_names() for name in city]
    assert len(names) == len(set(names))
    assert OTHER_NAMES.keys() <= {place.split(",")[0] for place in CITIES}


def test_the_instruction_names_the_words_and_leaves_room_for_the_game():
    template = ask_for_object_template()
    assert template.count("{obs}") == 1
    assert template.count(", ".join(ten_words())) == 2
    assert '{"Question": "Your question?"}' in template
    assert decode_question(template.replace("{obs}", "")) == "Your question?"
    assert "{words}" not in template
    assert "one of these objects: cat, dog." in ask_for_object_template(["cat", "dog"])
