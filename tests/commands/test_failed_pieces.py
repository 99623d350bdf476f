"""What fails in stages other than the simulation is said, tried again, and no score."""

import pytest

from sweet_rl.commands.reflect.evaluate_gpt import evaluate_gpt
from sweet_rl.commands.sample_best_of_n import sample_best_of_n
from sweet_rl.commands.turn_rows import has_failed
from sweet_rl.errors import ServiceError
from sweet_rl.preferences.candidates import candidates_from_rows
from sweet_rl.records import read_rows, replace_rows
from sweet_rl.users.server import start_server


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
