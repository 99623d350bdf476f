"""Episodes in step: prompts, who is asked, failures; levels and worlds as a run plays them."""

import json
from dataclasses import replace

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.mini.lantern import LanternEnv
from sweet_rl.online.reflect.play import Chosen, OthersReflections, Rules, open_playground, play
from sweet_rl.online.reflect.settings import settings_of
from sweet_rl.text_game import GameStep
from sweet_rl.types import Failure, StopReason, Task
from tests.online.reflect.tiny import golden

HEAD = "\nThe actions you can take now is:"


class Game:
    head, instruction, max_labels, success_threshold = HEAD, "Think.", ("0", "1"), 0

    def __init__(self):
        self.steps, self.closed = 0, False

    @property
    def text(self):
        return f"state {self.task} {self.steps}{HEAD}\n0\n1\n"

    labels = max_labels

    def reset(self, task, *, seed):
        self.task = task.task_id
        if task.task_id == "broken":
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("bad", "no such world"))
        return self.text

    def step(self, label):
        self.steps += 1
        over = label == "1" or self.steps == 3
        return GameStep(self.text, 1.0 if label == "1" else -0.5, label == "1", over, {})

    def close(self):
        self.closed = True


def task(name):
    return Task(name, "", "", "", {}, {})


class Actor:
    def __init__(self, chosen):
        self.chosen, self.prompts, self.seeds = chosen, [], []

    def choose(self, prompts, seeds):
        self.prompts.append(list(prompts))
        self.seeds.append(list(seeds))
        return [Chosen(self.chosen(prompt), (0,), -0.5, 0.7) for prompt in prompts]


class Reflector:
    def __init__(self):
        self.prompts = []

    def write(self, prompts, seeds):
        self.prompts.append(list(prompts))
        return ["I think. # Action:\n9" for _ in prompts]


def test_an_episode_costs_what_its_steps_cost_and_ends_for_itself():
    actor = Actor(lambda prompt: "1" if "state a 1" in prompt else "0")
    a, b = play(Game, [task("a"), task("b")], [1, 2], actor)
    assert ([step.cost for step in a.steps], a.succeeded) == ([0.5, -1.0], True)
    assert ([step.cost for step in b.steps], b.succeeded) == ([0.5, 0.5, 0.5], False)
    assert [len(prompts) for prompts in actor.prompts] == [2, 2, 1]
    assert actor.prompts[0][0] == f"state a 0{HEAD}\n0\n1\n # Action:\n"
    assert len({seed for seeds in actor.seeds for seed in seeds}) == 5


def test_the_policy_reads_what_was_reflected_up_to_where_it_acts():
    actor, reflector = Actor(lambda _: "1"), Reflector()
    play(Game, [task("a")], [1], actor, reflector)
    assert reflector.prompts == [["Think.\nstate a 0 # Analyze:\n"]]
    assert actor.prompts == [[f"Think.\nstate a 0 # Analyze:\nI think. {HEAD}\n0\n1\n # Action:\n"]]


class Echo:
    """Reflects by repeating what it was shown."""

    def write(self, prompts, seeds):
        return [prompt.splitlines()[1].removesuffix(" # Analyze:") for prompt in prompts]


def test_every_state_is_given_the_reflection_of_another():
    """Also where one is played at a time; where all reflections are alike there is no other."""
    actor = Actor(lambda prompt: "0" if "state c" in prompt.partition("Analyze")[0] else "1")
    play(Game, [task(name) for name in "abc"], [1, 2, 3], actor, OthersReflections(Echo()))
    read = [[text.split(" # Analyze:\n")[1].partition("\n")[0] for text in step] for step in actor.prompts]
    assert read == [["state b 0", "state c 0", "state a 0"], ["state a 0"], ["state a 0"]]  # c is left alone
    reads = OthersReflections(Echo())
    prompts = [f"Think.\nstate {name} # Analyze:\n" for name in "abcb"]
    assert [reads.write([prompt], [1])[0][-1] for prompt in prompts] == ["a", "a", "a", "a"]
    assert (reads.states, reads.own) == (4, 1)  # of the first one there is no other
    assert OthersReflections(Reflector()).write(["p", "q"], [1, 2]) == ["I think. # Action:\n9"] * 2


def test_nobody_is_asked_with_probability_0_and_some_between():
    actor, reflector = Actor(lambda _: "0"), Reflector()
    play(Game, [task("a")], [1], actor, reflector, Rules(reflect_prob=0.0))
    assert reflector.prompts == []
    assert actor.prompts[0] == [f"Think.\nstate a 0 # Analyze:\n{HEAD}\n0\n1\n # Action:\n"]
    play(Game, [task("a")] * 40, range(40), actor, reflector, Rules(reflect_prob=0.5))
    assert 0 < len(reflector.prompts[0]) < 40
    together = Reflector()
    play(Game, [task("a")] * 40, range(40), actor, together, Rules(reflect_prob=0.5, one_draw=True))
    assert {len(prompts) for prompts in together.prompts} <= {40}


def test_what_an_episode_draws_does_not_depend_on_the_others():
    alone, beside = Actor(lambda _: "0"), Actor(lambda _: "0")
    play(Game, [task("b")], [2], alone)
    play(Game, [task("a"), task("b")], [1, 2], beside)
    assert [seeds[0] for seeds in alone.seeds] == [seeds[1] for seeds in beside.seeds]


def test_a_broken_world_spoils_one_episode_and_the_first_step_may_be_all():
    broken, whole = play(Game, [task("broken"), task("b")], [1, 2], Actor(lambda _: "1"))
    assert "no such world" in broken.failure
    assert (broken.succeeded, whole.succeeded) == (False, True)
    (episode,) = play(Game, [task("a")], [1], Actor(lambda _: "0"), rules=Rules(first_step=True))
    assert len(episode.steps) == 1


def test_where_an_episode_ends_the_next_begins_at_once():
    """And each is what it is where all begin together."""
    names = ["a", "b", "broken", "c", "d", "e"]
    games, told = [], []
    actor = Actor(lambda prompt: "1" if "state a" in prompt or "state d 1" in prompt else "0")

    def made():
        games.append(Game())
        assert sum(not game.closed for game in games) <= 2
        return games[-1]

    tasks = [task(name) for name in names]
    found = play(made, tasks, range(6), actor, at_once=2, tell=told.append)
    assert [len(prompts) for prompts in actor.prompts] == [2, 1, 2, 2, 2, 1, 1, 1]
    assert found == play(Game, tasks, range(6), Actor(actor.chosen))
    assert [episode.task_id for episode in found] == names
    assert sum(told) == 6
    assert all(game.closed for game in games)


def opened(settings):
    with open_playground(settings) as world:
        return world


def test_repositories_that_are_all_missing(tmp_path):
    way = {"question": "where?", "filename": "a.py", "optimal_path": ["cat a.py", "id a.py"], "n_level": 0}
    found = {"trajectories": [{"filename": "a.py", "info": "positive", "trajectory": []}]}
    tasks = tmp_path / "train.json"
    tasks.write_text(json.dumps([{**way, **found, "root": root} for root in ("one", "two")]))
    (tmp_path / "repos" / "other").mkdir(parents=True)
    settings = settings_of(task_file=str(tasks), repo_dir=str(tmp_path / "repos"))
    with pytest.raises(UsageError, match=r"There is no repository 'one' in .*repos"):
        opened(settings)
    (tmp_path / "repos" / "two").mkdir()
    assert [len(level) for level in opened(settings).levels] == [2]  # one task's episodes will fail
    with pytest.raises(UsageError, match=r"There is no folder .*nowhere"):
        opened(settings_of(task_file=str(tasks), repo_dir=str(tmp_path / "nowhere")))
    tasks.write_text("[]")
    with pytest.raises(UsageError, match=r"nothing to play: --task_file .*train\.json"):
        opened(settings)


def test_recorded_levels_of_the_taxi(shared):
    for case in golden(shared, "data_and_cli")["taxi_configer"]:
        with open_playground(settings_of(env="taxi", compat="published", **case["args"])) as playground:
            names = [None if name == "none" else name for name in playground.names]
            found = [[name] * len(level) for name, level in zip(names, playground.levels, strict=True)]
            assert found == case["dataset"]
            assert playground.starts == case["trigger_set"]


def test_one_level_or_a_few_tasks_of_it():
    told = {"env": "taxi", "taxi_curriculum": True, "per_device_eval_batch_size": 4}
    one = opened(settings_of(**told, curriculum_index=1, few_data=3))
    assert (one.names, [len(level) for level in one.levels]) == (["dropoff"], [3])
    with pytest.raises(UsageError, match=r"--curriculum_index must be below 3"):
        opened(settings_of(**told, curriculum_index=3))


def test_measured_repositories_are_whole_and_embedded_tasks_have_embedded_ones():
    told = settings_of(task_file="auto-explore:test")
    assert (told.options.leaveout_prob, told.options.place) == (0.5, "data/auto_explore/repos_filtered/")
    with open_playground(told, measures=True) as playground:
        game = playground.make_game()
        task = playground.levels[0][0]
        first = game.reset(task, seed=0)
        assert all(game.reset(task, seed=seed) == first for seed in range(5))  # nothing is left out


@pytest.mark.parametrize("env", ["number_guessing_not_there", "code"])
def test_worlds_that_cannot_be_learned_in(env):
    with pytest.raises(UsageError, match=r"no world|gives no rewards for turns"):
        opened(settings_of(env=env, task_file="mini:test"))


def test_a_world_without_games_of_its_own():
    """Its episodes are games: what stands in a prompt is the transcript, success is a return above a bound."""
    with open_playground(settings_of(env="lantern", max_turns=3)) as playground:
        game = playground.make_game()
        task = playground.levels[0][0]
        text = game.reset(task, seed=1)
        assert text.endswith("]")
        moved = game.step("look")
        assert (moved.over, game.success_threshold) == (False, 0.0)
        for _ in range(2):
            moved = game.step("nonsense")
        assert moved.over
        assert game.text == moved.text
        game.close()


def test_an_episode_that_its_world_ends_as_failed_is_no_game_that_was_lost(monkeypatch):
    step = LanternEnv.step

    async def failing(env, action):
        why = (Failure("no_reply", "nobody answered"),)
        return replace(await step(env, action), stop_reason=StopReason.USER_FAILED, failures=why)

    monkeypatch.setattr(LanternEnv, "step", failing)
    with open_playground(settings_of(env="lantern", max_turns=3)) as playground:
        game = playground.make_game()
        game.reset(playground.levels[0][0], seed=1)
        with pytest.raises(EpisodeError, match="nobody answered"):
            game.step("look")
