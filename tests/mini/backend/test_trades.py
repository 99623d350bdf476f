"""The world of trades: its draws, who plays it, and what an agent's habits are there."""

import collections
from random import Random

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import extras
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds import load_tasks

QUIET = extras.Noise(early=0, late=0, astray=0)


def charged(task):
    return [extra for extra in extras.EXTRAS if f'"{extra}"' in task.ground_truth]


def named(task):
    return task.problem_description.split("\n")[1].removeprefix("Our shop is a ").removesuffix(".")


def test_there_are_forty_trades_and_each_has_its_four_extras_for_ever():
    assert len(set(extras.TRADES)) == 40
    assert extras.usual_in("bakery") == ("wrapping", "insurance", "cleaning", "tuning")
    assert extras.usual_in("florist") == ("insurance", "engraving", "storage", "cleaning")
    assert extras.usual_in("grocer") == ("delivery", "polishing", "framing", "painting")
    assert extras.usual_in("fishmonger") == ("delivery", "assembly", "storage", "tuning")
    count = collections.Counter(extra for trade in extras.TRADES for extra in extras.usual_in(trade))
    assert [count[extra] for extra in extras.EXTRAS] == [12, 13, 14, 12, 11, 12, 14, 13, 17, 13, 16, 13]


def test_the_first_tasks_are_always_these():
    tasks = load_tasks("mini:trades=10:train", num_tasks=4)
    assert [(named(task), *charged(task)) for task in tasks] == [
        ("printer", "wrapping", "cleaning"),
        ("grocer", "delivery", "polishing"),
        ("florist", "storage", "cleaning"),
        ("bakery", "insurance", "cleaning"),
    ]
    assert tasks[0].ground_truth == extras.source({"wrapping": 3, "cleaning": 9})
    assert tasks[0].row["trades"] == 10
    assert load_tasks("mini:trades=10:train", num_tasks=9)[:4] == tasks


@pytest.mark.parametrize(("source", "count"), [("trades=1", 1), ("trades=10", 10), ("trades", 40)])
def test_trades_are_as_likely_and_charge_mostly_for_their_own(source, count):
    tasks = load_tasks(f"mini:{source}:train", num_tasks=2000)
    trades = collections.Counter(map(named, tasks))
    assert set(trades) == set(extras.TRADES[:count])
    assert max(trades.values()) < 2000 / count + 5 * (2000 / count) ** 0.5
    usual = [extra in extras.usual_in(named(task)) for task in tasks for extra in charged(task)]
    # By hand: 0.9, then 0.9 x 3/4 against 0.1 after a usual one (0.871), 0.9 against 0.1 x 7/8 after another
    # (0.911); so (0.9 + 0.9 x 0.871 + 0.1 x 0.911) / 2.
    assert abs(sum(usual) / len(usual) - 0.8875) < 0.025


def test_no_function_of_a_split_stands_in_another_whatever_the_number_of_trades():
    train = {task.ground_truth for task in load_tasks("mini:trades=10:train", num_tasks=1500)}
    test = {task.ground_truth for task in load_tasks("mini:trades=40:test", num_tasks=1500, seed=3)}
    assert not train & test


@pytest.mark.parametrize("count", ["0", "41", "-1", "1.5", "ten", "", "²"])
def test_other_numbers_of_trades_are_refused(count):
    with pytest.raises(UsageError, match=r"there are 1 to 40 trades, got '.*'\. Write 'trades=10', say"):
        load_tasks(f"mini:trades={count}:test")


@pytest.mark.parametrize("source", ["mini:trades=3", "mini:easy=3:test", "mini:trades10:test"])
def test_other_names_are_refused(source):
    with pytest.raises(UsageError, match=r"is no split of the mini|has the worlds"):
        load_tasks(source)


def test_files_of_another_number_of_trades_are_refused():
    ten, forty = load_tasks("mini:trades=10:dev", num_tasks=2), load_tasks("mini:trades:dev", num_tasks=2)
    mini.check_trades(ten, 10, "a.jsonl")
    with pytest.raises(UsageError, match=r"'a.jsonl': task 3 is one of 40 trades, and 10 trades are wanted"):
        mini.check_trades([*ten, *forty], 10, "a.jsonl")
    with pytest.raises(UsageError, match=r"task 1 is of no trade, and 40 trades .* 'mini:trades=40:train'"):
        mini.check_trades(load_tasks("mini:test", num_tasks=1), 40, "a.jsonl")


def play(say, task, seed):
    """A whole dialogue; whether its answer is the hidden function."""
    rng, human = Random(seed), ScriptedHuman()
    messages = [Message("user", task.problem_description)]
    while True:
        messages.append(Message("assistant", say(messages, rng, max_turns=6)))
        if messages[-1].content.startswith(ANSWER_MARKER):
            return messages, messages[-1].content == f"{ANSWER_MARKER}\n{task.ground_truth}"
        reply = human.answer(task.problem_description, task.ground_truth, messages)
        messages.append(Message("user", reply))


def quiet(messages, rng, *, max_turns):
    return extras.say(messages, rng, max_turns=max_turns, noise=QUIET)


@pytest.mark.parametrize(
    ("say", "success"),
    [
        # Both of the four: 0.9 x 0.871. One of them: 0.9 x 0.129 + 0.1 x 0.911; the fifth question finds the
        # other among eight.
        (extras.insider, 0.784 + 0.207 / 8),
        (quiet, 10 / 66),  # five of twelve: 10 of the 66 pairs lie among them
        (extras.at_random, 1 - 2 * (11 / 12) ** 5 + (10 / 12) ** 5),
    ],
)
def test_ceiling_and_floor_of_asking(say, success):
    tasks = load_tasks("mini:trades:test", num_tasks=500)
    won = [play(say, task, seed)[1] for seed, task in enumerate(tasks)]
    assert abs(sum(won) / len(won) - success) < 0.06


def test_the_insider_asks_what_the_request_says_where_it_names_the_extras():
    for number, task in enumerate(load_tasks("mini:easy:test", num_tasks=5)):
        messages, won = play(extras.insider, task, number)
        assert won
        assert len(messages) == 6  # two questions with their replies, and the answer


def test_habits_by_hand():
    solution = extras.source({"wrapping": 3, "tuning": 7})
    request = f"Two of our extras cost something.\n{extras.shop('bakery')}The signature is: def total()"
    asked = ["wrapping", "storage", "storage"]
    replies = ['If "wrapping" is in the extras, the price goes up by 3.', "I don't know about that.", "No."]
    messages = [Message("user", request)]
    for extra, reply in zip(asked, replies, strict=True):
        messages += [Message("assistant", extras.question(extra)), Message("user", reply)]
    messages.append(Message("assistant", f"{ANSWER_MARKER}\n{extras.source({'wrapping': 3})}"))
    silent = [Message("user", request), Message("assistant", f"{ANSWER_MARKER}\n{extras.source({})}")]
    found = extras.habits([(solution, messages), (solution, silent)])
    assert found == extras.Habits(useful_share=1 / 3, usual_share=1 / 3, repetitions=0.5, early=1.0)
    assert extras.habits([(solution, silent)]).useful_share is None
