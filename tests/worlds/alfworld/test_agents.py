"""Players of household games: they read labels, and follow the planner as often as they say."""

import asyncio

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.types import Message, Observation, StopReason
from sweet_rl.worlds.alfworld.players import HouseholdPlayer

TEXT = (
    "Welcome.\n\nYour task is to: put some tomato in microwave."
    "\n\nHere is the previous path:\n--- Step: 0 ---\nAction: go to microwave 1\nObservation: You arrive.\n"
    "Action 9: this is no action\n\n"
    "\n\nThe actions you can take now is:\nAction 0: look\nAction 1: open microwave 1\nAction 2: go to fridge 1"
)


class Planner:
    def __init__(self, *plan):
        self.plan, self.asked = plan, []

    async def __call__(self, source, done):
        self.asked.append((source, list(done)))
        return self.plan


def said(player, *, text=TEXT, task_id="t", seed=0):
    async def main():
        return await player.act(Observation(task_id, (Message("user", text),), seed))

    return asyncio.run(main()).completion.text


def test_the_planner_is_followed_and_asked_once():
    plan = Planner("open microwave 1", "go to fridge 1")
    player = HouseholdPlayer("planner", plan, {"t": "a game"})
    assert said(player) == "1"
    assert plan.asked == [("a game", ["go to microwave 1"])]
    after = TEXT.replace(
        "Action 9: this is no action\n\n",
        "\n\n--- Step: 1 ---\nAction: open microwave 1\nObservation: It is open.\n\n",
    )
    assert said(player, text=after) == "2"
    assert len(plan.asked) == 1


def test_how_often_it_plans():
    plan = Planner("open microwave 1")
    for name, low, high in (("careless", 0.46, 0.60), ("random", 0.26, 0.40)):
        player = HouseholdPlayer(name, plan, {"t": "a game"})
        words = [said(player, seed=seed) for seed in range(400)]
        assert set(words) == {"0", "1", "2"}
        assert low < words.count("1") / 400 < high  # a third of what is not planned is the same action
        assert words == [said(player, seed=seed) for seed in range(400)]


@pytest.mark.parametrize(("plan", "why"), [((), "found no way"), (("fly",), "'fly' is not on offer")])
def test_a_planner_that_fails_ends_the_episode(plan, why):
    player = HouseholdPlayer("planner", Planner(*plan), {"t": "a game"})
    with pytest.raises(EpisodeError, match=why) as caught:
        said(player)
    assert caught.value.stop_reason is StopReason.POLICY_FAILED
    assert caught.value.failure.kind == "planner_failed"


def test_what_it_is_told_is_checked():
    with pytest.raises(UsageError, match="planner, seeker, careless, random"):
        HouseholdPlayer("butler", Planner(), {})
    with pytest.raises(UsageError, match="skill"):
        HouseholdPlayer("planner", Planner(), {}, skill=2)
    with pytest.raises(UsageError, match="which game the task 'other' plays"):
        said(HouseholdPlayer("planner", Planner(), {}), task_id="other")
    closed = []
    asyncio.run(HouseholdPlayer("planner", Planner(), {}, on_close=lambda: closed.append(1)).close())
    assert closed
