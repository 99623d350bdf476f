"""What the viewer shows of a trajectory."""

from dataclasses import replace

import pytest

from sweet_rl.grading.extraction import published_code
from sweet_rl.records import trajectories_from_rows
from sweet_rl.viewer.content import CodeContents
from tests.viewer.samples import PUBLISHED, SHIPPING, dialogue, listed, row


def make_index(trajectories, title):
    return CodeContents(trajectories, title).index()


def make_row(trajectory):
    return CodeContents([trajectory], "").row(0)


def read(*rows):
    return trajectories_from_rows(list(enumerate(rows, start=1)))


def test_index_lists_tasks_once_and_rows_in_file_order(trajectories):
    index = make_index(trajectories, "sample.jsonl")
    assert index["title"] == "sample.jsonl"
    assert [task["id"] for task in index["tasks"]][:2] == ["mini-test-0007", "mini-test-0012"]
    assert [one["task"] for one in listed(index)] == [0, 1, 0, 1, 0, 1, 2, 2, 3]
    assert listed(index)[2] == {
        "task": 0,
        "repeat": 1,
        "reward": 0.6,
        "published": 0.5,
        "stop": "answered",
        "turns": 2,
        "failures": 0,
    }
    assert listed(index)[3] == {
        "task": 1,
        "repeat": 1,
        "reward": None,
        "published": None,
        "stop": "policy_failed",
        "turns": 1,
        "failures": 1,
    }
    assert listed(index)[7] == {
        "task": 2,
        "repeat": 1,
        "reward": None,
        "published": None,
        "stop": None,
        "turns": 2,
        "failures": 0,
    }


def test_index_stays_light():
    task = SHIPPING | {"problem_description": "a  long\nstory " * 1000}
    (listed,) = make_index(read(row(task, 0, dialogue(task), None, "answered")), "")["tasks"]
    assert listed["summary"].startswith("a long story a long story")
    assert len(listed["summary"]) <= 180
    assert listed["summary"].endswith("…")


def test_row_has_the_answer_without_fence_beside_the_hidden_function(trajectories):
    shown = make_row(trajectories[2])
    assert shown["answer"].startswith("\n```python\ndef shipping_fee")
    assert shown["code"].startswith("def shipping_fee")
    assert shown["code"].endswith("return base")
    assert shown["hidden"] == SHIPPING["ground_truth"].strip("\n")
    assert shown["grades"] == {"fixed": 0.6, "published": 0.5}


def test_row_keeps_an_indented_first_line():
    """Such an answer is an IndentationError, and must look like one."""
    (trajectory,) = read(row(SHIPPING, 0, dialogue(SHIPPING, "x"), " def f(): pass", "answered"))
    assert make_row(trajectory)["code"] == " def f(): pass"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nBye", "\nx = 1\n"),
        ("```\nx = 1\n```", "\nx = 1\n"),
        ("```python\nx = 1", "\nx = 1"),
        ("```js\nx\n```", "js\nx\n"),
        ("```a``` ```python\nx```", "\nx"),
    ],
)
def test_fences_go_by_the_published_rule(answer, code):
    assert published_code(answer) == code


def test_tests_are_results_where_graded_and_expressions_where_not(trajectories):
    graded_tests, bare = make_row(trajectories[2])["tests"], make_row(trajectories[3])["tests"]
    assert graded_tests[9] == {
        "name": "test10",
        "expression": "shipping_fee(100, True)",
        "outcome": "failed",
        "expected": "765",
        "got": "485",
        "detail": "",
    }
    assert [test["outcome"] for test in graded_tests] == ["passed"] * 6 + ["failed"] * 4
    assert bare == [
        {"name": "test1", "expression": "summarise_levels([])"},
        {"name": "test2", "expression": "summarise_levels(['ERROR a', 'WARN b'])"},
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"test_results": 7, "grades": [1], "grading_details": "x"},
        {"test_results": None, "grades": {"fixed": "high", "published": True}},
    ],
)
def test_other_peoples_fields_of_our_names_do_no_harm(odd):
    (trajectory,) = read(
        row(PUBLISHED | {"task_id": "p"}, 0, dialogue(PUBLISHED, "x"), "x", "answered", **odd)
    )
    shown = make_row(trajectory)
    assert shown["grades"] == {}
    assert len(shown["tests"]) == 2
    mixed = replace(trajectory, extra={"test_results": [1, {"name": 3, "got": None, "mine": 1}]})
    assert make_row(mixed)["tests"] == [{"name": "3"}]


def test_prompts_are_written_as_what_they_add(trajectories):
    turns = [entry for entry in trajectories[0].dialogue_history if entry.role == "assistant"]
    messages = [entry for entry in make_row(trajectories[0])["messages"] if entry["role"] == "assistant"]
    assert messages[0]["input"] == turns[0].input
    prompt = messages[0]["input"]
    for turn, message in zip(turns[1:], messages[1:], strict=True):
        assert "input" not in message
        prompt += message["more"]
        assert prompt == turn.input


def test_a_prompt_that_does_not_continue_is_written_whole(trajectories):
    first, second = (
        replace(trajectories[0].dialogue_history[i], input=prompt) for i, prompt in ((1, "ab"), (3, "ac"))
    )
    changed = replace(trajectories[0], dialogue_history=(first, second))
    assert [entry["input"] for entry in make_row(changed)["messages"]] == ["ab", "ac"]


def test_thoughts_are_given_only_where_there_are_any(trajectories):
    messages = make_row(trajectories[0])["messages"]
    assert [index for index, entry in enumerate(messages) if "thoughts" in entry] == [3]
    assert messages[3]["thoughts"].startswith("The member discount is still open.")
    assert messages[3]["thoughts"].endswith("then I can answer.")
    assert not any("output" in entry for entry in messages)


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("visible", {}),
        ("OUTPUT:visible", {}),
        ("I think. OUTPUT:visible", {"thoughts": "I think."}),
        ("visible and more", {"output": "visible and more"}),
    ],
)
def test_raw_output_is_given_where_it_is_not_thoughts_and_visible_text(trajectories, output, shown):
    turn = replace(trajectories[0].dialogue_history[1], content="visible", output=output, input="")
    (message,) = make_row(replace(trajectories[0], dialogue_history=(turn,)))["messages"]
    assert {name: message[name] for name in ("thoughts", "output") if name in message} == shown


def test_reflections_are_shown_and_found(trajectories):
    turn = replace(trajectories[0].dialogue_history[1], reflection="A Thought about it.")
    reflected = replace(trajectories[0], dialogue_history=(turn,))
    (message,) = make_row(reflected)["messages"]
    assert message["reflection"] == "A Thought about it."
    assert "a thought about it." in CodeContents.text(reflected).lower()
    assert "reflection" not in make_row(trajectories[0])["messages"][1]


def test_search_covers_what_was_said_thought_asked_and_answered(trajectories):
    text = CodeContents.text(trajectories[0]).lower()
    for expected in (
        "mini-test-0007",
        "web shop",
        "discount is still open",
        "three quarters",
        "max(fee, 199)",
    ):
        assert expected in text
    assert "you help somebody" not in text  # the prompt is the same in every row


def test_failures_keep_kind_status_attempts_and_turn(trajectories):
    (failure,) = make_row(trajectories[1])["failures"]
    assert (failure["kind"], failure["status"], failure["attempts"], failure["turn"]) == (
        "rate_limited",
        429,
        4,
        0,
    )
    assert make_row(trajectories[3])["error"]["kind"] == "bad_request"
