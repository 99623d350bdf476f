"""Code in plain words, written out by hand."""

import ast

import pytest

from sweet_rl.mini.backend.english import Speaker, Unspeakable
from sweet_rl.mini.backend.facts import facts_of
from sweet_rl.mini.backend.human import recites
from sweet_rl.mini.backend.questions import Intent, Topic, questions_in
from sweet_rl.mini.backend.variables import Scope

SCOPE = Scope(kinds={"title": "text", "counts": "dict", "prices": "list"}, indexes={"i": "prices"})


def parsed(code):
    return ast.parse(code, mode="eval").body


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("tank_size", "the tank size"), ("tankSize", "the tank size"),
        ("num_guests", "the number of guests"), ("a - (b - c) - d", "a minus (b minus c) minus d"),
        ("a / (b * c)", "a divided by (b times c)"), ("(a + b) * 0.5", "(a plus b) times 0.5"),
        ("-rate * 2", "minus the rate times 2"), ("a ** 2", "a squared"),
        ("minutes // 60", "the minutes divided by 60 rounded down"),
        ("minutes % 60", "the remainder of the minutes divided by 60"),
        ("min(fee, 40)", "the fee, but at most 40"),
        ("max(0, fee - 3)", "the fee minus 3, but at least 0"),
        ("max(fee, tip)", "the highest of the fee and the tip"),
        ("round(fee, 2)", "the fee rounded to 2 decimals"),
        ("round(fee / 3)", "the fee divided by 3, rounded to a whole number"),
        ("len(prices)", "the number of prices"), ("len(title)", "the length of the title"),
        ("sum(1 for p in prices if p > 3)", "the count of p in the prices where p is more than 3"),
        ("[p for p in prices if p > 3]", "the list of every p in the prices where p is more than 3"),
        ("prices[i]", "the price"), ("prices[0]", "the first item of the prices"),
        ("prices[-1]", "the last item of the prices"),
        ("title[:5]", "the first 5 characters of the title"),
        ("player['height']", 'the "height" of the player'),
        ("counts.get(key, 10)", "the entry of the counts for the key (or 10 if there is none)"),
        ("title.lower().split()", "the words of (the title in lower case)"),
        ("title + '!'", 'the title followed by "!"'),
        ("'-'.join(words)", 'the words joined with "-"'),
        ("title.replace(' ', '')", "the title without any spaces"),
        ("sorted(prices, reverse=True)", "the prices sorted, highest first"),
        ("max(players, key=lambda p: p['age'])", 'the player with the highest "age" of p'),
        ("f'Hi {name}, {fee:.2f}'", '"Hi [name], [fee with 2 decimals]"'),
        ("3 if age < 10 else 5", "3 if the age is less than 10, otherwise 5"),
        ("{'a': 1, 'b': 2}", 'a dictionary with 1 for "a" and 2 for "b"'),
        ("['x']", 'a list with "x"'),
    ],
)  # fmt: skip
def test_expressions(code, words):
    assert Speaker(SCOPE).say(parsed(code)) == words


@pytest.mark.parametrize(
    ("code", "yes", "no"),
    [
        ("age >= 18", "the age is at least 18", "the age is less than 18"),
        ("18 < age", "the age is more than 18", "the age is at most 18"),
        ("prices == []", "the prices are empty", "the prices are not empty"),
        ("not prices", "the prices are empty", "the prices are not empty"),
        ("len(prices) == 0", "the prices are empty", "the prices are not empty"),
        ("kind in ('a', 'b')", 'the kind is "a" or "b"', 'the kind is not "a" or "b"'),
        ("'x' in title", 'the title contains "x"', 'the title does not contain "x"'),
        ("key in counts", "the counts has an entry for the key", "the counts has no entry for the key"),
        ("has_stand", "there is a stand", "there is no stand"),
        ("is_open == True", '"is open" is true', '"is open" is false'),
        ("a > 1 and b > 2", "a is more than 1 and b is more than 2", "a is at most 1 or b is at most 2"),
        ("title.startswith('b')", 'the title starts with "b"', 'the title does not start with "b"'),
        ("n % 3 == 0", "n is a multiple of 3", "n is not a multiple of 3"),
    ],
)
def test_conditions_and_their_opposites(code, yes, no):
    speaker = Speaker(SCOPE)
    assert speaker.clause(parsed(code)) == yes
    assert speaker.clause(parsed(code), negated=True) == no


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


def test_a_later_case_that_could_overlap_says_so():
    source = (
        "def f(n, urgent):\n if urgent:\n  fee = 9\n elif n > 4:\n  fee = 5\n else:\n  fee = 0\n return fee"
    )
    assert "If n is more than 4 and no earlier case applies, the fee is 5." in told(source)
    assert "In all other cases, the fee is 0." in told(source)


def test_loops_and_counters():
    source = (
        "def f(days):\n total = 0\n for day in days:\n  if day < 3:\n   continue\n"
        "  total += day * 2\n if total > 50:\n  total -= 7\n return total"
    )
    assert told(source)[:4] == [
        "For each day, if the day is less than 3, that one is skipped.",
        "For each day, the total goes up by the day times 2.",
        "If the total is more than 50, the total goes down by 7.",
        "The result is the total.",
    ]


def test_inputs_defaults_and_errors():
    source = (
        "def f(players, level='easy'):\n for player in players:\n  if player['age'] < 0:\n"
        "   raise ValueError('bad age')\n return [player['name'] for player in players]"
    )
    assert told(source) == [
        'By default the level is "easy".',
        'For each player, if the "age" of the player is less than 0, it raises a ValueError saying "bad age".',
        'The result is the list of the "name" of the player for each player.',
        'The players should be a list, and each player in it is a dictionary with "name" and "age".',
        "What comes back is a list.",
    ]


def test_large_tables_are_told_entry_by_entry():
    entries = ", ".join(f"'k{i}': {i * 11}" for i in range(2, 40))
    facts = told(f"def f(key):\n table = {{{entries}}}\n return table[key]")
    assert 'In the table, "k39" goes with 429.' in facts


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
    assert [question.text for question in questions] == [
        "Is 2.5 the rate?",
        "What about negative values?",
        "Any default?",
    ]
    assert questions[0].polar
    assert questions[0].numbers == {2.5}
    assert Topic.ERROR in questions[1].topics
    assert Topic.DEFAULT in questions[2].topics
