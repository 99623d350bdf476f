"""ALFWorld without its engine: the recorded wrapper (goldens), made homes, tasks, players, training data."""

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from sweet_rl.chat.reflect_format import offered_commands, sft_texts
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.mini import homes
from sweet_rl.records import task_from_row
from sweet_rl.types import Failure, Message, Observation, StopReason
from sweet_rl.worlds import levels_of, load_tasks
from sweet_rl.worlds.alfworld import WORLD, AlfworldOptions
from sweet_rl.worlds.alfworld.data import household_texts, play_household
from sweet_rl.worlds.alfworld.engine import EngineState
from sweet_rl.worlds.alfworld.game import (
    TOMATO,
    VARIABLE,
    HouseholdGame,
    alfworld_data_tasks,
    blacklist_name,
    data_folder,
    household_tasks,
    published_household_tasks,
)
from sweet_rl.worlds.alfworld.players import HouseholdPlayer, Look, look, thought
from sweet_rl.worlds.options import LevelRequest
from sweet_rl.worlds.text_games import ACTION_HEAD

INTRODUCTION = "Welcome.\n\nYour task is to: put some tomato in microwave."
NAMES = homes.embedded_games()


class Recorded:
    """Says what the recorded run's engine said: the game is won by the second command."""

    first, later = ("go to fridge 1", "go to microwave 1", "look"), ("open fridge 1", "look")
    fails = False

    def begin(self, source):
        return EngineState(INTRODUCTION, self.first)

    def play(self, source, before, command):
        if self.fails:
            raise EpisodeError(StopReason.WORLD_FAILED, Failure("game_crashed", "hangs"))
        done = len(before) == 1
        return EngineState(f"You do: {command}", self.later, float(done), done)

    def plan(self, source, before):
        return ("go to microwave 1", "open microwave 1")


@pytest.fixture(scope="module")
def goldens(shared):
    return json.loads((shared / "goldens/reflect_rl/eval_and_alfworld.json").read_text())


def begun(engine=None, source="x", seed=0, **settings):
    game = HouseholdGame(engine or Recorded(), **settings)
    return game, game.begin(source, seed=seed)


def ended(moved, want):
    found = {"reward": moved.reward, "done": moved.terminated, "truncated": moved.truncated}
    return found == {name: want[name] for name in found}


def test_a_recorded_episode(goldens):
    golden = goldens["alfworld"]
    game, text = begun(max_turns=3, compat="published")
    assert (text, game.expert_label()) == (golden["first_prompt"], golden["oracle"])
    for step in golden["steps"]:
        moved = game.step(step["action"])
        assert moved.text == step["obs"]
        assert ended(moved, step)
    assert ended(begun(max_turns=1)[0].step("9"), golden["invalid_at_horizon"])
    (case,) = [one for one in goldens["metrics"] if one["threshold"] == HouseholdGame.success_threshold]
    won = [sum(costs) < HouseholdGame.success_threshold for costs in case["episode_costs"]]
    assert sum(won) / len(won) == case["avg_succ"]


def test_shuffled_labels(goldens):
    published, wanted = (goldens["alfworld"][f"shuffled_{name}"] for name in ("seed2", "oracle_label"))
    game, text = begun(seed=2, shuffle_action=True, compat="published")
    label = {command: label for label, command in game._offered.items()}
    assert (text, [label[command] for command in Recorded.first]) == tuple(published.values())
    assert game.expert_label() == wanted["oracle_action"]
    assert game._offered[wanted["oracle_action"]] == wanted["command_it_selects"]
    game, _ = begun(seed=2, shuffle_action=True)
    assert game._offered[game.expert_label()] == "go to microwave 1"  # right by default


def test_an_engine_that_fails(goldens, tmp_path):
    want, listed = goldens["alfworld"]["engine_error"], tmp_path / "alfworld_blacklist.txt"
    engine, source = Recorded(), "/data/json_2.1.1/train/x"
    engine.fails = True
    assert ended(begun(engine, source, compat="published", blacklist=listed)[0].step("0"), want)
    assert listed.read_text() == want["blacklist_file"]
    game, _ = begun(engine, source, blacklist=listed)
    with pytest.raises(EpisodeError, match="hangs"):
        game.step("0")
    assert listed.read_text() == want["blacklist_file"], "another day's tasks would be fewer"
    assert game.step("0").reward == 0  # it is over


def test_more_commands_than_labels_and_after_the_end():
    class Crowded(Recorded):
        def play(self, source, before, command):
            return EngineState("Many.", tuple(f"go to door {number}" for number in range(253)))

    game, _ = begun(Crowded())
    with pytest.raises(EpisodeError, match="253 commands are on offer and there are 252 labels"):
        game.step("0")
    assert game.step("0").info["outcome"] == "over"
    game, _ = begun()
    game.step("go to microwave 1")  # the command is understood, and so is a label as it is listed
    won, after = game.step(" 1. look"), game.step("0")
    assert (won.reward, won.terminated, won.info["won"], won.info["command"]) == (1, True, True, "look")
    assert (after.text, after.reward, after.info["outcome"]) == (won.text, 0, "over")
    assert game.commands == ("go to microwave 1", "look")
    with pytest.raises(EpisodeError, match="'game' must name a household game"):
        game.reset(load_tasks("detective")[0], seed=0)


def test_made_games_and_their_catalogue():
    assert len(NAMES) == len(set(NAMES)) == 100
    assert {name.partition("-")[0] for name in NAMES} == set(homes.FAMILIES)
    train, test = homes.embedded_games("train"), homes.embedded_games("test")
    assert (len(train), len(test)) == (80, 20)
    assert set(train) | set(test) == set(NAMES)
    kinds = {kind for room in homes.ROOMS.values() for kind in room}
    assert kinds >= set(homes.OPENABLE)
    assert set(homes.FITS) == {thing for things in homes.THINGS.values() for thing in things}
    for room, things in homes.THINGS.items():
        assert all(set(homes.ROOMS[room]) & set(homes.FITS[thing]) for thing in things), room
    for name in NAMES:
        game = homes.game(name)
        assert homes.game.__wrapped__(name) == game  # the same whenever it is made
        for thing, place in game.lying:
            assert place in game.places
            assert (thing.kind, place.kind) != (game.thing, game.place), "it lies where it is to be brought"
        assert any(thing.kind == game.thing for thing, _ in game.lying)
        assert 4 <= len(game.way()) <= 8
        text = homes.problem(game)
        assert text.count("(") == text.count(")")
        assert text.index("(:goal") < text.index("(:metric")  # the other order does not parse


def test_a_way_by_hand():
    cabinet, microwave, fridge = (homes.Entity(kind, 1) for kind in ("Cabinet", "Microwave", "Fridge"))
    tomato = homes.Entity("Tomato", 1)
    places = (cabinet, homes.Entity("Cabinet", 2), microwave, fridge)
    heat = "pick_heat_then_place_in_recep"
    game = homes.Game("x", heat, "Tomato", "Fridge", "kitchen", places, ((tomato, cabinet),))
    assert game.way() == (
        "go to cabinet 2",  # the engine counts a kind from behind
        *("open cabinet 2", "take tomato 1 from cabinet 2", "go to microwave 1"),
        *("heat tomato 1 with microwave 1", "go to fridge 1", "open fridge 1", "move tomato 1 to fridge 1"),
    )
    assert game.called(tomato) == "tomato 1"


@pytest.mark.parametrize(
    "name",
    [
        *("", "pick_and_place_simple", TOMATO, f"{TOMATO}-x", "../../etc/passwd"),
        "pick_and_place_simple-Tomato-Bowl-Microwave-1",
        "pick_and_place_simple-Dragon-None-Microwave-1",
        "pick_and_place_simple-Tomato-None-Toilet-1",
        "pick_and_place_simple-SoapBar-None-Fridge-1",
        "pick_heat_then_place_in_recep-Lettuce-None-Fridge-1",
        "look_at_obj_in_light-Tomato-None-DeskLamp-1",
        "look_at_obj_in_light-Book-None-Desk-1",
    ],
)
def test_names_that_are_none(name):
    with pytest.raises(UsageError, match="no household game"):
        homes.game(name)


def test_sources():
    lengths = {
        "": 100,
        ":train": 80,
        ":test": 20,
        ":look_at_obj_in_light": 15,
        ":look_at_obj_in_light:test": 3,
    }
    lengths |= {f":{TOMATO}:train": 16, f":{TOMATO}:test": 4, f":{TOMATO}:train:250": 200, ":test:10": 2 * 17}
    assert {where: len(load_tasks(f"alfworld{where}")) for where in lengths} == lengths
    task = load_tasks(f"alfworld:{TOMATO}:train")[0]
    assert task.task_id == f"alfworld/{TOMATO}-0"
    assert task.problem_description == "Your task is to: put some tomato in microwave."
    assert task.ground_truth == task.row["game"] == f"{TOMATO}-0"
    assert task.hidden_information.endswith("open microwave 1, move tomato 2 to microwave 1")

    def numbers(where):
        return {row["game"].rpartition("-")[2] for row in household_tasks(f"{TOMATO}:{where}")}

    assert numbers("test:10") == {"4", "9"}
    assert numbers("test:10-19") == {"14", "19"}
    assert len(numbers("77000-77249")) == 250
    wrong = ["valid", "train:x", "dragon:train", "train:0", "train:1000000000"]
    ranges = ("19-10", "-5", "1-2-3", "a-b", "0", "1-200001")
    for where in [*wrong, *(f"{TOMATO}:test:{one}" for one in ranges)]:
        with pytest.raises(UsageError, match="no source of tasks"):
            load_tasks(f"alfworld:{where}")
    few = household_tasks("train:100000", limit=2)  # no more rows are made than are wanted
    assert [row["game"] for row in few] == [row["game"] for row in household_tasks("train")[:2]]


def test_games_of_a_users_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for games in (data_folder, alfworld_data_tasks):
        with pytest.raises(UsageError, match="No ALFWorld data"):
            games()
    light = homes.game("look_at_obj_in_light-CD-None-DeskLamp-1")
    for split, number in (("train", 1), ("train", 2), ("valid_seen", 3), ("valid_unseen", 4)):
        homes.write_game(homes.game(f"{TOMATO}-{number}"), tmp_path / "json_2.1.1" / split)
    place = homes.write_game(light, tmp_path / "json_2.1.1/train")
    assert (place / "initial_state.pddl").read_text() == homes.problem(light)
    assert json.loads((place / "traj_data.json").read_text()) == homes.trajectory_data(light)
    assert data_folder() == tmp_path
    train = [Path(row["game"]) for row in alfworld_data_tasks()]
    assert [place.parent.name[-1] for place in train] == ["1", "2"]
    assert [Path(row["game"]).parent.name[-1] for row in alfworld_data_tasks("test")] == ["3", "4"]
    assert len(alfworld_data_tasks("all:train")) == 3
    assert load_tasks("alfworld-data:all:train")[0].row["family"] == "look_at_obj_in_light"
    task = load_tasks("alfworld-data:train")[0]
    assert task.task_id == f"alfworld/json_2.1.1/train/{TOMATO}-1/trial_0"
    assert task.row["game"] == published_household_tasks()[0]["game"] == str(train[0])
    listed = tmp_path / "list.txt"
    assert blacklist_name(train[0]) == f"json_2.1.1/train/{TOMATO}-1/trial_0/"
    listed.write_text(f"{blacklist_name(train[0])}\n")
    assert [row["game"] for row in alfworld_data_tasks(blacklist=listed)] == [str(train[1])]
    with pytest.raises(UsageError, match="no problems of 'train'"):
        alfworld_data_tasks("Dragon:train")
    for split in ("/home/me", "**x", "tr*"):
        with pytest.raises(UsageError, match="no problems of"):
            load_tasks(f"alfworld-data:{split}")


def test_a_folder_without_games_is_not_taken_for_none(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "alfwrold"))
    with pytest.raises(UsageError, match=r"No ALFWorld data: .* is '.*alfwrold', and must name a folder"):
        published_household_tasks()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, str(tmp_path / ".cache/alfworld"))  # as the package does
    assert len(published_household_tasks()) == 16


def test_what_is_named_is_played_or_refused(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)

    def played(named, compat="fixed"):
        (level,) = levels_of(WORLD, AlfworldOptions(compat=compat), LevelRequest(tasks=named, measures=True))
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


TEXT = (
    f"{INTRODUCTION}\n\nHere is the previous path:\n--- Step: 0 ---\nAction: go to microwave 1\nObservation: You arrive.\n"
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
    observation = Observation(task_id, (Message("user", text),), seed)
    return asyncio.run(player.act(observation)).completion.text


def test_the_planner_is_followed_and_asked_once():
    plan = Planner("open microwave 1", "go to fridge 1")
    player = HouseholdPlayer("planner", plan, {"t": "a game"})
    assert said(player) == "1"
    assert plan.asked == [("a game", ["go to microwave 1"])]
    opened = "\n\n--- Step: 1 ---\nAction: open microwave 1\nObservation: It is open.\n\n"
    assert said(player, text=TEXT.replace("Action 9: this is no action\n\n", opened)) == "2"
    assert len(plan.asked) == 1
    for name, low, high in (("careless", 0.46, 0.60), ("random", 0.26, 0.40)):
        player = HouseholdPlayer(name, Planner("open microwave 1"), {"t": "a game"})
        words = [said(player, seed=seed) for seed in range(400)]
        assert set(words) == {"0", "1", "2"}
        assert low < words.count("1") / 400 < high  # a third of what is not planned is the same action
        assert words[:50] == [said(player, seed=seed) for seed in range(50)]


@pytest.mark.parametrize(
    ("name", "plan", "more", "error", "match"),
    [
        ("planner", (), {}, EpisodeError, "found no way"),
        ("planner", ("fly",), {}, EpisodeError, "'fly' is not on offer"),
        ("butler", (), {}, UsageError, "planner, seeker, careless, random"),
        ("planner", (), {"skill": 2}, UsageError, "skill"),
        ("planner", (), {"task_id": "other"}, UsageError, "which game the task 'other' plays"),
    ],
)
def test_a_player_without_a_way_or_a_game(name, plan, more, error, match):
    asked = {"task_id": more.pop("task_id", "t")}
    with pytest.raises(error, match=match) as caught:
        said(HouseholdPlayer(name, Planner(*plan), {"t": "a game"}, **more), **asked)
    if error is EpisodeError:
        assert caught.value.stop_reason is StopReason.POLICY_FAILED
        assert caught.value.failure.kind == "planner_failed"


def test_closing_a_player_closes_its_planner():
    closed = []
    asyncio.run(HouseholdPlayer("planner", Planner(), {}, on_close=lambda: closed.append(1)).close())
    assert closed


PLACES = ("cabinet 1", "cabinet 2", "fridge 1")


class House:
    """A thing in one of three closed places, to be taken; the table has what it is told."""

    def __init__(self, place, on_table="cup 1", thing="saltshaker"):
        self.place, self.on_table, self.thing = place, on_table, thing

    def begin(self, source):
        return self._state([])

    def play(self, source, before, command):
        return self._state([*before, command])

    def plan(self, source, before):
        steps = (f"go to {self.place}", f"open {self.place}", f"take {self.thing} 1 from {self.place}")
        at = self._at(before)
        return steps[1 + (f"open {at}" in before) :] if at == self.place else steps

    def _at(self, done):
        return next((one.removeprefix("go to ") for one in reversed(done) if one.startswith("go")), "")

    def _state(self, done):
        at = self._at(done)
        here = self.on_table if at == "table 1" else f"{self.thing} 1" if at == self.place else "nothing"
        is_open = at == "table 1" or f"open {at}" in done
        told = f"Your task is to: take some {self.thing}."
        if done:
            told = f"You are at {at}. " + (f"You see a {here}." if is_open else "It is closed.")
        commands = [f"go to {place}" for place in (*PLACES, "table 1") if place != at]
        commands += [f"take {here} from {at}"] * (is_open and here != "nothing")
        commands += [f"open {at}"] * bool(at and not is_open)
        over = bool(done) and done[-1].startswith(f"take {self.thing}")
        return EngineState(told, (*commands, "look"), score=float(over), done=over)


def played(house, seed=0, random_share=0, **flags):
    task = task_from_row({"task_id": "t", "problem_description": "p", "ground_truth": "h", "game": "house"})
    return play_household(seed, [task], lambda: HouseholdGame(house), random_share=random_share, **flags)


def done_in(moments):
    return [offered_commands(one.text, ACTION_HEAD)[one.action] for one in moments]


def test_a_seeker_looks_at_places_in_turn_until_the_thing_is_seen():
    way = ["go to cabinet 2", "open cabinet 2", "take saltshaker 1 from cabinet 2"]
    assert done_in(played(House("cabinet 2"))) == way
    assert done_in(played(House("cabinet 2"), seek=True)) == ["go to cabinet 1", "open cabinet 1", *way]
    looked = done_in(played(House("cabinet 2", thing="tomato"), seek=True))
    assert looked[:3] == ["go to fridge 1", "open fridge 1", "go to cabinet 1"]  # it usually lies there
    assert looked[-1] == "take tomato 1 from cabinet 2"
    looked = done_in(played(House("fridge 1", thing="dragon"), seek=True))  # nobody knows where dragons lie
    assert looked[:5:2] == ["go to cabinet 1", "go to cabinet 2", "go to fridge 1"]


def test_until_then_nothing_depends_on_where_it_is():
    one, other = (played(House(place), seek=True) for place in ("cabinet 2", "fridge 1"))
    alike = 4  # then the one has seen it
    for mine, theirs in zip(one[:alike], other[:alike], strict=True):
        assert (mine.text, mine.action, mine.best) == (theirs.text, theirs.action, theirs.best)
        said = mine.known(Random(0))
        assert said == theirs.known(Random(0))
        assert "saltshaker was seen yet" in said or "saltshaker is still to be found" in said
        assert "no use" not in said
        assert "helped" not in said
    assert one[alike].text != other[alike].text
    assert "To open cabinet 2 helped" in one[alike].known(Random(1))
    known = [played(House(place))[0].known(Random(0)) for place in ("cabinet 2", "fridge 1")]
    assert known[0] != known[1]  # the planner's words do


def test_what_a_seeker_takes_and_what_is_left_to_the_plan():
    game, _ = begun(House("fridge 1", on_table="saltshaker 2"))
    for plan in (("move saltshaker 1 to table 1",), ()):
        assert look(plan, game.text) is None  # needs nothing, or has no way
    game.step("go to table 1")
    other = "take saltshaker 2 from table 1"  # another thing of the kind will do
    label = next(label for label, command in game._offered.items() if command == other)
    assert look(game.expert_plan(), game.text) == Look(other, "saltshaker", label, None)
    game, _ = begun(House("attic 1"), max_turns=20)
    for place in (*PLACES, "table 1"):
        for command in (f"go to {place}", f"open {place}"):
            game.step(command)
    assert look(("take saltshaker 1 from attic 1",), game.text) is None  # everything was looked at


def test_the_agent_looks_as_the_teacher_does():
    house = House("cabinet 2")

    async def plan(source, done):
        return house.plan(source, done)

    player = HouseholdPlayer("seeker", plan, {"t": "house"})
    for moment in played(house, seek=True):
        assert said(player, text=moment.text) == moment.action


def test_how_much_of_a_game_is_random():
    states = played(House("cabinet 1"))
    assert [state.action for state in states] == [state.best for state in states]
    assert {state.extra["problem"] for state in states} == {"h"}
    assert "Here is the previous path" not in states[0].text
    lengths = {len(played(House("cabinet 1"), seed, 1.0)) for seed in range(40)}
    assert max(lengths) == 15 > min(lengths) >= 3
    one, same = ([one.action for one in played(House("cabinet 1"), 3, 0.7)] for _ in range(2))
    assert one == same


def test_the_embedded_teacher_says_whether_the_last_command_helped():
    plan = ("go to fridge 1", "take tomato 1 from fridge 1")

    def says(done, plan, helped):
        return thought(INTRODUCTION, done, plan, helped, Random(0))

    assert "put some tomato in microwave" in says([], plan, None)
    assert "go to fridge 1" in says([], plan, None)
    for done, rest, helped, words in (
        (["go to fridge 1"], plan[1:], True, ("helped", "forward")),
        (["look"], plan, False, ("no use", "did not help")),
    ):
        assert any(word in says(done, rest, helped) for word in words)
    assert "no way" in says(["look"], (), False)


def test_texts_are_what_games_show():
    state = played(House("cabinet 1"))[0].text
    record = {"state": state, "reflection": "R", "action": 1, "problem": "a-Tomato-b"}
    made = sft_texts(state, ACTION_HEAD, "R", "1")
    texts = household_texts([record], containing="Tomato").files
    files = ("sft.jsonl", "sft_reflection.jsonl", "sft_policy.jsonl")
    assert texts == dict(zip(files, ([made.plain], [made.reflection], [made.policy]), strict=True))
    published = household_texts([record], containing="Tomato", compat="published")
    assert published.files["sft_reflectioner.jsonl"] == [made.reflection]
    for changes, why in (
        ({"problem": "a-Apple-b"}, "record of another problem"),
        ({"reflection": "  "}, "record without a reflection"),
        ({"best_action": None}, "record without a best action"),
    ):
        label = "best" if "best" in why else "taken"
        texts = household_texts([record | changes], containing="Tomato", label=label)
        assert texts.skipped == {why: 1}
        assert not any(texts.files.values())
    del record["problem"]  # counts
    assert household_texts([record], containing="Tomato").files["sft.jsonl"] == [made.plain]
