"""Lantern: its way to 100 points, its deaths, its variants, and what odd commands do."""

import asyncio

import pytest

from sweet_rl.errors import EpisodeError
from sweet_rl.mini.lantern import DEEDS, FOUND, REACHED, LanternEnv, LanternGame, island, lantern_tasks, solve
from sweet_rl.records import task_from_row
from sweet_rl.types import StopReason
from sweet_rl.worlds.adventures import listed_actions


def play(commands, variant=0, **options):
    """The first text, each step, and each step's text."""

    async def main():
        env = LanternEnv(**options)
        first = await env.reset(task_from_row({**lantern_tasks()[0], "variant": variant}), seed=3)
        steps = [await env.step(command) for command in commands]
        await env.close()
        return first.messages[-1].content, steps

    first, steps = asyncio.run(main())
    return first, steps, [step.observation and step.observation.messages[-1].content for step in steps]


@pytest.mark.parametrize("variant", range(8))
def test_walkthrough_gets_100_by_commands_that_are_listed(variant):
    first, steps, texts = play(solve(variant), variant)
    assert len(steps) <= 50
    assert sum(step.reward for step in steps) == 100
    last = steps[-1]
    assert (last.terminated, last.truncated, last.stop_reason) == (True, False, StopReason.ENDED)
    assert last.info == {"game": {"score": 100, "max_score": 100, "won": True}}
    assert "You have saved the ship" in texts[-1]
    assert not any(step.over for step in steps[:-1])
    before = [first, *texts[:-1]]
    assert all(step.content in listed_actions(seen) for seen, step in zip(before, steps, strict=True))


def test_milestones_of_variant_0_add_up_to_100():
    assert sum(deed.points for deed in DEEDS) + sum(FOUND.values()) + sum(REACHED.values()) == 100
    _, steps, _ = play(solve(0))
    assert [(step.content, step.reward) for step in steps if step.reward] == [
        *(("take matches", 5), ("turn windlass", 10), ("unlock cupboard", 5), ("take flask", 5)),
        *(("light lamp", 5), ("fill flask", 10), ("tie rope", 10), ("take lens", 10), ("unlock door", 10)),
        *(("up", 5), ("fit lens", 5), ("fit wick", 5), ("pour oil", 5), ("light lantern", 10)),
    ]


def test_first_observation_and_its_published_join():
    first, _, texts = play(["take lamp"])
    assert first == (
        "Jetty\n"
        "Planks slick with spray. Far out, a ship's bell rings, closer than it should be.\n"
        "Ways: north to the Shingle Path.\n"
        "On the ground: lamp.\n\n"
        "You carry nothing.\n\n"
        "The light is out. Before the ship reaches the rocks, it must burn again.\n\n"
        "Actions: ['north', 'take lamp']"
    )
    assert texts[0].endswith("You carry: lamp.\n\nYou take the lamp.\n\nActions: ['north', 'drop lamp']")
    published, _, _ = play([], compat="published")
    assert published.startswith("Jetty\nPlanks")
    assert "lamp.\nYou carry nothing.\nThe light is out." in published
    assert published.endswith("burn again.\n['north', 'take lamp']")
    assert listed_actions(published) == ("north", "take lamp")


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
    _, steps, texts = play([*commands, "n"])
    last = steps[-2]
    assert words in texts[-2]
    assert texts[-2].endswith("*** You have died ***\n\nActions: []")
    assert (last.terminated, last.stop_reason) == (True, StopReason.ENDED)
    assert last.info["game"]["won"] is False
    assert not any(step.over for step in steps[:-2])
    lists = list(map(listed_actions, texts[:-2]))
    assert commands[-1] in lists[-1] or commands[-1] == "wait"
    assert all(len(set(actions)) == len(actions) for actions in lists)
    assert (steps[-1].observation, steps[-1].reward) == (None, None)


def test_dark_cellar_hides_the_lamp_shows_and_a_locked_door_is_no_way():
    commands = ["take lamp", "n", "n", "e", "take matches", "w", "w"]
    assert "pitch dark" in play([*commands, "d"])[2][-1]
    texts = play([*commands, "light lamp", "d", "n", "s", "drop lamp", "u", "d"])[2]
    assert "A hatch gapes" in texts[-6]
    assert "Oil Store" in texts[-5]
    assert "A hatch gapes" in texts[-1]  # the lamp on the ground shines, too
    texts = play([*commands, "light lamp", "d", "light lamp"])[2]
    assert "can't be done" in texts[-1]  # it burns already: no match is struck
    texts = play(["n", "n", "n", "unlock door"])[2]
    assert "locked" in texts[2]
    assert "north" not in listed_actions(texts[1])
    assert "can't be done" in texts[3]


@pytest.mark.parametrize("variant", [0, 1])
def test_listed_actions_change_something(variant):
    def after(commands):
        game = LanternGame(variant)
        for command in commands:
            game.do(command)
        return game

    def state(game):
        return game.scene().look, game.scene().inventory, game.actions(), game.score

    way = solve(variant)
    for length in range(len(way)):
        here = after(way[:length])
        for command in here.actions():
            assert state(after([*way[:length], command])) != state(here), command


@pytest.mark.parametrize("missing", ["fit lens", "fit wick", "pour oil"])
def test_the_lantern_needs_everything(missing):
    _, steps, texts = play([command for command in solve(0) if command != missing])
    assert "can't be done here and now" in texts[-1]
    assert not steps[-1].over


def test_variants_differ_and_repeat():
    assert island(5) == island(5)
    assert len({tuple(island(variant)[0].values()) for variant in range(20)}) == 20
    assert island(1)[1]["path"].exits["west"].to == "cliff"
    assert island(2)[1]["path"].exits["west"].to == "garden"


def test_the_parser_knows_other_words():
    said = ["GET THE LAMP", "go north", "pick up crank", "x the crank", "  Drop  the crank!  "]
    told = [text.split("\n\n")[2] for text in play(said)[2]]
    assert told[0] == "You take the lamp."
    assert told[2:] == [
        *("You take the crank.", "A bent iron handle with a square end.", "You put down the crank.")
    ]


@pytest.mark.parametrize(
    "odd", ["", "\n", "é ☃ 😀", "x" * 10_000, "take", "take nothing", "\x00", "quit", "save"]
)
def test_odd_actions_are_turns_without_effect(odd):
    first, steps, texts = play([odd, "take lamp"])
    assert (steps[0].reward, steps[0].over) == (0, False)
    assert listed_actions(texts[0]) == listed_actions(first)
    assert "You take the lamp." in texts[1]


def test_the_horizon_truncates_but_not_a_victory():
    def end(step):
        return step.terminated, step.truncated, step.stop_reason

    _, steps, _ = play(["wait"] * 3, max_turns=2)
    assert end(steps[1]) == (False, True, StopReason.TURN_LIMIT)
    assert steps[2].observation is None
    way = solve(0)
    assert end(play(way, max_turns=len(way))[1][-1]) == (True, False, StopReason.ENDED)


def test_wrong_tasks_and_only_the_first_line_counts():
    with pytest.raises(EpisodeError, match="'variant' must be a whole number, got 'x'"):
        play([], "x")
    _, steps, texts = play(["take lamp\nnorth"])
    assert (steps[0].content, steps[0].output) == ("take lamp", "take lamp\nnorth")
    assert "Jetty" in texts[0]
