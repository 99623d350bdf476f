"""Episodes as transitions, written out by hand."""

from itertools import chain

import numpy as np
import pytest

from sweet_rl.errors import DataError
from sweet_rl.online import archer
from sweet_rl.online.archer import Demonstration, demonstrations_of, train_bc
from sweet_rl.online.policy import TokenPolicy
from sweet_rl.online.replay import ReplayBuffer, Transition, TurnsOnDisk, transitions
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Task, Trajectory
from tests.online.models import ROWS, Joined, policy_model, policy_tokenizer

TASK = Task("t", "Begin\n", "dog", "dog", {}, {})


def turn(text, reward, *, raw=None, ids=None):
    return AgentTurn("assistant", text, output=raw or text, reward=reward, token_ids=ids)


def trajectory(*entries, stop=StopReason.ENDED, **more):
    return Trajectory(TASK, (Message("user", "Begin\n"), *entries), None, stop_reason=stop, **more)


def test_an_episode_becomes_its_transitions():
    played = trajectory(
        turn("A?", -1.0, raw='{"A?"}', ids=(1, 2)),
        Message("user", " No.\n"),
        turn("B?", 0.5),
        Message("user", " Yes.\n"),
    )
    first, last = transitions(played, Joined())
    assert first == Transition(
        "Begin\n", '{"A?"}', -1.0, "Begin\nA? No.\n", False, False, -0.5, -1 + 0.95 * 0.5, (1, 2)
    )
    assert last == Transition(
        "Begin\nA? No.\n", "B?", 0.5, "Begin\nA? No.\nB? Yes.\n", True, False, -0.5, 0.5
    )
    assert (first.done, last.done, first.bootstraps, last.bootstraps) == (False, True, True, False)


def test_a_time_limit_is_no_end_and_unknown_last_words_are_not_invented():
    (known,) = transitions(
        trajectory(turn("A?", -1.0), Message("user", " No.\n"), stop=StopReason.TURN_LIMIT), Joined()
    )
    assert (known.terminated, known.truncated, known.done, known.bootstraps) == (False, True, True, True)
    (unknown,) = transitions(trajectory(turn("A?", -1.0), stop=StopReason.TURN_LIMIT), Joined())
    assert (unknown.next_observation, unknown.bootstraps) == ("", False)


def test_an_episode_that_failed_has_none_and_one_without_rewards_is_an_error():
    assert transitions(trajectory(turn("A?", -1.0), error=Failure("timeout")), Joined()) == []
    assert transitions(trajectory(), Joined()) == []
    with pytest.raises(DataError, match="reward of turn 1 of task 't'"):
        transitions(trajectory(turn("A?", -1.0), Message("user", "No"), turn("B?", None)), Joined())


def test_the_grade_of_an_episode_is_its_last_turns_where_no_turn_is_rewarded():
    asked, answered = turn("A?", None), turn("So.", None)
    graded = trajectory(asked, Message("user", "No"), answered, reward=0.4)
    assert [(step.reward, step.trajectory_reward) for step in transitions(graded, Joined())] == [
        (0.0, 0.4),
        (0.4, 0.4),
    ]
    assert transitions(graded, Joined())[0].mc_return == pytest.approx(0.95 * 0.4)
    for broken in (  # a reward that is missing is no zero
        trajectory(turn("A?", 1.0), Message("user", "No"), answered, reward=0.4),
        trajectory(asked, Message("user", "No"), answered, reward=None),
        trajectory(asked, Message("user", "No"), answered, reward=float("nan")),
    ):
        with pytest.raises(DataError, match="reward of t"):
            transitions(broken, Joined())


def test_every_slot_of_a_full_buffer_is_drawn_alike():
    buffer = ReplayBuffer(4)
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(1, np.random.default_rng(0))
    for number in range(6):
        buffer.insert(Transition(f"o{number}", "", 0.0, "", False, False, 0.0, 0.0))
    drawn = [one.observation for one in buffer.sample(8000, np.random.default_rng(0))]
    assert {name: drawn.count(name) for name in set(drawn)} == pytest.approx(
        dict.fromkeys(("o2", "o3", "o4", "o5"), 2000), abs=150
    )
    assert buffer.sample(5, np.random.default_rng(1)) == buffer.sample(5, np.random.default_rng(1))


def test_whole_episodes_are_drawn_alike_and_a_turn_as_often_as_alone():
    """Twelve slots of a ring that has wrapped: what is left of one episode, two whole ones and half a one."""
    buffer = ReplayBuffer(12)
    places = [(episode, number) for episode, length in enumerate((3, 4, 4, 2)) for number in range(length)]
    for episode, number in [*places, (4, 0), (4, 1)]:
        last = number == (3, 4, 4, 2, 9)[episode] - 1
        buffer.insert(Transition(f"{episode} {number}", "", 0.0, "", last, False, 0.0, 0.0))
    left = [["1 0", "1 1", "1 2", "1 3"], ["2 0", "2 1", "2 2", "2 3"], ["3 0", "3 1"], ["4 0", "4 1"]]
    draw = buffer.drawing_games(np.random.default_rng(0))
    for each, times in ((1, 12_000), (3, 4_000), (12, 1_000), (12_000, 1)):
        drawn = [one.observation for _ in range(times) for one in draw(each)]
        counts = {name: drawn.count(name) for name in set(drawn)}
        assert counts == pytest.approx(dict.fromkeys(chain(*left), 1000), abs=110), each
    begins = {game[0] for game in left}
    before = {name: game[place] for game in left for place, name in enumerate(game[1:])}
    for place in range(1, len(drawn)):
        assert drawn[place] in begins or drawn[place - 1] == before[drawn[place]]
    with pytest.raises(ValueError, match="empty"):
        ReplayBuffer(4).drawing_games(np.random.default_rng(0))


def test_whole_episodes_are_drawn_from_disk_alike():
    ring = TurnsOnDisk([(0, 0), (0, 3), (1, 1)], [2, 3, 2], 6)
    draw = ring.drawing_games(np.random.default_rng(0))
    first, second, third = [((0, 0), 1)], [((0, 3), n) for n in range(3)], [((1, 1), n) for n in range(2)]
    assert draw(1)[0] in {*first, *second, *third}
    assert set(draw(60)) == {*first, *second, *third}  # the first turn of all has made room


def test_dialogues_become_demonstrations():
    assert demonstrations_of(ROWS[:1]) == [Demonstration("Questions:\n", "Is it alive?")]


@pytest.mark.parametrize("whole_games", [False, True])
def test_cloning_learns_what_it_is_shown(whole_games):
    policy, told = TokenPolicy(policy_model(), policy_tokenizer()), []
    shown = [Demonstration("Questions:\n", "No?"), Demonstration("Questions:\nNo? Yes.\n", "Is it?")] * 5
    found = train_bc(
        policy,
        shown,
        whole_games=whole_games,
        learning_rate=2e-2,
        iterations=25,
        batch_size=2,
        grad_accum_steps=2,
        say=lambda *one: told.append(one),
    )
    assert len(found) == 25 * 3  # the last step of a pass is smaller
    assert found[-1] < 0.1 < found[0]
    assert told[-1] == ("imitate", 75, 75)
    assert [
        one.text for one in policy.sample(["Questions:\n", "Questions:\nNo? Yes.\n"], [0, 0], greedy=True)
    ] == ["No?", "Is it?"]


def test_whole_games_stay_together_in_an_order_of_each_pass(monkeypatch):
    """Six rows a step are two games of three turns, each in its own order, in another order a pass."""
    games = [[Demonstration(f"{name}:\n" + "a" * turn, "x") for turn in range(3)] for name in "ABCDEFGH"]
    seen = []
    monkeypatch.setattr(
        archer, "imitation_step", lambda _, __, rows, ___: seen.append(rows) or {"bc.loss": 1.0}
    )
    policy = TokenPolicy(policy_model(), policy_tokenizer())
    shown = [one for game in games for one in game]
    train_bc(policy, shown, iterations=2, batch_size=6, grad_accum_steps=1, whole_games=True)
    assert all(step[:3] in games and step[3:] in games for step in seen)
    passes = [[*chain(*seen[:4])], [*chain(*seen[4:])]]
    assert passes[0] != passes[1]
    assert all(sorted(map(str, one)) == sorted(map(str, shown)) for one in passes)
