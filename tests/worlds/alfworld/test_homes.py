"""Household games of our own: deterministic, sensible, and written as ALFWorld keeps them."""

import json

import pytest

from sweet_rl.errors import UsageError
from sweet_rl.mini import homes as household
from sweet_rl.mini.homes import (
    FITS,
    OPENABLE,
    ROOMS,
    THINGS,
    Entity,
    Game,
    problem,
    trajectory_data,
    write_game,
)
from sweet_rl.worlds.alfworld import tasks as alfworld_tasks
from sweet_rl.worlds.alfworld.game import blacklist_name

NAMES = household.embedded_games()


def test_how_many_there_are():
    assert len(NAMES) == len(set(NAMES)) == 100
    assert {name.partition("-")[0] for name in NAMES} == set(household.FAMILIES)
    train, test = household.embedded_games("train"), household.embedded_games("test")
    assert (len(train), len(test)) == (80, 20)
    assert set(train) | set(test) == set(NAMES)
    assert len(household.embedded_games("train", alfworld_tasks.TOMATO)) == 16
    assert len(household.embedded_games("test", alfworld_tasks.TOMATO)) == 4


def test_the_catalogue_agrees_with_itself():
    kinds = {kind for room in ROOMS.values() for kind in room}
    assert kinds >= set(OPENABLE)
    assert set(FITS) == {thing for things in THINGS.values() for thing in things}
    for room, things in THINGS.items():
        for thing in things:
            assert set(ROOMS[room]) & set(FITS[thing]), (room, thing)


@pytest.mark.parametrize("name", NAMES)
def test_a_game(name):
    game = household.game(name)
    assert household.game.__wrapped__(name) == game  # the same whenever it is made
    for thing, place in game.lying:
        assert place in game.places
        assert not (thing.kind == game.thing and place.kind == game.place), (
            "it lies where it is to be brought"
        )
    assert any(thing.kind == game.thing for thing, _ in game.lying)
    assert 4 <= len(game.way()) <= 8
    text = problem(game)
    assert text.count("(") == text.count(")")
    assert text.index("(:goal") < text.index("(:metric")  # the other order does not parse


def test_a_way_by_hand():
    cabinet, microwave, fridge = Entity("Cabinet", 1), Entity("Microwave", 1), Entity("Fridge", 1)
    tomatoes = Entity("Tomato", 1), Entity("Tomato", 2)
    game = Game(
        name="x",
        family="pick_heat_then_place_in_recep",
        thing="Tomato",
        place="Fridge",
        room="kitchen",
        places=(cabinet, Entity("Cabinet", 2), microwave, fridge),
        lying=((tomatoes[0], cabinet),),
    )
    assert game.way() == (
        "go to cabinet 2",  # the engine counts a kind from behind
        "open cabinet 2",
        "take tomato 1 from cabinet 2",
        "go to microwave 1",
        "heat tomato 1 with microwave 1",
        "go to fridge 1",
        "open fridge 1",
        "move tomato 1 to fridge 1",
    )
    assert game.called(tomatoes[0]) == "tomato 1"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "pick_and_place_simple",
        "pick_and_place_simple-Tomato-None-Microwave",
        "pick_and_place_simple-Tomato-None-Microwave-x",
        "pick_and_place_simple-Tomato-Bowl-Microwave-1",
        "pick_and_place_simple-Dragon-None-Microwave-1",
        "pick_and_place_simple-Tomato-None-Toilet-1",
        "pick_and_place_simple-SoapBar-None-Fridge-1",
        "pick_heat_then_place_in_recep-Lettuce-None-Fridge-1",
        "look_at_obj_in_light-Tomato-None-DeskLamp-1",
        "look_at_obj_in_light-Book-None-Desk-1",
        "../../etc/passwd",
    ],
)
def test_names_that_are_none(name):
    with pytest.raises(UsageError, match="no household game"):
        household.game(name)


def test_files_of_a_game(tmp_path):
    game = household.game(NAMES[0])
    folder = write_game(game, tmp_path)
    assert (folder / "initial_state.pddl").read_text() == problem(game)
    assert json.loads((folder / "traj_data.json").read_text()) == trajectory_data(game)


def test_games_of_a_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(alfworld_tasks.VARIABLE, str(tmp_path))
    for games in (alfworld_tasks.data_folder, alfworld_tasks.data_games):
        with pytest.raises(UsageError, match="No ALFWorld data"):
            games()
    for split, number in (("train", 1), ("train", 2), ("valid_seen", 3), ("valid_unseen", 4)):
        write_game(household.game(f"{alfworld_tasks.TOMATO}-{number}"), tmp_path / "json_2.1.1" / split)
    write_game(household.game("look_at_obj_in_light-CD-None-DeskLamp-1"), tmp_path / "json_2.1.1/train")
    assert alfworld_tasks.data_folder() == tmp_path
    train = alfworld_tasks.data_games()
    assert [place.parent.name[-1] for place in train] == ["1", "2"]
    assert [place.parent.name[-1] for place in alfworld_tasks.data_games("test")] == ["3", "4"]
    assert len(alfworld_tasks.data_games("train", "")) == 3
    listed = tmp_path / "list.txt"
    assert blacklist_name(train[0]) == f"json_2.1.1/train/{alfworld_tasks.TOMATO}-1/trial_0/"
    listed.write_text(f"{blacklist_name(train[0])}\n")
    assert alfworld_tasks.data_games(blacklist=listed) == train[1:]
    with pytest.raises(UsageError, match="no problems of 'train'"):
        alfworld_tasks.data_games("train", "Dragon")
