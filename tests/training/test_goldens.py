"""Preference training against the published system's numbers (goldens e_dpo)."""

import json
import math

import pytest

from sweet_rl.commands.train import train_dpo

VARIANTS = """
    stage1_reward_model template_sum_nll stage2_policy no_template_mean prompt_key_sum prompt_key_mean
    truncated_max_len_24 stage1_label_smoothing_0.1 stage1_ipo
""".split()
NAMES = {
    "chosen_logp": "policy_chosen_logp",
    "rejected_logp": "policy_rejected_logp",
    **{name: name for name in ("reference_chosen_logp", "reference_rejected_logp", "preference_loss")},
    **{name: name for name in ("chosen_reward", "rejected_reward", "accuracy", "nll_loss", "total_loss")},
}


def flags(settings):
    """A golden's settings as the flags of the stage."""
    names = ("response_template", "max_len", "nll_loss_coef", "beta", "label_smoothing", "ipo")
    chosen = {name: settings[name] for name in names if name in settings}
    return chosen | {
        "prompt_key": settings.get("prompt_key"),
        "mean_log_prob": "true" if settings["mean_log_prob"] else "none",
        "compat": "published",
        "quiet": True,
    }


def encoded(settings, golden, policy):
    """The pairs of a golden's settings as token ids and masks."""
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.training.data import read_pairs
    from sweet_rl.training.encoding import PublishedEncoder
    from sweet_rl.training.settings import DataSettings

    rules = {name: settings.get(name) for name in ("prompt_key", "max_len", "response_template")}
    data = DataSettings(dataset=str(golden / settings["input"]), **rules)
    rows = read_pairs(data, seed=0)[0]
    encoder = PublishedEncoder(load_tokenizer(policy), data)
    pairs, report = encoder.encode(rows)
    assert report.too_long == []
    return pairs


@pytest.mark.parametrize("micro", [1, 4])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_number_of_every_pair(name, micro, golden, expected, policy, tmp_path):
    variant = expected["variants"][name]
    path = tmp_path / "metrics.jsonl"
    train_dpo(
        str(policy),
        str(golden / variant["settings"]["input"]),
        ref_pretrain=str(golden / "reference"),
        eval_only=True,
        metrics_path=str(path),
        micro_train_batch_size=micro,
        **flags(variant["settings"]),
    )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["index"] for row in rows] == list(range(6))
    beta = variant["settings"]["beta"]
    for row, item in zip(rows, variant["items"], strict=True):
        for ours, theirs in NAMES.items():
            if item[theirs] == "NaN":
                assert row[ours] is None
            else:
                # A reward is the small difference of two large sums, whose float32 rounding stays in it.
                rounding = 1e-6 * beta * abs(row["rejected_logp"]) if "reward" in ours else 0
                assert row[ours] == pytest.approx(item[theirs], rel=1e-4, abs=rounding), (ours, item)


@pytest.mark.parametrize("name", VARIANTS)
def test_ids_and_masks(name, golden, expected, policy):
    variant = expected["variants"][name]
    for pair, item in zip(encoded(variant["settings"], golden, policy), variant["items"], strict=True):
        for name_of_side, side in (("chosen", pair.sides[0]), ("rejected", pair.sides[1])):
            (branch,) = side.branches
            assert list(branch.ids) == item[f"{name_of_side}_ids"]
            mask = [any(start <= at < end for start, end in branch.spans) for at in range(len(branch.ids))]
            assert mask == item[f"{name_of_side}_loss_mask"]
            assert branch.prompt_length == item["prompt_token_count"]


@pytest.mark.parametrize("span", [0, math.inf])
@pytest.mark.parametrize("name", VARIANTS)
def test_gradients(name, span, golden, expected, policy):
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from sweet_rl.training.batches import Collator, Reader
    from sweet_rl.training.forward import PreferenceObjective
    from sweet_rl.training.losses import pair_losses
    from sweet_rl.training.settings import LossSettings

    variant = expected["variants"][name]
    settings = variant["settings"]
    reduction = "trajectory" if settings["mean_log_prob"] else "sum"
    names = ("beta", "label_smoothing", "nll_loss_coef")
    losses = LossSettings(
        loss="ipo" if settings["ipo"] else "sigmoid",
        reduction=reduction,
        **{name: settings[name] for name in names},
    )
    model = AutoModelForCausalLM.from_pretrained(policy)
    objective, gradients = (
        PreferenceObjective(model, losses),
        load_file(golden / "expected_grads_layer0_q_proj.safetensors"),
    )
    for pair, item in zip(encoded(settings, golden, policy), variant["items"], strict=True):
        model.zero_grad()
        batch = Collator(reduction, Reader(0, span))([(pair, 1.0)])
        logps, _ = objective.logps(model, batch)
        chosen, rejected = (torch.tensor([item[f"reference_{side}_logp"]]) for side in ("chosen", "rejected"))
        pair_losses(logps, chosen, rejected, losses).total_B.mean().backward()
        grads = [parameter.grad for parameter in model.parameters()]
        norm = torch.stack([grad.norm() for grad in grads]).norm().item()
        if item["grad_global_norm"] == "NaN":
            assert math.isnan(norm)
            continue
        assert norm == pytest.approx(item["grad_global_norm"], rel=1e-4)
        ours = model.model.layers[0].self_attn.q_proj.weight.grad
        theirs = gradients[f"{name}.{pair.index}.grad_q_proj0"]
        assert (ours - theirs).norm() <= 2e-5 * theirs.norm()


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("stage", ["stage1", "stage2"])
def test_fits(stage, micro, golden, expected, policy, tmp_path):
    import torch
    from safetensors.torch import load_file

    fit = expected["fit"][stage]
    train_dpo(
        str(policy),
        str(golden / "pairs.jsonl"),
        ref_pretrain=str(golden / "reference"),
        save_path=str(tmp_path / "out"),
        ckpt_path=str(tmp_path / "checkpoints"),
        eval_fraction=0,
        shuffle=False,
        learning_rate=fit["lr"],
        max_epochs=fit["epochs"],
        train_batch_size=fit["train_batch_size"],
        micro_train_batch_size=micro,
        **flags(fit),
    )
    weights = load_file(tmp_path / "out/model.safetensors")
    for name, tensor in load_file(golden / fit["final_weights"]).items():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=1e-4)
    rows = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert [row["lr"] for row in rows] == pytest.approx(fit["lr_used_per_update"])
    assert [row["grad_norm"] for row in rows] == pytest.approx(fit["grad_norm_before_clip"], rel=1e-3)
    losses = fit["micro_step_total_loss"]
    means = [(first + second) / 2 for first, second in zip(losses[::2], losses[1::2], strict=True)]
    assert [row["total_loss"] for row in rows] == pytest.approx(means, rel=1e-3)
