"""Stages 3 and 6 of the pipeline: preference pairs to a critic, and to a policy.

Published behaviour: docs/published/sweet_rl.md#preference-training.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.training_flags import (
    PairFlags,
    TrainingFlags,
    at_least,
    model_and_data,
    one_of,
    training_stage,
)
from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.training.settings import LossSettings, Reduction


@recorded("train_dpo", reads=("pretrain", "ref_pretrain", "dataset", "deepspeed_config"))
@training_stage()
def train_dpo(
    pretrain: str | None = None,
    dataset: str | None = None,
    *,
    ref_pretrain: str | None = None,
    mean_log_prob: str = "none",
    loss: str | None = None,
    beta: float = 0.1,
    ipo: bool = False,
    label_smoothing: float = 0.0,
    nll_loss_coef: float = 0.0,
    aux_loss_coef: float = 0.0,
    compat: str = "fixed",
    eval_only: bool = False,
    reference_cache: str | None = None,
    ref_offload: bool = False,
    packing_samples: bool = False,
    ring_attn_size: int = 1,
    ring_head_stride: int = 1,
    disable_fast_tokenizer: bool = False,
    pairs: PairFlags,
    flags: TrainingFlags,
) -> None:
    """Train a model on preference pairs, by DPO.

    Only the assistant's turns are scored, wherever the chat template puts them. The reference's log-probabilities
    are computed once, before training. The model and its tokenizer go to save_path, the numbers of every update
    to metrics.jsonl beside them.

    The critic (paper: turn-level advantages) and the policy:
    train_dpo.py --pretrain MODEL --dataset gt_pairs.jsonl --mean_log_prob --max_len 8192 --save_path critic
    train_dpo.py --pretrain MODEL --dataset step_pairs.jsonl --nll_loss_coef 0.01 --save_path policy

    Several processes: torchrun --nproc-per-node 2 train_dpo.py --zero_stage 3 ..., or the deepspeed launcher.

    Args:
        pretrain: the model to train: a folder or a hub name.
        dataset: pairs: .jsonl, .json or .csv files, or hub names (name@data_dir); several with commas between them.
        ref_pretrain: the reference model; default pretrain as it is before training.
        mean_log_prob: none (sum over the response), trajectory (mean over its tokens; what the bare switch means) or turn (sum of each turn's mean).
        loss: sigmoid (DPO's, the default), sigmoid_norm (with means in place of sums, as mean_log_prob), ipo, hinge, robust, logexp, that of an installed package, or your own function as module:FUNCTION (docs/losses.md).
        beta: how strongly the policy is held to the reference.
        ipo: the same as loss ipo.
        label_smoothing: share of labels assumed to be wrong; for sigmoid, sigmoid_norm and robust.
        nll_loss_coef: weight of the chosen response's negative log-likelihood per token.
        aux_loss_coef: weight of the balance loss of a mixture of experts.
        compat: fixed, or published (its masks, truncation, denominators and warm-up, to compare numbers).
        eval_only: train nothing; write every pair's log-probabilities, rewards and losses to metrics_path.
        reference_cache: folder that keeps the reference's log-probabilities for later trainings on the same pairs; default in the user's cache; none: not kept.
        ref_offload: accepted for the published command line; the reference is gone before training begins.
        packing_samples: not there (in the published code it does not run); max_tokens_per_batch packs.
        ring_attn_size: only 1: one process reads a whole pair.
        ring_head_stride: accepted for the published command line; belongs to ring attention.
        disable_fast_tokenizer: accepted for the published command line; has no effect.
        pairs: how pairs are read.
        flags: what every training stage has.
    """
    del ref_offload, ring_head_stride, disable_fast_tokenizer
    pretrain, dataset = model_and_data(pretrain, dataset, "a .jsonl file with pairs")
    _refuse(
        packing_samples=(packing_samples, "--max_tokens_per_batch packs without padding"),
        ring_attn_size=(
            ring_attn_size != 1,
            "use --zero_stage 3 and --gradient_checkpointing for long texts",
        ),
    )
    one_of("compat", compat, ("fixed", "published"))
    at_least(0, label_smoothing=label_smoothing, nll_loss_coef=nll_loss_coef)
    if beta <= 0:
        raise UsageError(f"--beta must be positive, got {beta}.")
    if eval_only and flags.metrics_path is None:
        raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
    published = compat == "published"
    chosen = _loss(
        loss,
        mean_log_prob,
        ipo=ipo,
        beta=beta,
        label_smoothing=0.0 if ipo and published else label_smoothing,
        nll_loss_coef=nll_loss_coef,
        aux_loss_coef=aux_loss_coef,
    )
    settings = flags.settings(
        flags.pair_data(dataset, pairs, published=published),
        flags.model(pretrain, ref_pretrain),
        loss=chosen,
        published=published,
        trains=not eval_only,
    )
    if eval_only:
        from sweet_rl.runs import new_file

        new_file(str(flags.metrics_path), "metrics_path", overwrite=flags.overwrite)
    from sweet_rl.training import dpo

    if reference_cache != "none":
        from sweet_rl.training.reference_cache import default_folder

        folder = Path(reference_cache) if reference_cache else default_folder()
        settings = replace(settings, output=replace(settings.output, reference_cache=folder))
    (dpo.evaluate if eval_only else dpo.train)(settings, print)


def _loss(name: str | None, mean_log_prob: str, *, ipo: bool, **numbers: float) -> LossSettings:
    """The loss as the flags say, tried.

    Raises:
        UsageError: flags that contradict each other, or a loss that is none.
    """
    from sweet_rl.training.losses import check_loss, reduction_of
    from sweet_rl.training.settings import LossSettings

    if ipo and name not in {None, "ipo"}:
        raise UsageError(f"--ipo and --loss {name} name two losses; leave one of them out.")
    name = name or ("ipo" if ipo else LossSettings().name)
    reduction, wanted = _reduction(mean_log_prob), reduction_of(name)
    if wanted not in {None, reduction}:
        if reduction != "sum":
            raise UsageError(
                f"--loss {name} is of another mean than --mean_log_prob {mean_log_prob}; leave it out."
            )
        reduction = wanted
    settings = LossSettings(name=name, reduction=reduction, **numbers)
    check_loss(settings)
    return settings


def _reduction(text: str) -> Reduction:
    match text.lower():
        case "none" | "false":
            return "sum"
        case "trajectory" | "true":
            return "trajectory"
        case "turn":
            return "turn"
    raise UsageError(f"--mean_log_prob must be none, trajectory or turn, got {text!r}.")


def _refuse(**flags: tuple[bool, str]) -> None:
    for name, (given, instead) in flags.items():
        if given:
            raise UsageError(f"--{name} is not there: {instead}.")
