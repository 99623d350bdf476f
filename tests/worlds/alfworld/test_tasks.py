"""Rows of household tasks, embedded and of a user's folder."""

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.alfworld import homes as household
from sweet_rl.worlds.alfworld.homes.pddl import write_game
from sweet_rl.worlds.alfworld.tasks import published_household_tasks


def test_sources():
    assert len(load_tasks("alfworld")) == 100
    assert [len(load_tasks(f"alfworld:{split}")) for split in ("train", "test")] == [80, 20]
    assert len(load_tasks("alfworld:look_at_obj_in_light")) == 15
    assert len(load_tasks("alfworld:look_at_obj_in_light:test")) == 3
    assert len(load_tasks(f"alfworld:{household.TOMATO}:train:250")) == 200
    assert len(load_tasks("alfworld:test:10")) == 2 * 17
    task = load_tasks(f"alfworld:{household.TOMATO}:train")[0]
    assert task.task_id == f"alfworld/{household.TOMATO}-0"
    assert task.problem_description == "Your task is to: put some tomato in microwave."
    assert task.ground_truth == task.row["game"] == f"{household.TOMATO}-0"
    assert task.hidden_information.endswith("open microwave 1, move tomato 2 to microwave 1")


@pytest.mark.parametrize(
    "source",
    [
        "alfworld:valid",
        "alfworld:train:x",
        "alfworld:dragon:train",
        "alfworld:train:0",
        "alfworld:train:1000000000",
    ],
)
def test_no_such_source(source):
    with pytest.raises(UsageError, match="no source of tasks"):
        load_tasks(source)


def test_a_users_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(household.VARIABLE, raising=False)
    assert len(published_household_tasks()) == 16
    monkeypatch.setenv(household.VARIABLE, str(tmp_path))
    place = write_game(household.game(f"{household.TOMATO}-1"), tmp_path / "json_2.1.1/train")
    write_game(household.game("look_at_obj_in_light-CD-None-DeskLamp-1"), tmp_path / "json_2.1.1/valid_seen")
    (task,) = load_tasks("alfworld-data:train")
    assert task.task_id == f"alfworld/json_2.1.1/train/{household.TOMATO}-1/trial_0"
    assert task.row["game"] == str(place)
    assert [row["game"] for row in published_household_tasks()] == [str(place)]
    assert load_tasks("alfworld-data:all:test")[0].row["family"] == "look_at_obj_in_light"
    with pytest.raises(UsageError, match="no problems"):
        published_household_tasks("test")
