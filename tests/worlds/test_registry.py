"""Worlds are found by their folders: no list names them."""

import subprocess
import sys

import pytest

from sweet_rl.worlds import all_worlds, first_for, names, world_of
from sweet_rl.worlds.registry import world_with


def test_each_folder_with_a_world_is_one_in_a_fixed_order():
    assert names() == (
        *("code", "html", "guess_my_city", "twenty_questions"),
        *("alfworld", "auto_explore", "dangerous_taxi", "detective", "lantern", "webshop"),
    )
    # behind them may stand those that another test has asked for by their place
    assert tuple(world.name for world in all_worlds())[: len(names())] == names()


@pytest.mark.parametrize(
    ("published", "ours"),
    [
        ("frontend_design", "html"),
        ("adventure", "detective"),
        ("taxi", "dangerous_taxi"),
        ("llm_twenty_questions", "twenty_questions"),
    ],
)
def test_published_names_are_understood(published, ours):
    assert world_of(published).name == ours
    assert published not in names()


def test_commands_of_an_algorithm_begin_with_its_world():
    assert [first_for(one) for one in ("archer", "reflect", "as_it_is")] == [
        *("twenty_questions", "auto_explore", "dangerous_taxi")
    ]


def test_to_list_them_loads_nothing_heavy():
    code = (
        "import sys; from sweet_rl.worlds import names; assert 'code' in names();"
        "print([name for name in ('torch', 'numpy', 'aiohttp', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("source", ["code", "backend_programming", "mini", "mini:train", "mini:easy:test"])
def test_a_world_is_found_by_its_name_or_by_a_list_of_its_tasks(source):
    assert world_with(source) is world_of("code")
