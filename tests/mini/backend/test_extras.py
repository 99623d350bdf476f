"""The worlds of the embedded agent: what is drawn, the teacher, and the oracle that judges turns."""

import collections
from random import Random

import pytest

from sweet_rl.mini.backend import extras
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.mini.backend.extras import Verdict, judge
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.types import Message
from sweet_rl.worlds import load_tasks

SOLUTION = extras.source({"delivery": 3, "tuning": 7})
QUIET = extras.Noise(early=0, late=0, astray=0)


def charged(task):
    return [extra for extra in extras.EXTRAS if f'"{extra}"' in task.ground_truth]


def dialogue(*texts):
    roles = ("user", "assistant")
    return [Message(roles[i % 2], text) for i, text in enumerate(texts)]


@pytest.mark.parametrize("world", ["usual", "easy"])
def test_the_reference_passes_and_an_answer_that_lacks_an_extra_fails_most_tests(world):
    for row in mini.generate("test", 20, world=world):
        names = {}
        exec(row["ground_truth"], names)
        expected = [eval(call, names) for call in row["test_cases"].values()]
        (first, amount), *_ = extras.named_amounts(
            [
                f'If "{e}" is in the extras, the price goes up by 1.'
                for e in extras.EXTRAS
                if f'"{e}"' in row["ground_truth"]
            ]
        ).items()
        assert amount == 1
        lacking = {}
        exec(row["ground_truth"].replace(f'"{first}"', '"nothing"'), lacking)
        got = [eval(call, lacking) for call in row["test_cases"].values()]
        assert sum(a == b for a, b in zip(expected, got, strict=True)) == 5


def test_nine_charged_extras_of_ten_are_usual_ones():
    tasks = load_tasks("mini:train", num_tasks=1000)
    count = collections.Counter(extra in extras.USUAL for task in tasks for extra in charged(task))
    # Drawn without putting back, a second usual one is a little rarer than 0.9.
    assert 0.84 < count[True] / count.total() < 0.92
    easy = load_tasks("mini:easy:train", num_tasks=1000)
    even = collections.Counter(extra in extras.USUAL for task in easy for extra in charged(task))
    assert 0.28 < even[True] / even.total() < 0.38


def test_no_function_of_a_split_stands_in_another():
    seen = [{task.ground_truth for task in load_tasks(f"mini:{split}")} for split in ("train", "dev", "test")]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    ids = [task.task_id for split in ("train", "dev", "test") for task in load_tasks(f"mini:{split}")]
    assert len(set(ids)) == len(ids)


def test_only_the_easy_world_names_the_extras():
    for task in load_tasks("mini:test", num_tasks=50):
        assert not any(extra in task.problem_description for extra in extras.EXTRAS)
    for task in load_tasks("mini:easy:test", num_tasks=50):
        assert f"They are {' and '.join(charged(task))}." in task.problem_description or (
            f"They are {' and '.join(charged(task)[::-1])}." in task.problem_description
        )


def test_the_scripted_human_says_what_the_world_expects_to_hear():
    human = ScriptedHuman()
    for task in load_tasks("mini:test", num_tasks=20):
        messages = [Message("user", task.problem_description)]
        for extra in extras.EXTRAS:
            messages.append(Message("assistant", extras.question(extra)))
            messages.append(
                Message("user", human.answer(task.problem_description, task.ground_truth, messages))
            )
        told = extras.named_amounts([message.content for message in messages[1:] if message.role == "user"])
        assert extras.source(told) == task.ground_truth


def test_a_quiet_teacher_asks_each_extra_once_and_answers_when_it_knows_both():
    yes = [
        f'If "{e}" is in the extras, the price goes up by {v}.' for e, v in (("delivery", 3), ("tuning", 7))
    ]
    messages = dialogue(
        "Two extras.", "Do you charge for delivery?", yes[0], "Do you charge for tuning?", yes[1]
    )
    assert extras.say(messages, Random(0), max_turns=6, noise=QUIET) == f"I WANT TO ANSWER:\n{SOLUTION}"
    asked = {extras.say(messages[:3], Random(seed), max_turns=6, noise=QUIET) for seed in range(200)}
    assert asked == {extras.question(e) for e in extras.EXTRAS if e != "delivery"}


def test_the_teacher_errs_as_often_as_told():
    messages = dialogue("They are delivery and tuning.\n", "Do you charge for delivery?", "I don't know.")
    noise = extras.Noise(early=0, late=0, astray=0.25)
    said = collections.Counter(
        extras.say(messages, Random(seed), max_turns=6, noise=noise) for seed in range(2000)
    )
    assert "Do you charge for delivery?" not in said  # never asks again
    assert 0.75 < said["Do you charge for tuning?"] / 2000 < 0.81  # also one of ten when astray


def test_the_teacher_always_answers_in_the_last_turn():
    last = dialogue("Two.", *["Do you charge for cleaning?", "No."] * 5)
    assert extras.say(last, Random(0), max_turns=6).startswith("I WANT TO ANSWER:")


@pytest.mark.parametrize(
    ("before", "turn", "verdict"),
    [
        ([], "Do you charge for delivery?", Verdict.USEFUL),
        ([], "Do you charge for storage?", Verdict.USELESS),
        (["storage"], "Do you charge for storage?", Verdict.REPEATED),
        (["delivery"], "Do you charge for delivery?", Verdict.REPEATED),
        (["delivery", "tuning"], "Do you charge for storage?", Verdict.NEEDLESS),
        (["delivery"], f"I WANT TO ANSWER:\n{extras.source({'delivery': 3})}", Verdict.EARLY),
        (
            ["delivery", "storage", "framing", "samples", "painting"],
            f"I WANT TO ANSWER:\n{extras.source({'delivery': 3})}",
            Verdict.FORCED,
        ),
        (["delivery", "tuning"], f"I WANT TO ANSWER:\n{SOLUTION}", Verdict.RIGHT),
        (["delivery", "tuning"], f"I WANT TO ANSWER:\n{SOLUTION.replace('3', '4')}", Verdict.WRONG),
        ([], "Do you charge", Verdict.OTHER),
    ],
)
def test_verdicts(before, turn, verdict):
    amounts = {"delivery": 3, "tuning": 7}
    texts = ["Two of our extras cost something."]
    for extra in before:
        reply = (
            f'If "{extra}" is in the extras, the price goes up by {amounts[extra]}.'
            if extra in amounts
            else "I don't know."
        )
        texts += [extras.question(extra), reply]
    assert judge(SOLUTION, dialogue(*texts), turn) is verdict
