"""Episodes as transitions, what is drawn from memory, and the loop with a learner that only watches."""

import gc
import shutil
import tracemalloc
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from sweet_rl.errors import DataError, EpisodeError, ServiceError, StorageError
from sweet_rl.mini.objects.asker import ObjectAsker
from sweet_rl.mini.objects.oracle import ObjectOracle
from sweet_rl.online.learner import FilteredBCLearner
from sweet_rl.online.loop import OnlineRun, Playground, RunFolder
from sweet_rl.online.policy import TokenPolicy
from sweet_rl.online.replay import ReplayBuffer, Transition, best_numbers, transitions
from sweet_rl.online.settings import ArcherSettings, LoopSettings
from sweet_rl.records import load_trajectories, read_rows
from sweet_rl.types import AgentTurn, Failure, Message, StopReason, Task, Trajectory, derive_seed
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.question_games import QuestionTranscript
from sweet_rl.worlds.twenty_questions import TwentyQuestionsEnv
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
            self.seen.append(said(draw(self.draws)))
        self.on_update()
        return {}

    gathered = nullcontext

    def rollout_policy(self, *, greedy):
        return ObjectAsker(WORDS, skill=0.5)

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
    with closing(RunFolder(folder, {})) as run_folder:
        OnlineRun(LoopSettings(**{**told, **settings}), learner, playground(world), run_folder).run()


def metrics(folder):
    return [row for _, row in read_rows(folder / "metrics.jsonl")]


def said(turns):
    return [turn.observation + turn.action for turn in turns]


def episodes(folder):
    """Those of each iteration in the order of their numbers, as transitions."""
    games = load_trajectories(folder / "trajectories.jsonl")
    games.sort(key=lambda game: (game.extra["iteration"], game.extra["episode"]))
    return [transitions(game, TRANSCRIPT) for game in games]


def expected(inserted, capacity, iteration, compat, draws=40):
    """By hand: insertion i stands in slot i mod capacity until a later one takes its place."""
    slots = {}
    for number, step in enumerate(inserted):
        slots[number % capacity] = step
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
        inserted = said(chain(*kept))
        steps = max(steps, len(inserted))
        assert drawn == expected(inserted, 30, iteration, compat)
    assert steps > 30  # it has wrapped


@pytest.mark.parametrize("more", [{}, {"filter_quantile": 0.5}, {"on_policy": True}])
def test_with_whole_games_a_step_has_turns_that_followed_each_other(tmp_path, more):
    learner = Watcher()
    play(tmp_path, learner, whole_games=True, **more)
    games = [said(game) for game in episodes(tmp_path)]
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
        play(tmp_path, learner, iterations=6, rollout_size=12, capacity=50, eval_freq=100)
    finally:
        tracemalloc.stop()
    a_game = (seen[-1] - seen[2]) / (12 * (len(seen) - 3))
    assert a_game < 500
    assert (tmp_path / "trajectories.jsonl").stat().st_size / (6 * 12) > 1500


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
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")


def test_files_that_are_not_as_they_were(tmp_path):
    """A torn line of the numbers is written again; a row that is no episode, and memory that is gone, are named."""
    play(tmp_path, Watcher(), iterations=2, save_freq=1)
    shutil.rmtree(tmp_path / "checkpoint-2")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "rollout')
    play(tmp_path, Watcher(), iterations=2, save_freq=1)
    assert [row["step"] for row in metrics(tmp_path)] == [1, 2]
    rows = tmp_path / "trajectories.jsonl"
    with rows.open("a") as file:
        file.write('{"task_id": "x"}\n')
    with (
        pytest.raises(DataError, match=r"trajectories.jsonl.*line 11"),
        closing(RunFolder(tmp_path, {})) as run,
    ):
        run.newest()
    rows.unlink()
    with pytest.raises(StorageError, match=r"jsonl' is missing, and had .* bytes at checkpoint-2"):
        play(tmp_path, Watcher())
    assert not rows.exists()


class Breaking(TwentyQuestionsEnv):
    """Breaks at the third question of games about words with an even number of letters."""

    asked = 0

    async def step(self, action):
        self.asked += 1
        if self.asked == 3 and len(self.task.hidden_information) % 2 == 0:
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
    numbers = metrics(tmp_path)
    kept = load_trajectories(tmp_path / "trajectories.jsonl")
    assert sum(row["rollout.failed"] for row in numbers) == 40 - len(kept) > 0
    assert sum(row.get("eval_rollout.failed", 0) for row in numbers) == len(broken) - (40 - len(kept))
    turns = said(chain(*episodes(tmp_path)))
    assert {*chain(*learner.seen)} <= {*turns}
    assert numbers[-1]["env_steps"] == len(turns)


def test_a_world_that_fails_in_every_episode_ends_the_run(tmp_path):
    with pytest.raises(ServiceError, match=r"Every episode of iteration 1 failed; .*failures.jsonl"):
        play(tmp_path, Watcher(), AlwaysBreaking)


@pytest.mark.parametrize(
    ("reward", "what"),
    [(None, "is missing"), (float("nan"), "a finite number, got nan"), (float("inf"), "a finite number, got inf")],
)  # fmt: skip
def test_a_reward_that_is_missing_or_no_number_is_refused_at_the_first_episode(tmp_path, reward, what):
    class Odd(TwentyQuestionsEnv):
        async def step(self, action):
            return replace(await super().step(action), reward=reward)

    with pytest.raises(DataError, match=rf"reward of turn 0 of task .*{what}.*Env.step returns one"):
        play(tmp_path, Watcher(), Odd, concurrency=1)
    assert not (tmp_path / "trajectories.jsonl").exists()


TASK = Task("t", "Begin\n", "dog", "dog", {}, {})


def turn(text, reward, *, raw=None, ids=None):
    return AgentTurn("assistant", text, output=raw or text, reward=reward, token_ids=ids)


def trajectory(*entries, stop=StopReason.ENDED, **more):
    return Trajectory(TASK, (Message("user", "Begin\n"), *entries), None, stop_reason=stop, **more)


def test_an_episode_becomes_its_transitions():
    """A time limit is no end of the world, and unknown last words are not invented."""
    no, yes = Message("user", " No.\n"), Message("user", " Yes.\n")
    played = trajectory(turn("A?", -1.0, raw='{"A?"}', ids=(1, 2)), no, turn("B?", 0.5), yes)
    first, last = transitions(played, Joined())
    one, two = "Begin\nA? No.\n", "Begin\nA? No.\nB? Yes.\n"
    assert first == Transition("Begin\n", '{"A?"}', -1.0, one, False, False, -0.5, -1 + 0.95 * 0.5, (1, 2))
    assert last == Transition(one, "B?", 0.5, two, True, False, -0.5, 0.5)
    assert (first.done, last.done, first.bootstraps, last.bootstraps) == (False, True, True, False)
    (known,) = transitions(trajectory(turn("A?", -1.0), no, stop=StopReason.TURN_LIMIT), Joined())
    assert (known.terminated, known.truncated, known.done, known.bootstraps) == (False, True, True, True)
    (unknown,) = transitions(trajectory(turn("A?", -1.0), stop=StopReason.TURN_LIMIT), Joined())
    assert (unknown.next_observation, unknown.bootstraps) == ("", False)
    assert transitions(trajectory(turn("A?", -1.0), error=Failure("timeout")), Joined()) == []
    assert transitions(trajectory(), Joined()) == []


def test_the_grade_of_an_episode_is_its_last_turns_where_no_turn_is_rewarded():
    asked, no, answered = turn("A?", None), Message("user", "No"), turn("So.", None)
    found = transitions(trajectory(asked, no, answered, reward=0.4), Joined())
    assert [(step.reward, step.trajectory_reward) for step in found] == [(0.0, 0.4), (0.4, 0.4)]
    assert found[0].mc_return == pytest.approx(0.95 * 0.4)
    for broken, what in (  # a reward that is missing is no zero
        (trajectory(turn("A?", 1.0), no, answered, reward=0.4), "reward of turn 1 of task 't'"),
        (trajectory(asked, no, answered, reward=None), "reward of turn 0"),
        (trajectory(asked, no, answered, reward=float("nan")), "reward of task 't'. must be a finite"),
    ):
        with pytest.raises(DataError, match=what):
            transitions(broken, Joined())


def test_every_slot_of_a_full_buffer_is_drawn_alike():
    buffer = ReplayBuffer(4)
    buffer.extend(Transition(f"o{number}", "") for number in range(6))
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
        buffer.extend([Transition(f"{episode} {number}", "", terminated=last)])
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


def cloner(say=None, **more):
    settings = ArcherSettings(agent_type="online_filteredbc", grad_accum_steps=1, **more)
    policy = TokenPolicy(policy_model(), policy_tokenizer(), settings)
    return FilteredBCLearner(settings, policy, None, Joined(), say)


@pytest.mark.parametrize("whole_games", [False, True])
def test_cloning_learns_what_it_is_shown(whole_games):
    begin, later, told = "Questions:\n", "Questions:\nNo? Yes.\n", []
    shown = [Transition(begin, "No?"), Transition(later, "Is it?")] * 5
    learner = cloner(lambda *one: told.append(one), batch_size=4, lm_lr=2e-2)
    found = learner.clone(shown, whole_games=whole_games, iterations=25)
    assert len(found) == 25 * 3  # the last step of a pass is smaller
    assert found[-1] < 0.1 < found[0]
    assert told[-1] == ("imitate", 75, 75)
    said = learner.policy.sample([begin, later], [0, 0], greedy=True)
    assert [one.text for one in said] == ["No?", "Is it?"]


def test_whole_games_stay_together_in_an_order_of_each_pass(monkeypatch):
    """Six rows a step are two games of three turns, each in its own order, in another order a pass."""
    games = [[Transition(f"{name}:\n" + "a" * turn, "x") for turn in range(3)] for name in "ABCDEFGH"]
    seen, shown = [], [one for game in games for one in game]
    learner = cloner(batch_size=6)
    monkeypatch.setattr(learner, "_imitate", lambda rows: seen.append(rows) or 1.0)
    learner.clone(shown, iterations=2, whole_games=True)
    assert all(step[:3] in games and step[3:] in games for step in seen)
    passes = [[*chain(*seen[:4])], [*chain(*seen[4:])]]
    assert passes[0] != passes[1]
    assert all(sorted(map(str, one)) == sorted(map(str, shown)) for one in passes)
