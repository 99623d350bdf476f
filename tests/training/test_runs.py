"""The training stages as people call them: runs, resumes, adapters, imitation, and what they refuse."""

import json
import random
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweet_rl.commands.models import merge_adapters
from sweet_rl.commands.train import train_dpo, train_sft
from sweet_rl.errors import NonFiniteError, SweetRLError, UsageError
from sweet_rl.training.data import read_texts
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.forward import PreferenceObjective
from sweet_rl.training.settings import DataSettings
from sweet_rl.training.trainer import StepTrainer
from tests.tiny_models import save_tiny_llama
from tests.training.pairs import WORDS, dialogue_pairs, write_dialogues, write_pairs

RECIPE = {"train_batch_size": 8, "micro_train_batch_size": 3, "learning_rate": 1e-3, "eval_fraction": 0.0}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", dialogue_pairs(21))


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory):
    draw = random.Random(0)

    def words():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))

    rows = [
        {"task": f"task {i}", "answers": [words() for _ in range(draw.randint(1, 3))], "reward": i % 2}
        for i in range(20)
    ]
    return write_dialogues(tmp_path_factory.mktemp("dialogues") / "graded.jsonl", rows)


def run(model, data, folder, stage=train_dpo, **flags):
    recipe = RECIPE | {"ckpt_path": str(folder / "checkpoints"), "quiet": True} | flags
    stage(str(model), str(data), save_path=str(folder / "out"), **recipe)
    return rows(folder / "out/metrics.jsonl")


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(folder):
    return load_file(folder / "out/model.safetensors")


def assert_same_numbers(lines, others, rel=1e-3):
    for ours, theirs in zip(lines, others, strict=True):
        for name in {"total_loss", "grad_norm", "eval_loss"} & set(ours):
            assert ours[name] == pytest.approx(theirs[name], rel=rel)


def test_it_learns_whatever_the_micro_batch_and_what_it_saves_loads(steady, pairs, tmp_path, capsys):
    flags = {"max_epochs": 4, "eval_fraction": 0.1}
    whole = run(steady, pairs, tmp_path / "a", micro_train_batch_size=8, **flags)
    assert "19 pairs to train on, 2 held out" in capsys.readouterr().out
    assert whole[0]["loss"] == pytest.approx(0.693147, abs=1e-5)
    assert whole[-2]["loss"] < 0.6
    assert set(whole[-1]) >= {"eval_loss", "eval_acc", "eval_chosen_reward", "eval_reject_reward"}
    assert len(whole) == 4 * 3 + 1
    assert_same_numbers(run(steady, pairs, tmp_path / "b", **flags), whole)
    model, report = AutoModelForCausalLM.from_pretrained(tmp_path / "a/out", output_loading_info=True)
    assert not any(report.values())
    assert len(AutoTokenizer.from_pretrained(tmp_path / "a/out")) == model.config.vocab_size
    assert not (tmp_path / "a/out/.partial").exists()
    assert not (tmp_path / "a/checkpoints").exists()  # nobody asked for any


def test_however_rows_are_packed_held_out_ones_too(steady, pairs, tmp_path, monkeypatch):
    flags = {"eval_fraction": 0.4, "group_by_history": False}
    whole = run(steady, pairs, tmp_path / "rows", micro_train_batch_size=8, prefix_tree=False, **flags)
    seen, objective = [], PreferenceObjective.__call__

    def watched(self, model, batch):
        seen.append((model.training, len(batch["scale_B"])))
        return objective(self, model, batch)

    monkeypatch.setattr(PreferenceObjective, "__call__", watched)
    for name, budget in (("small", 300), ("large", 2000)):
        assert_same_numbers(run(steady, pairs, tmp_path / name, max_tokens_per_batch=budget, **flags), whole)
    sizes = [size for training, size in seen if not training]
    assert sum(sizes) == 2 * 8
    assert max(sizes) > 3  # more rows than --micro_train_batch_size
    with pytest.raises(UsageError, match=r"pairs\.jsonl.*tokens, more than --max_tokens_per_batch 10\."):
        run(steady, pairs, tmp_path / "none", max_tokens_per_batch=10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_compiled_layers_train_the_same(steady, pairs, tmp_path, monkeypatch):
    """Traced as on a GPU, its kernels left out; batches of many sizes, and few compilations for them."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    compile_one = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self: compile_one(self, backend=counter))
    flags = {
        "max_tokens_per_batch": 200,
        "eval_fraction": 0.1,
        "lora_rank": 2,
        "gradient_checkpointing": True,
    }
    plain = run(steady, pairs, tmp_path / "plain", **flags)
    assert counter.frame_count == 0
    compiled = run(steady, pairs, tmp_path / "compiled", torch_compile=True, **flags)
    assert 0 < counter.frame_count <= 8
    assert_same_numbers(compiled, plain, rel=1e-4)


def test_an_adapter_is_merged_at_the_end_and_a_checkpoints_afterwards(steady, pairs, tmp_path):
    lora = {"lora_rank": 2, "target_modules": "q_proj", "learning_rate": 1e-2}
    lines = run(steady, pairs, tmp_path, save_steps=3, **lora)
    assert lines[0]["loss"] == pytest.approx(0.693147, abs=1e-5)  # the reference is the model without adapter
    before, after = load_file(steady / "model.safetensors"), weights(tmp_path)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"model.layers.{layer}.self_attn.q_proj.weight" for layer in (0, 1)}
    merge_adapters(str(tmp_path / "checkpoints/checkpoint-3"), str(tmp_path / "merged"))
    merged = load_file(tmp_path / "merged/model.safetensors")
    for name, weight in after.items():
        torch.testing.assert_close(merged[name], weight)
    assert (tmp_path / "merged/tokenizer.json").exists()
    with pytest.raises(UsageError, match="not an empty folder"):
        merge_adapters(str(tmp_path / "checkpoints/checkpoint-3"), str(tmp_path / "merged"))
    with pytest.raises(UsageError, match=r"holds no adapter: it has no adapter_config\.json"):
        merge_adapters(str(steady), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("stage", [train_dpo, train_sft])
def test_resumed_is_as_if_nothing_happened(stage, tiny, pairs, dialogues, tmp_path):
    data = pairs if stage is train_dpo else dialogues
    recipe = {"max_epochs": 2, "save_steps": 2, "eval_fraction": 0.1, "max_ckpt_num": 2, "stage": stage}
    whole = run(tiny, data, tmp_path / "whole", **recipe)
    folder = tmp_path / "again"
    shutil.copytree(tmp_path / "whole/checkpoints/checkpoint-4", folder / "checkpoints/checkpoint-4")
    (folder / "out").mkdir()
    shutil.copy(tmp_path / "whole/out/metrics.jsonl", folder / "out")
    resumed = run(tiny, data, folder, resume=True, **recipe)
    assert [row["step"] for row in resumed] == [1, 2, 3, 4, 5, 6, 6]
    assert resumed == whole
    left = sorted(path.name for path in (folder / "checkpoints").glob("checkpoint-*"))
    assert left == ["checkpoint-4", "checkpoint-6"]
    ours, theirs = weights(folder), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_an_infinite_loss_with_a_finite_gradient_stops_and_names_rows(steady, pairs, tmp_path, monkeypatch):
    call = PreferenceObjective.__call__

    def infinite(objective, model, batch):
        losses = call(objective, model, batch)
        return losses._replace(total_B=losses.total_B + torch.where(batch["index_B"] == 5, torch.inf, 0.0))

    monkeypatch.setattr(PreferenceObjective, "__call__", infinite)
    told = r"loss of these rows; .* Its rows: \S+pairs\.jsonl:6 \(index 5\)\. (No|The) checkpoint"
    with pytest.raises(NonFiniteError, match=told):
        run(steady, pairs, tmp_path, save_steps=1)
    assert not (tmp_path / "out/model.safetensors").exists()


class WithoutGradient(torch.autograd.Function):
    """A number that is as it was, with a gradient that is not."""

    @staticmethod
    def forward(_, value):
        return value.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient * float("inf")


@pytest.mark.parametrize("max_norm", [1.0, 0.0])
def test_a_gradient_that_is_not_finite_never_reaches_the_weights(
    max_norm, steady, pairs, tmp_path, monkeypatch
):
    trainers, compute = set(), StepTrainer.compute_loss

    def computed(trainer, *inputs, **more):
        trainers.add(trainer)
        loss = compute(trainer, *inputs, **more)
        return WithoutGradient.apply(loss) if trainer.state.global_step == 2 else loss

    monkeypatch.setattr(StepTrainer, "compute_loss", computed)
    with pytest.raises(NonFiniteError) as e:
        run(steady, pairs, tmp_path, max_norm=max_norm, save_steps=2, shuffle=False)
    told = r"""Update 3 of the training is not a finite number \(the gradient, not the losses; norm (inf|nan)\); it was
    not made, and the weights are as before. Before: update 1: loss 0.6.*, norm .*; update 2: .*
    Its rows: .*pairs.jsonl:\d+ \(index \d+\), .*. The checkpoint '.*checkpoint-2' is from before it.
    Begin anew, with another --ckpt_path: with a lower --learning_rate or --max_norm, without --bf16, .*"""
    assert re.fullmatch(re.sub(r"\s+", " ", told), str(e.value)), str(e.value)
    (trainer,) = trainers
    kept, now = load_file(tmp_path / "checkpoints/checkpoint-2/model.safetensors"), trainer.model.state_dict()
    assert kept
    assert all(torch.equal(now[name], kept[name]) for name in kept)
    assert [row["step"] for row in rows(tmp_path / "out/metrics.jsonl")] == [1, 2]


@pytest.fixture(scope="module")
def other_model(tmp_path_factory):
    return save_tiny_llama(tmp_path_factory.mktemp("other") / "model", seed=1)


@pytest.fixture(scope="module")
def stopped(steady, pairs, tmp_path_factory):
    """A run that was killed before it saved its model."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    run(steady, pairs, folder, save_steps=2, loss="hinge")
    for name in ("config.json", "model.safetensors"):
        (folder / "out" / name).unlink()
    return steady, pairs, folder


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"learning_rate": 2e-3}, "--learning_rate was 0.001, is 0.002"),
        ({"loss": "ipo"}, "--loss was 'hinge', is 'ipo'"),
        ({"beta": 0.2}, "--beta was 0.1, is 0.2. Resume"),
        ({"lora_rank": 2}, "--lora_rank was 0, is 2"),
        ({"seed": 1}, "--seed was 42, is 1"),
        ({"eval_fraction": 0.1}, "--eval_fraction was 0.0, is 0.1"),
        ({"dataset": "other"}, "--dataset was '21 rows and 0 held out, "),
        ({"pretrain": "other"}, "--pretrain was 'sha256:"),
        ({"ref_pretrain": "other"}, "--ref_pretrain was None, is 'sha256:"),
    ],
)
def test_what_a_checkpoint_was_made_from_is_compared(changed, told, stopped, tmp_path, other_model):
    model, pairs, folder = stopped
    shutil.copytree(folder, tmp_path / "run")
    if "dataset" in changed:  # another one of as many rows, as published pipelines have them in rounds
        changed, pairs = {}, write_pairs(tmp_path / "other.jsonl", dialogue_pairs(21, seed=1))
    elif "pretrain" in changed:
        changed, model = {}, other_model
    elif "ref_pretrain" in changed:
        changed = {"ref_pretrain": str(other_model)}
    flags = {"load_checkpoint": True, "save_steps": 2, "loss": "hinge"} | changed
    with pytest.raises(UsageError) as e:
        run(model, pairs, tmp_path / "run", **flags)
    assert told in str(e.value)
    assert "Resume it with the earlier ones, or start anew with another --ckpt_path." in str(e.value)
    same = {path.relative_to(folder) for path in folder.rglob("*")}
    assert {path.relative_to(tmp_path / "run") for path in (tmp_path / "run").rglob("*")} == same


def test_what_only_rounds_may_change_and_is_said(stopped, tmp_path, capsys):
    model, pairs, folder = stopped
    shutil.copytree(folder / "checkpoints/checkpoint-2", tmp_path / "checkpoints/checkpoint-2")
    copy = shutil.copy(pairs, tmp_path / "renamed.jsonl")
    run(model, copy, tmp_path, load_checkpoint=True, micro_train_batch_size=2, max_ckpt_num=1, loss="hinge")
    said = capsys.readouterr().out
    assert "equal up to rounding: --micro_train_batch_size was 3, is 2." in said
    assert f"going on from {tmp_path}/checkpoints/checkpoint-2" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"ring_attn_size": 2}, "--ring_attn_size is not there: use --zero_stage 3"),
        ({"packing_samples": True}, "--packing_samples is not there: --max_tokens_per_batch packs"),
        ({"adam_betas": "0.9"}, "two numbers with a comma"),
        ({"mean_log_prob": "yes"}, "--mean_log_prob must be none, trajectory or turn"),
        ({"eval_only": True}, "--eval_only needs --metrics_path"),
        ({"max_len": 12}, "None of the 21 pairs"),
        ({"compat": "published", "train_batch_size": 64}, "21 rows do not fill one --train_batch_size of 64"),
        ({"attention": "flash_attention_2"}, "--attention flash_attention_2 needs a CUDA device"),
        ({"loss": "dop"}, r"no preference loss 'dop' \(did you mean dpo\?\).*module:ATTRIBUTE"),
        ({"loss": "hinge", "ipo": True}, "--ipo and --loss hinge name two losses"),
        ({"loss": "sigmoid_norm", "mean_log_prob": "turn"}, "another mean than --mean_log_prob turn"),
        ({"ipo": True, "label_smoothing": 0.1}, "--label_smoothing has no effect on the loss ipo"),
        ({"lora_rank": 2, "target_modules": "c_attn"}, "--target_modules 'c_attn' does not fit"),
    ],
)
def test_refusals(flags, message, steady, pairs, tmp_path):
    with pytest.raises(SweetRLError, match=message):
        run(steady, pairs, tmp_path, **flags)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("stage", "flags"),
    [(train_dpo, {"compat": "fixed"}), (train_dpo, {"compat": "published"}), (train_sft, {})],
)
def test_turns_of_another_tokenizer_are_refused(stage, flags, steady, pairs, tmp_path):
    marked = [row | {"tokenizer": "another"} if i == 4 else row for i, row in enumerate(rows(pairs))]
    source = write_pairs(tmp_path / "marked.jsonl", marked)
    told = r"1 of 21 rows were sampled with another tokenizer.*marked\.jsonl:5.*--other_tokenizer"
    with pytest.raises(UsageError, match=told):
        run(steady, source, tmp_path, stage, **flags)
    assert not (tmp_path / "out").exists()
    if stage is train_sft:
        assert run(steady, source, tmp_path, stage, other_tokenizer=True, max_samples=8)


def test_a_reference_of_another_family_is_refused(steady, pairs, golden, policy, tmp_path):
    with pytest.raises(UsageError, match="the tokenizers of --pretrain"):
        run(steady, pairs, tmp_path, ref_pretrain=str(policy))


def token_mean(model, dataset):
    """Mean over all imitated tokens of all rows and its gradient's norm, by plain passes over single texts."""
    texts, _ = read_texts(DataSettings(dataset=str(dataset)), min_reward=1.0)
    encoder = TurnEncoder(AutoTokenizer.from_pretrained(model), DataSettings(dataset=""))
    network, losses = AutoModelForCausalLM.from_pretrained(model).eval(), []
    for text in encoder.encode(texts)[0]:
        (branch,) = text.branches
        ids = torch.tensor([branch.ids])
        logps = network(ids).logits[0].log_softmax(-1)
        losses += [-logps[i - 1, ids[0, i]] for start, end in branch.spans for i in range(start, end)]
    mean = torch.stack(losses).mean()
    mean.backward()
    norms = [parameter.grad.norm() for parameter in network.parameters()]
    return mean.item(), torch.stack(norms).norm().item()


def test_a_step_minimises_the_mean_over_tokens_whatever_the_micro_batch(steady, dialogues, tmp_path, capsys):
    recipe = {"train_batch_size": 10, "max_epochs": 3, "min_reward": 1.0, "stage": train_sft}
    one, three = (
        run(steady, dialogues, tmp_path / str(micro), micro_train_batch_size=micro, **recipe)
        for micro in (1, 3)
    )
    assert "10 texts (" in capsys.readouterr().out
    loss, norm = token_mean(steady, dialogues)
    assert one[0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert one[0]["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert one[-1]["loss"] < one[0]["loss"]
    for ours, theirs in zip(three, one, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-3)
    ours, theirs = weights(tmp_path / "3"), weights(tmp_path / "1")
    assert all((ours[name] - theirs[name]).abs().max() < 1e-4 for name in theirs)


def test_texts_that_do_not_fit_are_told_of(steady, dialogues, tmp_path):
    with pytest.raises(UsageError, match="None of the 20 texts"):
        run(steady, dialogues, tmp_path, train_sft, max_len=5)
    assert not (tmp_path / "out").exists()
