"""The mini benchmark: schema, determinism, disjoint splits, and that every hidden constant matters."""

import ast
import collections
import copy
import hashlib
import itertools
import json
import math
from random import Random

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.backend import extras, pretraining
from sweet_rl.mini.backend import tasks as mini
from sweet_rl.mini.backend.extras import Verdict, judge
from sweet_rl.mini.backend.families import Problem
from sweet_rl.mini.backend.human import ScriptedHuman
from sweet_rl.mini.pretraining import Figure
from sweet_rl.types import ANSWER_MARKER, Message
from sweet_rl.worlds import load_tasks

FAMILIES = mini.WORLDS["families"].families
NAMES = tuple(FAMILIES)


def drawn(family, n=5, split="train"):
    return list(itertools.islice(mini.problems("families", family, split, 0), n))


def values(source, calls):
    """What each call gives; an error is a value of its own."""
    names = {}
    exec(source, names)
    results = []
    for call in calls:
        try:
            results.append(repr(eval(call, dict(names))))
        except Exception as error:  # noqa: BLE001 - whatever a mutant raises is what it gives
            results.append(repr(error))
    return results


class Perturb(ast.NodeTransformer):
    """Change the constant number `index`."""

    def __init__(self, index, step):
        self.index, self.step, self.seen = index, step, -1

    def visit_Constant(self, node):
        self.seen += 1
        if self.seen != self.index:
            return node
        if isinstance(node.value, bool):
            return ast.Constant(not node.value)
        if isinstance(node.value, int | float):
            return ast.Constant(node.value + self.step)
        return ast.Constant(node.value + "Q")


@pytest.mark.parametrize("family", NAMES)
def test_every_constant_and_the_edge_of_every_threshold_matter(family):
    other = {" >= ": " > ", " <= ": " < ", " < ": " <= "}  # `x > 5: … (x - 5)` is the same either way
    for problem in drawn(family, 3):
        tree, expected = ast.parse(problem.source), values(problem.source, problem.calls)
        count = sum(isinstance(node, ast.Constant) for node in ast.walk(tree))
        changed = [
            ast.unparse(ast.fix_missing_locations(Perturb(index, step).visit(copy.deepcopy(tree))))
            for index, step in itertools.product(range(count), (1, -1))
        ]
        changed += [
            problem.source.replace(line, line.replace(one, swapped))
            for line in problem.source.splitlines()
            for one, swapped in other.items()
            if one in line
        ]
        for source in changed:
            assert values(source, problem.calls) != expected, f"no test notices:\n{source}"


def test_lists_begin_alike_and_those_of_seed_0_never_change():
    assert mini.generate("train", 60, world="families")[:25] == mini.generate("train", 25, world="families")
    first, second = (mini.generate("train", 12, seed=seed, world="families") for seed in (1, 2))
    assert first != second
    # Published figures name these tasks; a change here needs a new name for the benchmark.
    text = json.dumps([mini.generate(split, 120, world="families") for split in ("train", "test")])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "35b8ea54e48a2fa1"


def test_splits_share_no_function_and_repeat_none():
    drawn = [("train", 360, 0), ("test", 240, 0), ("test", 240, 7)]
    train, test, other = (
        [row["ground_truth"] for row in mini.generate(split, n, seed, "families")] for split, n, seed in drawn
    )
    assert (len(set(train)), len(set(test))) == (len(train), len(test))
    assert not set(train) & {*test, *other}
    for world in ("", "easy:"):
        tasks = [load_tasks(f"mini:{world}{split}") for split in ("train", "dev", "test")]
        one, two, three = ({task.ground_truth for task in some} for some in tasks)
        assert not (one & two or one & three or two & three)
        ids = [task.task_id for some in tasks for task in some]
        assert len(set(ids)) == len(ids)
    trades = [
        load_tasks(f"mini:trades={k}", num_tasks=500, seed=seed)
        for k, seed in (("10:train", 0), ("40:test", 3))
    ]
    train, test = ({task.ground_truth for task in tasks} for tasks in trades)
    assert not train & test


def test_an_exhausted_family_says_so(monkeypatch):
    tiny = Problem("def f(x):\n    return x", "Do it.", (1,), ((1,),) * 10)
    monkeypatch.setitem(FAMILIES, "parcel", lambda rng: tiny)
    monkeypatch.setattr(mini, "_GIVE_UP_AFTER", 50)
    with pytest.raises(UsageError, match="'parcel' of the mini benchmark has no more than"):
        list(mini.problems("families", "parcel", "train", 0))


SOLUTION = extras.source({"delivery": 3, "tuning": 7})
QUIET = extras.Noise(early=0, late=0, astray=0)


def charged(task):
    return [extra for extra in extras.EXTRAS if f'"{extra}"' in task.ground_truth]


def told(extra, amount):
    """What the human says of an extra; None: it is free."""
    if amount is None:
        return "I don't know."
    return f'If "{extra}" is in the extras, the price goes up by {amount}.'


def dialogue(*texts):
    roles = ("user", "assistant")
    return [Message(roles[i % 2], text) for i, text in enumerate(texts)]


def test_the_scripted_human_says_what_the_world_expects_to_hear():
    human = ScriptedHuman()
    for task in load_tasks("mini:test", num_tasks=20):
        messages = [Message("user", task.problem_description)]
        for extra in extras.EXTRAS:
            messages.append(Message("assistant", extras.question(extra)))
            reply = human.answer(task.problem_description, task.ground_truth, messages)
            messages.append(Message("user", reply))
        said = [message.content for message in messages[1:] if message.role == "user"]
        assert extras.source(extras.named_amounts(said)) == task.ground_truth


def test_a_quiet_teacher_asks_each_extra_once_and_another_errs_as_often_as_told():
    amounts = {"delivery": 3, "tuning": 7}
    said = [text for extra, by in amounts.items() for text in (extras.question(extra), told(extra, by))]
    messages = dialogue("Two extras.", *said)
    assert extras.say(messages, Random(0), max_turns=6, noise=QUIET) == f"I WANT TO ANSWER:\n{SOLUTION}"
    asked = {extras.say(messages[:3], Random(seed), max_turns=6, noise=QUIET) for seed in range(200)}
    assert asked == {extras.question(e) for e in extras.EXTRAS if e != "delivery"}
    messages = dialogue("They are delivery and tuning.\n", "Do you charge for delivery?", "I don't know.")
    noise = extras.Noise(early=0, late=0, astray=0.25)
    said = collections.Counter(extras.say(messages, Random(n), max_turns=6, noise=noise) for n in range(2000))
    assert "Do you charge for delivery?" not in said  # never asks again
    assert 0.75 < said["Do you charge for tuning?"] / 2000 < 0.81  # also one of ten when astray
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
        (["delivery", "storage", "framing", "samples", "painting"], f"I WANT TO ANSWER:\n{extras.source({'delivery': 3})}", Verdict.FORCED),
        (["delivery", "tuning"], f"I WANT TO ANSWER:\n{SOLUTION}", Verdict.RIGHT),
        (["delivery", "tuning"], f"I WANT TO ANSWER:\n{SOLUTION.replace('3', '4')}", Verdict.WRONG),
        ([], "Do you charge", Verdict.OTHER),
    ],
)  # fmt: skip
def test_verdicts(before, turn, verdict):
    texts = ["Two of our extras cost something."]
    for extra in before:
        texts += [extras.question(extra), told(extra, {"delivery": 3, "tuning": 7}.get(extra))]
    assert judge(SOLUTION, dialogue(*texts), turn) is verdict


def named(task):
    return task.problem_description.split("\n")[1].removeprefix("Our shop is a ").removesuffix(".")


def test_trades_their_extras_and_the_first_tasks_are_always_these():
    assert len(set(extras.TRADES)) == 40
    assert extras.usual_in("bakery") == ("wrapping", "insurance", "cleaning", "tuning")
    assert extras.usual_in("florist") == ("insurance", "engraving", "storage", "cleaning")
    assert extras.usual_in("grocer") == ("delivery", "polishing", "framing", "painting")
    assert extras.usual_in("fishmonger") == ("delivery", "assembly", "storage", "tuning")
    count = collections.Counter(extra for trade in extras.TRADES for extra in extras.usual_in(trade))
    assert [count[extra] for extra in extras.EXTRAS] == [12, 13, 14, 12, 11, 12, 14, 13, 17, 13, 16, 13]
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
    tasks = load_tasks(f"mini:{source}:train", num_tasks=1000)
    trades = collections.Counter(map(named, tasks))
    assert set(trades) == set(extras.TRADES[:count])
    assert max(trades.values()) < 1000 / count + 5 * (1000 / count) ** 0.5
    usual = [extra in extras.usual_in(named(task)) for task in tasks for extra in charged(task)]
    # By hand: 0.9, then 0.9 x 3/4 against 0.1 after a usual one (0.871), 0.9 against 0.1 x 7/8 after another
    # (0.911); so (0.9 + 0.9 x 0.871 + 0.1 x 0.911) / 2.
    assert abs(sum(usual) / len(usual) - 0.8875) < 0.03


@pytest.mark.parametrize(
    ("source", "says"),
    [
        *((f"mini:trades={n}:test", r"there are 1 to 40 trades, got '.*'\. Write 'trades=10', say") for n in ("0", "41", "1.5", "", "²")),
        *((one, r"names no split of the mini|has the worlds") for one in ("mini:trades=3", "mini:easy=3:test", "mini:trades10:test")),
    ],
)  # fmt: skip
def test_other_worlds_splits_and_numbers_of_trades_are_refused(source, says):
    with pytest.raises(UsageError, match=says):
        load_tasks(source)
    with pytest.raises(UsageError, match="not 'valid'"):
        mini.generate("valid", 3)


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
    tasks = load_tasks("mini:trades:test", num_tasks=200)
    won = [play(say, task, seed)[1] for seed, task in enumerate(tasks)]
    assert abs(sum(won) / len(won) - success) < 0.08


PROBLEM = Problem(extras.source({"delivery": 3, "tuning": 7}), "", (("delivery", 3), ("tuning", 7)), ())


def saying(chances):
    """An agent that says sentences with the chances that a function of its text gives them."""

    def ask(texts, sentences):
        return [[math.log(chances(text).get(one, 1e-9)) for one in sentences] for text in texts]

    return ask


def asked(text):
    return [message.content for message in text.messages if message.role == "assistant"]


def even(text):
    return dict.fromkeys(pretraining.QUESTIONS, 1 / 12)


def fresh(text):
    left = [question for question in pretraining.QUESTIONS if question not in asked(text)]
    return dict.fromkeys(left, 1 / len(left))


def reader(text):
    """Asks about what stands in the solution, three times of four."""
    found = [extras.question(extra) for extra in extras.EXTRAS if f'"{extra}"' in (text.solution or "")]
    found = [question for question in found if question not in asked(text)]
    chances = fresh(text)
    return {q: c / 4 + 3 / 4 * (q in found) / len(found) if found else c for q, c in chances.items()}


def measured(chances):
    found = pretraining.figures(saying(chances), each=8, dialogues=20)
    return {figure.name: figure for figure in found}


def test_an_agent_that_reads_and_remembers_passes_every_gate_and_others_are_told_apart():
    figures = measured(reader)
    assert all(figure.passed for figure in figures.values())
    assert figures["AUC, no solution"].value == 0.5  # ties
    right = figures["P(charged), right solution"].value
    # 3/4, and 2 of the 12 to 8 fresh ones, a quarter of the time
    assert right == pytest.approx(3 / 4 + sum(2 / left for left in (12, 11, 10, 9, 8)) / 5 / 4)
    assert figures["AUC, right solution, 4 misses"].value == 1.0
    assert figures["repetitions a dialogue"].value == pytest.approx(0, abs=1e-6)
    figures = measured(fresh)
    share = sum(2 / left for left in (12, 11, 10, 9, 8)) / 5
    for which in ("right", "wrong"):
        assert figures[f"P(charged), {which} solution"].value == pytest.approx(share)
    assert figures["P(charged), wrong solution"].passed
    assert figures["AUC, right solution, 0 misses"].value == 0.5
    failed = ("P(charged), right solution", "AUC, right solution, 0 misses")
    assert not any(figures[name].passed for name in failed)
    figures = measured(even)
    # after n turns 12 x (1 - (11/12)^n) questions have been asked, each of which is repeated with 1/12
    expected = sum(1 - (11 / 12) ** turn for turn in range(6))
    for name, value in (
        ("nats of a repeated question below fresh ones", 0),
        ("repetitions a dialogue", expected),
    ):
        assert figures[name].value == pytest.approx(value, abs=0.15 if value else None)
        assert not figures[name].passed


def test_area_and_gap_by_hand_and_what_is_not_a_number_passes_no_gate():
    logprobs = [-1.0, -2.0, -3.0, -4.0, *[-9.0] * 6, -2.0, -9.0]  # tuning is the eleventh
    moment = pretraining.Moment(PROBLEM, ("storage",))
    # free and fresh: wrapping -2, insurance -3, assembly -4, six at -9; delivery wins all 9, tuning 8 and a tie
    assert pretraining.area_of(moment, logprobs) == pytest.approx((9 + 8.5) / 18)
    fresh_ones = [-1.0, -2.0, -4.0, *[-9.0] * 6, -2.0, -9.0]
    assert pretraining.gap(("insurance",), logprobs) == pytest.approx(sum(fresh_ones) / 11 + 3.0)
    first, second, *others = extras.EXTRAS
    by_extra = {first: -9.0, second: -1.5} | dict.fromkeys(others, -3.0)  # the likeliest repeated one counts
    assert pretraining.gap([first, second], [by_extra[extra] for extra in extras.EXTRAS]) == -3.0 - -1.5
    share = pretraining.charged_share([moment], [logprobs])
    assert share == pytest.approx(math.exp(-1) + math.exp(-2))
    assert [one.passed for one in (Figure("x", 0.5), Figure("x", math.nan), Figure("x", 0.02, high=0.0199))] == [
        True, False, False,
    ]  # fmt: skip
    assert str(Figure("x", 0.4, low=0.47, high=0.53)) == "x 0.400 (has to be at least 0.47 and at most 0.53)"
