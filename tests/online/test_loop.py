"""Episodes as transitions, what is drawn from memory, and the loop with a learner that only watches."""

import asyncio
import gc
import shutil
import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from sweet_rl.errors import DataError, EpisodeError, ServiceError, StorageError
from sweet_rl.mini.objects.asker import ObjectAsker
from sweet_rl.mini.objects.oracle import ObjectOracle, answer
from sweet_rl.online import archer
from sweet_rl.online.archer import train_bc
from sweet_rl.online.loop import OnlineRun, Playground, RunFolder
from sweet_rl.online.policy import TokenPolicy
from sweet_rl.online.replay import ReplayBuffer, Transition, TurnsOnDisk, best_numbers, transitions
from sweet_rl.online.settings import LoopSettings
from sweet_rl.records import Journal, load_trajectories, read_rows
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Task, Trajectory, derive_seed
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.question_games.game import QuestionTranscript
from sweet_rl.worlds.twenty_questions.world import TwentyQuestionsEnv
from tests.online.models import Joined, policy_model, policy_tokenizer

TRANSCRIPT = QuestionTranscript()
TASKS = load_tasks("twenty-questions:ten")
WORDS = [task.hidden_information for task in TASKS]


class Watcher:
    """Learns nothing: keeps what it was told to learn from, or counts it."""

    def __init__(self, draws=40):
        self.draws, self.seen, self.on_update = draws, [], lambda: None

    def update(self, draw, *, update_actor):
        if update_actor and self.draws:
            self.seen.append([row.observation + row.action for row in draw(self.draws)])
        self.on_update()
        return {}

    def gathered(self):
        from contextlib import nullcontext

        return nullcontext()

    def rollout_policy(self, *, greedy):
        return ObjectAsker(answer, WORDS, skill=0.5)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@asynccontextmanager
async def playground(world=TwentyQuestionsEnv):
    oracle = ObjectOracle()
    yield Playground(lambda: world(oracle), TASKS, TASKS, TRANSCRIPT)


def play(folder, learner, world=TwentyQuestionsEnv, **settings):
    told = {
        "iterations": 4, "rollout_size": 5, "eval_size": 2, "eval_freq": 2, "save_freq": 100,
        "warmup_iter": 0,
    }  # fmt: skip
    run_folder = RunFolder(folder, {})
    try:
        OnlineRun(LoopSettings(**{**told, **settings}), learner, playground(world), run_folder).run()
    finally:
        run_folder.close()


def episodes(folder):
    """Those of each iteration in the order of their numbers, as transitions."""
    found = {}
    for game in load_trajectories(folder / "trajectories.jsonl"):
        place = game.extra["iteration"], game.extra["episode"]
        found[place] = transitions(game, TRANSCRIPT)
    return [found[place] for place in sorted(found)]


def expected(inserted, capacity, iteration, compat, draws=40):
    """By hand: insertion i stands in slot i mod capacity until a later one takes its place."""
    slots = {}
    for number, step in enumerate(inserted):
        slots[number % capacity] = step.observation + step.action
    seed = derive_seed(0, "draw", iteration)
    if compat == "published":
        state = np.random.RandomState(seed)
        numbers = [int(state.randint(0, len(inserted), size=1)[0]) for _ in range(draws)]
        return [slots[number % capacity] for number in numbers]
    numbers = np.random.default_rng(seed).integers(0, len(slots), size=draws)
    return [slots[int(number)] for number in numbers]


@pytest.mark.parametrize("compat", ["fixed", "published"])
@pytest.mark.parametrize("quantile", [None, 0.5])
def test_draws_from_a_wrapped_buffer(tmp_path, compat, quantile):
    """30 slots, some hundred turns: published draws are over insertions, fixed ones over slots."""
    learner = Watcher()
    play(tmp_path, learner, capacity=30, compat=compat, filter_quantile=quantile)
    played, steps = episodes(tmp_path), 0
    for iteration, drawn in enumerate(learner.seen):
        kept = played[: 5 * (iteration + 1)]
        if quantile is not None:
            kept = [kept[n] for n in best_numbers([steps[0].trajectory_reward for steps in kept], quantile)]
        inserted = [step for episode in kept for step in episode]
        steps = max(steps, len(inserted))
        assert drawn == expected(inserted, 30, iteration, compat)
    assert steps > 30  # it has wrapped


@pytest.mark.parametrize("more", [{}, {"filter_quantile": 0.5}, {"on_policy": True}])
def test_with_whole_games_a_step_has_turns_that_followed_each_other(tmp_path, more):
    learner = Watcher()
    play(tmp_path, learner, whole_games=True, **more)
    games = [[step.observation + step.action for step in game] for game in episodes(tmp_path)]
    for drawn in learner.seen:
        game = next(game for game in games if drawn[0] in game)
        drawn = drawn[len(game) - game.index(drawn[0]) :]  # it begins at any turn
        while drawn:
            game = next(game for game in games if game[: len(drawn)] == drawn[: len(game)])
            drawn = drawn[len(game) :]


def test_what_was_played_is_on_disk_and_not_in_memory(tmp_path):
    """Traced bytes of one game more; each takes several kilobytes on disk, 35 KiB of objects if it is kept."""
    learner, seen = Watcher(draws=0), []

    def look():
        gc.collect()
        seen.append(tracemalloc.get_traced_memory()[0])

    learner.on_update = look
    tracemalloc.start()
    try:
        play(tmp_path, learner, iterations=6, rollout_size=30, capacity=50, eval_freq=100)
    finally:
        tracemalloc.stop()
    a_game = (seen[-1] - seen[2]) / (30 * (len(seen) - 3))
    assert a_game < 500
    assert (tmp_path / "trajectories.jsonl").stat().st_size / 180 > 2000


def test_a_run_that_goes_on_reads_its_games_from_the_file(tmp_path):
    whole, first, second = Watcher(), Watcher(), Watcher()
    settings = {"capacity": 30, "filter_quantile": 0.5, "save_freq": 1}
    play(tmp_path / "whole", whole, **settings)
    play(tmp_path / "part", first, **settings, iterations=2)
    play(tmp_path / "part", second, **settings)
    assert first.seen + second.seen == whole.seen


def test_what_failed_when_it_was_learned_from_stays_missing(tmp_path):
    """A run that was killed before its first checkpoint learns again from what it learned from."""
    broken = set()

    class BreakingOnce(TwentyQuestionsEnv):
        async def reset(self, task, *, seed):
            if seed % 3 == 0 and seed not in broken:
                broken.add(seed)
                raise EpisodeError(StopReason.WORLD_FAILED, Failure("lost", "the world broke"))
            return await super().reset(task, seed=seed)

    whole, first, second = Watcher(), Watcher(), Watcher()
    play(tmp_path / "whole", whole, BreakingOnce)
    failed = len(load_trajectories(tmp_path / "whole/failures.jsonl"))
    broken.clear()
    play(tmp_path / "part", first, BreakingOnce, iterations=2)
    shutil.rmtree(tmp_path / "part/checkpoint-2")
    play(tmp_path / "part", second, BreakingOnce)
    assert second.seen == whole.seen
    assert len(load_trajectories(tmp_path / "part/failures.jsonl")) == failed > 2
    told = [[row for _, row in read_rows(tmp_path / run / "metrics.jsonl")] for run in ("whole", "part")]
    assert told[0] == told[1]


def test_memory_that_is_gone_is_told(tmp_path):
    play(tmp_path, Watcher(), iterations=1)
    (tmp_path / "trajectories.jsonl").unlink()
    with pytest.raises(
        StorageError, match=r"trajectories.jsonl' is missing, and had .* bytes at checkpoint-1"
    ):
        play(tmp_path, Watcher())
    assert not (tmp_path / "trajectories.jsonl").exists()


def test_a_torn_line_of_the_numbers_is_written_again(tmp_path):
    play(tmp_path, Watcher(), iterations=2, save_freq=1)
    shutil.rmtree(tmp_path / "checkpoint-2")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rollout')
    play(tmp_path, Watcher(), iterations=2, save_freq=1)
    assert [row["step"] for _, row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]


def test_a_row_that_is_no_episode_of_a_run_is_named(tmp_path):
    play(tmp_path, Watcher(), iterations=1)
    with (tmp_path / "trajectories.jsonl").open("a") as file:
        file.write('{"task_id": "x"}\n')
    with pytest.raises(DataError, match=r"trajectories.jsonl.*line 6"):
        RunFolder(tmp_path, {}).newest()


class Breaking(TwentyQuestionsEnv):
    """Breaks at the third question of games about words with an even number of letters."""

    asked = 0

    async def step(self, action):
        self.asked += 1
        if self.asked == 3 and len(self._task.hidden_information) % 2 == 0:
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("lost", "the world broke"))
        return await super().step(action)


class AlwaysBreaking(TwentyQuestionsEnv):
    async def reset(self, task, *, seed):
        raise EpisodeError(StopReason.WORLD_FAILED, Failure("lost", "the world broke"))


@pytest.mark.parametrize("settings", [{}, {"filter_quantile": 0.0}, {"on_policy": True}])
def test_episodes_in_which_the_world_failed_are_counted_and_never_learned_from(tmp_path, settings):
    learner = Watcher(draws=200)
    play(tmp_path, learner, Breaking, rollout_size=10, **settings)
    broken = load_trajectories(tmp_path / "failures.jsonl")
    assert all(game.error is not None and len(game.dialogue_history) >= 5 for game in broken)
    numbers = [row for _, row in read_rows(tmp_path / "metrics.jsonl")]
    kept = load_trajectories(tmp_path / "trajectories.jsonl")
    assert sum(row["rollout.failed"] for row in numbers) == 40 - len(kept) > 0
    assert sum(row.get("eval_rollout.failed", 0) for row in numbers) == len(broken) - (40 - len(kept))
    turns = {turn.observation + turn.action for game in kept for turn in transitions(game, TRANSCRIPT)}
    assert {turn for seen in learner.seen for turn in seen} <= turns
    assert numbers[-1]["env_steps"] == sum(len(transitions(game, TRANSCRIPT)) for game in kept)


def test_a_world_that_fails_in_every_episode_ends_the_run(tmp_path):
    with pytest.raises(ServiceError, match=r"Every episode of iteration 1 failed; .*failures.jsonl"):
        play(tmp_path, Watcher(), AlwaysBreaking)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (None, r"reward of turn 0 .*Env.step return one"),
        (float("nan"), r"reward of turn 0 of task .*must be a finite number, got nan"),
        (float("inf"), r"reward of turn 0 of task .*must be a finite number, got inf"),
    ],
)
def test_a_reward_that_is_missing_or_no_number_is_refused_at_the_first_episode(tmp_path, reward, message):
    class Odd(TwentyQuestionsEnv):
        async def step(self, action):
            return replace(await super().step(action), reward=reward)

    with pytest.raises(DataError, match=message):
        play(tmp_path, Watcher(), Odd, concurrency=1)
    assert not (tmp_path / "trajectories.jsonl").exists()


def test_a_journal_finds_its_rows_again(tmp_path):
    async def write(journal):
        return await asyncio.gather(*[journal.append_soon({"n": n, "é": "ü" * n}) for n in range(30)])

    with Journal(tmp_path / "a.jsonl") as journal:
        starts = asyncio.run(write(journal))
        assert [journal.read(start)["n"] for start in starts] == list(range(30))
    told = []
    with Journal(tmp_path / "a.jsonl", each=lambda line, start, row: told.append((line, start, row["n"]))):
        assert told == [(n + 1, start, n) for n, start in enumerate(starts)]


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
        buffer.extend([Transition(f"o{number}", "", 0.0, "", False, False, 0.0, 0.0)])
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
        buffer.extend([Transition(f"{episode} {number}", "", 0.0, "", last, False, 0.0, 0.0)])
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


@pytest.mark.parametrize("whole_games", [False, True])
def test_cloning_learns_what_it_is_shown(whole_games):
    policy, told = TokenPolicy(policy_model(), policy_tokenizer()), []
    shown = [Transition("Questions:\n", "No?"), Transition("Questions:\nNo? Yes.\n", "Is it?")] * 5
    found = train_bc(
        policy, shown, whole_games=whole_games, learning_rate=2e-2, iterations=25, batch_size=2,
        grad_accum_steps=2, say=lambda *one: told.append(one),
    )  # fmt: skip
    assert len(found) == 25 * 3  # the last step of a pass is smaller
    assert found[-1] < 0.1 < found[0]
    assert told[-1] == ("imitate", 75, 75)
    assert [
        one.text for one in policy.sample(["Questions:\n", "Questions:\nNo? Yes.\n"], [0, 0], greedy=True)
    ] == ["No?", "Is it?"]


def test_whole_games_stay_together_in_an_order_of_each_pass(monkeypatch):
    """Six rows a step are two games of three turns, each in its own order, in another order a pass."""
    games = [[Transition(f"{name}:\n" + "a" * turn, "x") for turn in range(3)] for name in "ABCDEFGH"]
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
