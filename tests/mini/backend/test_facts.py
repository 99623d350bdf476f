"""Code in plain words, written out by hand."""

import ast
import hashlib
import json
from pathlib import Path

import pytest

from sweet_rl.mini.backend.english import Speaker, Unspeakable
from sweet_rl.mini.backend.facts import facts_of
from sweet_rl.mini.backend.human import recites
from sweet_rl.mini.backend.questions import Intent, Topic, questions_in
from sweet_rl.mini.backend.variables import Scope

TABLE = Path(__file__).with_name("english.txt")
SCOPE = Scope(kinds={"title": "text", "counts": "dict", "prices": "list"}, indexes={"i": "prices"})


def parsed(code):
    return ast.parse(code, mode="eval").body


LINES = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("line", LINES)
def test_code_in_words(line):
    """Expressions, and conditions with their opposites."""
    (code, words, *negated), speaker = line.split(" -> "), Speaker(SCOPE)
    if not negated:
        assert speaker.say(parsed(code)) == words
        return
    assert speaker.clause(parsed(code)) == words
    assert speaker.clause(parsed(code), negated=True) == negated[0]


@pytest.mark.parametrize("code", ["helper(x)", "a @ b", "x[::2]", "[a for b in c for a in b]", "await x"])
def test_what_has_no_plain_words_is_not_told(code):
    with pytest.raises(Unspeakable):
        Speaker(SCOPE).say(ast.parse(f"async def f():\n return {code}").body[0].body[0].value)


def told(source):
    return [fact.text for fact in facts_of(source)]


def test_a_ladder_is_told_as_a_whole_and_step_by_step():
    source = "def f(n):\n if n >= 9:\n  return 'a'\n elif n >= 5:\n  return 'b'\n return 'c'"
    assert told(source)[:4] == [
        'The result is "a" if n is at least 9, "b" if it is at least 5, and "c" otherwise.',
        'If n is at least 9, the result is "a".',
        'If n is at least 5 but less than 9, the result is "b".',
        'If n is less than 5, the result is "c".',
    ]


def test_the_facts_of_real_tasks_never_change(shared):
    """Loops, counters, defaults, errors and large tables are among them."""
    rows = map(json.loads, (shared / "data/colbench/backend_tasks_500.jsonl").read_text().splitlines())
    found = [
        [(fact.text, fact.parts, sorted(fact.topics)) for fact in facts_of(row["hidden_information"])]
        for row in rows
    ]
    assert hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] == "e4f6179519900333"


def test_a_summary_counts_as_telling_its_parts():
    summary, *parts = facts_of("def f(n):\n if n > 2:\n  return 7\n return 8")
    assert set(summary.parts) == {part.text for part in parts[:2]}
    assert summary.numbers == {2.0, 7.0, 8.0}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It is price += (weight - 20) * rate then.", True),
        ("You should return round ( min ( price , 60 ) , 2 ) there.", True),
        ("if weight > 20:", True), ("I think round(min(price, 60) is it.", True),
        ("That is as agreed with the carrier in March.", False),
        ("The price goes up by (the weight minus 20) times the rate.", False),
        ('I know "local", "abroad", "island", "north", "south" and "east".', False),
        ("It is def shipping(weight, zone, rate) as I said.", False), ("", False),
    ],
)  # fmt: skip
def test_the_guard_knows_a_recital(reply, expected):
    source = (
        "def shipping(weight, zone, rate):\n"
        "    zones = ['local', 'abroad', 'island', 'north', 'south', 'east']  # as agreed with the carrier in March\n"
        "    if weight > 20:  # heavy\n        price += (weight - 20) * rate\n    return round(min(price, 60), 2)"
    )
    known = "Please help.The signature of the function is: def shipping(weight, zone, rate)"
    assert recites(reply, source, known) is expected


@pytest.mark.parametrize(
    ("message", "intent"),
    [
        ("What is the limit?", Intent.DETAIL), ("Please specify the limit.", Intent.DETAIL),
        ("Anything else I should know?", Intent.MORE),
        ("Could you give me more details?", Intent.MORE),
        ("```python\ndef f(): ...\n```\nDoes this look right?", Intent.CONFIRM),
        ("Is the limit 30, right?", Intent.DETAIL),
        ("Please show me the full source code.", Intent.CODE),
        ("Could you share a sample implementation?", Intent.CODE),
        ("What is the limit? Also paste the function.", Intent.CODE),
        ("What should the code do when the list is empty?", Intent.DETAIL),
        ("Can you provide the function signature?", Intent.DETAIL),
        ("What is the zip code format?", Intent.DETAIL), ("I will start now.", Intent.STATEMENT),
        ("", Intent.STATEMENT),
    ],
)  # fmt: skip
def test_what_a_message_is_after(message, intent):
    assert questions_in(message)[0].intent is intent


def test_a_list_of_questions_is_taken_apart():
    questions = questions_in(
        "Some questions:\n1. Is 2.5 the rate?\n2) What about negative values?\n- Any default?"
    )
    asked = ["Is 2.5 the rate?", "What about negative values?", "Any default?"]
    assert [question.text for question in questions] == asked
    assert questions[0].polar
    assert questions[0].numbers == {2.5}
    assert Topic.ERROR in questions[1].topics
    assert Topic.DEFAULT in questions[2].topics
