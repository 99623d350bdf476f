"""Failures are not scores: a run against servers that limit, fail or refuse, and what its numbers say of it."""

import json

import pytest

from sweet_rl.cli.progress import judge_full
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.preferences.candidates import offline_turns
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.users.server import start_server
from sweet_rl.worlds.frontend_design.stages import judge_html
from tests.conftest import called


def simulate(output, server=None, **flags):
    if server is not None:
        flags |= {"env_base_url": server.base_url}
    elif "env_base_url" not in flags:
        flags |= {"env_model": "scripted"}
    simulate_interactions("mini:test", str(output), **({"num_tasks": 60, "quiet": True} | flags))


def rows_of(path):
    return [row for _, row in read_rows(path)]


def played(path):
    return [
        (row["task_id"], row["sample_index"], row["dialogue_history"], row["answer"]) for row in rows_of(path)
    ]


def failed(path):
    return [row for row in rows_of(path) if row["stop_reason"] == "user_failed"]


def test_a_rate_limit_costs_time_and_no_score(tmp_path, capsys):
    """Eight requests at a time: whatever is asked for, the same dialogues come out as without a server."""
    simulate(tmp_path / "alone.jsonl")
    with start_server(max_in_flight=8, latency_median_ms=4) as server:
        for batch_size in (8, 1000):
            output = tmp_path / f"{batch_size}.jsonl"
            simulate(output, server, batch_size=batch_size)
            assert played(output) == played(tmp_path / "alone.jsonl")
            assert not any("failures" in row for row in rows_of(output))
    assert "Failures" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A file in which some episodes failed, and what was said of it."""
    output = tmp_path_factory.mktemp("half") / "half.jsonl"
    with (
        start_server(fault_rate=0.15, faults="bad_request", seed=3) as server,
        pytest.raises(ServiceError) as caught,
    ):
        simulate(output, server, best_of_n=2, num_tasks=40)
    return output, str(caught.value)


def test_too_many_failures_end_a_complete_run_with_an_error(half):
    output, said = half
    rows, lost = rows_of(output), failed(output)
    assert len(rows) == 80
    assert 5 < len(lost) < 60
    assert f"{len(lost)} of 80 episodes failed" in said
    assert "bad_request 400: This request is refused (injected)" in said  # the server's own words
    assert "--max_failed 0.02" in said
    assert "--to_continue plays them again" in said
    for row in lost:
        assert row["error"]["kind"] == "bad_request"
        assert "reward" not in row


def test_failed_episodes_are_in_no_number_and_no_pair(half, tmp_path, capsys):
    path, pairs = tmp_path / "half.jsonl", tmp_path / "pairs.jsonl"
    path.write_bytes(half[0].read_bytes())
    rows = rows_of(path)
    lost = [i for i, row in enumerate(rows) if row["stop_reason"] == "user_failed"]
    rows[lost[0]]["reward"] = 0.0  # as an earlier version graded it
    replace_rows(path, rows)
    evaluate_code(str(path), k=2, preference_path=str(pairs), quiet=True)
    report = json.loads(path.with_suffix(".report.json").read_text())
    assert report["failed"] == len(lost)
    column = report["columns"]["fixed"]
    assert (column["rows"], column["not_graded"]) == (80 - len(lost), 0)
    graded = rows_of(path)
    assert [i for i, row in enumerate(graded) if row.get("reward") is None] == lost
    by_task = {}
    for row in graded:
        if row.get("reward") is not None:
            by_task.setdefault(row["task_id"], []).append(row["reward"])
    means = [sum(rewards) / len(rewards) for rewards in by_task.values()]
    assert column["tests_passed"]["mean"] == pytest.approx(sum(means) / len(means))
    assert report["tasks"] == len(means)
    said = capsys.readouterr().out
    assert f"80 trajectories, {len(means)} tasks, k = 2; {len(lost)} failed and are in no number" in said
    assert "rows in the means" in said
    inputs = {row["dialogue_history"][-1].get("input") for i, row in enumerate(graded) if i in lost}
    assert not any(
        text and pair["rejected"].startswith(text) for pair in rows_of(pairs) for text in inputs if text
    )
    keys = {(turn.key[0], turn.key[1]) for turn in offline_turns(list(read_rows(path)), path=path)}
    assert keys == {(row["task_id"], row["sample_index"]) for i, row in enumerate(graded) if i not in lost}


def test_failed_episodes_are_played_again(half, tmp_path, capsys):
    path = tmp_path / "half.jsonl"
    path.write_bytes(half[0].read_bytes())
    lost, before = failed(path), path.read_bytes()
    with start_server() as server:
        with pytest.raises(ServiceError, match=f"{len(lost)} of 80 episodes failed"):
            simulate(path, server, best_of_n=2, num_tasks=40, to_continue=True, retry="none")
        assert path.read_bytes() == before
        simulate(path, server, best_of_n=2, num_tasks=40, to_continue=True)
    assert failed(path) == []
    assert f"This run: {len(lost)} episodes" in capsys.readouterr().out
    simulate(tmp_path / "whole.jsonl", best_of_n=2, num_tasks=40)
    assert played(path) == played(tmp_path / "whole.jsonl")


def test_a_few_failures_are_said_and_all_of_them_are_an_error(tmp_path, capsys):
    with start_server(fault_rate=0.3, faults="bad_request", seed=3) as server:
        simulate(tmp_path / "few.jsonl", server, num_tasks=20, max_failed=0.99)
        lost = failed(tmp_path / "few.jsonl")
        assert 0 < len(lost) < 20
        said = capsys.readouterr().out
        assert f"{len(lost)} of 20 episodes failed" in said
        assert "in no mean" in said
    with start_server(fault_rate=1, faults="bad_request") as server:
        with pytest.raises(ServiceError, match="All 1 episodes failed"):
            simulate(tmp_path / "all.jsonl", server, num_tasks=1, max_failed=1.0)
        with pytest.raises(
            ServiceError, match=r"refuses our requests \(bad_request 400: This request is refused"
        ):
            simulate(tmp_path / "none.jsonl", server, num_tasks=60, max_failed=1.0)
    with pytest.raises(UsageError, match=r"All 1 episodes of .* failed: there is nothing to grade"):
        evaluate_code(str(tmp_path / "all.jsonl"))


def test_contexts_that_were_full_are_told_and_nearly_all_are_an_error(capsys):
    judge_full(4, 10)
    assert capsys.readouterr().out == ""
    judge_full(5, 10)
    assert capsys.readouterr().out.startswith(
        "Warning: 5 of 10 episodes ended because the agent's context was full"
    )
    with pytest.raises(ServiceError, match=r"9 of 10 episodes .* Choose a larger context"):
        judge_full(9, 10)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"retry": "all"}, "--retry must be failed or none"),
        ({"retry": "none"}, "pass --to_continue as well"),
        ({"max_failed": 2.0}, "--max_failed must be from 0 to 1"),
        (
            {"env_api_key_var": "NOWHERE_KEY", "env_base_url": "http://127.0.0.1:9/v1"},
            "'NOWHERE_KEY'.*is not set",
        ),
        ({"env_api_key_var": "EMPTY_KEY", "env_base_url": "http://127.0.0.1:9/v1"}, "'EMPTY_KEY'.*is empty"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, monkeypatch, flags, message):
    monkeypatch.setenv("EMPTY_KEY", " ")
    with pytest.raises(UsageError, match=message):
        simulate(tmp_path / "f.jsonl", **flags)
    assert list(tmp_path.iterdir()) == []


def test_ids_and_texts_that_utf8_cannot_hold(tmp_path):
    """A lone surrogate is legal in JSON: it is kept in the rows, and shown escaped."""
    task = {
        "problem_description": "Add. \udfff",
        "ground_truth": "def f(a): return None",
        "test_cases": {"t": "f(1)"},
    }
    replace_rows(tmp_path / "tasks.jsonl", [{**task, "task_id": f"t{number}\ud800"} for number in range(2)])
    simulate_interactions(
        str(tmp_path / "tasks.jsonl"), str(tmp_path / "out.jsonl"), env_model="scripted", quiet=True
    )
    assert [row["task_id"] for row in rows_of(tmp_path / "out.jsonl")] == ["t0\ud800", "t1\ud800"]
    done = called("evaluate_code", tmp_path / "out.jsonl", "--quiet")
    assert "t0\\ud800" in done.stderr  # the task cannot be graded, and is named


def test_a_judge_is_shown_no_failed_page(tmp_path, capsys):
    task = {"problem_description": "p", "ground_truth": "<p>", "hidden_information": "<p>"}

    def page(number, **more):
        grades = {"grades": {"combined": 0.5}, "reward": 0.5}
        row = {
            "task": task,
            "task_id": f"t{number}",
            "sample_index": 0,
            "dialogue_history": [],
            "answer": None,
        }
        return row | {"stop_reason": "answered"} | grades | more

    lost = {"stop_reason": "user_failed", "error": {"kind": "timeout"}, "reward": None, "grades": {}}
    replace_rows(tmp_path / "a.jsonl", [page(0), page(1)])
    replace_rows(tmp_path / "b.jsonl", [page(0), page(1, **lost)])
    judge_html(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), judge="metrics")
    said = capsys.readouterr().out
    assert "1  pages whose episode failed in one of the runs: in no number above" in said
    report = json.loads((tmp_path / "a.vs.b.report.json").read_text())
    assert (report["wins"], report["ties"], report["losses"]) == (0, 1, 0)
