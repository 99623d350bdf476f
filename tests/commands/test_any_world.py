"""Stages that are not one world's own: they take whatever world is named, and the catalogue lists none of a world's."""

import json

import pytest

from sweet_rl.commands.catalogue import COMMANDS, load, stages
from sweet_rl.commands.generate_tasks import generate_tasks
from sweet_rl.commands.serve_simulator import serve_simulator
from sweet_rl.errors import UsageError
from sweet_rl.worlds import registry


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
