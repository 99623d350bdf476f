"""What stands in another tool's configuration is held against what a world can be, before anything is played."""

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.integrations.worlds import choice_of, tasks_of


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"wrold": "code"}, "no setting of a world 'wrold' .did you mean world"),
        ({"world": "cod"}, "no world 'cod'"),
        ({"num_tasks": "abc"}, "--num_tasks must be a whole number, got 'abc'"),
        ({"num_tasks": 0}, "--num_tasks must be at least 1, got 0"),
        ({"seed": "x"}, "--seed must be a whole number, got 'x'"),
        ({"num_tasks": 2.0}, "--num_tasks must be a whole number, got 2.0"),
        ({"world": 5}, "--world must be a text, got 5"),
        ({"tasks": ["mini:test"]}, "--tasks must be a text, got .'mini:test'."),
        ({"human": 5}, "--human must be a text, got 5"),
        ({"human_url": 5}, "--human_url must be a text, got 5"),
        ({"options": "max_turns"}, "options of a world must be names with values, .* got 'max_turns'"),
        ({"grading": ["workers"]}, "grading of a world must be names with values"),
        ({"tasks": "nowhere.jsonl"}, "'nowhere.jsonl' is no file that exists"),
        (
            {"tasks": "twenty-questions"},
            "'twenty-questions' holds tasks of a game: add --world twenty_questions",
        ),
        (
            {"world": "twenty_questions", "tasks": "mini:test"},
            "'mini:test' holds no tasks of twenty_questions",
        ),
    ],
)
def test_a_wrong_setting_is_named(settings, says):
    with pytest.raises(UsageError, match=says):
        tasks_of(choice_of(settings))
