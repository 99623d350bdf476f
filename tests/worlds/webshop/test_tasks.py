"""Sessions of the shop as tasks."""

import json

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini.shop import EmbeddedShop
from sweet_rl.records import task_from_row
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.webshop.world import WORLD, webshop_tasks


def test_sessions_of_the_embedded_shop_know_their_goals():
    shop = EmbeddedShop()
    first, second = (task_from_row(row) for row in webshop_tasks(2000, 2002, shop=shop))
    assert (first.task_id, second.task_id) == ("webshop/2000", "webshop/2001")
    goal = shop.goal("fixed_2000")
    assert first.extra["session"] == "fixed_2000"
    assert first.problem_description == first.extra["instruction"] == goal.instruction
    assert json.loads(first.hidden_information)["asin"] == goal.asin
    assert goal.asin not in first.problem_description
    assert first.extra["shop"] == "embedded:0:1000"


def test_sessions_of_a_server_know_nothing():
    (row,) = webshop_tasks(7, 8)
    assert (row["session"], row["ground_truth"], row["hidden_information"]) == ("fixed_7", "", "")
    assert "instruction" not in row
    assert "fixed_7" in task_from_row(row).problem_description


def test_splits():
    def rows(split):
        return WORLD.rows("webshop", split, limit=None, seed=0)

    def ids(split):
        return [row["task_id"] for row in rows(split)]

    published = [f"webshop/{number}" for number in range(2000, 2100)]
    assert ids("") == ids("train") == ids("2000-2100") == published
    assert ids("test") == [f"webshop/{number}" for number in range(2100, 2200)]
    assert len(rows("5-9@server")) == 4
    assert len(load_tasks("webshop:0-999999999", num_tasks=3)) == 3
    for wrong in ("dev", "2000", "2000-", "-5", "a-b"):
        with pytest.raises(UsageError, match="no split of the shop"):
            rows(wrong)
    with pytest.raises(UsageError, match="to a greater one, got 5 and 5"):
        rows("5-5")
