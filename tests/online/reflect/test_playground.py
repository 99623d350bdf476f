"""The worlds as the flags ask for them, and what is missing in them."""

import json
from dataclasses import replace

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.mini.lantern import LanternEnv
from sweet_rl.online.reflect.play import open_playground
from sweet_rl.online.reflect.settings import settings_of
from sweet_rl.types import Failure, StopReason
from tests.online.reflect.tiny import golden


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
