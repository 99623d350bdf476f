"""The loop: nobody waits, nothing is lost, bad episodes are data."""

import asyncio
from dataclasses import replace

import pytest

from sweet_rl.errors import EpisodeError, ServiceError
from sweet_rl.records import trajectory_from_row, trajectory_to_row
from sweet_rl.rollout import Episode, rollout, schedule
from sweet_rl.types import (
    AgentTurn,
    Completion,
    Failure,
    Generation,
    Message,
    Observation,
    StepResult,
    StopReason,
    Task,
    Trajectory,
    UserReply,
)
from sweet_rl.worlds.backend_programming.world import BackendEnv


def tasks(n):
    return [Task(f"t{i}", f"request {i}", "g", "g", {}, {"n": i}) for i in range(n)]


class User:
    name = "user"

    async def reply(self, context):
        return UserReply("yes")


class Policy:
    """Answers in its third turn; `delays` seconds pass in each turn of a task."""

    name = "policy"

    def __init__(self, delays=None, text=None):
        self.delays, self.text, self.active, self.most = delays or {}, text, 0, 0

    async def act(self, observation):
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await asyncio.sleep(self.delays.get(observation.task_id, 0))
        finally:
            self.active -= 1
        text = self.text or ("I WANT TO ANSWER:x" if observation.turn == 2 else "why?")
        return Generation("prompt", Completion(text, token_ids=(1, 2), logprobs=(-1.0, -2.0)))


def run(episodes, policy, *, concurrency=4, on_finished=None, make_env=None, **settings):
    finished = []

    async def keep(trajectory):
        finished.append(trajectory)

    stats = asyncio.run(
        rollout(
            episodes,
            make_env=make_env or (lambda: BackendEnv(User(), **settings)),
            policy=policy,
            on_finished=on_finished or keep,
            concurrency=concurrency,
        )
    )
    return finished, stats


def test_published_row_order():
    order = [(e.task.task_id, e.sample_index) for e in schedule(tasks(3), 2)]
    assert order == [("t0", 0), ("t1", 0), ("t2", 0), ("t0", 1), ("t1", 1), ("t2", 1)]


def test_seeds_belong_to_the_episode_and_not_to_the_run():
    seeds = {e.seed for e in schedule(tasks(50), 4, seed=1)}
    assert len(seeds) == 200
    by_key = {(e.task.task_id, e.sample_index): e.seed for e in schedule(tasks(50), 4, seed=1)}
    fewer = {(e.task.task_id, e.sample_index): e.seed for e in schedule(tasks(20), 2, seed=1)}
    assert fewer.items() <= by_key.items()
    assert seeds.isdisjoint({e.seed for e in schedule(tasks(50), 4, seed=2)})


def test_all_episodes_are_played_with_no_more_than_the_concurrency():
    policy = Policy({f"t{i}": 0.001 * (i % 5) for i in range(20)})
    finished, stats = run(schedule(tasks(20), 2), policy, concurrency=7)
    assert sorted(t.key for t in finished) == sorted((f"t{i}", j) for i in range(20) for j in range(2))
    assert policy.most == 7
    assert (stats.episodes, stats.turns, stats.tokens) == (40, 120, 240)
    assert all(t.stop_reason is StopReason.ANSWERED and t.answer == "x" for t in finished)


def test_a_slow_episode_holds_up_nobody():
    policy = Policy({"t0": 0.1})
    finished, _ = run(schedule(tasks(30), 1), policy, concurrency=2)
    assert finished[-1].task.task_id == "t0"


def test_a_place_is_taken_until_the_row_is_on_disk():
    open_rows = 0
    most = 0

    async def slow_disk(trajectory):
        nonlocal open_rows, most
        open_rows += 1
        most = max(most, open_rows)
        await asyncio.sleep(0.002)
        open_rows -= 1

    run(schedule(tasks(12), 1), Policy(), concurrency=3, on_finished=slow_disk)
    assert most == 3


class FailingPolicy(Policy):
    def __init__(self, error, task_id="t1", turn=1):
        super().__init__()
        self.error, self.task_id, self.turn = error, task_id, turn

    async def act(self, observation):
        if observation.task_id == self.task_id and observation.turn == self.turn:
            raise self.error
        return await super().act(observation)


def test_a_bad_episode_is_data():
    error = EpisodeError(StopReason.CONTEXT_FULL, Failure("context_full", "4,097 tokens"))
    finished, stats = run(schedule(tasks(3), 1), FailingPolicy(error))
    bad = {t.task.task_id: t for t in finished}["t1"]
    assert len(finished) == 3
    assert bad.stop_reason is StopReason.CONTEXT_FULL
    assert (bad.error.kind, bad.error.turn) == ("context_full", 1)
    assert bad.answer == "No answer"
    assert [m.role for m in bad.dialogue_history] == ["user", "assistant", "user"]
    assert stats.failures == 1


@pytest.mark.parametrize("error", [ServiceError("down"), RuntimeError("bug")])
def test_what_only_a_person_can_mend_ends_the_run_after_what_had_finished(error):
    finished = []

    async def keep(trajectory):
        finished.append(trajectory.key)

    with pytest.raises(type(error), match=str(error)):
        run(schedule(tasks(9), 1), FailingPolicy(error, "t8"), concurrency=1, on_finished=keep)
    assert len(finished) == 8


def test_token_ids_are_dropped_where_the_text_was_cut():
    cut = "OUTPUT:a OUTPUT:b"
    whole, _ = run([Episode(tasks(1)[0], 0, 0)], Policy(), max_turns=1)
    shortened, _ = run([Episode(tasks(1)[0], 0, 0)], Policy(text=cut), max_turns=1)
    assert whole[0].last_turn.token_ids == (1, 2)
    assert isinstance(shortened[0].last_turn, AgentTurn)
    assert shortened[0].last_turn.output == "OUTPUT:a "
    assert shortened[0].last_turn.token_ids is None
    assert shortened[0].last_turn.logprobs is None


class Countdown:
    """A world that rewards turns and has the last word: over after two of them."""

    def __init__(self, *, fails=False):
        self.turns, self.fails = 0, fails

    async def reset(self, task, *, seed):
        self.messages = (Message("user", "Questions:\n"),)
        return Observation(task.task_id, self.messages, seed)

    async def step(self, action):
        self.turns += 1
        if self.fails and self.turns == 2:
            raise EpisodeError(StopReason.USER_FAILED, Failure("timeout"))
        said = Message("assistant", action), Message("user", f"No. {2 - self.turns} left")
        self.messages += said
        over = self.turns == 2
        end = {"truncated": True, "stop_reason": StopReason.TURN_LIMIT} if over else {}
        return StepResult(action, action, Observation("t0", self.messages, 0), reward=-1, **end)

    async def close(self):
        pass


def test_rewards_of_turns_and_the_worlds_last_words_are_kept():
    [trajectory], _ = run(schedule(tasks(1), 1), Policy(text="A dog?"), make_env=Countdown)
    contents = [message.content for message in trajectory.dialogue_history]
    assert contents == ["Questions:\n", "A dog?", "No. 1 left", "A dog?", "No. 0 left"]
    assert [m.reward for m in trajectory.dialogue_history if isinstance(m, AgentTurn)] == [-1, -1]
    assert trajectory.reward == -2
    assert trajectory.last_turn is trajectory.dialogue_history[3]
    row = trajectory_to_row(trajectory) | {"task": {"problem_description": "r", "ground_truth": "g"}}
    read = trajectory_from_row(row)
    assert (read.dialogue_history, read.reward) == (trajectory.dialogue_history, -2)


def test_an_episode_that_broke_off_has_turn_rewards_but_no_return():
    [trajectory], _ = run(
        schedule(tasks(1), 1), Policy(text="A dog?"), make_env=lambda: Countdown(fails=True)
    )
    assert [m.reward for m in trajectory.dialogue_history if isinstance(m, AgentTurn)] == [-1, None]
    assert trajectory.reward is None
    assert trajectory.error.kind == "timeout"


def test_a_dialogue_that_broke_off_before_the_agents_turn_has_no_last_turn():
    turn = AgentTurn("assistant", "A dog?", reward=-1)
    history = (Message("user", "Questions:\n"), turn, Message("user", "No."))
    broken = Trajectory(tasks(1)[0], history, None, stop_reason=StopReason.POLICY_FAILED)
    assert broken.last_turn is None
    assert replace(broken, reward=-1.0, stop_reason=StopReason.ENDED).last_turn is turn
