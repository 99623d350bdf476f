"""Text adventures: Detective against what the published environment recorded and its repairs; what Lantern shares with it."""

import asyncio
import hashlib
import json
import os
import signal
import tempfile
from dataclasses import replace
from random import Random

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.mini.lantern import LanternEnv, lantern_tasks, solve
from sweet_rl.records import task_from_row
from sweet_rl.types import Message, Observation, StopReason
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.adventures import (
    REFUSAL,
    REFUSED,
    AdventureEnv,
    RandomAdventurer,
    Scene,
    WalkthroughPolicy,
    is_refused,
    listed_actions,
)
from sweet_rl.worlds.detective import VARIABLE, WORLD, DetectiveEnv, find_story, open_detective
from sweet_rl.worlds.detective.interpreter import Interpreter
from tests.worlds.playing import played

TASK = task_from_row(WORLD.rows("detective", "", limit=None, seed=0)[0])
ROUTE = (
    *("take paper", "west", "take pistol", "east", "north", "west", "east", "east", "take wood"),
    *("west", "west", "take note", "east", "north", "north", "west", "north", "north", "west"),
    *("east", "north", "east", "east", "east", "south", "take hamburger", "north", "north", "east"),
    *("north", "north", "north", "north", "east", "west", "west", "east", "north", "north", "west"),
    *("north", "west", "north", "north", "up"),
)
"""45 commands for 350 points and the end of the game: jericho's 51 without those that do nothing."""


@pytest.fixture(scope="module")
def goldens(shared):
    return json.loads((shared / "goldens/archer/detective_expected.json").read_text())


@pytest.fixture(scope="module")
def story(shared):
    return shared / "data/games/detective.z5"


@pytest.fixture(scope="module")
def pool(story):
    pytest.importorskip("jericho", reason="needs the extra 'detective'")
    with open_detective(story, workers=1) as interpreters:
        yield interpreters


def sha1(text):
    return hashlib.sha1(text.encode()).hexdigest()


def play(env, commands):
    """The first text, and `(text, step)` for each command."""

    async def main():
        first = await env.reset(TASK, seed=0)
        steps = [await env.step(command) for command in commands]
        await env.close()
        return first.messages[-1].content, [
            (step.observation and step.observation.messages[-1].content, step) for step in steps
        ]

    return asyncio.run(main())


class Listed(DetectiveEnv):
    """Lists the actions that the recorded episodes list, whatever the game allows."""

    actions = ()

    def _take(self, position):
        return super()._take(replace(position, actions=tuple(self.actions)))


def published(pool, goldens, commands, **options):
    env = Listed(pool, compat="published", **options)
    env.actions = goldens["stubbed_valid_actions"]
    return play(env, commands)


def test_published_observations_and_rewards_of_the_walkthrough(pool, goldens):
    first, steps = published(pool, goldens, goldens["walkthrough"])
    begins = goldens["reset_obs"]
    assert (len(first), sha1(first), first[-40:]) == (begins["len"], begins["sha1"], begins["tail40"])
    for (text, step), expected in zip(steps, goldens["steps_max50"], strict=True):
        if expected is None:  # the published step after the end
            assert (step.observation, step.over) == (None, True)
            continue
        assert (sha1(text), step.reward, step.over) == tuple(
            expected[name] for name in ("obs_sha1", "reward", "done")
        )
    assert sum(step.reward or 0 for _, step in steps) == goldens["return_max50"] == 350
    position = asyncio.run(pool.begin())
    for name in ("look", "inventory", "narrative"):
        part = getattr(position, name)
        assert (len(part), sha1(part)) == tuple(goldens["reset_parts"][name].values())
    assert position.inventory == goldens["inventory_text_at_reset"]


def test_published_action_is_cut_at_the_first_newline(pool, goldens):
    _, steps = published(pool, goldens, goldens["actions_for_first_steps"])
    for (text, step), expected in zip(steps, goldens["first_steps_fresh_env"], strict=True):
        assert (len(text), sha1(text)) == (expected["obs"]["len"], expected["obs"]["sha1"])
        assert (step.reward, step.over) == (expected["reward"], expected["done"])
    assert (steps[0][1].content, steps[0][1].output) == ("TAKE PAPER", "TAKE PAPER\nignored")


def test_horizon_of_two(pool, goldens):
    _, steps = published(pool, goldens, ["take paper", "read paper", "n"], max_turns=2)
    two = [(step.reward, step.over) for _, step in steps[:2]]
    assert two == [tuple(row) for row in goldens["max_steps_2"][:2]]
    (words, cut), (after, _) = steps[1:]
    assert (cut.truncated, cut.terminated, cut.stop_reason) == (True, False, StopReason.TURN_LIMIT)
    assert words  # the last words are there: the value beyond the limit is estimated from them
    assert after is None


def test_ways_to_350_points_and_the_end(pool, goldens):
    """The walkthrough of 51 commands, and ours within the published horizon."""
    commands = asyncio.run(pool.walkthrough())
    assert (list(commands), len(ROUTE)) == (goldens["walkthrough"], 45)
    assert goldens["full_walkthrough"]["return"] == 350
    for way, limits in ((commands, {"max_turns": 60}), (ROUTE, {})):
        _, steps = play(DetectiveEnv(pool, **limits), way)
        text, last = steps[-1]
        assert sum(step.reward for _, step in steps) == 350
        assert (last.terminated, last.truncated, last.stop_reason) == (True, False, StopReason.ENDED)
        assert last.info == {"game": {"score": 360, "max_score": 360, "won": True}}
        assert "You have won" in text
        assert listed_actions(text) == ()


def test_the_dazed_man(pool):
    """The one place where a command with two things matters."""
    way = [*asyncio.run(pool.walkthrough())[:34], "west"]
    _, steps = play(DetectiveEnv(pool), [*way, "shoot man with pistol"])
    assert "shoot man with pistol" in listed_actions(steps[-2][0])
    assert "east" not in listed_actions(steps[-2][0])
    assert "east" in listed_actions(steps[-1][0])
    _, steps = play(DetectiveEnv(pool), [*way, *["look"] * 5])
    assert "north" not in listed_actions(steps[-3][0])
    assert "north" in listed_actions(steps[-2][0])  # the same place, but now any turn that passes is the last
    assert steps[-1][1].terminated
    assert not steps[-1][1].info["game"]["won"]


def test_remembered_actions_are_those_of_the_place(pool, story):
    """What is listed does not depend on which positions the worker has seen before."""
    used, fresh = (Interpreter(story) for _ in range(2))
    draw = Random(3)
    for length in (0, 8, 20, 33):
        position = used.begin()
        for command in ROUTE[:length]:
            position = used.play(position.state, command)
        for _ in range(12):
            position = used.play(position.state, draw.choice(position.actions or ("look",)))
            if position.over:
                break
            fresh._valid.clear()
            assert fresh.play(position.state, "version").actions == position.actions  # takes no turn


def test_reset_begins_anew_parts_are_kept_apart_and_walls_are_no_ways(pool):
    env = DetectiveEnv(pool)
    first, _ = play(env, ["take paper", "w"])
    again, steps = play(env, ["take paper", "read paper", "drop paper", "east"])
    assert (again, steps[0][1].reward) == (first, 10)
    parts = steps[0][0].split("\n\n")
    assert parts[0].startswith("<< Chief's office >>")
    assert "You are carrying:\n  a piece of white paper" in parts
    assert parts[-1] == "Actions: ['north', 'west', 'drop paper']"
    assert "You can't go east" in steps[-1][0]
    here = [listed_actions(text) for text in (first, *(text for text, _ in steps[-2:]))]
    assert here == [("north", "west", "take paper")] * 3


def test_most_commands_of_the_walkthrough_are_listed(pool):
    names = {"n": "north", "e": "east", "s": "south", "w": "west"}
    text, steps = play(DetectiveEnv(pool, max_turns=12), asyncio.run(pool.walkthrough())[:12])
    before = [text, *(text for text, _ in steps[:-1])]
    listed = [
        names.get(step.content.lower(), step.content.lower()) in listed_actions(text)
        for text, (_, step) in zip(before, steps, strict=True)
    ]
    # READ PAPER and INVENTORY change nothing; the gun of TAKE GUN is listed as a pistol
    assert [i for i, there in enumerate(listed) if not there] == [1, 3, 5]


@pytest.mark.parametrize("compat", ["fixed", "published"])
def test_odd_actions_are_turns_without_effect(pool, compat):
    odd = ["", "   ", "\n\n", "é ☃ 😀 \ud800", "x" * 10_000, "é" * 5_000, "x" + "é" * 5_000]
    odd += ["\\", "~", "a\tb\r", ";;;"]
    first, steps = play(DetectiveEnv(pool, compat=compat), [*odd, "take paper"])
    assert [step.reward for _, step in steps] == [0.0] * len(odd) + [10.0]
    assert not any(step.over for _, step in steps)
    assert listed_actions(steps[-2][0]) == listed_actions(first)


def test_what_is_no_move_never_reaches_the_game(pool):
    commands = ["save", "\x01save", "look. restore", "QUIT", "yes", "restart", "undo", "purloin gun"]
    commands += ["n then script", "help"]
    _, steps = play(DetectiveEnv(pool), [*commands, "take\x00paper"])
    refused = [REFUSAL in text for text, _ in steps]
    assert refused == [command != "yes" for command in commands] + [False]
    assert [step.reward for _, step in steps] == [0.0] * len(commands) + [10.0]


async def test_a_dying_interpreter_spoils_one_episode(pool):
    env, other = DetectiveEnv(pool), DetectiveEnv(pool)
    await env.reset(TASK, seed=0)
    await other.reset(TASK, seed=0)
    await env.step("take paper")
    os.kill(pool._idle.queue[0]._process.pid, signal.SIGSEGV)
    with pytest.raises(EpisodeError, match="interpreter died") as caught:
        await env.step("read paper")
    assert caught.value.stop_reason is StopReason.WORLD_FAILED
    assert caught.value.failure.kind == "game_crashed"
    assert (await env.step("read paper")).observation is None  # it is over
    assert (await other.step("take paper")).reward == 10


async def test_a_hanging_interpreter_spoils_one_episode(pool, monkeypatch):
    env = DetectiveEnv(pool)
    await env.reset(TASK, seed=0)
    await env.step("look")
    os.kill(pool._idle.queue[0]._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(pool, "_timeout_s", 0.2)
    with pytest.raises(EpisodeError, match=r"no answer within 0\.2 s"):
        await env.step("look")
    monkeypatch.undo()
    await env.reset(TASK, seed=0)
    assert (await env.step("take paper")).reward == 10


@pytest.mark.usefixtures("pool")  # which needs the package
def test_pool_ends_cleanly(story, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pool = open_detective(story, workers=2)
    pool.close()
    asyncio.run(pool.begin())
    process = pool._idle.queue[0]._process
    assert len(list(tmp_path.iterdir())) == 1
    pool.close()
    pool.close()
    assert process.returncode == 0
    assert not list(tmp_path.iterdir()), "its folder stays behind"


def test_missing_package_names_its_extra(story, monkeypatch, tmp_path):
    (tmp_path / "jericho.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    extra = r"pip install 'sweet_rl\[detective\]'"
    with open_detective(story, workers=1) as pool, pytest.raises(UsageError, match=extra):
        asyncio.run(pool.begin())


def test_game_file_is_checked(story, tmp_path, monkeypatch):
    wrong = tmp_path / "wrong.z5"
    wrong.write_bytes(b"abc")
    expected = "900150983cd24fb0d6963f7d28e17f72, expected 822655c9be83e292e06d3d3b1d6a9734"
    monkeypatch.delenv(VARIABLE, raising=False)
    for path, message in (
        (None, "No Detective game file is named.*SWEET_RL_DETECTIVE"),
        (tmp_path / "absent.z5", r"absent\.z5.*No such file.*z-machine-games"),
        (wrong, rf"wrong\.z5.*MD5 is {expected}"),
    ):
        with pytest.raises(UsageError, match=message):
            find_story(path)
    monkeypatch.setenv(VARIABLE, str(story))
    assert find_story() == story
    monkeypatch.setenv(VARIABLE, "/absent")
    assert find_story(story) == story
    with pytest.raises(UsageError, match="/absent"):
        open_detective()


ISLANDS = [task_from_row(row) for row in lantern_tasks("test")]


def test_walkthrough_is_the_ceiling():
    ways = WalkthroughPolicy({task.task_id: solve(task.extra["variant"]) for task in ISLANDS})
    finished = played(LanternEnv, ways, ISLANDS)
    assert {(one.reward, one.stop_reason) for one in finished} == {(100.0, StopReason.ENDED)}
    assert all(one.extra["game"]["won"] for one in finished)


def test_random_is_the_floor_takes_what_is_listed_and_repeats():
    first, again = (played(LanternEnv, RandomAdventurer(), ISLANDS, 3) for _ in range(2))
    assert first == again
    assert 0 <= sum(one.reward for one in first) / len(first) < 20
    histories = {tuple(m.content for m in one.dialogue_history) for one in first}
    assert len(histories) == len(first)  # every episode its own
    said = first[0].dialogue_history
    for seen, action in zip(said[::2], said[1::2], strict=False):
        assert action.content in listed_actions(seen.content)


def test_players_where_there_is_nothing_to_go_by():
    def says(policy, task_id, *messages):
        seen = Observation(task_id, tuple(messages), seed=1)
        return asyncio.run(policy.act(seen)).completion.text

    fog = Message("user", "Fog.")
    assert says(RandomAdventurer(), "lantern/0", fog) == "look"
    assert says(WalkthroughPolicy({"x": ("n",)}), "x", fog, Message("assistant", "n"), fog) == "look"
    with pytest.raises(UsageError, match="no way through the task 'other'"):
        says(WalkthroughPolicy({}), "other", fog)


def test_tasks_and_splits():
    assert [row["variant"] for row in lantern_tasks("test")] == list(range(80, 100))
    assert len(lantern_tasks()) == len(lantern_tasks("train")) + len(lantern_tasks("test")) == 100
    assert TASK.task_id == "detective/0"
    for source in ("lantern:dev", "detective:test"):
        with pytest.raises(UsageError, match=f"'{source}' is no split"):
            load_tasks(source)


def test_scene_reads_back_odd_lists():
    scene = Scene("a [room]", "", "It's [here].", ("say 'hi'", 'x "y"'))
    for compat in ("fixed", "published"):
        assert listed_actions(AdventureEnv(compat=compat)._say(scene)) == scene.actions
    for broken in ("", "no list", "Actions: [north]", "Actions: [1, 2]", "['a'] and more"):
        assert listed_actions(broken) == ()


def test_published_lets_more_be_typed_but_no_files():
    typed = ("save", "n.transcript", "quit")
    assert [is_refused(command, published=True) for command in typed] == [True, True, False]
    assert not is_refused("take save file")
    assert all(map(is_refused, REFUSED))
