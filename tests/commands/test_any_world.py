"""Stages that are not one world's own: they take whatever world is named, and the catalogue lists none of a world's."""

import json

import pytest

from sweet_rl.cli.main import COMMANDS, help_text, load, stages
from sweet_rl.commands.runs import generate_tasks
from sweet_rl.commands.serve_simulator import serve_simulator
from sweet_rl.errors import UsageError
from sweet_rl.pipelines.needs import _servers
from sweet_rl.pipelines.steps import Step
from sweet_rl.worlds import names, registry, world_of
from sweet_rl.worlds.backend_programming.world import BackendProgramming


def test_the_list_of_any_world_becomes_a_file(tmp_path):
    out = tmp_path / "tasks.jsonl"
    generate_tasks(str(out), source="lantern:test", num_tasks=3)
    assert [json.loads(row)["task_id"].partition("/")[0] for row in out.read_text().splitlines()] == [
        "lantern"
    ] * 3


def test_a_world_without_a_human_cannot_be_served():
    with pytest.raises(UsageError, match="html has no human that reads what it knows from a prompt"):
        serve_simulator(world="html", port=0)


@pytest.mark.parametrize("name", ["prepare_websight", "filter_websites", "judge_html", "serve_shop"])
def test_a_stage_of_one_world_is_listed_by_that_world(name):
    assert name in stages()
    assert name not in COMMANDS
    assert load(name).__module__ == registry.stages()[name].place.partition(":")[0]


def test_the_help_of_play_lists_every_world_that_a_person_can_play():
    text = help_text("play", load("play"))
    for world in map(world_of, names()):
        line = f"  {world.name:<16}  {world.summary}"
        assert (line in text) == (world.answered_by != "human"), world.name
        assert world.summary.endswith(".")


class Shouting(BackendProgramming):
    """Functions, wanted by a human that another server plays."""

    human_server = "shout --port 1"


SHOUTING = Shouting()


@pytest.mark.parametrize(
    ("world", "line"),
    [("code", "serve_human_70b"), ("html", "serve_human_72b"), (f"{__name__}:SHOUTING", "shout --port 1")],
)
def test_a_world_says_how_the_server_of_its_human_is_started(world, line):
    flags = {
        "world": world,
        "input_path": "mini:test",
        "output_path": "r.jsonl",
        "env_model": "auto",
        "hostname": "h",
    }
    (human,) = _servers(Step("talks", "simulate_interactions", flags=flags), late=False)
    assert line in human.start.partition("or there: ")[2]
