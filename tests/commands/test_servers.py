"""Commands against servers as they are: what they are sent, what is said of it, and whose fault a reply is."""

import json

import pytest

from sweet_rl.commands.eval import eval
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.errors import ServiceError, UsageError
from sweet_rl.records import read_rows
from tests.stub_server import model_server, said

ANSWER = "I WANT TO ANSWER:\ndef f(*a):\n    return 0\n"


def refused(words, status=400):
    return status, {"error": {"message": words}}


def evaluate(folder, url, **flags):
    eval(
        model="openai/m",
        agent_base_url=url,
        tasks="mini:families:test",
        output_dir=str(folder),
        quiet=True,
        **flags,
    )


def test_what_a_server_was_not_sent_is_in_the_record_and_the_report(tmp_path):
    def answer(body):
        return (
            refused("`seed`: Extra inputs are not permitted")
            if {"seed", "random_seed"} & set(body)
            else said(ANSWER)
        )

    with model_server(answer) as (url, _):
        evaluate(tmp_path / "run", url, limit=2)
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
        "env_header": "X-Human: ${MY_HEADER}",
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
    assert (headers["X-Human"], body["temperature"], body["max_tokens"]) == ("very-hidden-value", 0.5, 77)
    assert body["messages"][0] == {"role": "system", "content": "You are the customer."}
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"very-hidden-value" not in written
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
        evaluate(tmp_path / "run", url, limit=4)
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
        evaluate(tmp_path / "run", url, limit=4)
    reasons = [row["stop_reason"] for _, row in read_rows(tmp_path / "run/episodes.jsonl")]
    assert sorted(reasons) == ["answered"] * 3 + ["context_full"]
