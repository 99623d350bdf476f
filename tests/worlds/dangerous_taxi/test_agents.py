"""Drivers of DangerousTaxi: the ceiling, the published data's, the floor."""

import asyncio

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame, plan
from sweet_rl.worlds.dangerous_taxi.tasks import TaxiDriver
from sweet_rl.worlds.text_game_env import TextGameEnv


def played(policy, source, repeats=1, **settings):
    done = []

    async def keep(trajectory):
        done.append(trajectory)

    asyncio.run(
        rollout(
            schedule(load_tasks(source), repeats),
            make_env=lambda: TextGameEnv(lambda: TaxiGame(**settings)),
            policy=policy,
            on_finished=keep,
            concurrency=16,
        )
    )
    return done


@pytest.mark.parametrize("with_history", [False, True])
def test_the_planner_wins_everything_that_the_horizon_allows(with_history):
    for trajectory in played(TaxiDriver(), "taxi:full", with_history=with_history):
        length = len(plan(trajectory.task.row["start"]))
        assert trajectory.extra["game"]["won"] == (length <= 15)
        if length <= 15:
            assert trajectory.reward == pytest.approx(2 - 0.05 * (length - 2))
            assert trajectory.reward > 1  # costs below the threshold of -1


def test_it_reads_the_start_that_a_seed_drew():
    done = played(TaxiDriver(), "taxi:dropoff:any", repeats=20)
    assert all(trajectory.extra["game"]["won"] for trajectory in done)


def test_the_careless_one_seldom_plans():
    planner, careless, random = TaxiDriver(), TaxiDriver("careless"), TaxiDriver("random")
    tasks = load_tasks("taxi")
    seen = [
        Observation(task.task_id, (Message("user", TaxiGame().begin(task.row["start"], "full")),), seed)
        for seed, task in enumerate(tasks)
    ]
    best = [planner._say(one) for one in seen]
    agree = {
        driver.name: sum(driver._say(one) == way for one, way in zip(seen, best, strict=True)) / len(seen)
        for driver in (careless, random)
    }
    assert agree["careless"] == pytest.approx(0.1 + 0.9 / 6, abs=0.07)
    assert agree["random"] == pytest.approx(1 / 6, abs=0.07)
    assert [careless._say(one) for one in seen] == [careless._say(one) for one in seen]
    half = TaxiDriver("careless", skill=0.5)
    assert sum(half._say(one) == way for one, way in zip(seen, best, strict=True)) / 300 > 0.5


def test_without_a_picture_it_says_something():
    assert TaxiDriver()._say(Observation("x", (Message("user", "Hm?"),), 0)) == "0"


@pytest.mark.parametrize("wrong", [{"name": "pilot"}, {"skill": 1.5}])
def test_refusals(wrong):
    with pytest.raises(UsageError):
        TaxiDriver(**wrong)
