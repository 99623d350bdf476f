"""The agents without a model, and the questions that one of them asks."""

import ast
import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweet_rl.errors import UsageError
from sweet_rl.policies.scripted import ConstantPolicy, OraclePolicy, skill_of
from sweet_rl.types import FinishReason
from sweet_rl.worlds.backend_programming.world import (
    ABOUT_FUNCTION,
    MAX_QUESTIONS,
    QuestionerPolicy,
    plan_questions,
    read_signature,
    stub,
)

REQUEST = (
    "Price my cart.The signature of the function is: def price(items, discount=0.1, *, unit: str = 'a)')"
)


def act(policy, observation):
    return asyncio.run(policy.act(observation))


@pytest.mark.parametrize("kind", [OraclePolicy, ConstantPolicy])
def test_known_answers_are_handed_in_at_once(kind, observe):
    policy = kind({"a": "def f():\n    return 1\n"}, system_prompt="Rules.")
    generation = act(policy, observe("Do it.", task_id="a"))
    assert generation.completion.text == "I WANT TO ANSWER:\ndef f():\n    return 1\n"
    assert generation.completion.finish_reason is FinishReason.STOP
    assert generation.input == "### system:\nRules.\n\n### user:\nDo it.\n\n### assistant:\n"
    with pytest.raises(UsageError, match=f"{policy.name} agent was given no answer for the task 'b'"):
        act(policy, observe("Do it.", task_id="b"))


def test_questioner_asks_then_hands_in_a_stub(observe):
    policy = QuestionerPolicy(num_questions=2)
    first = act(policy, observe(REQUEST)).completion.text
    second = act(policy, observe(REQUEST, first, "Yes.")).completion.text
    answer = act(policy, observe(REQUEST, first, "Yes.", second, "No.")).completion.text
    assert first != second
    assert first.endswith("?")
    assert second.endswith("?")
    marker, _, code = answer.partition("\n")
    assert marker == "I WANT TO ANSWER:"
    namespace = {}
    exec(code, namespace)
    assert namespace["price"]([1]) is None


def test_questioner_is_deterministic_and_varies_with_the_seed(observe):
    openings = [act(QuestionerPolicy(), observe(REQUEST, seed=seed)).completion.text for seed in range(20)]
    assert openings == [
        act(QuestionerPolicy(), observe(REQUEST, seed=seed)).completion.text for seed in range(20)
    ]
    assert len(set(openings)) > 8


def test_no_questions_and_too_many(observe):
    assert act(QuestionerPolicy(num_questions=0), observe(REQUEST)).completion.text.startswith(
        "I WANT TO ANSWER:"
    )
    with pytest.raises(UsageError, match=f"0 to {MAX_QUESTIONS} questions"):
        QuestionerPolicy(num_questions=MAX_QUESTIONS + 1)


def test_questions_name_the_parameters_and_do_not_repeat():
    questions = plan_questions(REQUEST, seed=3)
    assert len(set(questions)) == len(questions) == len(ABOUT_FUNCTION) + 3
    for name in ("items", "discount", "unit"):
        assert sum(f"`{name}`" in question for question in questions) == 1
    assert len(plan_questions("No signature here.", seed=3)) == MAX_QUESTIONS


@pytest.mark.parametrize(
    ("description", "header", "parameters"),
    [
        (REQUEST, "def price(items, discount=0.1, *, unit: str = 'a)')", ("items", "discount", "unit")),
        ("define f. def f(): or rather def g(x)", "def g(x)", ("x",)),
        ("is: def f(\n    a,\n    b=(1, 2),\n)", "def f(\n    a,\n    b=(1, 2),\n)", ("a", "b")),
        (
            "is: def cut(food, social=False, ranking={'Candy'",
            "def cut(food, social, ranking)",
            ("food", "social", "ranking"),
        ),
        ("is: def open_end(", "def open_end()", ()),
    ],
)
def test_signatures(description, header, parameters):
    signature = read_signature(description)
    assert (signature.header, signature.parameters) == (header, parameters)
    ast.parse(stub(description))


def test_no_signature():
    assert read_signature("Write a default function (please).") is None
    assert ast.parse(stub("Write something.")).body[0].name == "solution"


@given(st.text(alphabet="def f(a,b=1)[]{}:'\"*\n\\é0"))
def test_any_description_gives_a_stub_that_parses(text):
    ast.parse(stub("def f(" + text))


def test_real_descriptions_give_the_name_of_their_function(shared):
    lines = (shared / "data/colbench/backend_tasks_500.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        wanted = {
            node.name
            for node in ast.walk(ast.parse(row["ground_truth"]))
            if isinstance(node, ast.FunctionDef)
        }
        assert ast.parse(stub(row["problem_description"])).body[0].name in wanted


def test_how_often_a_player_does_what_is_best():
    skills = {"planner": 1.0, "random": 0.0}
    assert skill_of("driver", "planner", None, skills) == 1.0
    assert skill_of("driver", "planner", 0.0, skills) == 0.0
    with pytest.raises(UsageError, match=r"There is no driver 'pilot'. There are planner, random"):
        skill_of("driver", "pilot", None, skills)
    with pytest.raises(UsageError, match=r"skill must be from 0 to 1, got 1.5"):
        skill_of("driver", "random", 1.5, skills)
