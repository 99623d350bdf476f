"""Lantern: its way to 100 points, its deaths, its variants, and what odd commands do."""

import asyncio

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.records import task_from_row
from sweet_rl.types import StopReason
from sweet_rl.worlds.adventures.scenes import Scene, listed_actions
from sweet_rl.worlds.lantern import lantern_tasks
from sweet_rl.worlds.lantern.env import MAX_TURNS, LanternEnv, LanternGame
from sweet_rl.worlds.lantern.map import DEEDS, FOUND, REACHED, island
from sweet_rl.worlds.lantern.solver import solve


def task(variant=0):
    return task_from_row({**lantern_tasks()[0], "variant": variant})


def play(commands, variant=0, **options):
    async def main():
        env = LanternEnv(**options)
        first = await env.reset(task(variant), seed=3)
        steps = [await env.step(command) for command in commands]
        await env.close()
        return first.messages[-1].content, steps

    return asyncio.run(main())


def text(step):
    return step.observation.messages[-1].content


def test_points_add_up_to_100():
    assert sum(deed.points for deed in DEEDS) + sum(FOUND.values()) + sum(REACHED.values()) == 100


@pytest.mark.parametrize("variant", range(20))
def test_walkthrough_gets_100(variant):
    _, steps = play(solve(variant), variant)
    assert len(steps) <= MAX_TURNS
    assert sum(step.reward for step in steps) == 100
    last = steps[-1]
    assert (last.terminated, last.truncated, last.stop_reason) == (True, False, StopReason.ENDED)
    assert last.info == {"game": {"score": 100, "max_score": 100, "won": True}}
    assert "You have saved the ship" in text(last)
    assert not any(step.over for step in steps[:-1])


@pytest.mark.parametrize("variant", [0, 1, 2])
def test_every_command_of_the_walkthrough_is_listed_before_it_is_given(variant):
    first, steps = play(solve(variant), variant)
    before = [first, *(text(step) for step in steps[:-1])]
    assert all(step.content in listed_actions(seen) for seen, step in zip(before, steps, strict=True))


def test_milestones_of_variant_0():
    _, steps = play(solve(0))
    rewarded = [(step.content, step.reward) for step in steps if step.reward]
    assert rewarded == [
        ("take matches", 5),
        ("turn windlass", 10),
        ("unlock cupboard", 5),
        ("take flask", 5),
        ("light lamp", 5),
        ("fill flask", 10),
        ("tie rope", 10),
        ("take lens", 10),
        ("unlock door", 10),
        ("up", 5),
        ("fit lens", 5),
        ("fit wick", 5),
        ("pour oil", 5),
        ("light lantern", 10),
    ]


def test_first_observation():
    first, steps = play(["take lamp"])
    assert first == (
        "Jetty\n"
        "Planks slick with spray. Far out, a ship's bell rings, closer than it should be.\n"
        "Ways: north to the Shingle Path.\n"
        "On the ground: lamp.\n\n"
        "You carry nothing.\n\n"
        "The light is out. Before the ship reaches the rocks, it must burn again.\n\n"
        "Actions: ['north', 'take lamp']"
    )
    assert text(steps[0]).endswith(
        "You carry: lamp.\n\nYou take the lamp.\n\nActions: ['north', 'drop lamp']"
    )


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        (["n", "e", "down"], "rocks are a long way down"),
        (["n", "n", "w", "d", "north"], "open hatch"),
        (["take lamp", "n", "n", "e", "take matches", "w", "w", "d", "light lamp"], "fumes"),
        (["n", "w", "take rope", "e", "e", "tie rope", "d", *["wait"] * 5], "fills the cave"),
    ],
)
def test_four_deaths(commands, words):
    _, steps = play([*commands, "n"])
    last = steps[-2]
    assert words in text(last)
    assert text(last).endswith("*** You have died ***\n\nActions: []")
    assert (last.terminated, last.stop_reason) == (True, StopReason.ENDED)
    assert last.info["game"]["won"] is False
    assert not any(step.over for step in steps[:-2])
    lists = [listed_actions(text(step)) for step in steps[:-2]]
    assert commands[-1] in lists[-1] or commands[-1] == "wait"
    assert all(len(set(actions)) == len(actions) for actions in lists)
    assert (steps[-1].observation, steps[-1].reward) == (None, None)


def test_points_are_given_once():
    _, steps = play(["n", "n", "e", *["take matches", "drop matches"] * 3])
    assert [step.reward for step in steps[3:]] == [5, 0, 0, 0, 0, 0]


def test_dark_cellar_hides_and_the_lamp_shows():
    commands = ["take lamp", "n", "n", "e", "take matches", "w", "w"]
    _, steps = play([*commands, "d"])
    assert "pitch dark" in text(steps[-1])
    _, steps = play([*commands, "light lamp", "d", "n", "s", "drop lamp", "u", "d"])
    assert "A hatch gapes" in text(steps[-6])
    assert "Oil Store" in text(steps[-5])
    assert "A hatch gapes" in text(steps[-1])  # the lamp on the ground shines, too
    _, steps = play([*commands, "light lamp", "d", "light lamp"])
    assert "can't be done" in text(steps[-1])  # it burns already: no match is struck


def test_locked_door_is_no_way():
    _, steps = play(["n", "n", "n", "unlock door"])
    assert "locked" in text(steps[2])
    assert "north" not in listed_actions(text(steps[1]))
    assert "can't be done" in text(steps[3])


def test_listed_actions_change_something_and_only_they_do():
    for variant in (0, 1):
        for length in range(len(solve(variant))):
            game = LanternGame(variant)
            for command in solve(variant)[:length]:
                game.do(command)
            for command in game.actions():
                again = LanternGame(variant)
                for before in solve(variant)[:length]:
                    again.do(before)
                seen = (again.scene().look, again.scene().inventory, again.actions(), again.score)
                again.do(command)
                assert (again.scene().look, again.scene().inventory, again.actions(), again.score) != seen, (
                    command
                )


def test_the_lantern_needs_everything():
    route = solve(0)
    for missing in ("fit lens", "fit wick", "pour oil"):
        _, steps = play([command for command in route if command != missing])
        assert "can't be done here and now" in text(steps[-1])
        assert not steps[-1].over


def test_variants_differ_and_repeat():
    assert dict(island(5).places) == dict(island(5).places)
    assert len({tuple(island(variant).places.values()) for variant in range(20)}) == 20
    assert island(1).rooms["path"].exits["west"].to == "cliff"
    assert island(2).rooms["path"].exits["west"].to == "garden"


def test_the_parser_knows_other_words():
    _, steps = play(["GET THE LAMP", "go north", "pick up crank", "x the crank", "  Drop  the crank!  "])
    told = [text(step).split("\n\n")[2] for step in steps]
    assert told[0] == "You take the lamp."
    assert told[2:] == [
        "You take the crank.",
        "A bent iron handle with a square end.",
        "You put down the crank.",
    ]


@pytest.mark.parametrize(
    "odd", ["", "\n", "é ☃ 😀", "x" * 10_000, "take", "take nothing", "\x00", "quit", "save"]
)
def test_odd_actions_are_turns_without_effect(odd):
    first, steps = play([odd, "take lamp"])
    assert (steps[0].reward, steps[0].over) == (0, False)
    assert listed_actions(text(steps[0])) == listed_actions(first)
    assert "You take the lamp." in text(steps[1])


def test_only_the_first_line_counts():
    _, steps = play(["take lamp\nnorth"])
    assert (steps[0].content, steps[0].output) == ("take lamp", "take lamp\nnorth")
    assert "Jetty" in text(steps[0])


def test_horizon_truncates():
    _, steps = play(["wait"] * 3, max_turns=2)
    assert (steps[1].terminated, steps[1].truncated, steps[1].stop_reason) == (
        False,
        True,
        StopReason.TURN_LIMIT,
    )
    assert steps[2].observation is None


def test_a_victory_at_the_horizon_is_a_victory():
    way = solve(0)
    _, steps = play(way, max_turns=len(way))
    assert (steps[-1].terminated, steps[-1].truncated) == (True, False)


def test_published_join():
    first, _ = play([], compat="published")
    assert first.startswith("Jetty\nPlanks")
    assert "lamp.\nYou carry nothing.\nThe light is out." in first
    assert first.endswith("burn again.\n['north', 'take lamp']")
    assert listed_actions(first) == ("north", "take lamp")


def test_scene_reads_back_odd_lists():
    scene = Scene("a [room]", "", "It's [here].", ("say 'hi'", 'x "y"'))
    assert listed_actions(scene.text()) == listed_actions(scene.published()) == scene.actions
    for broken in ("", "no list", "Actions: [north]", "Actions: [1, 2]", "['a'] and more"):
        assert listed_actions(broken) == ()


def test_wrong_settings_and_tasks():
    with pytest.raises(UsageError, match="max_turns"):
        LanternEnv(max_turns=0)
    with pytest.raises(UsageError, match="compat"):
        LanternEnv(compat="old")
    with pytest.raises(EpisodeError, match="'variant' must be a whole number, got 'x'"):
        play([], "x")
