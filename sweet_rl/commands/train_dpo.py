"""Stages 3 and 6 of the pipeline: preference pairs to a critic, and to a policy (spec §9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.training.settings import Reduction


def train_dpo(
    pretrain: str | None = None,
    dataset: str | None = None,
    *,
    save_path: str = "./ckpt",
    ref_pretrain: str | None = None,
    dataset_probs: str = "1.0",
    train_split: str = "train",
    eval_split: str = "test",
    eval_fraction: float = 0.03,
    max_samples: float = 1e8,
    prompt_key: str | None = None,
    chosen_key: str = "chosen",
    rejected_key: str = "rejected",
    input_template: str | None = None,
    apply_chat_template: bool = False,
    max_len: int = 512,
    response_template: str | None = None,
    mean_log_prob: str = "none",
    beta: float = 0.1,
    ipo: bool = False,
    label_smoothing: float = 0.0,
    nll_loss_coef: float = 0.0,
    aux_loss_coef: float = 0.0,
    max_epochs: int = 1,
    train_batch_size: int = 128,
    micro_train_batch_size: int = 8,
    learning_rate: float = 1e-5,
    lr_scheduler: str = "cosine_with_floor",
    lr_warmup_ratio: float = 0.03,
    l2: float = 0.0,
    adam_betas: str = "0.9,0.95",
    max_norm: float = 1.0,
    seed: int = 42,
    shuffle: bool = True,
    group_by_length: bool | None = None,
    compat: str = "fixed",
    eval_only: bool = False,
    metrics_path: str | None = None,
    logging_steps: int = 1,
    eval_steps: int = -1,
    save_steps: int = -1,
    ckpt_path: str = "./ckpt/checkpoints_dpo",
    max_ckpt_num: int = 3,
    max_ckpt_mem: float = 1e8,
    load_checkpoint: bool = False,
    resume: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    bf16: bool = False,
    gradient_checkpointing: bool = False,
    gradient_checkpointing_use_reentrant: bool = False,
    flash_attn: bool = False,
    load_in_4bit: bool = False,
    lora_rank: int = 0,
    lora_alpha: int = 16,
    lora_dropout: float = 0.0,
    target_modules: str = "q_proj,k_proj,v_proj,o_proj",
    zero_stage: int = 2,
    adam_offload: bool = False,
    zpg: int = 1,
    grad_accum_dtype: str | None = None,
    overlap_comm: bool = False,
    ref_offload: bool = False,
    local_rank: int = -1,
    packing_samples: bool = False,
    ring_attn_size: int = 1,
    ring_head_stride: int = 1,
    disable_fast_tokenizer: bool = False,
    use_tensorboard: str | None = None,
    use_wandb: str | None = None,
    wandb_org: str | None = None,
    wandb_group: str | None = None,
    wandb_project: str = "openrlhf_train_dpo",
    wandb_run_name: str | None = None,
    quiet: bool = False,
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
        save_path: folder for the trained model and its tokenizer.
        ref_pretrain: the reference model; default pretrain as it is before training.
        dataset_probs: for several datasets: how often each is drawn from, with commas between the numbers.
        train_split: of a dataset from the hub.
        eval_split: of a dataset from the hub: what to hold out, if it has such a split.
        eval_fraction: share of the pairs to hold out otherwise, drawn by seed; 0 for none.
        max_samples: take the first so many rows of each dataset.
        prompt_key: field with the prompt that both sides answer; default: prompt in rows that have it, else the sides are whole dialogues (published: always whole dialogues).
        chosen_key: field with the preferred side.
        rejected_key: field with the other side.
        input_template: text around the prompt, which takes the place of {}.
        apply_chat_template: the fields are lists of messages; make texts of them with the model's chat template.
        max_len: tokens of one side at most; oldest turns go first, pairs that cannot be cut at a turn are left out.
        response_template: text that opens an assistant turn, for models whose chat template does not say it.
        mean_log_prob: none (sum over the response), trajectory (mean over its tokens; what the bare switch means) or turn (sum of each turn's mean).
        beta: how strongly the policy is held to the reference.
        ipo: IPO's squared loss instead of the sigmoid.
        label_smoothing: share of labels assumed to be wrong.
        nll_loss_coef: weight of the chosen response's negative log-likelihood per token.
        aux_loss_coef: weight of the balance loss of a mixture of experts.
        max_epochs: passes over the pairs.
        train_batch_size: pairs of one update, over all processes.
        micro_train_batch_size: pairs in one forward pass at most; has no influence on the result.
        learning_rate: the highest.
        lr_scheduler: after the warm-up: cosine_with_floor (ends at a tenth), linear (ends at 0) or constant.
        lr_warmup_ratio: share of the updates over which the rate rises.
        l2: weight decay of AdamW; biases and norms have none.
        adam_betas: both of them with a comma between.
        max_norm: gradients are clipped to this norm.
        seed: of order, held-out pairs, adapters and dropout.
        shuffle: a new order for every epoch; --noshuffle keeps the order of the file.
        group_by_length: updates of pairs of like length, which saves padding; default yes, with --compat published no.
        compat: fixed, or published (its masks, truncation, denominators and warm-up, to compare numbers).
        eval_only: train nothing; write every pair's log-probabilities, rewards and losses to metrics_path.
        metrics_path: .jsonl file for numbers; default metrics.jsonl in save_path.
        logging_steps: updates between two lines of it.
        eval_steps: updates between two evaluations of the held-out pairs; -1: at the end.
        save_steps: updates between two checkpoints; -1: none.
        ckpt_path: folder for checkpoints.
        max_ckpt_num: checkpoints to keep at most.
        max_ckpt_mem: gigabytes that they may take; the newest stays in any case.
        load_checkpoint: go on from the newest checkpoint in ckpt_path, if there is one.
        resume: the same as load_checkpoint.
        device: auto, cpu or cuda.
        dtype: precision of the weights: auto (float32), float32 or bfloat16 (small learning rates get lost in it; see bf16).
        bf16: compute in bfloat16, with weights in float32.
        gradient_checkpointing: compute activations again instead of keeping them: less memory, more time.
        gradient_checkpointing_use_reentrant: torch's older way of doing so.
        flash_attn: the package flash-attn instead of torch's fused attention.
        load_in_4bit: quantised weights under an adapter (bitsandbytes).
        lora_rank: train an adapter of this rank, merged into the model at the end; 0 trains all weights.
        lora_alpha: scale of the adapter.
        lora_dropout: dropout before the adapter.
        target_modules: modules that get an adapter, with commas between them, or all-linear.
        zero_stage: what DeepSpeed shards over several processes: 1 optimizer states, 2 and gradients, 3 and weights; 0: plain data parallel.
        adam_offload: DeepSpeed keeps the optimizer's states in main memory.
        zpg: for zero_stage 3: GPUs that keep a second copy of the shards among them.
        grad_accum_dtype: in which DeepSpeed accumulates gradients: fp32, fp16 or bf16.
        overlap_comm: DeepSpeed reduces gradients while computing others.
        ref_offload: accepted for the published command line; the reference is gone before training begins.
        local_rank: given by launchers; the environment says the same.
        packing_samples: not there (in the published code it does not run): pairs are batched by length instead.
        ring_attn_size: only 1: one process reads a whole pair.
        ring_head_stride: accepted for the published command line; belongs to ring attention.
        disable_fast_tokenizer: accepted for the published command line; has no effect.
        use_tensorboard: folder for TensorBoard's files.
        use_wandb: log to Weights & Biases; the key comes from the environment (WANDB_API_KEY) or from `wandb login`.
        wandb_org: its entity.
        wandb_group: its group.
        wandb_project: its project.
        wandb_run_name: its name for the run.
        quiet: no progress bar.
    """
    del ref_offload, local_rank, ring_head_stride, disable_fast_tokenizer
    if pretrain is None or dataset is None:
        raise UsageError("--pretrain (a model) and --dataset (a .jsonl file with pairs) are needed.")
    _refuse(
        packing_samples=(packing_samples, "pairs are batched by length instead; leave it out"),
        ring_attn_size=(
            ring_attn_size != 1,
            "use --zero_stage 3 and --gradient_checkpointing for long texts",
        ),
    )
    _one_of("compat", compat, ("fixed", "published"))
    _one_of("device", device, ("auto", "cpu", "cuda"))
    _one_of("dtype", dtype, ("auto", "float32", "bfloat16"))
    _one_of("zero_stage", zero_stage, (0, 1, 2, 3))
    _at_least(1, max_samples=max_samples, max_len=max_len, max_epochs=max_epochs, logging_steps=logging_steps)
    _at_least(1, train_batch_size=train_batch_size, micro_train_batch_size=micro_train_batch_size, zpg=zpg)
    _at_least(1, max_ckpt_num=max_ckpt_num)
    _at_least(0, learning_rate=learning_rate, lr_warmup_ratio=lr_warmup_ratio, l2=l2, max_norm=max_norm)
    _at_least(0, label_smoothing=label_smoothing, nll_loss_coef=nll_loss_coef, lora_rank=lora_rank)
    if not 0 <= eval_fraction < 1:
        raise UsageError(f"--eval_fraction must be at least 0 and below 1, got {eval_fraction}.")
    if beta <= 0:
        raise UsageError(f"--beta must be positive, got {beta}.")
    reduction = _reduction(mean_log_prob)
    betas = _betas(adam_betas)
    wandb = _wandb(use_wandb, wandb_org, wandb_group, wandb_project)
    if eval_only and metrics_path is None:
        raise UsageError("--eval_only needs --metrics_path, the .jsonl file for the numbers.")
    from sweet_rl.training import settings as s
    from sweet_rl.training.schedule import SCHEDULES

    _one_of("lr_scheduler", lr_scheduler, SCHEDULES)
    published = compat == "published"
    settings = s.TrainSettings(
        data=s.DataSettings(
            dataset=dataset,
            dataset_probs=dataset_probs,
            train_split=train_split,
            eval_split=eval_split,
            prompt_key=prompt_key,
            find_prompt=not published,
            chosen_key=chosen_key,
            rejected_key=rejected_key,
            input_template=input_template,
            apply_chat_template=apply_chat_template,
            max_samples=int(max_samples),
            max_len=max_len,
            response_template=response_template,
            eval_fraction=eval_fraction,
        ),
        model=s.ModelSettings(
            pretrain=pretrain,
            ref_pretrain=ref_pretrain,
            bf16=bf16,
            dtype=dtype,
            device=device,
            flash_attn=flash_attn,
            load_in_4bit=load_in_4bit,
            lora_rank=lora_rank,
            lora_alpha=lora_alpha,
            lora_dropout=lora_dropout,
            target_modules=target_modules,
            gradient_checkpointing=gradient_checkpointing,
            gradient_checkpointing_use_reentrant=gradient_checkpointing_use_reentrant,
        ),
        loss=s.LossSettings(beta, label_smoothing, ipo, nll_loss_coef, reduction, aux_loss_coef),
        optimizer=s.OptimizerSettings(
            learning_rate=learning_rate,
            lr_warmup_ratio=lr_warmup_ratio,
            lr_scheduler=lr_scheduler,
            max_epochs=max_epochs,
            train_batch_size=train_batch_size,
            micro_train_batch_size=micro_train_batch_size,
            l2=l2,
            adam_betas=betas,
            max_norm=max_norm,
            shuffle=shuffle,
            group_by_length=not published and shuffle if group_by_length is None else group_by_length,
        ),
        shards=s.ShardSettings(zero_stage, zpg, adam_offload, grad_accum_dtype, overlap_comm),
        output=s.OutputSettings(
            save_path=Path(save_path),
            ckpt_path=Path(ckpt_path),
            save_steps=save_steps,
            eval_steps=eval_steps,
            logging_steps=logging_steps,
            max_ckpt_num=max_ckpt_num,
            max_ckpt_mem_gb=max_ckpt_mem,
            load_checkpoint=load_checkpoint or resume,
            metrics_path=Path(metrics_path) if metrics_path else Path(save_path) / "metrics.jsonl",
            tensorboard=use_tensorboard,
            wandb=wandb,
            wandb_run_name=wandb_run_name,
            quiet=quiet,
        ),
        published=published,
        seed=seed,
    )
    try:
        from sweet_rl.training import dpo
    except ImportError as error:
        from sweet_rl.errors import missing_package

        raise missing_package(error.name or "torch", "training", needed_for="training") from error
    (dpo.evaluate if eval_only else dpo.train)(settings, print)


def _reduction(text: str) -> Reduction:
    match text.lower():
        case "none" | "false":
            return "sum"
        case "trajectory" | "true":
            return "trajectory"
        case "turn":
            return "turn"
    raise UsageError(f"--mean_log_prob must be none, trajectory or turn, got {text!r}.")


def _betas(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise UsageError(
            f"--adam_betas must be two numbers with a comma between them (0.9,0.95), got {text!r}."
        ) from None
    return first, second


def _wandb(use: str | None, entity: str | None, group: str | None, project: str) -> bool:
    """Whether to log there; its client reads the rest from the environment."""
    if use is None or use.lower() in {"false", "none", ""}:
        return False
    if use.lower() != "true":
        raise UsageError(
            "--use_wandb is a switch: a key on the command line is seen by every user of the machine. Put it "
            "into the environment variable WANDB_API_KEY, or run `wandb login` once."
        )
    import os

    for name, value in (("WANDB_ENTITY", entity), ("WANDB_RUN_GROUP", group), ("WANDB_PROJECT", project)):
        if value:
            os.environ[name] = value
    return True


def _refuse(**flags: tuple[bool, str]) -> None:
    for name, (given, instead) in flags.items():
        if given:
            raise UsageError(f"--{name} is not there: {instead}.")


def _one_of(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise UsageError(f"--{name} must be one of {', '.join(map(str, choices))}, got {value!r}.")


def _at_least(least: int, **flags: float) -> None:
    for name, value in flags.items():
        if value < least:
            raise UsageError(f"--{name} must be at least {least}, got {value}.")
