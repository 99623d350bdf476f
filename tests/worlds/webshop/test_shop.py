"""The embedded shop: what it sells, what it finds, what it asks for, what it pays."""

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from statistics import mean
from urllib.parse import quote

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.shop import (
    READY,
    EmbeddedShop,
    Goal,
    NoSuchPage,
    Product,
    score,
    serve_shop,
    token_set_ratio,
    type_factor,
)
from sweet_rl.mini.shopper import ShopperPolicy
from sweet_rl.records import task_from_row
from sweet_rl.types import Message, Observation
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.webshop.shops import LocalShop
from sweet_rl.worlds.webshop.world import WORLD, WebShopEnv, webshop_tasks
from tests.worlds.playing import played


@pytest.fixture(scope="module")
def shop():
    return EmbeddedShop()


def product(**differs):
    given = Product(
        asin="B000000001",
        title="Acme Cotton Shirt for Men, Long Sleeve",
        category="clothing",
        kind="shirt",
        audience="men",
        nouns=frozenset({"acme", "cotton", "shirt", "men"}),
        attributes=("long sleeve", "machine washable"),
        options={"color": ("red", "blue"), "size": ("small", "large")},
        price=19.99,
        description="",
        features=(),
        reviews=(),
        rating=4.0,
    )
    return replace(given, **differs)


GOAL = Goal("", "B000000001", ("long sleeve", "machine washable"), {"color": "red", "size": "large"}, 20.0)


@pytest.mark.parametrize(
    ("bought", "chosen", "worth"),
    [
        ({}, {"color": "red", "size": "large"}, 1.0),
        ({}, {}, 3 / 5),  # two attributes and the price
        ({}, {"color": "red", "size": "small"}, 4 / 5),
        ({"price": 20.0}, {"color": "red", "size": "large"}, 1.0),  # as much as allowed
        ({"price": 20.01}, {"color": "red", "size": "large"}, 4 / 5),
        ({"attributes": ("long sleeve",)}, {"color": "red", "size": "large"}, 4 / 5),
        ({"options": {"color": ("blue",)}}, {"color": "red"}, 3 / 5),  # not to be had in red
        ({}, {"colour": "red", "x": "large"}, 3 / 5),
        ({"nouns": frozenset({"lamp"})}, {"color": "red", "size": "large"}, 0.0),  # another thing
    ],
)
def test_the_papers_reward(bought, chosen, worth):
    assert score(product(**bought), chosen, GOAL, product()) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("bought", "chosen", "published", "fixed"),
    [
        ({}, {"color": "red", "size": "large"}, 1.0, 1.0),
        ({}, {"color": "dark red", "size": "Large."}, 1.0, 3 / 5),  # all words of the goal are in it
        ({}, {"x": "large", "y": "red"}, 1.0, 3 / 5),  # types are not compared
        ({}, {"color": "reed", "size": "larger"}, 1.0, 3 / 5),  # 86 and 91
        ({}, {"color": "rod", "size": "small"}, 3 / 5, 3 / 5),  # 67
        ({"attributes": ("sleeve, long",)}, {"color": "red", "size": "large"}, 4 / 5, 3 / 5),
        (
            {"attributes": (), "title": "Acme Shirt Long Sleeve", "description": "It is machine washable."},
            {"color": "red", "size": "large"},
            1.0,
            3 / 5,
        ),
    ],
)
def test_likeness_counts_as_published_and_equality_by_default(bought, chosen, published, fixed):
    told = {"title": "Acme Shirt"} | bought
    for compat, worth in (("published", published), ("fixed", fixed)):
        assert score(product(**told), chosen, GOAL, product(), compat=compat) == pytest.approx(worth)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [  # recorded with thefuzz 0.22
        ("red", "dark red", 100), ("reed", "red", 86), ("x-large", "large", 100), ("forest green", "green forest", 100),
        ("forest green", "grey forest", 87), ("blue", "", 0), ("!", "?", 0), ("3/4 cup", "34 cup", 92), ("é", "e", 0),
        ("long sleeve", "long sleeves", 96),
    ],
)  # fmt: skip
def test_likeness(one, other, expected):
    assert token_set_ratio(one, other) == token_set_ratio(other, one) == expected


def test_a_shop_pays_by_its_way_of_comparing():
    fixed, published = EmbeddedShop(0, 50), EmbeddedShop(0, 50, compat="published")
    number, goal = next((n, goal) for n in range(50) if (goal := fixed.goal(f"fixed_{n}")).options)
    asked = {f"my {name}": value.upper() for name, value in goal.options.items()}
    path = f"/done/fixed_{number}/{goal.asin}/{quote(str(asked), safe='')}"
    assert "<pre>1.0</pre>" in published.get(path)
    assert "<pre>1.0</pre>" not in fixed.get(path)


@pytest.mark.parametrize(
    ("common", "of", "same_kind", "factor"),
    [(0, 5, True, 0.0), (1, 11, True, 0.1), (1, 5, False, 0.5), (1, 5, True, 1.0), (2, 5, False, 1.0)],
)
def test_the_factor_of_the_type(common, of, same_kind, factor):
    wanted = product(nouns=frozenset(map(str, range(of))))
    other = {} if same_kind else {"kind": "lamp", "category": "lighting"}
    assert type_factor(product(nouns=frozenset(map(str, range(common))), **other), wanted) == factor


def test_the_same_seed_makes_the_same_shop(shop):
    again = EmbeddedShop(0, 1000)
    assert (again.products, again.goal("fixed_2000")) == (shop.products, shop.goal("fixed_2000"))
    assert EmbeddedShop(1, 50).products != EmbeddedShop(0, 50).products == shop.products[:50]
    assert again.name == "embedded:0:1000"
    # a catalogue that changes makes old tasks wrong: this one is what version 1 of it began with
    first = shop.products[0]
    title = "Harborwick Linen Shirt for Kids, Machine Washable, Slim Fit"
    assert (first.asin, first.title, first.price) == ("BPK5C132N0", title, 30.95)
    assert shop.goal("fixed_2000").instruction == (
        "Please find me a tote bag for travel, padded straps and tear resistant, and price lower than 100.00 dollars"
    )


def test_a_thousand_things_of_eight_categories(shop):
    assert len({product.asin for product in shop.products}) == 1000
    assert len({product.category for product in shop.products}) == 8
    for item in shop.products:
        assert len(item.asin) == 10
        assert item.price > 0
        assert 3 <= len(item.attributes) <= 5
        assert all(2 <= len(values) <= 5 for values in item.options.values())
        assert item.nouns <= set(item.title.lower().replace(",", "").split())


def test_every_goal_can_be_reached_and_says_all_that_counts(shop):
    for number in range(2000, 2300):
        goal = shop.goal(f"fixed_{number}")
        wanted = shop.product(goal.asin)
        assert score(wanted, goal.options, goal, wanted) == 1.0
        asked = [*goal.attributes, *goal.options.values(), wanted.kind, f"lower than {goal.max_price:.2f}"]
        assert all(words in goal.instruction for words in asked)
        assert json.loads(goal.to_json())["asin"] == goal.asin
    assert shop.goal("anybody") == shop.goal("anybody") != shop.goal("somebody")


def test_search_ranks_by_words(shop):
    wanted = shop.products[17]
    assert shop.search(wanted.title)[0] == wanted
    assert shop.search(wanted.title.upper())[0] == wanted
    found = shop.search("floor lamps")  # plurals are the same word
    assert {item.kind for item in found[:10]} == {"floor lamp"}
    assert len(found) == 50
    assert shop.search("") == shop.search("?!") == shop.search("zyzzyva") == ()
    for odd in ('"', 'a" OR title:b', "NEAR(x)", "*", "x" * 10_000, "é 例 \x00", "red " * 5000):
        shop.search(odd)


@pytest.mark.parametrize(
    "path",
    [
        "/", "", "/a/b", "/search_results/fixed_1/x/0", "/search_results/fixed_1/x/-1",
        "/search_results/fixed_1/x/one", "/item_page/fixed_1/NOTHING/x/1/{}",
        "/item_page/fixed_1/{asin}/x/1/[1]", "/item_page/fixed_1/{asin}/x/1/{1: 2}",
        "/item_page/fixed_1/{asin}/x/1/__import__('os')", "/item_page/fixed_1/{asin}/x/1/" + "[" * 1000,
        "/item_sub_page/fixed_1/{asin}/x/1/Secrets/{}", "/done/fixed_1/{asin}",
    ],
)  # fmt: skip
def test_what_is_no_page_is_refused(shop, path):
    with pytest.raises(NoSuchPage):
        shop.get(quote(path.replace("{asin}", shop.products[0].asin)))


def test_no_page_tells_the_goal_before_the_end(shop):
    """Neither the goal's product number, unless it was found, nor the score."""
    goal = shop.goal("fixed_2000")
    html = shop.get("/fixed_2000") + shop.get("/search_results/fixed_2000/zyzzyva/1")
    assert goal.asin not in html
    assert "Your score" not in html


def test_sessions_of_the_embedded_shop_know_their_goals(shop):
    first, second = (task_from_row(row) for row in webshop_tasks(2000, 2002, shop=shop))
    assert (first.task_id, second.task_id) == ("webshop/2000", "webshop/2001")
    goal = shop.goal("fixed_2000")
    assert first.extra["session"] == "fixed_2000"
    assert first.problem_description == first.extra["instruction"] == goal.instruction
    assert json.loads(first.hidden_information)["asin"] == goal.asin
    assert goal.asin not in first.problem_description
    assert first.extra["shop"] == "embedded:0:1000"
    (row,) = webshop_tasks(7, 8)  # those of a server know nothing
    assert (row["session"], row["ground_truth"], row["hidden_information"]) == ("fixed_7", "", "")
    assert "instruction" not in row


def test_splits():
    def ids(split):
        return [row["task_id"] for row in WORLD.rows("webshop", split, limit=None, seed=0)]

    published = [f"webshop/{number}" for number in range(2000, 2100)]
    assert ids("") == ids("train") == ids("2000-2100") == published
    assert ids("test") == [f"webshop/{number}" for number in range(2100, 2200)]
    assert len(ids("5-9@server")) == 4
    assert len(load_tasks("webshop:0-999999999", num_tasks=3)) == 3
    for wrong in ("dev", "2000", "2000-", "-5", "a-b"):
        with pytest.raises(UsageError, match="no split of webshop"):
            ids(wrong)
    with pytest.raises(UsageError, match="to a greater one, got 5 and 5"):
        ids("5-5")


def test_floor_middle_and_ceiling(shop):
    tasks = [task_from_row(row) for row in webshop_tasks(2000, 2040, shop=shop)]
    games = {
        strategy: played(lambda: WebShopEnv(LocalShop(shop.get)), ShopperPolicy(strategy), tasks)
        for strategy in ("random", "buyer", "careful")
    }
    rewards = {strategy: mean(one.reward for one in done) for strategy, done in games.items()}
    assert rewards["random"] < 0.2
    assert 0.4 < rewards["buyer"] < 0.7
    assert rewards["careful"] > 0.9
    said = {turn.content for done in games.values() for one in done for turn in one.dialogue_history}
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


def served(*flags):
    command = [sys.executable, "-m", "sweet_rl", "serve_shop", *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_serves_until_it_is_told_to_stop():
    with served("--port", 0, "--products", 20, "--seed", 3) as process:
        line = process.stdout.readline()
        assert line.startswith(READY)
        url = line.removeprefix(READY).split(" ")[0]
        with urllib.request.urlopen(f"{url}/fixed_5", timeout=10) as response:
            assert response.read().decode() == EmbeddedShop(3, 20).get("/fixed_5")
        taken = served("--port", url.rsplit(":", 1)[1])
        assert "Cannot listen on 127.0.0.1" in taken.communicate(timeout=30)[1]
        assert taken.returncode == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert process.stderr.read() == ""


def test_what_is_refused():
    for why, make in (
        ("one of random, buyer, careful, got 'lazy'", lambda: ShopperPolicy("lazy")),
        ("compat", lambda: EmbeddedShop(0, 5, compat="strict")),
        ("at least 1 product, got 0", lambda: EmbeddedShop(0, 0)),
        ("--products must be at least 1, got 0", lambda: serve_shop(products=0)),
    ):
        with pytest.raises(UsageError, match=why):
            make()
