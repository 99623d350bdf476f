"""Scripted customers: in order, and each only with what it sees."""

import asyncio
from statistics import mean

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.mini.shopper import ShopperPolicy
from sweet_rl.records import task_from_row
from sweet_rl.rollout import rollout, schedule
from sweet_rl.types import Message, Observation
from sweet_rl.worlds.webshop.shops import LocalShop
from sweet_rl.worlds.webshop.world import WebShopEnv, webshop_tasks

SHOP = EmbeddedShop()
TASKS = [task_from_row(row) for row in webshop_tasks(2000, 2040, shop=SHOP)]


def play(strategy):
    trajectories = []

    async def finished(trajectory):
        trajectories.append(trajectory)

    asyncio.run(
        rollout(
            schedule(TASKS, 1),
            make_env=lambda: WebShopEnv(LocalShop(SHOP.get)),
            policy=ShopperPolicy(strategy),
            on_finished=finished,
            concurrency=8,
        )
    )
    return trajectories


def test_floor_middle_and_ceiling():
    rewards = {
        strategy: mean(trajectory.reward for trajectory in play(strategy))
        for strategy in ("random", "buyer", "careful")
    }
    assert rewards["random"] < 0.2
    assert 0.4 < rewards["buyer"] < 0.7
    assert rewards["careful"] > 0.9


def test_no_customer_says_what_the_shop_does_not_understand():
    for strategy in ("random", "buyer", "careful"):
        said = [message.content for trajectory in play(strategy) for message in trajectory.dialogue_history]
        assert "Invalid action!" not in said


PAGE = "\nWebShop \nInstruction:  \nI need a blue hat, size: large, and price lower than 20.00 dollars \n[Search] "
FOUND = (
    "\n[Back to Search] \nPage 1 (Total results: 3) \n[B1] \nBlue Hat \n$25.00 \n[B2] \nRed Hat \n$5.00 "
    "\n[B3] \nBlue Wool Hat \n$15.00 "
)
OPEN = "\n[Back to Search] \n[< Prev] \nsize [%s][x-large]\nBlue Wool Hat \nPrice: $15.00 \n[Features] \n[Buy Now] "


def act(*contents, strategy="careful"):
    roles = ("user", "assistant")
    messages = tuple(Message(roles[place % 2], text) for place, text in enumerate(contents))
    return asyncio.run(ShopperPolicy(strategy).act(Observation("t", messages, seed=5))).completion.text


def test_the_careful_one_looks_at_words_price_and_options():
    searched = act(PAGE)
    assert searched == "search[blue hat size large]"
    assert act(PAGE, searched, FOUND) == "click[B3]"  # the first costs too much, the second is red
    opened = (PAGE, searched, FOUND, "click[B3]", OPEN % "large")
    assert act(*opened) == "click[large]"  # not x-large
    assert act(*opened, "click[large]", "You have clicked large.") == "click[Buy Now]"


def test_the_others_do_not_look():
    assert act(PAGE, "search[blue hat]", FOUND, strategy="buyer") == "click[B1]"
    assert act(PAGE, "search[x]", FOUND, "click[B1]", OPEN % "large", strategy="buyer") == "click[Buy Now]"
    anything = {act(PAGE, *["think[x]", "OK."] * turn, strategy="random") for turn in range(30)}
    assert anything == {f"search[{word}]" for word in ("blue", "hat", "size", "large")}


def test_a_customer_in_a_strange_place_goes_on():
    for page in ("", "\nnothing here", "Invalid action!"):
        for strategy in ("random", "buyer", "careful"):
            assert act(page, strategy=strategy)
            assert act(PAGE, "search[x]", page, "click[y]", OPEN % "small", strategy=strategy)


def test_there_are_three_strategies():
    with pytest.raises(UsageError, match="one of random, buyer, careful, got 'lazy'"):
        ShopperPolicy("lazy")
