"""From tasks to step pairs on real ColBench tasks, with the real vLLM where models run (`make test-vllm`)."""

import asyncio
import importlib.util
import json
import os

import pytest

from sweet_rl.commands.evaluate_code import evaluate_code
from sweet_rl.commands.generate_random_pairs_from_ranks import generate_random_pairs_from_ranks
from sweet_rl.commands.rank_best_of_n import rank_best_of_n
from sweet_rl.commands.sample_best_of_n import sample_best_of_n
from sweet_rl.commands.simulate_interactions import simulate_interactions
from sweet_rl.policies.vllm import VLLMServer
from tests.tiny_models import save_tiny_llama
from tests.vllm.test_vllm import ARGS, CONTEXT, PYTHON, small_and_offline  # noqa: F401

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_fifty_tasks_from_dialogues_to_pairs(shared, tmp_path):
    tasks = shared / "data/colbench/backend_tasks_500.jsonl"
    if not tasks.exists():
        pytest.skip(f"no ColBench tasks at {tasks}")
    models = {
        name: str(save_tiny_llama(tmp_path / name, context=CONTEXT, head_dim=32, seed=seed))
        for seed, name in enumerate(("policy", "critic"))
    }
    trajectories, sampled = tmp_path / "trajectories.jsonl", tmp_path / "sampled.jsonl"
    server = VLLMServer(models["policy"], python=PYTHON, args=ARGS, log_path=tmp_path / "log")
    asyncio.run(server.start())
    try:
        agent = {
            "agent_model": models["policy"], "agent": "openai", "agent_base_url": server.base_url,
            "tokenizer": models["policy"], "max_tokens": 32, "request_timeout_s": 300.0, "quiet": True,
        }  # fmt: skip
        simulate_interactions(
            str(tasks), str(trajectories), env_model="scripted", num_tasks=50, max_steps=3, **agent
        )
        critic_pairs = tmp_path / "critic.jsonl"
        evaluate_code(str(trajectories), ground_truth_preference_path=str(critic_pairs), quiet=True)
        sample_best_of_n(str(trajectories), str(sampled), best_of_n=4, **agent)
    finally:
        asyncio.run(server.stop())
    rows = rows_of(sampled)
    graded = [row for row in rows_of(trajectories) if row["reward"] is not None]
    assert len(graded) == 49  # one of the fifty tasks cannot be graded: its reference fails its own tests
    assert {row["task_id"] for row in rows} == {row["task_id"] for row in graded}
    assert len(rows) == sum(len(row["dialogue_history"]) // 2 for row in graded)
    assert {len(ids) <= 32 for row in rows for ids in row["additional_token_ids"]} == {True}

    ranked = {engine: tmp_path / f"{engine}.jsonl" for engine in ("vllm", "transformers")}
    rank_best_of_n(
        str(sampled), str(ranked["vllm"]), models["critic"], engine="vllm", vllm_python=PYTHON,
        vllm_args=" ".join(ARGS), request_timeout_s=300.0, quiet=True,
    )  # fmt: skip
    rank_best_of_n(str(sampled), str(ranked["transformers"]), models["critic"], quiet=True)
    for one, other in zip(*(rows_of(path) for path in ranked.values()), strict=True):
        assert one["judge_result"] == pytest.approx(other["judge_result"], abs=1e-3)
    # the policy as critic without the solution: what vLLM recorded when it sampled is what a plain pass gives
    same = tmp_path / "same.jsonl"
    rank_best_of_n(str(sampled), str(same), models["policy"], no_use_ground_truth=True, quiet=True)
    assert max(abs(score) for row in rows_of(same) for score in row["judge_result"]) < 1e-3

    pairs = tmp_path / "pairs.jsonl"
    generate_random_pairs_from_ranks(str(ranked["vllm"]), str(pairs), num_pairs=4)
    assert {row["task_id"] for row in rows_of(pairs)} == {row["task_id"] for row in rows}
    if importlib.util.find_spec("sweet_rl.commands.train") is None:
        return
    from sweet_rl.commands.train import train_dpo

    save_path = tmp_path / "trained"
    train_dpo(
        models["policy"], str(pairs), save_path=str(save_path), prompt_key="prompt", max_samples=32,
        max_len=CONTEXT, train_batch_size=8, micro_train_batch_size=4, ckpt_path=str(tmp_path / "checkpoints"),
    )  # fmt: skip
    assert os.listdir(save_path)
