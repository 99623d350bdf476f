"""One command plays, grades and reports; failures are played again and never scored."""

import json
import signal
import subprocess
import sys
import urllib.request
from statistics import fmean

import pytest

from sweet_rl.cli.parse import read, values_of
from sweet_rl.commands.eval import eval as evaluate
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.users.server import start_server

SMALL = {"model": "expert", "tasks": "mini:test", "num_tasks": 8, "quiet": True}
TAXI = {"model": "planner", "world": "dangerous_taxi", "num_tasks": 5, "quiet": True}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def report(folder):
    return json.loads((folder / "report.json").read_text())


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_numbers_are_those_of_the_episodes(tmp_path, capsys):
    evaluate(**SMALL, repeats=3, bounds="world")
    (folder,) = (tmp_path / "evals").glob("code-mini_test-expert-scripted-*")
    found, played = report(folder), rows(folder / "episodes.jsonl")
    assert (found["tasks"], found["episodes"], found["failed"]) == (8, 24, 0)
    solved = {}
    for row in played:
        solved.setdefault(row["task_id"], []).append(row["reward"] == 1)
    measures = found["measures"]
    assert measures["success"]["mean"] == pytest.approx(fmean(fmean(task) for task in solved.values()))
    assert measures["tests passed"]["mean"] == pytest.approx(fmean(row["reward"] for row in played))
    assert measures["pass@3"]["mean"] == fmean(any(task) for task in solved.values())
    assert measures["pass^3"]["mean"] == fmean(all(task) for task in solved.values())
    turns = [sum(turn["role"] == "assistant" for turn in row["dialogue_history"]) for row in played]
    assert measures["turns"]["mean"] == pytest.approx(fmean(turns))
    assert measures["questions"]["mean"] == pytest.approx(fmean(turns) - 1)  # the last turn is the answer
    assert found["bounds"]["oracle"]["success"]["mean"] == 1
    assert found["bounds"]["constant"]["success"]["mean"] < 1
    assert found["bounds"]["a constant answer"]["tests passed"]["tasks"] == 8
    version = f"sweet_rl {found['made']['sweet_rl']}"
    assert found["human"] == {"model": "scripted", "prompt": "", "version": version}
    assert found["grader"]["grader"] == "tests"
    assert list(found).index("measures") < list(found).index("made")  # as it is shown: the numbers first
    unsolved = [row for row in played if row["reward"] != 1]
    assert sum(each["episodes"] for each in found["categories"].values()) == len(unsolved) > 0
    assert found["agent_turns"]["all"] == sum(turns)
    assert found["warnings"] == []
    page = (folder / "report.html").read_text()
    assert found["played"]["tasks_digest"] in page
    assert "<script" not in page
    out = capsys.readouterr().out
    assert "pass^3" in out
    assert "human: model scripted" in out


def test_the_same_command_resumes_and_more_repeats_are_added(tmp_path, capsys):
    evaluate(**SMALL, output_dir="out")
    first = rows(tmp_path / "out/episodes.jsonl")
    capsys.readouterr()
    evaluate(**SMALL, output_dir="out")
    assert "nothing was left to do" in capsys.readouterr().out
    assert rows(tmp_path / "out/episodes.jsonl") == first
    evaluate(**SMALL, output_dir="out", repeats=2)
    assert rows(tmp_path / "out/episodes.jsonl")[:8] == first
    assert report(tmp_path / "out")["measures"]["pass@2"]["episodes"] == 16
    with pytest.raises(UsageError, match="made with other settings: agent_model was 'expert'"):
        evaluate(**SMALL | {"model": "random"}, output_dir="out")
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert record["stage"] == "eval"
    statuses = [session["status"] for session in record["sessions"]]
    assert statuses == ["finished"] * 3  # none of the one refused
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "episodes.jsonl", "grading.json", "report.html", "report.json", "run.json"
    }  # fmt: skip


def test_failed_episodes_are_played_again_and_are_in_no_number(tmp_path, capsys):
    served = SMALL | {"output_dir": "out", "request_attempts": 1, "model": "questioner", "num_tasks": 20}
    with start_server(fault_rate=0.25, faults="server_error", seed=3) as server:
        served |= {"env_base_url": server.base_url, "env_model": "scripted"}
        with pytest.raises(ServiceError, match="have no score and are in no mean"):
            evaluate(**served, retries=0)
        found, played = report(tmp_path / "out"), rows(tmp_path / "out/episodes.jsonl")
        failed = [row.get("reward") for row in played if row["stop_reason"] == "user_failed"]
        assert 0 < len(failed) == found["failed"] < 20
        assert set(failed) == {None}
        assert found["measures"]["success"]["episodes"] == 20 - len(failed)
        evaluate(**served, retries=20)
    assert "that failed are played again" in capsys.readouterr().out
    found = report(tmp_path / "out")
    assert (found["failed"], found["measures"]["success"]["episodes"]) == (0, 20)
    assert found["human"]["model"] == "scripted"
    assert len(found["human"]["prompt_digest"]) == 12
    (used,) = found["usage"]["user"].values()
    assert used["failed_requests"] >= len(failed)  # of all sessions together


def test_tokens_and_money_of_agent_and_human_apart(tmp_path, monkeypatch):
    prices = "[echo]\ninput = 2\noutput = 8\n[scripted]\ninput = 1\noutput = 1\n"
    (tmp_path / "prices.toml").write_text(prices)
    with start_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        flags = SMALL | {"model": "openai/echo", "output_dir": "out", "max_turns": 3, "prices": "prices.toml"}
        evaluate(**flags, env_base_url=server.base_url)
        # resumed: who plays is asked which models there are, and nothing else
        evaluate(**flags, env_base_url=server.base_url, bounds="world")
    found = report(tmp_path / "out")
    assert list(found["usage"]["user"]) == ["scripted"]
    agent, human = found["usage"]["agent"]["echo"], found["usage"]["user"]["scripted"]
    assert agent["replies"] == 24
    costs = {"agent_usd": 2 * agent["prompt_tokens"] + 8 * agent["completion_tokens"]}
    costs["user_usd"] = human["prompt_tokens"] + human["completion_tokens"]
    for who, dollars in costs.items():
        assert found["cost"][who] == pytest.approx(dollars / 1e6, abs=1e-6)
    first = rows(tmp_path / "out/episodes.jsonl")[0]["dialogue_history"][1]
    assert isinstance(json.loads(first["input"]), list)  # chat is the default: the messages are what is sent


def test_some_tasks_alone(tmp_path):
    evaluate(**SMALL | {"num_tasks": None}, output_dir="out", sample_ids="3, 5-6")
    places = [row["task_id"] for row in rows(tmp_path / "out/episodes.jsonl")]
    evaluate(**SMALL | {"num_tasks": None}, output_dir="by_id", sample_ids=places[1])
    assert [row["task_id"] for row in rows(tmp_path / "by_id/episodes.jsonl")] == places[1:2]
    assert len(places) == 3
    for wrong in ("500", "nothing", "6-5"):
        with pytest.raises(UsageError, match="for --sample_ids"):
            evaluate(**SMALL | {"num_tasks": None}, output_dir="other", sample_ids=wrong)


def test_a_world_that_rewards_turns(tmp_path):
    evaluate(**TAXI, output_dir="out", bounds="random")
    found = report(tmp_path / "out")
    won = [row["game"]["won"] for row in rows(tmp_path / "out/episodes.jsonl")]
    assert found["measures"]["success"]["mean"] == fmean(won) > 0
    assert found["measures"]["return"]["unit"] == "number"
    assert found["human"] == {}
    assert "questions" not in found["measures"]
    assert found["bounds"]["random"]["success"]["mean"] == 0


def test_tasks_that_cannot_be_graded_are_named_with_their_reason(tmp_path, capsys):
    task = {"problem_description": "Add.", "ground_truth": "def f(a, b):\n    return a + b"}
    task["test_cases"] = {"t": "assert f(1, 2) == 3"}
    (tmp_path / "asserts.jsonl").write_text(json.dumps(task) + "\n")
    flags = SMALL | {"model": "constant", "tasks": "asserts.jsonl"}
    with pytest.raises(UsageError, match="assert"):  # none of them
        evaluate(**flags, output_dir="none")
    other = task | {"problem_description": "Add two.", "test_cases": {"t": "f(1, 2)"}}
    (tmp_path / "asserts.jsonl").write_text(json.dumps(task) + "\n" + json.dumps(other) + "\n")
    evaluate(**flags, output_dir="out")
    found, out = report(tmp_path / "out"), capsys.readouterr().out
    (why,) = found["not_gradable"].values()
    assert why
    assert f": {why}\n" in out
    assert found["categories"]["not gradable"]["share"] == 0.5
    assert found["measures"]["success"]["tasks"] == 1


def test_what_is_refused_says_how_to_mend_it():
    with pytest.raises(UsageError, match="OPENAI_BASE_URL"):
        evaluate(**SMALL | {"model": "openai/some"})
    with pytest.raises(UsageError, match="no scripted agent of code for --bounds 'planner'"):
        evaluate(**SMALL, bounds="planner")
    typed = read(evaluate, ["--model", "expert", "--base_url", "http://127.0.0.1:1/v1"])
    with pytest.raises(UsageError, match="--agent_base_url belongs to --model openai/NAME"):
        values_of(evaluate, typed)


KILLING = """
import os, signal, sys
from sweet_rl.cli.main import main
from sweet_rl.commands import eval as evaluating, evaluate as evaluation, simulate_interactions as simulation

owner, name, times, *sys.argv[1:] = sys.argv[1:]
owner, times, calls = eval(owner), int(times), []
inner = getattr(owner, name)

def counted(*args):
    calls.append(1)
    if len(calls) == times:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(*args)

evaluation._SAVE_AFTER_S, evaluation._SAVING_SHARE = 0.0, 1e9
setattr(owner, name, counted)
main()
"""
"""Ends itself at the n-th call of a function."""


def test_a_run_that_is_killed_loses_at_most_what_is_in_flight_and_counts_nothing_twice(tmp_path):
    path, seen = tmp_path / "out/episodes.jsonl", []
    with start_server() as server:
        flags = SMALL | {"model": "openai/echo", "agent_base_url": server.base_url, "max_turns": 3}
        flags["batch_size"] = 2
        words = ["eval", "--output_dir=out", *(f"--{name}={value}" for name, value in flags.items())]
        for moment in (
            ("simulation", "trajectory_to_row", "6"),  # the sixth episode is over, and not yet written
            ("evaluation.GradedFile", "update", "4"),
            ("evaluating", "replace_file", "1"),  # all is graded, and nothing reported
        ):
            command = [sys.executable, "-c", KILLING, *moment, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == -signal.SIGKILL, done.stderr
            seen.append(rows(path))
            assert not (tmp_path / "out/report.json").exists()
        evaluate(**flags, output_dir="out")
        with urllib.request.urlopen(server.base_url.removesuffix("/v1") + "/stats") as response:
            asked = json.load(response)["requests"]
        evaluate(**flags, output_dir="whole")
    first, second, third = seen
    assert 4 <= len(first) < 6  # two are in flight at once
    assert (len(second), len(third)) == (8, 8)
    assert [sum(row.get("reward") is not None for row in each) for each in seen] == [0, 3, 8]
    said = [{row["task_id"]: row["dialogue_history"] for row in each} for each in (first, third)]
    assert said[0].items() <= said[1].items()
    assert rows(path) == third
    found, whole = report(tmp_path / "out"), report(tmp_path / "whole")
    assert found["measures"] == whole["measures"]
    assert 8 * 3 <= asked <= 8 * 3 + 2 * 3
    # what a killed session counted since its record was written is lost, and that is said
    counted = found["usage"].get("agent", {}).get("echo", {"replies": 0})
    assert counted["replies"] <= asked
    assert "3 sessions were killed" in found["problems"][0]
    assert whole["problems"] == []


def test_stored_episodes_are_graded_again_where_there_is_something_to_grade(tmp_path):
    evaluate(**SMALL, output_dir="out")
    path = tmp_path / "out/episodes.jsonl"
    path.write_text("".join(json.dumps(row | {"reward": 0.25}) + "\n" for row in rows(path)))
    evaluate(**SMALL, output_dir="out", regrade=True)
    assert 0.25 not in {row["reward"] for row in rows(path)}
    with pytest.raises(UsageError, match="--regrade has nothing to grade again: dangerous_taxi rewards"):
        evaluate(**TAXI, output_dir="taxi", regrade=True)
    assert not (tmp_path / "taxi").exists()
