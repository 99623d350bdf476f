"""Rows of household tasks, embedded and of a user's folder."""

import json

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini import homes as household
from sweet_rl.mini.homes import write_game
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.alfworld import WORLD, AlfworldOptions
from sweet_rl.worlds.alfworld import tasks as alfworld_tasks
from sweet_rl.worlds.alfworld.tasks import household_tasks, published_household_tasks
from sweet_rl.worlds.options import LevelRequest


def test_sources():
    assert len(load_tasks("alfworld")) == 100
    assert [len(load_tasks(f"alfworld:{split}")) for split in ("train", "test")] == [80, 20]
    assert len(load_tasks("alfworld:look_at_obj_in_light")) == 15
    assert len(load_tasks("alfworld:look_at_obj_in_light:test")) == 3
    assert len(load_tasks(f"alfworld:{alfworld_tasks.TOMATO}:train:250")) == 200
    assert len(load_tasks("alfworld:test:10")) == 2 * 17
    task = load_tasks(f"alfworld:{alfworld_tasks.TOMATO}:train")[0]
    assert task.task_id == f"alfworld/{alfworld_tasks.TOMATO}-0"
    assert task.problem_description == "Your task is to: put some tomato in microwave."
    assert task.ground_truth == task.row["game"] == f"{alfworld_tasks.TOMATO}-0"
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
    monkeypatch.delenv(alfworld_tasks.VARIABLE, raising=False)
    assert len(published_household_tasks()) == 16
    monkeypatch.setenv(alfworld_tasks.VARIABLE, str(tmp_path))
    place = write_game(household.game(f"{alfworld_tasks.TOMATO}-1"), tmp_path / "json_2.1.1/train")
    write_game(household.game("look_at_obj_in_light-CD-None-DeskLamp-1"), tmp_path / "json_2.1.1/valid_seen")
    (task,) = load_tasks("alfworld-data:train")
    assert task.task_id == f"alfworld/json_2.1.1/train/{alfworld_tasks.TOMATO}-1/trial_0"
    assert task.row["game"] == str(place)
    assert [row["game"] for row in published_household_tasks()] == [str(place)]
    assert load_tasks("alfworld-data:all:test")[0].row["family"] == "look_at_obj_in_light"
    with pytest.raises(UsageError, match="no problems"):
        published_household_tasks("test")


def test_what_is_named_is_played_or_refused(tmp_path, monkeypatch):
    monkeypatch.delenv(alfworld_tasks.VARIABLE, raising=False)

    def played(named, compat="fixed"):
        (level,) = WORLD.levels(AlfworldOptions(compat=compat), LevelRequest(tasks=named, measures=True))
        return [task.row["game"] for task in level.tasks]

    file = tmp_path / "some.jsonl"
    row = household_tasks("look_at_obj_in_light")[7]
    file.write_text(json.dumps(row) + "\n")
    assert played(str(file)) == [row["game"]]
    assert len(played(None)) == len(played("alfworld-test.json", "published")) == 4
    for wrong in ("alfwrold:test", str(tmp_path / "nope.jsonl")):
        with pytest.raises(UsageError, match=r"no file|No such file"):
            played(wrong)
    file.write_text(json.dumps(row | {"task_id": "dangerous_taxi/full/3"}) + "\n")
    with pytest.raises(UsageError, match="holds no tasks of alfworld"):
        played(str(file))


def test_no_more_rows_are_made_than_are_wanted():
    assert [row["game"] for row in household_tasks("train:100000", limit=2)] == [
        row["game"] for row in household_tasks("train")[:2]
    ]


def test_homes_are_named_by_their_numbers():
    def homes(where):
        return {row["game"].rpartition("-")[2] for row in household_tasks(f"{alfworld_tasks.TOMATO}:{where}")}

    assert homes("test:10") == {"4", "9"}
    assert homes("test:10-19") == {"14", "19"}
    assert len(homes("77000-77249")) == 250
    for wrong in ("19-10", "-5", "1-2-3", "a-b", "0", "1-200001"):
        with pytest.raises(UsageError, match="is no source of tasks"):
            household_tasks(f"{alfworld_tasks.TOMATO}:test:{wrong}")


def test_a_folder_without_games_is_not_taken_for_none(tmp_path, monkeypatch):
    monkeypatch.setenv(alfworld_tasks.VARIABLE, str(tmp_path / "alfwrold"))
    with pytest.raises(UsageError, match=r"No ALFWorld data: .* is '.*alfwrold', and must name a folder"):
        published_household_tasks()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(alfworld_tasks.VARIABLE, str(tmp_path / ".cache/alfworld"))  # as the package does
    assert len(published_household_tasks()) == 16
    monkeypatch.setenv(alfworld_tasks.VARIABLE, str(tmp_path))
    write_game(household.game(f"{alfworld_tasks.TOMATO}-1"), tmp_path / "json_2.1.1/train")
    for split in ("/home/me", "**x", "tr*"):
        with pytest.raises(UsageError, match="no problems of"):
            load_tasks(f"alfworld-data:{split}")
