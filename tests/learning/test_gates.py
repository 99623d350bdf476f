"""Each gate, broken on purpose: it stops where it should, and says with which number."""

import asyncio
import re
from dataclasses import replace
from itertools import cycle

import pytest

import sweet_rl
from sweet_rl.errors import UsageError
from sweet_rl.learning.continuations import states_of
from sweet_rl.learning.gates import (
    Habits,
    anyhow,
    can_learn,
    collapsed,
    critic_reads,
    habits_of,
    improved,
    pairs_are_right,
    plays,
    required,
    returns_of,
)
from sweet_rl.preferences.candidates import Candidate, Candidates
from sweet_rl.preferences.pairs import StepPair
from sweet_rl.preferences.ranking import SWAPPED
from sweet_rl.types import FinishReason
from tests.learning.test_continuations import agent_of

IMITATED = Habits(turns=4, at_once=0, repeated=0.1, flawed=0, words=3, surprise=None)


def played(world, agent, **settings):
    return sweet_rl.simulate(world, agent=agent, num_tasks=30, repeats=4, **settings)


def returns(world, agent):
    return returns_of(played(world, agent), world, agent)


def changed(episodes, **change):
    """The episodes with other turns."""
    return [
        replace(one, dialogue_history=tuple(
            replace(turn, **{name: make(turn) for name, make in change.items()}) if turn.role == "assistant" else turn
            for turn in one.dialogue_history
        ))
        for one in episodes
    ]  # fmt: skip


def test_turns_by_chance_are_the_floor_of_any_world(worlds):
    for world, skilled in (
        (worlds["number"], "careful"),
        (worlds["meeting"], "careful"),
        (worlds["notice"], "patient"),
    ):
        floor = played(world, anyhow(played(world, skilled)))
        assert [
            gate.passed
            for gate in plays(played(world, skilled), IMITATED, returns_of(floor, world, "chance"), world)
        ] == [True] * 3


@pytest.mark.parametrize(
    ("change", "which", "words"),
    [
        ({"content": lambda turn: ""}, 0, r"100% cut off or empty"),
        ({"finish_reason": lambda turn: FinishReason.LENGTH}, 0, r"100% cut off or empty"),
        ({"content": lambda turn: "7"}, 1, r"\d\d% of its turns"),
    ],
)
def test_a_policy_that_does_not_play_is_no_beginning(worlds, change, which, words):
    world = worlds["number"]
    gates = list(plays(changed(played(world, "wild"), **change), IMITATED, returns(world, "wild"), world))
    assert not gates[which].passed
    with pytest.raises(UsageError, match=r"Stopped\. This check failed:"):
        required(gates)
    assert str(gates[which]).startswith("STOP ") and re.search(words, str(gates[which]))


def test_in_a_game_turns_may_be_repeated_as_often_as_in_the_demonstrations(worlds):
    world = worlds["number"]
    said = cycle(["7", "7", "8", "9"])
    some = changed(played(world, "wild"), content=lambda turn: next(said))
    share = habits_of(some).repeated
    assert 0.25 < share < 0.6
    for repeated, passes in ((0.1, False), (share - 0.12, False), (share - 0.08, True)):
        gates = list(plays(some, IMITATED._replace(repeated=repeated), returns(world, "wild"), world))
        assert gates[1].passed == passes and f"the demonstrations' {repeated:.0%}" in str(gates[1])


def test_a_policy_that_is_no_better_than_chance_is_no_beginning(worlds, capsys):
    world = worlds["number"]
    with pytest.raises(
        UsageError, match=r"failed: it is better than chance. Give more demonstrations \(--episodes\)"
    ):
        required(plays(played(world, "wild", seed=1), IMITATED, returns(world, "wild"), world))
    assert "ok   the policy takes turns" in capsys.readouterr().out


def test_nothing_is_learned_where_every_episode_of_a_task_is_worth_the_same(worlds):
    world = worlds["number"]
    (gate,) = can_learn(returns(world, "wild"), IMITATED, returns(world, "wild"), returns(world, "halving"))
    assert gate.passed and "best scripted agent 0.7" in gate.found
    (gate,) = can_learn(
        returns(world, "halving"), IMITATED._replace(flawed=0.5), returns(world, "wild"), None
    )
    assert (
        not gate.passed
        and "in 0% of the tasks episodes differ; 50% of the policy's turns are cut off" in gate.found
    )
    assert "Every episode of a task has the same return" in gate.otherwise


@pytest.mark.parametrize(
    ("reward", "words"), [(float("nan"), "has the reward nan"), (None, "has the reward None")]
)
def test_rewards_that_are_no_numbers_are_refused(worlds, reward, words):
    episodes = [replace(one, reward=reward) for one in played(worlds["number"], "wild")]
    with pytest.raises(UsageError, match=f"{words}.*`step` of the Env of number must return a finite reward"):
        returns_of(episodes, worlds["number"], "the policy")


def ranked(scores, swapped, texts=None):
    candidates = tuple(
        Candidate(text, None, None, None, False) for text in texts or map(str, range(len(scores)))
    )
    return Candidates(
        ("task", 0, 0),
        1,
        "prompt",
        "solution",
        candidates,
        scores=tuple(scores),
        row={SWAPPED: list(swapped)},
    )


def test_a_critic_that_does_not_read_the_solution_is_seen(worlds):
    gate = critic_reads([ranked((1.0, 2.0, 3.0), (1.0, 2.0, 3.0)), ranked((0.5, 0.2), (0.6, 0.1))])
    assert (
        not gate.passed
        and gate.found == "with another task's solution 0% of the pairs of candidates change sides"
    )
    gate = critic_reads([ranked((1.0, 2.0, 3.0), (3.0, 2.0, 1.0)), ranked((0.5, None), (0.6, 0.1))])
    assert gate.passed and "100%" in gate.found
    assert critic_reads([ranked((1.0, 2.0), (1.0, 2.0))], needless=True).found.endswith(
        "its pairs are right, so it can do without"
    )


def test_pairs_are_judged_by_playing_on_and_by_an_oracle(worlds):
    world = worlds["number"]
    episodes = played(world, "wild")
    starts = {one.key: states_of(one)[0] for one in episodes}
    rows = [
        replace(
            ranked((1.0, 0.0), (0.0, 1.0), (one.task.ground_truth, "99")),
            key=(*one.key, 0),
            ground_truth=one.task.ground_truth,
        )
        for one in episodes
    ]
    found = {(one.key): one for one in episodes}

    careful = agent_of(world, "careful")

    def look(pair, judge=lambda solution, messages, turn: None):
        async def run():
            async with world.open(world.options(), None) as make_env:
                how = {"states": lambda row: (found[row.key[:2]], starts[row.key[:2]]), "policy": careful}
                return await pairs_are_right(
                    rows, [[pair]] * len(rows), judge=judge, make_env=make_env, seed=0, **how
                )

        return asyncio.run(run())

    right, wrong = look(StepPair(0, 1)), look(StepPair(1, 0))
    assert (
        right.passed and "100% right, 0% wrong, the rest alike, of 120 pairs played on 6 times" in right.found
    )
    assert not wrong.passed and "0% right, 100% wrong" in wrong.found
    judged = look(StepPair(0, 1), judge=lambda solution, messages, turn: turn == solution)
    assert judged.passed and "of 120 pairs by the world's oracle" in judged.found
    alike = look(StepPair(0, 1), judge=lambda solution, messages, turn: True)
    assert not alike.passed and "0% right, 0% wrong, the rest alike" in alike.found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"content": lambda turn: "7"}, "of its turns are repeated"),
        (
            {"finish_reason": lambda turn: FinishReason.LENGTH},
            "100% of its turns are empty or cut off (start 0%)",
        ),
    ],
)
def test_a_collapse_is_told_by_its_habits(worlds, change, words):
    start = played(worlds["number"], "careful")
    why = collapsed(habits_of(changed(start, **change)), habits_of(start))
    assert words in why and bool(words) == bool(why)
    at_once = [replace(one, dialogue_history=one.dialogue_history[:2]) for one in start]
    assert "100% of its episodes end at once" in collapsed(habits_of(at_once), habits_of(start))


def test_a_policy_that_is_no_better_ends_the_run(worlds):
    world = worlds["number"]
    better = improved("lr 1", returns(world, "halving"), returns(world, "careful"), {})
    worse = improved(
        "lr 1", returns(world, "wild"), returns(world, "careful"), {"lr 1": "0.1", "lr 2": "0.2"}
    )
    assert better.passed and not worse.passed
    assert "Tried: lr 1: 0.1; lr 2: 0.2." in worse.otherwise
