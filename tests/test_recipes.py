"""Each recipe gives what its command gives: the same losses, and weights that moved the same way."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sweet_rl.chat.formats import model_path
from sweet_rl.cli import load
from sweet_rl.worlds.dangerous_taxi.game import TaxiGame
from tests.conftest import ROOT
from tests.tiny_models import save_tiny_llama


def recipe(name):
    path = ROOT / "examples/recipes" / f"{name}.py"
    found = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    assert len(path.read_text().splitlines()) <= 150
    return module


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def moved(before, after, name="model"):
    """All weights' changes as one vector."""
    old, new = (load_file(folder / f"{name}.safetensors") for folder in (before, after))
    return torch.cat([(new[name] - old[name]).flatten().double() for name in sorted(old)])


@pytest.fixture
def pairs(tmp_path):
    """Dialogues of two turns that differ in what the agent says."""
    rows = []
    for number in range(7):
        head = [{"role": "user", "content": f"I want you to write a function, number {number}."}]
        sides = [
            [*head, {"role": "assistant", "content": said}, {"role": "user", "content": "Yes."},
             {"role": "assistant", "content": f"return {number}"}]
            for said in (f"Does an empty list count {number}?", "What should it return?")
        ]  # fmt: skip
        rows.append({"chosen": sides[0], "rejected": sides[1]})
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_multi_turn_dpo(pairs, tmp_path, monkeypatch):
    model = save_tiny_llama(tmp_path / "model")
    dpo = recipe("multi_turn_dpo")
    monkeypatch.setattr(dpo, "PAIRS_PER_UPDATE", 3)
    losses = dpo.train(str(pairs), str(tmp_path / "recipe"), str(model))
    load("train_dpo")(
        pretrain=str(model), dataset=str(pairs), save_path=str(tmp_path / "command"), train_batch_size=3,
        learning_rate=dpo.LEARNING_RATE, max_len=dpo.MAX_LEN, eval_fraction=0.0, quiet=True,
    )  # fmt: skip
    metrics = read(tmp_path / "command/metrics.jsonl")
    assert losses == pytest.approx([row["loss"] for row in metrics], abs=1e-5)
    assert len(losses) == 3
    one, other = (moved(model, tmp_path / name) for name in ("recipe", "command"))
    assert one.norm() > 0
    assert (one - other).norm() < 0.02 * other.norm()


@pytest.mark.slow
def test_archer(tmp_path):
    archer = recipe("archer")
    losses = archer.train(str(tmp_path / "recipe"))
    load("run_archer")(f"save_path={tmp_path / 'command'}", "eval_freq=9", config_name="archer_debug")
    metrics = read(tmp_path / "command/metrics.jsonl")
    wanted = []
    for row in metrics:
        wanted.append(sum(row[f"{name}.loss"] for name in ("q1", "q2", "v1", "v2")))
        wanted += [row["pg.loss"]] if "pg.loss" in row else []
    assert len(losses) == 5
    assert losses == pytest.approx(wanted, rel=1e-4)
    one, other = (
        moved(tmp_path / "command/models/policy", tmp_path / name / "final") for name in ("recipe", "command")
    )
    assert one.norm() > 0
    assert (one - other).norm() < 0.02 * other.norm()


def test_reflect(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load("reflect taxi_reflection")(num_records=40, quiet=True)
    load("reflect taxi_gen_sft")()
    reflect = recipe("reflect")
    for name, value in {"UPDATES": 5, "TEXTS": 4, "ITERATIONS": 3, "EPISODES": 6}.items():
        monkeypatch.setattr(reflect, name, value)
    monkeypatch.setattr(
        TaxiGame, "success_threshold", property(lambda _: 1.0)
    )  # some episodes are remembered
    texts = {name: f"data/taxi/sft_{name}.jsonl" for name in ("policy", "reflection")}
    losses = reflect.train(*texts.values(), "recipe")
    told = reflect.SETTINGS | {
        "model_name": "recipe/model",
        "learning_rate": reflect.LEARNING_RATE,
        "quiet": True,
    }
    for file in texts.values():
        load("reflect supervised_pretrain")(
            task_file=file, max_steps=5, per_device_train_batch_size=4, logging_steps=1, **told
        )
    first, second = (f"results/00{number}_supervised_pretrain/checkpoint-5" for number in range(2))
    load("reflect rl_finetune")(
        load_dir=first, reflect=True, reflect_load_dir=second, max_steps=3, per_device_eval_batch_size=6,
        per_device_train_batch_size=reflect.REPLAYED, **told,
    )  # fmt: skip
    for name, checkpoint in (("policy", first), ("reflection", second)):
        history = json.loads((tmp_path / checkpoint / "trainer_state.json").read_text())["log_history"]
        assert losses[name] == pytest.approx([row["loss"] for row in history], rel=1e-4)
    logs = json.loads((tmp_path / "results/002_rl_finetune/checkpoint-3/logs.json").read_text())
    wanted = [loss for row in logs for loss in row["loss"] if loss is not None]
    assert len(wanted) > 3  # remembered ones were learned from
    assert losses["online"] == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    one, other = (
        moved(tmp_path / before, tmp_path / after, "adapter_model")
        for before, after in (
            ("recipe/policy", "recipe/final"),
            (first, "results/002_rl_finetune/checkpoint-3"),
        )
    )
    assert one.norm() > 0
    assert (one - other).norm() < 0.05 * other.norm()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sweet(tmp_path, monkeypatch):
    sweet = recipe("sweet")
    for name, value in {"TASKS": 12, "CANDIDATES": 3, "PAIRS_PER_UPDATE": 8}.items():
        monkeypatch.setattr(sweet, name, value)
    folder, ranked, of_command = (
        tmp_path / "recipe",
        str(tmp_path / "ranked.jsonl"),
        tmp_path / "command.jsonl",
    )
    losses = dict(zip(("critic", "policy"), sweet.train(str(folder), print), strict=True))
    dialogues = tmp_path / "dialogues.jsonl"
    dialogues.write_bytes((folder / "dialogues.jsonl").read_bytes())
    load("evaluate_code")(str(dialogues), k=4, ground_truth_preference_path=str(of_command), quiet=True)
    assert read(of_command) == read(folder / "dialogue_pairs.jsonl")
    sampled = str(tmp_path / "sampled.jsonl")
    load("sample_best_of_n")(str(dialogues), sampled, "embedded", best_of_n=3, max_tokens=48, quiet=True)
    load("rank_best_of_n")(sampled, ranked, str(folder / "critic"), quiet=True)
    load("generate_random_pairs_from_ranks")(ranked, str(of_command), num_pairs=2, overwrite=True)
    assert read(of_command) == read(folder / "turn_pairs.jsonl")
    for name, pairs, flags in (
        ("critic", "dialogue_pairs", {"mean_log_prob": "True", "learning_rate": 3e-4}),
        ("policy", "turn_pairs", {"nll_loss_coef": 0.3, "learning_rate": 2e-4}),
    ):
        load("train_dpo")(
            pretrain="embedded", dataset=str(folder / f"{pairs}.jsonl"), save_path=str(tmp_path / name),
            train_batch_size=8, max_len=8192, eval_fraction=0.0, quiet=True, **flags,
        )  # fmt: skip
        metrics = read(tmp_path / name / "metrics.jsonl")
        assert losses[name] == pytest.approx([row["total_loss"] for row in metrics], abs=1e-5)
        one, other = (moved(Path(model_path("embedded")), at / name) for at in (folder, tmp_path))
        assert one.norm() > 0
        assert (one - other).norm() < 0.02 * other.norm()
