"""Runs against servers of the protocol: what they are asked, and what becomes of pieces that fail."""

import json

import pytest

from sweet_rl.commands.eval import eval
from sweet_rl.commands.reflect_evaluate import evaluate_gpt
from sweet_rl.commands.sample_best_of_n import has_failed, sample_best_of_n
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.users.server import start_server
from sweet_rl.worlds import load_tasks, world_of
from tests.stub_server import model_server, said

ANSWER = "I WANT TO ANSWER:\ndef f(*a):\n    return 0\n"


def refused(words, status=400):
    return status, {"error": {"message": words}}


def evaluate(folder, url, **flags):
    given = {"tasks": "mini:families:test", "agent_base_url": url, "quiet": True, **flags}
    eval(model="openai/m", output_dir=str(folder), **given)


def test_what_a_server_was_not_sent_is_in_the_record_and_the_report(tmp_path):
    def answer(body):
        return (
            refused("`seed`: Extra inputs are not permitted")
            if {"seed", "random_seed"} & set(body)
            else said(ANSWER)
        )

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
    flags = {
        "agent_request": '{"reasoning_effort": "low", "top_p": null}',
        "agent_header": "X-Agent: ${MY_HEADER}",
        "env_request": '{"temperature": 0.5}',
        "env_header": "X-Human: very-hidden-text",
        "env_max_tokens": 77,
        "env_system_prompt": "You are the customer.",
    }
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
    assert (headers["X-Agent"], body["reasoning_effort"], "top_p" in body) == (
        "very-hidden-value",
        "low",
        False,
    )
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


def test_one_task_that_is_too_long_is_an_episode_without_an_answer(tmp_path):
    long = []

    def answer(body):
        asked = body["messages"][-1]["content"]
        long.append(asked) if not long else None
        return (
            refused("This model's maximum context length is 10 tokens.") if asked == long[0] else said(ANSWER)
        )

    with model_server(answer) as (url, _):
        evaluate(tmp_path / "run", url, num_tasks=4)
    reasons = [row["stop_reason"] for _, row in read_rows(tmp_path / "run/episodes.jsonl")]
    assert sorted(reasons) == ["answered"] * 3 + ["context_full"]


SHARES = ["length"] * 5 + ["refused", "empty", "failed", "answer", "answer"]


def test_a_report_says_how_many_replies_were_no_answers_and_its_mean_is_of_what_the_agent_said(
    tmp_path, capsys
):
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

    with model_server(answer) as (url, _):
        source = str(tmp_path / "tasks.jsonl")
        evaluate(
            tmp_path / "run", url, tasks=source, max_failed=0.2, retries=0, request_attempts=1, max_turns=1
        )
    out = capsys.readouterr().out
    report = json.loads((tmp_path / "run/report.json").read_bytes())
    assert (report["episodes"], report["failed"]) == (40, 4)
    assert report["measures"]["success"]["mean"] == pytest.approx(8 / 36)  # by hand: of those that were asked
    assert {name: one["episodes"] for name, one in report["categories"].items()} == {
        "cut off": 20,
        "refused": 4,
        "empty reply": 4,
        "agent could not be asked": 4,
    }
    assert "Warning: 55.6 % of the agent's turns (20 of 36) were cut off" in out.split("\n\n")[1]
    assert "--max_tokens" in out
    assert (tmp_path / "run/report.html").exists()


def test_episodes_that_fail_again_and_again_do_not_cost_the_report_of_the_others(tmp_path, capsys):
    asked = []

    def answer(body):
        asked.append(body["messages"][-1]["content"])
        return said(ANSWER) if len(asked) <= 6 else (500, {"error": {"message": "upstream broke"}})

    with model_server(answer) as (url, _):
        evaluate(
            tmp_path / "run", url, num_tasks=14, batch_size=1, max_failed=0.9, request_attempts=1, retries=1
        )
    report = json.loads((tmp_path / "run/report.json").read_bytes())
    assert (report["episodes"], report["failed"]) == (14, 8)
    assert "The 8 that failed are played again" in capsys.readouterr().out


def trajectories(count):
    for number in range(count):
        turn = {"role": "assistant", "content": "What?", "input": f"Prompt {number}:", "output": "What?"}
        yield {
            "task": {"problem_description": f"Write {number}.", "ground_truth": "g"},
            "dialogue_history": [{"role": "user", "content": f"Write {number}."}, turn],
            "answer": "x",
            "reward": 1.0,
            "task_id": f"t{number}",
            "sample_index": 0,
        }


def rows_of(path):
    return [row for _, row in read_rows(path)]


def test_turns_that_could_not_be_sampled_for_are_tried_again(tmp_path):
    replace_rows(tmp_path / "in.jsonl", trajectories(40))
    output = tmp_path / "out.jsonl"

    def sample(server, **flags):
        sample_best_of_n(
            str(tmp_path / "in.jsonl"),
            str(output),
            "echo",
            agent="openai",
            agent_base_url=server.base_url,
            best_of_n=2,
            quiet=True,
            **flags,
        )

    with (
        start_server(fault_rate=0.3, faults="bad_request", seed=1) as server,
        pytest.raises(ServiceError) as caught,
    ):
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
    ("error", "failed"),
    [
        ({"kind": "timeout", "detail": ""}, True),
        ({"kind": "bad_request", "detail": "no"}, True),
        ({"kind": "context_full", "detail": ""}, False),
        (None, False),
    ],
)
def test_a_prompt_that_is_too_long_is_an_answer(error, failed):
    assert has_failed({"additional_outputs": [], "error": error}) is failed


def test_a_server_that_refuses_everything_gives_no_result(tmp_path):
    with (
        start_server(fault_rate=1, faults="bad_request") as server,
        pytest.raises(ServiceError, match="refuses our requests"),
    ):
        evaluate_gpt(
            runs=3, output=str(tmp_path), teacher="openai", base_url=server.base_url, model="echo", quiet=True
        )
    assert not (tmp_path / "result.txt").exists()
