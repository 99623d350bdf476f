"""Fine-tuning as a stage: what a step minimises, and that it stops and resumes as DPO does."""

import json
import random

import pytest

from sweet_rl.commands.train_sft import train_sft
from sweet_rl.errors import UsageError
from tests.training.pairs import WORDS, write_dialogues

RECIPE = {"train_batch_size": 6, "learning_rate": 1e-3, "eval_fraction": 0.0, "quiet": True}


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory):
    draw = random.Random(0)
    rows = [
        {
            "task": f"task {i}",
            "answers": [
                " ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 3))
            ],
            "reward": i % 2,
        }
        for i in range(20)
    ]
    return write_dialogues(tmp_path_factory.mktemp("dialogues") / "graded.jsonl", rows)


def run(model, dataset, folder, **flags):
    recipe = RECIPE | {"ckpt_path": str(folder / "checkpoints")} | flags
    train_sft(str(model), str(dataset), save_path=str(folder / "out"), **recipe)
    return [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]


def test_turns_of_another_tokenizer_are_refused(tiny, tmp_path):
    source = tmp_path / "pairs.jsonl"
    row = {"prompt": "a", "chosen": "b", "rejected": "b", "tokenizer": "another"}
    source.write_text(json.dumps(row) + "\n")
    with pytest.raises(
        UsageError, match=r"1 of 1 rows were sampled with another tokenizer.*--other_tokenizer"
    ):
        run(tiny, source, tmp_path)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "out/model.safetensors")


def token_mean(model, dataset):
    """Mean over all imitated tokens of all rows and its gradient's norm, by plain passes over single texts."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sweet_rl.training.data import read_texts
    from sweet_rl.training.encoding import TurnEncoder
    from sweet_rl.training.settings import DataSettings, SelectionSettings

    rows, _ = read_texts(DataSettings(str(dataset)), SelectionSettings(1.0))
    encoder = TurnEncoder(AutoTokenizer.from_pretrained(model), max_len=512)
    network, losses = AutoModelForCausalLM.from_pretrained(model).eval(), []
    for text in encoder.encode_texts(rows)[0]:
        (branch,) = text.branches
        ids = torch.tensor([branch.ids])
        logps = network(ids).logits[0].log_softmax(-1)
        losses += [-logps[i - 1, ids[0, i]] for i, kept in enumerate(branch.mask) if kept]
    mean = torch.stack(losses).mean()
    mean.backward()
    norms = [parameter.grad.norm() for parameter in network.parameters()]
    return mean.item(), torch.stack(norms).norm().item()


def test_a_step_minimises_the_mean_over_tokens_whatever_the_micro_batch(steady, dialogues, tmp_path, capsys):
    recipe = {"train_batch_size": 10, "max_epochs": 3, "min_reward": 1.0}
    runs = [
        run(steady, dialogues, tmp_path / str(micro), micro_train_batch_size=micro, **recipe)
        for micro in (1, 2, 3)
    ]
    assert "10 texts (" in capsys.readouterr().out
    loss, norm = token_mean(steady, dialogues)
    assert runs[0][0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert runs[0][0]["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert runs[0][-1]["loss"] < runs[0][0]["loss"]
    for other in (1, 2):
        for ours, theirs in zip(runs[other], runs[0], strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
            assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-3)
        ours, theirs = weights(tmp_path / str(other + 1)), weights(tmp_path / "1")
        assert all((ours[name] - theirs[name]).abs().max() < 1e-4 for name in theirs)


def test_resumed_is_as_if_nothing_happened(tiny, dialogues, tmp_path):
    import shutil

    import torch

    recipe = {"max_epochs": 2, "save_steps": 3, "eval_fraction": 0.1, "micro_train_batch_size": 4}
    whole = run(tiny, dialogues, tmp_path / "whole", **recipe)
    folder = tmp_path / "again"
    shutil.copytree(tmp_path / "whole/checkpoints/checkpoint-3", folder / "checkpoints/checkpoint-3")
    (folder / "out").mkdir()
    shutil.copy(tmp_path / "whole/out/metrics.jsonl", folder / "out")
    resumed = run(tiny, dialogues, folder, resume=True, **recipe)
    assert [row["step"] for row in resumed] == [1, 2, 3, 4, 5, 6, 6]
    assert [row.get("loss") for row in resumed] == [row.get("loss") for row in whole]
    assert resumed[-1]["eval_loss"] == whole[-1]["eval_loss"]
    ours, theirs = weights(folder), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_an_adapter_learns_and_is_merged(steady, dialogues, tmp_path):
    lines = run(
        steady, dialogues, tmp_path, lora_rank=2, target_modules="q_proj", learning_rate=1e-2, max_epochs=2
    )
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert not [name for name in weights(tmp_path) if "lora" in name]


def test_refusals(steady, dialogues, tmp_path):
    with pytest.raises(UsageError, match="None of the 20 texts"):
        run(steady, dialogues, tmp_path, max_len=5)
    with pytest.raises(UsageError, match="--pretrain"):
        train_sft()
    assert not (tmp_path / "out").exists()
