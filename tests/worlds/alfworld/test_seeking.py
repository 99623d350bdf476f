"""One who looks for things: never does or says what only the planner can know."""

import asyncio
import random

import pytest

from sweet_rl.chat.reflect_format import offered_commands
from sweet_rl.records import task_from_row
from sweet_rl.types import Message, Observation
from sweet_rl.worlds.alfworld.data import play_household
from sweet_rl.worlds.alfworld.engine import EngineState
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.players import HouseholdPlayer, Look, look
from sweet_rl.worlds.text_game_world import ACTION_HEAD

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
        at = next((c.removeprefix("go to ") for c in reversed(before) if c.startswith("go")), "")
        if at == self.place:
            steps = steps[1 + (f"open {at}" in before) :]
        return steps

    def _state(self, done):
        at = next((c.removeprefix("go to ") for c in reversed(done) if c.startswith("go")), "")
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


def games(house, **flags):
    task = task_from_row({"task_id": "t", "problem_description": "p", "ground_truth": "h", "game": "house"})
    return play_household(0, [task], lambda: HouseholdGame(house), random_share=0, **flags)


def done_in(moments):
    return [offered_commands(one.text, ACTION_HEAD)[one.action] for one in moments]


def test_places_are_looked_at_in_turn_until_the_thing_is_seen():
    assert done_in(games(House("cabinet 2"), seek=True)) == [
        "go to cabinet 1",
        "open cabinet 1",
        "go to cabinet 2",
        "open cabinet 2",
        "take saltshaker 1 from cabinet 2",
    ]
    assert done_in(games(House("cabinet 2"))) == [
        "go to cabinet 2",
        "open cabinet 2",
        "take saltshaker 1 from cabinet 2",
    ]


def test_first_come_the_places_where_such_a_thing_usually_lies():
    looked = done_in(games(House("cabinet 2", thing="tomato"), seek=True))
    assert looked[:3] == ["go to fridge 1", "open fridge 1", "go to cabinet 1"]
    assert looked[-1] == "take tomato 1 from cabinet 2"
    looked = done_in(games(House("fridge 1", thing="dragon"), seek=True))  # nobody knows where dragons lie
    assert looked[:5:2] == ["go to cabinet 1", "go to cabinet 2", "go to fridge 1"]


def test_until_then_nothing_depends_on_where_it_is():
    one, other = (games(House(place), seek=True) for place in ("cabinet 2", "fridge 1"))
    alike = 4  # then the one has seen it
    for mine, theirs in zip(one[:alike], other[:alike], strict=True):
        assert (mine.text, mine.action, mine.best) == (theirs.text, theirs.action, theirs.best)
        said = mine.known(random.Random(0))
        assert said == theirs.known(random.Random(0))
        assert "saltshaker was seen yet" in said or "saltshaker is still to be found" in said
        assert "no use" not in said
        assert "helped" not in said
    assert one[alike].text != other[alike].text
    assert "To open cabinet 2 helped" in one[alike].known(random.Random(1))
    known = [games(House(place))[0].known(random.Random(0)) for place in ("cabinet 2", "fridge 1")]
    assert known[0] != known[1]  # the planner's words do


def test_another_thing_of_the_kind_will_do():
    text = games(House("fridge 1", on_table="saltshaker 2"))[0].text
    at_table = HouseholdGame(House("fridge 1", on_table="saltshaker 2"))
    at_table.begin("house")
    assert text == at_table.text
    label = next(k for k, v in offered_commands(text, ACTION_HEAD).items() if v == "go to table 1")
    at_table.step(label)
    takes = next(k for k, v in offered_commands(at_table.text, ACTION_HEAD).items() if v.startswith("take"))
    assert look(at_table.expert_plan(), at_table.text) == Look(
        "take saltshaker 2 from table 1", "saltshaker", takes, None
    )


@pytest.mark.parametrize("plan", [("move saltshaker 1 to table 1",), ()])
def test_what_needs_nothing_or_has_no_way_is_left_to_the_plan(plan):
    assert look(plan, games(House("fridge 1"))[0].text) is None


def test_where_everything_was_looked_at_the_plan_goes_on():
    game = HouseholdGame(House("attic 1"))
    game.begin("house")
    for place in (*PLACES, "table 1"):
        for command in (f"go to {place}", f"open {place}"):
            offered = offered_commands(game.text, ACTION_HEAD)
            for label in [label for label, one in offered.items() if one == command]:
                game.step(label)
    assert look(("take saltshaker 1 from attic 1",), game.text) is None


def test_the_agent_looks_as_the_teacher_does():
    house = House("cabinet 2")

    async def plan(source, done):
        return house.plan(source, done)

    player = HouseholdPlayer("seeker", plan, {"t": "house"})
    for moment in games(house, seek=True):
        observation = Observation("t", (Message("user", moment.text),), 0)
        assert asyncio.run(player.act(observation)).completion.text == moment.action
