"""`sweet-rl runs`: what it lists."""

import json
import time

import pytest

from sweet_rl.commands.runs import generate_tasks, runs
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import UsageError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate_tasks("data/tasks.jsonl", num_tasks=2, seed=4)
    simulate_interactions(
        "data/tasks.jsonl", "data/a.jsonl", agent_model="questioner", env_model="scripted", quiet=True
    )
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
    with pytest.raises(UsageError, match="No run in 'data' begins with 'nothing'"):
        runs("data", "nothing")
    with pytest.raises(UsageError, match="begins 2 runs"):
        runs("data", "2")
    with pytest.raises(UsageError, match="There is no folder 'gone'"):
        runs("gone")


def test_a_run_that_is_silent_was_interrupted(folder, capsys):
    place = folder / "a.jsonl.run.json"
    record = json.loads(place.read_text())
    for updated, status in (("2026-01-01T00:00:00Z", "interrupted"), (now(), "running")):
        place.write_text(json.dumps(record | {"status": "running", "updated": updated}))
        assert json.loads(said(capsys, "data", record["id"]))["status"] == status


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_prices_can_be_given_later(folder, capsys, tmp_path):
    place = folder / "a.jsonl.run.json"
    used = {"requests": 1, "retries": 0, "failed_requests": 0, "replies": 1, "replies_without_usage": 0}
    usage = {"user": {"gpt": used | {"prompt_tokens": 2_000_000, "completion_tokens": 1_000_000}}}
    place.write_text(json.dumps(json.loads(place.read_text()) | {"usage": usage}))
    (tmp_path / "p.toml").write_text("[gpt]\ninput = 1\noutput = 2.5\n")
    (row,) = [line for line in said(capsys, "data", prices="p.toml").splitlines() if "gpt" in line]
    assert row.split()[-3:] == ["2,000,000", "1,000,000", "$4.5000"]
    usage["user"]["gpt"]["replies_without_usage"] = 1
    place.write_text(json.dumps(json.loads(place.read_text()) | {"usage": usage}))
    (row,) = [line for line in said(capsys, "data", prices="p.toml").splitlines() if "gpt" in line]
    assert row.split()[-3:] == [">2,000,000", ">1,000,000", "unknown"]
