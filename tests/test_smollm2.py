"""SmolLM2, a real pretrained model, in small numbers: played, sampled, ranked and trained in this process.

Its template, its 30 layers and its 49,152 tokens are not those of the tiny models that other tests make.
"""

import json
import shutil
from pathlib import Path

import pytest

from sweet_rl.chat import SMOLLM2, TokenizerChat, load_tokenizer, model_path
from sweet_rl.cli import load
from sweet_rl.runs.facts import digest_of
from sweet_rl.studies.sweet import recipe
from sweet_rl.studies.sweet.settings import Study, begun_with
from sweet_rl.types import Message
from sweet_rl.users.server import start_server

pytestmark = [
    pytest.mark.smollm2,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("smollm2"),
]

TASKS = "mini:trades=10:test"
TURNS = {"agent_prompt_path": "llm_agent_mini_prompt", "env_model": "scripted", "quiet": True}
TRAINING = {
    "train_batch_size": 1, "max_tokens_per_batch": 1024, "max_len": 1024, "max_samples": 1, "max_epochs": 2,
    "eval_fraction": 0.0, "learning_rate": 3e-5, "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of all outputs: a trained model takes half a gigabyte, so nothing is kept."""
    folder = tmp_path_factory.mktemp("smollm2")
    yield folder
    shutil.rmtree(folder)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def agent_turns(row):
    return [entry for entry in row["dialogue_history"] if entry["role"] == "assistant"]


@pytest.fixture(scope="module")
def graded(folder):
    """Dialogues of a scripted agent in the model's template, graded; and their pairs, with the solution and without."""
    path = folder / "expert.jsonl"
    flags = {"agent_model": "expert", "tokenizer": SMOLLM2, "num_tasks": 2, "best_of_n": 4, "max_turns": 6}
    load("simulate_interactions")(TASKS, str(path), **flags, **TURNS)
    pairs, hidden = folder / "pairs.jsonl", folder / "hidden.jsonl"
    load("evaluate_code")(
        str(path), k=4, preference_path=str(pairs), ground_truth_preference_path=str(hidden), quiet=True
    )
    assert {row["reward"] for row in rows_of(path)} > {1.0}
    return path, pairs, hidden


def trained(stage, folder, dataset, **flags):
    """The numbers of a training's updates."""
    flags = TRAINING | {"save_path": str(folder), "ckpt_path": f"{folder}.checkpoints"} | flags
    load(stage)(SMOLLM2, str(dataset), **flags)
    steps = rows_of(folder / "metrics.jsonl")
    assert [step["step"] for step in steps] == [1, 2]
    assert all(0 < step["grad_norm"] < 100 for step in steps)
    asked = [Message("user", "1 + 1?")]
    rendered = [TokenizerChat.from_pretrained(model).render(asked) for model in (folder, SMOLLM2)]
    assert rendered[0] == rendered[1]
    return steps


@pytest.fixture(scope="module")
def critic(folder, graded):
    steps = trained("train_dpo", folder / "critic", graded[2], mean_log_prob="trajectory", beta=10.0)
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert steps[1]["loss"] < steps[0]["loss"]
    return str(folder / "critic")


def test_tokens_are_those_that_the_model_was_trained_with():
    """By hand, as the model's card and llama.cpp have them: each digit is a token, whatever stands before it."""
    tokenizer = load_tokenizer(SMOLLM2)
    assert len(tokenizer) == 49_152
    ids = tokenizer("<|im_start|>x = 10\n    12", add_special_tokens=False)["input_ids"]
    pieces = ["<|im_start|>", "x", "Ġ=", "Ġ", "1", "0", "ĊĠĠĠĠ", "1", "2"]
    assert tokenizer.convert_ids_to_tokens(ids) == pieces
    assert tokenizer.eos_token == "<|im_end|>"


def test_it_plays_in_its_template_and_records_the_log_probabilities_it_sampled_with(folder):
    import torch
    from transformers import AutoModelForCausalLM

    path = folder / "played.jsonl"
    flags = {"agent_model": SMOLLM2, "num_tasks": 2, "max_turns": 2, "max_tokens": 12, "dtype": "float32"}
    load("simulate_interactions")(TASKS, str(path), **flags, **TURNS)
    turns = [turn for row in rows_of(path) for turn in agent_turns(row)]
    assert len(turns) == 4
    model = AutoModelForCausalLM.from_pretrained(model_path(SMOLLM2), dtype=torch.float32).eval()
    chat = TokenizerChat.from_pretrained(SMOLLM2)
    for turn in turns:
        assert turn["input"].startswith("<|im_start|>system\nAsk what you need")
        assert turn["input"].endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert (turn["token_ids"][-1] == chat.tokenizer.eos_token_id) == (turn["finish_reason"] == "stop")
    first = turns[0]  # later prompts hold what was sampled, maybe in other tokens than one would encode it
    prompt, ids = chat.encode(first["input"]), torch.tensor(first["token_ids"])
    with torch.inference_mode():
        logits_TV = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    plain = logits_TV.log_softmax(-1).gather(1, ids[:, None])[:, 0]
    assert first["logprobs"] == pytest.approx(plain.tolist(), abs=1e-3)
    record = json.loads((folder / "played.jsonl.run.json").read_text())
    (read,) = [entry for entry in record["inputs"] if entry["source"] == SMOLLM2]
    assert read["sha256"] == digest_of(Path(model_path(SMOLLM2)))["sha256"]


def test_it_is_trained_by_imitation_with_an_adapter_and_with_a_head(folder, graded):
    first, last = trained("train_sft", folder / "sft", graded[0])
    assert last["loss"] < first["loss"]
    first, last = trained(
        "train_dpo", folder / "lora", graded[1], lora_rank=2, learning_rate=1e-3, reference_cache="none"
    )
    assert first["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert last["loss"] < 0.69
    assert trained("train_reward_model", folder / "head", graded[2])[0]["loss"] > 0


def test_candidates_are_sampled_ranked_and_paired(folder, graded, critic):
    sampled = folder / "sampled.jsonl"
    load("sample_best_of_n")(
        str(graded[0]), str(sampled), SMOLLM2, best_of_n=3, data_fraction=0.2, max_tokens=8, quiet=True
    )
    turns = rows_of(sampled)
    assert len(turns) >= 4
    scores = {}
    for name, scorer in {"trained": critic, "untrained": SMOLLM2}.items():
        ranked = folder / f"{name}.jsonl"
        load("rank_best_of_n")(str(sampled), str(ranked), scorer, quiet=True)
        scores[name] = [score for row in rows_of(ranked) for score in row["judge_result"]]
        assert len(scores[name]) == 3 * len(turns)
    assert scores["trained"] != scores["untrained"]
    load("generate_random_pairs_from_ranks")(
        str(folder / "trained.jsonl"), str(folder / "steps.jsonl"), num_pairs=1
    )
    assert {row["task_id"] for row in rows_of(folder / "steps.jsonl")} <= {row["task_id"] for row in turns}


def test_a_study_begins_with_the_imitation_of_the_scripted_teacher(folder):
    with start_server() as human:
        fields = begun_with(SMOLLM2, folder, jobs=1) | {"demonstrations": 4}
        study = Study(folder, human=human.base_url, **fields)
        for step in recipe.beginning(study):
            step()
    taught = rows_of(study.path("taught.jsonl"))
    assert all(turn["input"].startswith("<|im_start|>system") for row in taught for turn in agent_turns(row))
    (update, *_) = rows_of(study.path("warm_start") / "metrics.jsonl")
    assert update["grad_norm"] > 0
    assert load_tokenizer(study.agent).chat_template == load_tokenizer(SMOLLM2).chat_template
