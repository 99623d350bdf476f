"""ALFWorld's real engine: the embedded games in it, states found again, bad games, workers that die or hang."""

import asyncio
import json
import os
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.mini import homes
from sweet_rl.types import StopReason
from sweet_rl.worlds import load_tasks
from sweet_rl.worlds.alfworld.data import play_household
from sweet_rl.worlds.alfworld.engine import Household, read_game
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.players import look
from sweet_rl.worlds.text_games import TextGameEnv

for package in ("textworld", "fast_downward", "alfworld"):
    pytest.importorskip(package, reason="needs the extra 'alfworld'")

GOAL = "pick_and_place_simple-Tomato-None-Microwave"
TOMATO = f"{GOAL}-0"
EVERY_FAMILY = [homes.embedded_games("test", family)[0] for family in homes.FAMILIES]
FAMILIES = [EVERY_FAMILY[0], *(pytest.param(name, marks=pytest.mark.slow) for name in EVERY_FAMILY[1:])]
"""The others take half a minute together."""
SAME_SENTENCE = next(
    name
    for name in homes.embedded_games("", GOAL)
    if name != TOMATO and homes.game(name).sentence == homes.game(TOMATO).sentence
)
"""Its grammar is that of `TOMATO`."""


@pytest.fixture(scope="module")
def engine():
    with Household(workers=1) as engine:
        yield engine


def walk(engine, source, commands):
    """The states along a way."""
    states = [engine.begin(source)]
    for number, command in enumerate(commands):
        assert command in states[-1].commands
        states.append(engine.play(source, commands[:number], command))
    return states


@pytest.mark.parametrize("name", FAMILIES)
def test_games_are_solved_by_the_planner_and_by_their_own_way(engine, name):
    game, plan = homes.game(name), engine.plan(name, ())
    assert len(plan) == len(game.way())
    for commands in (game.way(), plan):
        states = walk(engine, name, commands)
        assert [state.done for state in states] == [False] * len(commands) + [True]
        assert [state.score for state in states] == [0] * len(commands) + [1]
    assert states[0].feedback.endswith(f"Your task is to: {game.sentence}.")


@pytest.mark.parametrize("name", [*FAMILIES, SAME_SENTENCE])
def test_states_are_those_of_the_packages_own_environment(engine, name, tmp_path, monkeypatch):
    """Word for word, also where another game and another episode were played in between."""
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    import textworld
    from alfworld.agents.utils.misc import Demangler
    from textworld.envs.pddl import PddlEnv

    monkeypatch.setattr(sys, "argv", list(sys.argv))  # the translator sets it
    env = PddlEnv(textworld.EnvInfos(admissible_commands=True))
    env.load(read_game(name))
    names = Demangler(game_infos=env._entity_infos)
    for info in env._entity_infos.values():
        info.name = names.demangle_alfred_name(info.id)
    state = env.reset()
    elsewhere = next(command for command in state.admissible_commands if command.startswith("go to "))
    commands = ("inventory", elsewhere, "dance", "look", *homes.game(name).way(), "look")
    assert (state.feedback, tuple(state.admissible_commands)) == engine.begin(name)[:2]
    for number, command in enumerate(commands):
        engine.play(TOMATO, (), "look")
        engine.play(name, (), "look")
        ours = engine.play(name, commands[:number], command)
        state, score, done = env.step(command)
        assert ours == (state.feedback, tuple(state.admissible_commands), score, done), command
    assert ours.score == 1


@pytest.mark.parametrize("name", [*FAMILIES, "pick_and_place_simple-Pen-None-Drawer-4"])
def test_what_is_left_of_a_plan_after_a_look_still_solves_the_game(engine, name):
    game = HouseholdGame(engine)
    game.begin(name)
    kept, plan = 0, game.expert_plan()
    while (looks := look(plan, game.text)) is not None and not game.step(looks.label).over:
        if looks.rest is not None:
            assert walk(engine, name, (*game.commands, *looks.rest))[-1].score == 1
            kept += 1
        plan = game.expert_plan() if looks.rest is None else looks.rest
    assert kept


def test_the_planner_goes_on_from_anywhere_and_a_seeker_asks_it_rarely(engine):
    way = homes.game(TOMATO).way()
    assert engine.plan(TOMATO, way[:2]) == way[2:]
    assert engine.plan(TOMATO, ("dance", *way[:2], "look")) == way[2:]
    asked = []
    counting = SimpleNamespace(
        begin=engine.begin, play=engine.play, plan=lambda *at: asked.append(at) or engine.plan(*at)
    )
    tasks = load_tasks(f"alfworld:{GOAL}:test:50")
    games = [
        play_household(seed, tasks, lambda: HouseholdGame(counting), random_share=0.1, seek=True)
        for seed in range(10)
    ]
    assert sum(len(moments) < 15 for moments in games) >= 8
    assert len(asked) < sum(map(len, games)) / 2


def test_a_users_folder_is_read_and_left_alone(engine, tmp_path):
    game = homes.game(TOMATO)
    folder = homes.write_game(game, tmp_path / "json_2.1.1/train")
    before = sorted(tmp_path.rglob("*"))
    assert walk(engine, str(folder), game.way())[-1].done
    assert sorted(tmp_path.rglob("*")) == before
    told = engine.begin(str(folder)).feedback.partition("Your task is to: ")[2]
    assert told in ("put a tomato in microwave.", "put some tomato on microwave.")
    (tmp_path / "game.tw-pddl").write_text(json.dumps(read_game(TOMATO) | {"solvable": True}))
    assert engine.begin(str(tmp_path)).feedback == engine.begin(TOMATO).feedback  # a finished game's file


BAD = {
    "empty": lambda text: "",
    "no PDDL": lambda text: "hello",
    "torn": lambda text: text[: len(text) // 2],
    "unknown thing": lambda text: text.replace("(atLocation agent1 loc_0)", "(atLocation nobody loc_0)"),
    "other domain": lambda text: text.replace("(holds", "(juggles").replace("inReceptacle ", "insideOf "),
    "metric before goal": lambda text: text.replace("(:goal", "(:metric minimize (total-cost))\n (:goal", 1),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_problem_that_makes_no_sense_spoils_one_episode(engine, tmp_path, kind):
    game = homes.game(TOMATO)
    folder = homes.write_game(game, tmp_path)
    (folder / "initial_state.pddl").write_text(BAD[kind](homes.problem(game)))
    with pytest.raises(EpisodeError) as caught:
        engine.begin(str(folder))
    assert caught.value.stop_reason is StopReason.WORLD_FAILED
    assert caught.value.failure.kind == "bad_game"
    assert str(folder) in caught.value.failure.detail
    assert engine.plan(TOMATO, ())


def test_missing_files(engine, tmp_path):
    for source in (str(tmp_path), str(tmp_path / "absent"), "no-game"):
        with pytest.raises(EpisodeError, match="bad_game"):
            engine.begin(source)
    folder = homes.write_game(homes.game(TOMATO), tmp_path)
    (folder / "traj_data.json").write_text("{}")
    with pytest.raises(EpisodeError, match=r"bad_game: .*KeyError"):
        engine.begin(str(folder))


@pytest.mark.slow
def test_a_worker_that_dies_or_hangs_spoils_one_question(tmp_path, monkeypatch):
    """And leaves nothing behind, neither in a home nor in the temporary folder."""
    for variable in ("HOME", "TMPDIR"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with Household(workers=1, timeout_s=60, plan_timeout_s=0.3) as engine:
        way = homes.game(TOMATO).way()
        engine.play(TOMATO, (), way[0])
        os.kill(engine._idle.queue[0]._process.pid, signal.SIGKILL)
        with pytest.raises(EpisodeError, match="game_crashed: the household engine died"):
            engine.play(TOMATO, way[:1], way[1])
        assert engine.play(TOMATO, way[:1], way[1]).feedback.startswith("You")  # found again, by another one
        os.kill(engine._idle.queue[0]._process.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(EpisodeError, match=r"planner_failed: .*no answer within 0\.3 s") as caught:
            engine.plan(TOMATO, ())
        assert time.monotonic() - began < 30
        assert caught.value.stop_reason is StopReason.WORLD_FAILED
        assert engine.play(TOMATO, (), "look").feedback
    assert not [*(tmp_path / "HOME").iterdir(), *(tmp_path / "TMPDIR").iterdir()]


def test_episodes_side_by_side_do_not_mix(engine):
    tasks = load_tasks(f"alfworld:{GOAL}")[:2]

    async def episode(number):
        game = HouseholdGame(engine, shuffle_action=True, max_turns=20)
        env = TextGameEnv(lambda: game, threaded=True)
        task = tasks[number % 2]
        await env.reset(task, seed=number)
        rewards = []
        for command in ["look"] * (number // 2) + list(homes.game(task.ground_truth).way()):
            label = next(label for label, offered in game._offered.items() if offered == command)
            step = await env.step(label)
            rewards.append(step.reward)
        await env.close()
        return rewards, step.terminated, step.info["game"]["won"]

    async def main():
        return await asyncio.gather(*(episode(number) for number in range(6)))

    for rewards, ended, won in asyncio.run(main()):
        assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
        assert ended
        assert won


def test_missing_packages_name_their_extra(tmp_path, monkeypatch):
    (tmp_path / "textworld.py").write_text("raise ModuleNotFoundError(name='textworld')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    wanted = r"'textworld'.*pip install 'sweet_rl\[alfworld\]'"
    with Household(workers=1) as engine, pytest.raises(UsageError, match=wanted):
        engine.begin(TOMATO)
