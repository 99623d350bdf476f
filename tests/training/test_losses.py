"""Losses, learning rates and a regression head's critic against numbers written out by hand."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sweet_rl.commands.rank_best_of_n import rank_best_of_n
from sweet_rl.commands.train import train_reward_model
from sweet_rl.errors import UsageError
from sweet_rl.training.forward import CriticObjective
from sweet_rl.training.losses import LOSSES, PairLogps, check_loss, pair_losses, value_losses
from sweet_rl.training.models import load_critic
from sweet_rl.training.scoring import CandidateScorer
from sweet_rl.training.settings import LossSettings, ModelSettings, TrainSettings
from sweet_rl.training.steps import rate_factor
from tests.training.pairs import dialogue_pairs, turn, write_pairs


def losses(settings, chosen=-4.0, rejected=-7.0, reference=(-5.0, -6.0), nll=2.0):
    policy = PairLogps(*(torch.tensor([value]) for value in (chosen, rejected, nll)))
    return pair_losses(policy, *(torch.tensor([value]) for value in reference), settings)


def test_rewards_and_nll_by_hand():
    result = losses(LossSettings(beta=0.5, label_smoothing=0.1, nll_loss_coef=0.25))  # h = 3 - 1 = 2
    assert result.total_B.item() == pytest.approx(0.4132617 + 0.5, abs=1e-6)  # and 0.25 * 2
    assert (result.chosen_reward_B.item(), result.rejected_reward_B.item()) == (0.5, -0.5)
    assert (result.accuracy_B.item(), result.margin_B.item()) == (1, 1.0)
    assert losses(LossSettings(), chosen=-5.0, rejected=-6.0).accuracy_B.item() == 0  # a tie
    assert losses(LossSettings(), nll=math.nan).total_B.isfinite().all()  # it hurts only where it counts
    assert losses(LossSettings(nll_loss_coef=0.1), nll=math.nan).total_B.isnan().all()
    assert losses(LossSettings(loss="hinge", beta=0.25)).preference_B.item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "smoothing", "value"),
    [
        ("sigmoid", 0.0, 0.3132617),  # h = 2, so -log sigma(1)
        ("dpo", 0.0, 0.3132617),
        ("sigmoid_norm", 0.1, 0.4132617),  # 0.9 * 0.3132617 + 0.1 * 1.3132617; the means are made before
        ("ipo", 0.0, 1.0),  # (2 - 1)^2
        ("hinge", 0.0, 0.0),  # 1 - 0.5 * 2
        ("robust", 0.1, 0.1882617),  # (0.9 * 0.3132617 - 0.1 * 1.3132617) / 0.8
        ("logexp", 0.0, 0.3132617),
    ],
)
def test_every_loss_by_hand(name, smoothing, value):
    settings = LossSettings(loss=name, beta=0.5, label_smoothing=smoothing)
    assert losses(settings).preference_B.item() == pytest.approx(value, abs=1e-6)
    check_loss(settings)


def test_what_has_no_meaning_is_refused():
    for name in ("ipo", "hinge", "logexp"):
        with pytest.raises(UsageError, match=f"--label_smoothing has no effect on the loss {name}, got 0.1"):
            check_loss(LossSettings(loss=name, label_smoothing=0.1))
    with pytest.raises(UsageError, match=r"below 0\.5 with the loss robust, got 0\.5"):
        check_loss(LossSettings(loss="robust", label_smoothing=0.5))
    with pytest.raises(TypeError):
        LossSettings(0.1)  # a field more would shift all others


def centred(pairs, settings):
    return -(pairs.h_B - pairs.h_B.mean())


def summed(pairs, settings):
    return -pairs.h_B.sum()


def frozen(pairs, settings):
    return -pairs.h_B.detach()


def forgetful(pairs):
    return -pairs.h_B


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("centred", "another number when other pairs are in the batch"),
        ("summed", r"gives shape \[\] for three pairs"),
        ("frozen", "has no gradient"),
        ("forgetful", "fails on three pairs: TypeError.*takes 1 positional argument"),
        ("math", "fails on three pairs: TypeError: .module. object is not callable"),
    ],
)
def test_a_loss_of_ones_own_that_is_none(loss, message):
    with pytest.raises(UsageError, match=message):
        check_loss(LossSettings(loss=f"{__name__}:{loss}"))


def test_a_loss_by_its_name_and_by_its_published_switch_are_the_same():
    def wanted(**flags):
        found = check_loss(LossSettings(**flags))
        return found.loss, found.reduction

    wanting = {name for name in LOSSES.ours if wanted(loss=name)[1] != "sum"}
    assert wanting == {"sigmoid_norm"}
    assert wanted(ipo=True) == wanted(loss="ipo") == ("ipo", "sum")
    assert wanted(loss="sigmoid_norm")[1] == wanted(mean_log_prob="trajectory")[1] == "trajectory"
    assert wanted(mean_log_prob="turn") == ("sigmoid", "turn")


def test_rates():
    published = rate_factor("cosine_with_floor", steps=6, warmup_ratio=0.03, published=True)
    assert [published(update) for update in (0, 1, 6)] == [0.0, 1.0, pytest.approx(0.1)]
    fixed = rate_factor("cosine_with_floor", steps=10, warmup_ratio=0.25, published=False)
    assert [fixed(update) for update in range(4)] == [0.25, 0.5, 0.75, 1.0]
    linear = rate_factor("linear", steps=4, warmup_ratio=0, published=False)
    assert [linear(update) for update in range(4)] == [1.0, 0.75, 0.5, 0.25]
    with pytest.raises(UsageError, match="must be one of cosine_with_floor, linear, constant"):
        rate_factor("cubic", steps=4, warmup_ratio=0, published=False)


RECIPE = {"train_batch_size": 8, "learning_rate": 1e-3, "eval_fraction": 0.0, "quiet": True}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The chosen side is always the longer one: something that a critic can learn."""
    rows = [{side: row[side] for side in ("chosen", "rejected")} for row in dialogue_pairs(24)]
    rows = [dict(zip(row, sorted(row.values(), key=len, reverse=True), strict=True)) for row in rows]
    return write_pairs(tmp_path_factory.mktemp("pairs") / "pairs.jsonl", rows)


def run(model, pairs, folder, **flags):
    recipe = RECIPE | {"ckpt_path": str(folder / "checkpoints")} | flags
    train_reward_model(str(model), str(pairs), save_path=str(folder / "out"), **recipe)
    return [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]


class Identity:
    """A model whose value at a position is the token's id; its own output is of no use."""

    def __init__(self):
        self.score = torch.nn.Identity()

    def __call__(self, input_ids, **options):
        self.options = options
        return self.score(input_ids[..., None].float())


def test_the_value_at_the_last_token_and_the_published_mean_by_hand():
    batch = {
        "ids_ST": torch.tensor([[3, 5, 7], [2, 9, 9]])
    }  # the second text is [2, 9]; its padding is 9, too
    batch["attention_ST"] = torch.tensor([[1, 1, 1], [1, 1, 0]])

    def values(published):
        return CriticObjective(model, TrainSettings(dataset="", compat=published)).values(model, batch)

    model = Identity()
    assert values("fixed").tolist() == [7, 9]
    model = Identity()
    assert values("published").tolist() == pytest.approx([5, 20 / 3])  # padding included
    assert model.options["position_ids"].tolist() == [[0, 1, 2], [0, 1, 1]]


def test_both_losses_by_hand():
    chosen, rejected = torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0])
    for loss in ("sigmoid", "logexp"):
        settings = LossSettings(loss=loss, beta=1.0)
        assert value_losses(chosen, rejected, settings).tolist() == pytest.approx([0.3132617, 0.6931472])


def test_a_new_head_is_small_and_an_old_one_stays(steady, tmp_path):
    critic = load_critic(str(steady), ModelSettings(pretrain=str(steady)))
    assert 0.5 / 33 < critic.score.weight.std() < 1.5 / 33
    critic.save_pretrained(tmp_path)
    again = load_critic(str(tmp_path), ModelSettings(pretrain=str(tmp_path)))
    assert again.score.weight.equal(critic.score.weight)


def test_it_learns_whatever_the_micro_batch_and_ranks(steady, pairs, tmp_path):
    """Each row of the ranked file has the value at the last token of dialogue and candidate."""
    flags = {"max_epochs": 6, "learning_rate": 3e-3, "eval_fraction": 0.1}
    runs = [
        run(steady, pairs, tmp_path / str(micro), micro_train_batch_size=micro, **flags) for micro in (1, 3)
    ]
    for ours, theirs in zip(*runs, strict=True):
        for name in {"loss", "grad_norm", "eval_loss", "chosen_reward"} & set(ours):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-5)
    assert runs[0][-2]["loss"] < 0.5
    assert runs[0][0]["loss"] > 0.6

    prompt = f"<|begin|>{turn('user', 'What?')}<|header|>assistant<|end_header|>\n\n"
    candidates = ["It is zero.", "no"]
    row = {"input": prompt, "input_with_ground_truth": "In light that the final answer is: zero." + prompt}
    row |= {"messages": [{"role": "assistant", "content": "x"}], "reward": 0, "ground_truth": "zero"}
    row |= {"older_output": "x", "additional_outputs": candidates, "end_token": "<|end_turn|>"}
    row |= {"additional_reference_logprobs": [-1.0, -1.0], "additional_reference_logprobs_sum": [-2.0, -2.0]}
    sampled = write_pairs(tmp_path / "sampled.jsonl", [row])
    folder = tmp_path / "1/out"
    rank_best_of_n(sampled, tmp_path / "ranked.jsonl", str(folder), quiet=True)
    (ranked,) = [json.loads(line) for line in (tmp_path / "ranked.jsonl").read_text().splitlines()]
    critic = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text, score in zip(candidates, ranked["judge_result"], strict=True):
        whole = row["input_with_ground_truth"], text + "<|end_turn|>"
        ids = [i for part in whole for i in tokenizer(part, add_special_tokens=False).input_ids]
        with torch.inference_mode():
            value = critic.score(critic.model(torch.tensor([ids])).last_hidden_state[0, -1])
        assert score == pytest.approx(value.item(), abs=1e-5)


def test_the_published_mean_is_what_its_ranking_takes(steady, pairs, tmp_path):
    lines = run(steady, pairs, tmp_path, compat="published", loss="logexp", train_batch_size=24)
    assert len(lines) == 1
    critic = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    with torch.inference_mode():
        value = critic.score(critic.model(torch.tensor([[5, 6, 7, 8]])).last_hidden_state[0]).mean()
    scores = CandidateScorer(tmp_path / "out").score([[5, 6]], [[[7, 8], [9]]])
    assert scores[0][0] == [pytest.approx(value.item(), abs=1e-5)]


def test_an_adapter_trains_the_head_too(steady, pairs, tmp_path):
    run(steady, pairs, tmp_path, learning_rate=1e-2, lora_rank=2, target_modules="q_proj")
    before, after = load_file(steady / "model.safetensors"), load_file(tmp_path / "out/model.safetensors")
    changed = {name for name in after if name not in before or not before[name].equal(after[name])}
    assert changed == {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)} | {"score.weight"}
