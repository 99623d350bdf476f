"""Pairs with pictures under a tiny vision-language model: its numbers are those of each text by itself."""

import base64
import io
import json
import re
import shutil

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import (
    AutoImageProcessor,
    AutoModelForImageTextToText,
    AutoTokenizer,
    Qwen2VLForConditionalGeneration,
)

from sweet_rl.chat import load_tokenizer
from sweet_rl.commands.train import train_dpo, train_reward_model
from sweet_rl.errors import UsageError
from sweet_rl.training.batches import Collator, Reader
from sweet_rl.training.data import read_pairs
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.forward import PreferenceObjective
from sweet_rl.training.models import load_critic
from sweet_rl.training.scoring import CandidateScorer
from sweet_rl.training.settings import DataSettings, LossSettings, ModelSettings
from sweet_rl.training.trainer import Rows
from sweet_rl.training.vision import Vision
from tests.training.pairs import write_pairs
from tests.training.vision_models import START, picture_pairs, png, save_tiny_qwen2_vl

LIMITS = {"min_pixels": 4 * 28**2, "max_pixels": 16 * 28**2}
RECIPE = LIMITS | {"train_batch_size": 3, "learning_rate": 1e-3, "eval_fraction": 0.0, "quiet": True}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Its folder's name tells nothing about its kind."""
    return save_tiny_qwen2_vl(tmp_path_factory.mktemp("vision") / "llama")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Seven pairs with one to three pictures, two without any."""
    folder = tmp_path_factory.mktemp("shown")
    rows = picture_pairs(folder, 9, text_only=2)
    return write_pairs(folder / "pairs.jsonl", rows), rows


def run(stage, model, pairs, folder, **flags):
    recipe = RECIPE | {"ckpt_path": str(folder / "checkpoints"), "micro_train_batch_size": 2} | flags
    stage(str(model), str(pairs), save_path=str(folder / "out"), **recipe)
    return [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]


def weights(folder):
    return load_file(folder / "out/model.safetensors")


class Plain:
    """A model as transformers' users call it, one text at a time; knows nothing of our code."""

    def __init__(self, folder, model):
        self.model = model
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        size = {"shortest_edge": LIMITS["min_pixels"], "longest_edge": LIMITS["max_pixels"]}
        self.processor = AutoImageProcessor.from_pretrained(folder, size=size)

    def inputs(self, messages, folder):
        text = self.tokenizer.apply_chat_template(messages, tokenize=False).rstrip("\n")
        images = [self.image(part["image"], folder) for m in messages for part in parts(m) if "image" in part]
        inputs = self.processor(images, return_tensors="pt") if images else {}
        sizes = iter(inputs["image_grid_thw"].prod(-1) // 4 if images else ())
        text = re.sub(r"<\|image_pad\|>", lambda mark: mark.group() * next(sizes), text)
        ids = self.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        image_id = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == image_id).int(),
            **inputs,
        }

    def image(self, source, folder):
        if source.startswith("data:"):
            return Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        return Image.open(folder / source)

    def turns(self, ids):
        """Places of the assistant's tokens, each turn's end token among them."""
        header = self.tokenizer(f"{START}assistant\n", add_special_tokens=False).input_ids
        end = self.tokenizer.eos_token_id
        for at in range(len(ids)):
            if ids[at : at + len(header)] == header:
                start = at + len(header)
                yield list(range(start, ids.index(end, start) + 1))

    def logps(self, messages, folder):
        inputs = self.inputs(messages, folder)
        ids = inputs["input_ids"][0]
        logps = self.model(**inputs).logits[0].log_softmax(-1)
        places = [place for turn in self.turns(ids.tolist()) for place in turn]
        return logps[[place - 1 for place in places], ids[places]]


def parts(message):
    return message["content"] if isinstance(message["content"], list) else []


loaded = Qwen2VLForConditionalGeneration.from_pretrained


@pytest.mark.parametrize("reduction", ["none", "trajectory"])
def test_log_probabilities_are_those_of_each_text_by_itself(reduction, model, rows, tmp_path):
    path, pairs = rows
    out = tmp_path / "numbers.jsonl"
    flags = {"eval_only": True, "metrics_path": str(out), "micro_train_batch_size": 3}
    train_dpo(str(model), str(path), mean_log_prob=reduction, **LIMITS, **flags)
    numbers = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(numbers) == len(pairs)
    plain = Plain(model, loaded(model))
    for row, found in zip(pairs, numbers, strict=True):
        for side in ("chosen", "rejected"):
            with torch.no_grad():
                logps = plain.logps(row[side], path.parent)
            wanted = logps.sum() if reduction == "none" else logps.mean()
            assert found[f"{side}_logp"] == pytest.approx(wanted.item(), abs=1e-4)


def encoded(model, path, **settings):
    tokenizer = load_tokenizer(model)
    data = DataSettings(dataset=str(path), **LIMITS, **{"max_len": 1024} | settings)
    vision = Vision.load(str(model), tokenizer, data)
    read = read_pairs(data, seed=0)[0]
    encoder = TurnEncoder(tokenizer, data, vision)
    return *encoder.encode(read), vision


def test_gradients_too_and_the_vision_tower_has_some(model, rows):
    path, pairs = rows
    items, _, vision = encoded(model, path)
    ours = loaded(model)
    collate = Collator("sum", Reader(0, vision=vision))
    batch = collate([(item, 1.0) for item in items])
    assert "positions_RT" not in batch  # nothing is shared
    objective = PreferenceObjective(ours, LossSettings())
    objective(ours, batch).total_B.sum().backward()
    assert objective._head._plain  # log-probabilities without logits

    theirs = loaded(model)
    plain = Plain(model, theirs)
    for row in pairs:
        chosen, rejected = (plain.logps(row[side], path.parent).sum() for side in ("chosen", "rejected"))
        (-torch.nn.functional.logsigmoid(0.1 * (chosen - rejected))).backward()
    wanted = dict(theirs.named_parameters())
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, wanted[name].grad, atol=1e-4, rtol=1e-3)
    assert ours.model.visual.patch_embed.proj.weight.grad.abs().max() > 0


def test_training_does_not_depend_on_micro_batches_and_what_is_saved_loads(model, rows, tmp_path):
    flags = {"max_epochs": 2}
    one = run(train_dpo, model, rows[0], tmp_path / "1", micro_train_batch_size=1, **flags)
    flags |= {"micro_train_batch_size": 3, "gradient_checkpointing": True}
    three = run(train_dpo, model, rows[0], tmp_path / "3", **flags)
    assert len(one) == len(three) == 6
    for ours, theirs in zip(one, three, strict=True):
        assert ours["total_loss"] == pytest.approx(theirs["total_loss"], rel=1e-3)
        assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-3)
    assert one[0]["loss"] == pytest.approx(0.693147, abs=1e-5)
    assert one[-1]["loss"] < 0.6
    out = tmp_path / "1/out"
    saved, report = AutoModelForImageTextToText.from_pretrained(out, output_loading_info=True)
    assert not any(report.values())
    assert type(saved).__name__ == "Qwen2VLForConditionalGeneration"
    size = AutoImageProcessor.from_pretrained(out).size
    assert (size["shortest_edge"], size["longest_edge"]) == tuple(LIMITS.values())
    assert "image_pad" in AutoTokenizer.from_pretrained(out).chat_template


def test_an_adapter_leaves_the_vision_tower_as_it_is(model, rows, tmp_path):
    run(train_dpo, model, rows[0], tmp_path, lora_rank=2, mean_log_prob="trajectory")
    base, after = load_file(model / "model.safetensors"), weights(tmp_path)
    changed = {name for name in after if not torch.equal(after[name], base[name])}
    assert changed
    assert all("_proj" in name and "visual" not in name for name in changed)


def critic_of(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["Qwen2VLForSequenceClassification"]
    return load_critic(str(folder), ModelSettings(pretrain=str(folder)))


CRITIC = {"learning_rate": 0.0, "train_batch_size": 9, "max_len": 1024}


def test_a_regression_head_reads_the_last_token(model, rows, tmp_path):
    path, pairs = rows
    (one,), (three,) = (
        run(train_reward_model, model, path, tmp_path / str(micro), micro_train_batch_size=micro, **CRITIC)
        for micro in (1, 3)
    )
    assert one["loss"] == pytest.approx(three["loss"], rel=1e-4)
    critic = critic_of(tmp_path / "1/out")
    with torch.no_grad():
        value = critic.score(critic.model(torch.tensor([[5, 6, 7]])).last_hidden_state)[0, -1, 0].item()
    assert CandidateScorer(tmp_path / "1/out").score([[5, 6]], [[[7]]]) == [
        [[pytest.approx(value, abs=1e-5)]]
    ]
    plain, values = Plain(model, critic), []
    for row in pairs:
        with torch.no_grad():
            hidden = critic.model(**plain.inputs(row["chosen"], path.parent)).last_hidden_state
        values.append(critic.score(hidden)[0, -1, 0].item())
    assert one["chosen_reward"] == pytest.approx(sum(values) / len(values), abs=1e-5)


def test_or_the_published_mean_with_padding(model, rows, tmp_path):
    row = rows[1][2]  # three pictures on one side
    path = write_pairs(rows[0].parent / "one.jsonl", [row])
    (line,) = run(
        train_reward_model, model, path, tmp_path, compat="published", **CRITIC | {"train_batch_size": 1}
    )
    critic = critic_of(tmp_path / "out")
    assert critic.config.critic_value == "mean"
    plain = Plain(model, critic)
    sides = [plain.inputs(row[side], path.parent) for side in ("chosen", "rejected")]
    length = max(side["input_ids"].shape[1] for side in sides)
    for side, reward in zip(sides, (line["chosen_reward"], line["reject_reward"]), strict=True):
        missing = (0, length - side["input_ids"].shape[1])
        for name in ("input_ids", "attention_mask", "mm_token_type_ids"):
            value = plain.tokenizer.eos_token_id if name == "input_ids" else 0
            side[name] = torch.nn.functional.pad(side[name], missing, value=value)
        with torch.no_grad():
            values = critic.score(critic.model(**side).last_hidden_state)[0, :, 0]
        assert reward == pytest.approx(values.mean().item(), abs=1e-4)


def test_a_turn_that_is_too_much_takes_its_picture_with_it(model, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(56, 56, number))

    def ask(number):
        return {"role": "user", "content": [{"type": "image", "image": f"{number}.png"}]}

    system = {"role": "system", "content": [{"type": "image", "image": "0.png"}]}
    yes = {"role": "assistant", "content": "yes"}
    whole = [system, ask(1), yes, ask(2), yes]
    path = write_pairs(tmp_path / "pairs.jsonl", [{"chosen": whole, "rejected": [system, *whole[2:]]}])
    (pair,), _, vision = encoded(model, path)
    (branch,) = pair.sides[0].branches
    first, _, third = branch.pictures
    full = len(branch.ids)
    (shorter,), report, _ = encoded(model, path, max_len=full - 1)
    assert report.lines(99) == [f"1 pairs lost their oldest turns (--max_len {full - 1})"]
    chosen, rejected = shorter.branches
    assert chosen.pictures == (first, third)
    assert chosen.ids == rejected.ids
    assert vision.complete(chosen.ids, chosen.pictures)


def test_the_references_numbers_belong_to_the_pictures(model, tmp_path):
    digests = set()
    for seed in (1, 1, 2):
        (tmp_path / "a.png").write_bytes(png(56, 56, seed))
        ask = {"role": "user", "content": [{"type": "image", "image": "a.png"}]}
        sides = {side: [ask, {"role": "assistant", "content": side}] for side in ("chosen", "rejected")}
        path = write_pairs(tmp_path / "pairs.jsonl", [sides])
        digests.add(Rows(None, encoded(model, path)[0], []).digest)
    assert len(digests) == 2


def test_a_model_without_eyes_is_refused(steady, model, rows, tmp_path):
    folder = shutil.copytree(steady, tmp_path / "qwen2-vl")  # as if its name said what it is
    shutil.copy(model / "chat_template.jinja", folder)
    with pytest.raises(UsageError, match=r"pairs\.jsonl:1 shows a picture\. .*\(llama\) reads no pictures"):
        run(train_dpo, folder, rows[0], tmp_path)


def test_published_rules_leave_out_what_they_would_cut(model, rows, tmp_path, capsys):
    flags = {"compat": "published", "eval_only": True, "metrics_path": str(tmp_path / "n.jsonl")}
    train_dpo(str(model), str(rows[0]), max_len=48, **LIMITS, **flags)
    assert re.search(r"\d pairs left out, too long for --max_len 48", capsys.readouterr().out)
    lines = (tmp_path / "n.jsonl").read_text().splitlines()
    assert 0 < len(lines) < 9
