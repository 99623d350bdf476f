"""Runs against servers that limit, fail or refuse: what they are asked, what becomes of pieces that fail, and what numbers say of it."""

import json

import pytest

from sweet_rl.cli.progress import judge_full
from sweet_rl.commands.eval import eval
from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.sample_best_of_n import sample_best_of_n
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.preferences.candidates import candidates_from_rows, has_failed, offline_turns
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.users.server import start_server
from sweet_rl.worlds import load_tasks, world_of
from sweet_rl.worlds.frontend_design.stages import judge_html
from tests.conftest import called
from tests.stub_server import model_server, said


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
    for words in (
        *(f"{len(lost)} of 80 episodes failed", "--max_failed 0.02", "--to_continue plays them again"),
        "bad_request 400: This request is refused (injected)",  # the server's own words
    ):
        assert words in said
    assert {(row["error"]["kind"], "reward" in row) for row in lost} == {("bad_request", False)}


def test_failed_episodes_are_in_no_number_and_no_pair(half, tmp_path, capsys):
    path, pairs = tmp_path / "half.jsonl", tmp_path / "pairs.jsonl"
    path.write_bytes(half[0].read_bytes())
    rows = rows_of(path)
    lost = [i for i, row in enumerate(rows) if row["stop_reason"] == "user_failed"]
    rows[lost[0]]["reward"] = 0.0  # as others grade it
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
    inputs = {row["dialogue_history"][-1].get("input") for i, row in enumerate(graded) if i in lost} - {None}
    assert not any(pair["rejected"].startswith(text) for pair in rows_of(pairs) for text in inputs)
    keys = {(turn.key[0], turn.key[1]) for turn in offline_turns(list(read_rows(path)), path=path)}
    assert keys == {(row["task_id"], row["sample_index"]) for i, row in enumerate(graded) if i not in lost}


def test_failed_episodes_are_played_again(half, tmp_path, capsys):
    path = tmp_path / "half.jsonl"
    path.write_bytes(half[0].read_bytes())
    lost = failed(path)
    with start_server() as server:
        simulate(path, server, best_of_n=2, num_tasks=40, to_continue=True)
    assert failed(path) == []
    assert f"This run: {len(lost)} episodes" in capsys.readouterr().out
    simulate(tmp_path / "whole.jsonl", best_of_n=2, num_tasks=40)
    assert played(path) == played(tmp_path / "whole.jsonl")


def test_a_few_failures_are_said_and_all_of_them_are_an_error(tmp_path, capsys):
    with start_server(fault_rate=0.3, faults="bad_request", seed=3) as server:
        simulate(tmp_path / "few.jsonl", server, num_tasks=20, max_failed=0.99)
    lost, said = failed(tmp_path / "few.jsonl"), capsys.readouterr().out
    assert 0 < len(lost) < 20
    assert f"{len(lost)} of 20 episodes failed" in said
    assert "in no mean" in said
    with start_server(fault_rate=1, faults="bad_request") as server:
        with pytest.raises(ServiceError, match="All 1 episodes failed"):
            simulate(tmp_path / "all.jsonl", server, num_tasks=1, max_failed=1.0)
        with pytest.raises(ServiceError, match=r"refuses our requests \(bad_request 400: This request is"):
            simulate(tmp_path / "none.jsonl", server, num_tasks=60, max_failed=1.0)
    with pytest.raises(UsageError, match=r"All 1 episodes of .* failed: there is nothing to grade"):
        evaluate_code(str(tmp_path / "all.jsonl"))


def test_contexts_that_were_full_are_told_and_nearly_all_are_an_error(capsys):
    judge_full(4, 10)
    assert capsys.readouterr().out == ""
    judge_full(5, 10)
    words = "Warning: 5 of 10 episodes ended because the agent's context was full"
    assert capsys.readouterr().out.startswith(words)
    with pytest.raises(ServiceError, match=r"9 of 10 episodes .* Choose a larger context"):
        judge_full(9, 10)


def test_ids_and_texts_that_utf8_cannot_hold(tmp_path):
    """A lone surrogate is legal in JSON: it is kept in the rows, and shown escaped."""
    task = {"problem_description": "Add. \udfff", "ground_truth": "def f(a): return None"}
    rows = [task | {"test_cases": {"t": "f(1)"}, "task_id": f"t{number}\ud800"} for number in range(2)]
    replace_rows(tmp_path / "tasks.jsonl", rows)
    output = tmp_path / "out.jsonl"
    simulate_interactions(str(tmp_path / "tasks.jsonl"), str(output), env_model="scripted", quiet=True)
    assert [row["task_id"] for row in rows_of(output)] == ["t0\ud800", "t1\ud800"]
    done = called("evaluate_code", output, "--quiet")
    assert "t0\\ud800" in done.stderr  # the task cannot be graded, and is named


def test_a_judge_is_shown_no_failed_page(tmp_path, capsys):
    task = {"problem_description": "p", "ground_truth": "<p>", "hidden_information": "<p>"}

    def page(number, **more):
        row = {
            "task": task,
            "task_id": f"t{number}",
            "sample_index": 0,
            "dialogue_history": [],
            "answer": None,
        }
        return row | {"stop_reason": "answered", "grades": {"combined": 0.5}, "reward": 0.5} | more

    lost = {"stop_reason": "user_failed", "error": {"kind": "timeout"}, "reward": None, "grades": {}}
    replace_rows(tmp_path / "a.jsonl", [page(0), page(1)])
    replace_rows(tmp_path / "b.jsonl", [page(0), page(1, **lost)])
    judge_html(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), judge="metrics")
    said = capsys.readouterr().out
    assert "1  pages whose episode failed in one of the runs: in no number above" in said
    report = json.loads((tmp_path / "a.vs.b.report.json").read_text())
    assert (report["wins"], report["ties"], report["losses"]) == (0, 1, 0)


ANSWER = "I WANT TO ANSWER:\ndef f(*a):\n    return 0\n"


def refused(words, status=400):
    return status, {"error": {"message": words}}


def evaluate(folder, url, **flags):
    given = {"tasks": "mini:families:test", "agent_base_url": url, "quiet": True, **flags}
    eval(model="openai/m", output_dir=str(folder), **given)


def test_what_a_server_was_not_sent_is_in_the_record_and_the_report(tmp_path):
    def answer(body):
        unknown = {"seed", "random_seed"} & set(body)
        return refused("`seed`: Extra inputs are not permitted") if unknown else said(ANSWER)

    with model_server(answer) as (url, _):
        evaluate(tmp_path / "run", url, num_tasks=2)
    changes = json.loads((tmp_path / "run/run.json").read_bytes())["server_changes"]
    assert [change.partition(":")[0] for change in changes] == ["agent", "agent"]
    assert "random_seed" in changes[0]
    assert "random_seed is left out" in changes[1]
    report = json.loads((tmp_path / "run/report.json").read_bytes())
    assert report["agent"]["server_changes"] == changes


def test_fields_headers_and_the_humans_words_are_sent_as_the_flags_say(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_HEADER", "very-hidden-value")
    flags = {"agent_request": '{"reasoning_effort": "low", "top_p": null}'}
    flags |= {"agent_header": "X-Agent: ${MY_HEADER}", "env_header": "X-Human: very-hidden-text"}
    flags |= {"env_request": '{"temperature": 0.5}', "env_max_tokens": 77}
    flags |= {"env_system_prompt": "You are the customer."}
    output = tmp_path / "out.jsonl"
    with (
        model_server(lambda _: said("Which unit?")) as (agent, to_agent),
        model_server(lambda _: said("cm")) as (human, to_human),
    ):
        simulate_interactions(
            "mini:test", str(output), agent="openai", agent_model="m", agent_base_url=agent, agent_api="chat",
            env_model="h", env_base_url=human, num_tasks=1, max_turns=2, quiet=True, **flags,
        )  # fmt: skip
    headers, body = to_agent[0]
    assert (headers["X-Agent"], body["reasoning_effort"]) == ("very-hidden-value", "low")
    assert "top_p" not in body
    headers, body = to_human[0]
    assert (headers["X-Human"], body["temperature"], body["max_tokens"]) == ("very-hidden-text", 0.5, 77)
    assert body["messages"][0] == {"role": "system", "content": "You are the customer."}
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"very-hidden" not in written
    (row,) = (row for _, row in read_rows(output))
    settings = row["provenance"]["settings"]
    assert settings["agent_request"] == {"reasoning_effort": "low", "top_p": None}
    assert (settings["env_max_tokens"], settings["env_system_prompt"]) == (77, "You are the customer.")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"agent_request": "[1]"}, "--agent_request is a JSON object"),
        ({"agent_request": "{"}, "--agent_request is a JSON object"),
        ({"agent_header": "no colon"}, "--agent_header is a header such as"),
        ({"agent_header": "X: ${NO_SUCH_VARIABLE_HERE}"}, "NO_SUCH_VARIABLE_HERE is not set"),
    ],
)
def test_fields_that_cannot_be_read_are_refused(tmp_path, flags, words):
    with pytest.raises(UsageError, match=words):
        evaluate(tmp_path / "run", "http://127.0.0.1:9/v1", **flags)
    assert not (tmp_path / "run").exists()


def test_where_no_first_turn_fits_the_run_ends_with_the_servers_words_and_writes_nothing(tmp_path):
    words = "Please reduce the length of the messages or completion."
    with model_server(lambda _: refused(words)) as (url, _), pytest.raises(ServiceError, match=words):
        evaluate(tmp_path / "run", url, num_tasks=4)
    assert (tmp_path / "run/episodes.jsonl").read_bytes() == b""


SHARES = ["length"] * 5 + ["refused", "empty", "failed", "answer", "answer"]


def test_a_report_says_how_many_replies_were_no_answers(tmp_path, capsys):
    """A server that cuts off half of its replies, refuses a tenth, is silent in a tenth and fails in a tenth."""
    several = load_tasks("mini:families:test", num_tasks=80, world=world_of("code"))
    tasks = list({task.problem_description: task for task in several}.values())[:40]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(dict(task.row)) + "\n" for task in tasks))
    kinds = {task.problem_description: SHARES[place % 10] for place, task in enumerate(tasks)}
    right = {task.problem_description: f"I WANT TO ANSWER:\n{task.ground_truth}" for task in tasks}
    assert len(kinds) == 40

    def answer(body):
        asked = next(message["content"] for message in body["messages"] if message["role"] == "user")
        kind = kinds[asked]
        if kind == "failed":
            return 500, {"error": {"message": "upstream broke"}}
        if kind == "refused":
            return said(None, refusal="I cannot help with that.")
        if kind == "empty":
            return said("")
        return said(right[asked]) if kind == "answer" else said(right[asked][:30], "length")

    flags = {"tasks": str(tmp_path / "tasks.jsonl"), "retries": 0, "request_attempts": 1, "max_turns": 1}
    with model_server(answer) as (url, _):
        evaluate(tmp_path / "run", url, max_failed=0.2, **flags)
    out = capsys.readouterr().out
    report = json.loads((tmp_path / "run/report.json").read_bytes())
    assert (report["episodes"], report["failed"]) == (40, 4)
    assert report["measures"]["success"]["mean"] == pytest.approx(8 / 36)  # by hand: of those that were asked
    assert {name: one["episodes"] for name, one in report["categories"].items()} == dict(
        zip(("cut off", "refused", "empty reply", "agent could not be asked"), (20, 4, 4, 4), strict=True)
    )
    assert "Warning: 55.6 % of the agent's turns (20 of 36) were cut off" in out.split("\n\n")[1]
    assert "--max_tokens" in out
    assert (tmp_path / "run/report.html").exists()


def test_episodes_that_fail_again_and_again_do_not_cost_the_report_of_the_others(tmp_path, capsys):
    asked = []

    def answer(body):
        asked.append(body["messages"][-1]["content"])
        return said(ANSWER) if len(asked) <= 6 else (500, {"error": {"message": "upstream broke"}})

    flags = {"num_tasks": 14, "batch_size": 1, "request_attempts": 1, "retries": 1}
    with model_server(answer) as (url, _):
        evaluate(tmp_path / "run", url, max_failed=0.9, **flags)
    report = json.loads((tmp_path / "run/report.json").read_bytes())
    assert (report["episodes"], report["failed"]) == (14, 8)
    assert "The 8 that failed are played again" in capsys.readouterr().out


def trajectories(count):
    for number in range(count):
        turn = {"role": "assistant", "content": "What?", "input": f"Prompt {number}:", "output": "What?"}
        task = {"problem_description": f"Write {number}.", "ground_truth": "g"}
        row = {"task": task, "answer": "x", "reward": 1.0, "task_id": f"t{number}", "sample_index": 0}
        yield row | {"dialogue_history": [{"role": "user", "content": f"Write {number}."}, turn]}


def test_turns_that_could_not_be_sampled_for_are_tried_again(tmp_path):
    replace_rows(tmp_path / "in.jsonl", trajectories(40))
    output = tmp_path / "out.jsonl"

    def sample(server, **flags):
        served = {"agent": "openai", "agent_base_url": server.base_url, "best_of_n": 2, "quiet": True}
        sample_best_of_n(str(tmp_path / "in.jsonl"), str(output), "echo", **served, **flags)

    faults = {"fault_rate": 0.3, "faults": "bad_request", "seed": 1}
    with start_server(**faults) as server, pytest.raises(ServiceError) as caught:
        sample(server)
    lost = [row for row in rows_of(output) if has_failed(row)]
    assert 0 < len(lost) < 40 == len(rows_of(output))
    assert f"{len(lost)} of 40 turns failed" in str(caught.value)
    assert "The first: bad_request: This request is refused (injected)" in str(caught.value)
    with start_server() as server:
        sample(server, to_continue=True)
    rows = rows_of(output)
    assert [row["task_id"] for row in rows] == [f"t{number}" for number in range(40)]
    assert all(len(row["additional_outputs"]) == 2 for row in rows)
    assert len(candidates_from_rows(list(enumerate(rows, start=1)))) == 40


@pytest.mark.parametrize(
    ("kind", "failed"), [("timeout", True), ("bad_request", True), ("context_full", False), (None, False)]
)
def test_a_prompt_that_is_too_long_is_an_answer(kind, failed):
    error = None if kind is None else {"kind": kind, "detail": ""}
    assert has_failed({"additional_outputs": [], "error": error}) is failed
