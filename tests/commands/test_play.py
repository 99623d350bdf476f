"""A person plays in the terminal: what is shown, recorded, and how it can be stopped; and `sweet-rl runs`: what it lists."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from sweet_rl.commands import worlds as playing
from sweet_rl.commands.runs import runs
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.commands.worlds import PlayFlags, choose_task, generate_tasks, play, play_game
from sweet_rl.errors import UsageError
from sweet_rl.records import load_trajectories
from sweet_rl.types import StopReason, UserReply
from sweet_rl.worlds import world_of
from tests.conftest import ROOT


class Teller:
    name = "teller"

    def __init__(self, answers):
        self.answers = iter(answers)

    async def reply(self, context):
        return UserReply(next(self.answers))

    async def close(self):
        self.answers = iter(())


def flags(world="twenty_questions", tasks="twenty-questions", **more):
    return PlayFlags(world=world, tasks=tasks, **{"task": 11, "seed": 5} | more)


def chosen(**more):
    told = flags(**more)
    return choose_task(told, world_of(told.world))


def played(monkeypatch, lines, answers, **more):
    """One game against an oracle with these answers."""
    typed = iter([*lines, None])
    monkeypatch.setattr(playing, "_read_line", lambda prompt, _typed: next(typed))

    async def teller(_, __):
        return Teller(answers)

    monkeypatch.setattr(playing.Cast, "make_user", teller)
    most = more.pop("max_steps", None)
    told = flags(**more)
    world = world_of(told.world)
    asyncio.run(play_game(told, world, world.options(max_turns=most)))


def test_a_game_is_shown_and_recorded_like_an_agents(monkeypatch, capsys, tmp_path):
    file = str(tmp_path / "games.jsonl")
    played(monkeypatch, ["Is it alive?", "Is it a dog?"], ["yes", "Yes."], record=file)
    shown = capsys.readouterr().out
    assert "You have 20 questions." in shown
    assert "Yes.\n    [-1]\n" in shown
    assert shown.endswith(f"Right! 2 turns, -1 in all.\nThe solution: dog\nRecorded in {file}.\n")
    played(monkeypatch, ["Is it wet?"], ["no"], record=file, max_steps=1)
    assert "That was the last turn: 1 turn, -1 in all." in capsys.readouterr().out
    first, second = load_trajectories(file)
    assert [game.key for game in (first, second)] == [("twenty_questions/11", 0), ("twenty_questions/11", 1)]
    assert (first.stop_reason, first.reward, first.extra["solved"]) == (StopReason.ENDED, -1, True)
    assert first.provenance["agent_model"] == "human"
    assert first.provenance["seed"] == 5
    turn = first.dialogue_history[3]
    assert (turn.input, turn.output, turn.reward) == ("Questions:\nIs it alive? Yes.\n", "Is it a dog?", 0)
    assert second.stop_reason is StopReason.TURN_LIMIT


def test_a_game_that_is_stopped(monkeypatch, capsys, tmp_path):
    file = tmp_path / "games.jsonl"
    played(monkeypatch, ["Is it alive?"], ["yes"], record=str(file))
    assert "Stopped after 1 turn, -1 in all.\nThe solution: dog\n" in capsys.readouterr().out
    (game,) = load_trajectories(file)
    assert (game.stop_reason, game.error.kind) == (StopReason.POLICY_FAILED, "stopped")
    assert [message.content for message in game.dialogue_history] == ["Questions:\n", "Is it alive?", "Yes."]


def test_which_task_is_played():
    assert chosen(task=3).ground_truth == "soccer ball"
    assert chosen(task=0, tasks="twenty-questions:ten").ground_truth == "football"
    drawn = {chosen(task=None, seed=seed).task_id for seed in range(8)}
    assert len(drawn) > 4
    assert chosen(task=None, seed=1) == chosen(task=None, seed=1)
    with pytest.raises(UsageError, match="--task must be from 0 to 156"):
        chosen(task=157)
    with pytest.raises(UsageError, match="holds no tasks of guess_my_city alone"):
        chosen(world="guess_my_city")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"world": "chess"}, "There is no world 'chess'. Known: code, html,"),
        ({"world": "code"}, "code grades answers afterwards, and is no game"),
        ({"world": "lantern", "max_steps": 0}, "--max_turns must be at least 1"),
        ({"world": "twenty_questions", "oracle": "http://x"}, "--oracle http://x|--oracle without"),
    ],
)
def test_flags_that_make_no_game(wrong, message):
    with pytest.raises(UsageError, match=message):
        play(**wrong)


def test_a_world_of_ones_own_with_a_human_is_played_on_its_test_tasks(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples/worlds"))
    typed = iter(["At what time?", "Invitation: 9:00."])
    monkeypatch.setattr(playing, "_read_line", lambda prompt, _typed: next(typed))
    play("meeting:WORLD", task=1, seed=0)
    said = capsys.readouterr().out
    assert said.startswith(
        "You have 6 turns.\n\nArrange a call with my colleague.\n\n\n9:00\n    [0]\n\n    [+0.25]\n"
    )
    assert said.endswith(
        "after 2 turns, 0.25 in all.\nThe solution: Invitation: 9:00, 30 minutes, telephone, Spanish.\n"
    )


COMMAND = [sys.executable, "-m", "sweet_rl", "play", "lantern", "--task", "0"]


@pytest.mark.parametrize("end", ["ctrl-c", "ctrl-d"])
def test_a_person_at_a_terminal_stops_cleanly(end):
    ours, theirs = pty.openpty()
    game = subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    try:
        deadline = time.monotonic() + 60
        while b" 1> " not in shown and time.monotonic() < deadline:
            shown += os.read(ours, 4096)
        if end == "ctrl-c":
            time.sleep(0.2)
            game.send_signal(signal.SIGINT)
        else:
            os.write(ours, b"\x04")
        while b"in all." not in shown and time.monotonic() < deadline:
            shown += os.read(ours, 4096)
        assert game.wait(timeout=30) == 0
    finally:
        game.kill()
        game.wait()
        os.close(ours)
    assert b"Stopped after 0 turns, 0 in all." in shown
    assert b"Traceback" not in shown


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate_tasks("data/tasks.jsonl", num_tasks=2, seed=4)
    flags = {"agent_model": "questioner", "env_model": "scripted", "quiet": True}
    simulate_interactions("data/tasks.jsonl", "data/a.jsonl", **flags)
    return tmp_path / "data"


def said(capsys, *arguments, **flags):
    capsys.readouterr()
    runs(*arguments, **flags)
    return capsys.readouterr().out


def ids(folder):
    return [json.loads((folder / f"{name}.jsonl.run.json").read_text())["id"] for name in ("tasks", "a")]


def test_runs_are_listed_by_date(folder, capsys):
    head, *rows = said(capsys, "data").splitlines()
    assert head.split()[:4] == ["id", "stage", "status", "started"]
    assert sorted(row.split()[0] for row in rows) == sorted(ids(folder))
    assert any("generate_tasks" in row and " 4 " in row and "data/tasks.jsonl" in row for row in rows)


def test_one_run_is_shown_whole(folder, capsys):
    made, played = ids(folder)
    shown = json.loads(said(capsys, "data", played))
    assert shown["settings"]["agent_model"] == "questioner"
    assert shown["inputs"][0]["made_by"] == made
    for words, told in {
        "No run in 'data' begins with 'nothing'": ("data", "nothing"),
        "begins 2 runs": ("data", "2"),
        "There is no folder 'gone'": ("gone",),
    }.items():
        with pytest.raises(UsageError, match=words):
            runs(*told)


def test_a_run_that_is_silent_was_interrupted(folder, capsys):
    place = folder / "a.jsonl.run.json"
    record = json.loads(place.read_text())
    for updated, status in (("2026-01-01T00:00:00Z", "interrupted"), (now(), "running")):
        place.write_text(json.dumps(record | {"status": "running", "updated": updated}))
        assert json.loads(said(capsys, "data", record["id"]))["status"] == status


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
