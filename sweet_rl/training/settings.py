"""Settings of a preference-training run. No torch.

Published behaviour: docs/published/sweet_rl.md#reward-models, #preference-training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sweet_rl.errors import UsageError

# How token log-probabilities become one number of a response: their sum, their mean over all assistant
# tokens, or the sum over turns of each turn's mean (the paper's turn-level advantage).
Reduction = Literal["sum", "trajectory", "turn"]


Engine = Literal["deepspeed", "fsdp2"]  # What shards a model over several processes


@dataclass(frozen=True, slots=True)
class DataSettings:
    """Which pairs, and how they become token ids."""

    dataset: str
    dataset_probs: str = "1.0"
    train_split: str = "train"
    eval_split: str = "test"
    prompt_key: str | None = None
    find_prompt: bool = False  # Without a prompt_key, take the field `prompt` of rows that have it
    chosen_key: str = "chosen"
    rejected_key: str = "rejected"
    input_template: str | None = None
    apply_chat_template: bool = False
    max_samples: int = 100_000_000
    max_len: int = 512
    response_template: str | None = None
    eval_fraction: float = 0.03
    learn_thoughts: bool = True  # What an agent thought before it spoke is learned, too
    # Take turns that were sampled with another tokenizer, and tokenise their texts anew.
    other_tokenizer: bool = False
    image_processor: str | None = None  # Folder or name; None: the model's own
    min_pixels: int = 16 * 28**2
    max_pixels: int = 64 * 28**2  # Pictures are scaled to so many pixels at least and at most


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """The preference loss, and what else is minimised."""

    name: str = "sigmoid"  # As `sweet_rl.training.losses.LOSSES` knows it, or imitation, which knows no pairs
    beta: float = 0.1
    label_smoothing: float = 0.0  # Share of the labels that are assumed to be wrong
    nll_loss_coef: float = 0.0
    reduction: Reduction = "sum"
    aux_loss_coef: float = 0.0


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Which dialogues of a trajectory file are imitated."""

    min_reward: float | None = None
    best_of_task: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The weights to load, their precision and the adapter's shape."""

    pretrain: str
    ref_pretrain: str | None = None
    bf16: bool = False
    dtype: str = "auto"
    device: str = "auto"
    flash_attn: bool = False
    attention: str = "auto"
    load_in_4bit: bool = False
    lora_rank: int = 0
    lora_alpha: int = 16
    lora_dropout: float = 0.0
    target_modules: str = "q_proj,k_proj,v_proj,o_proj"
    gradient_checkpointing: bool = False
    gradient_checkpointing_use_reentrant: bool = False
    torch_compile: bool = False


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW: learning rate, schedule, clipping and batch sizes."""

    learning_rate: float = 1e-5
    lr_warmup_ratio: float = 0.03
    lr_scheduler: str = "cosine_with_floor"
    max_epochs: int = 1
    train_batch_size: int = 128
    micro_train_batch_size: int | None = None
    l2: float = 0.0
    adam_betas: tuple[float, float] = (0.9, 0.95)
    max_norm: float = 1.0
    shuffle: bool = True
    group_by_length: bool = True
    group_by_history: bool = True
    prefix_tree: bool = True  # Rows of a batch with a common prefix share it
    # Packs by tokens instead of by rows; None, and nothing about rows: as a GPU's memory allows.
    max_tokens_per_batch: int | None = None


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """How several processes share one model; one process alone has it whole, but for offloading."""

    shard_with: Engine = "deepspeed"
    timeout_s: int = 1800  # How long a process waits for the others
    # What a file says about DeepSpeed, in place of the fields below.
    deepspeed_config: Mapping[str, Any] | None = None
    zero_stage: int = 2
    zpg: int = 1
    adam_offload: bool = False
    grad_accum_dtype: str | None = None
    overlap_comm: bool = False


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Where checkpoints, logs and the model go, and how often."""

    # Folder that keeps the reference's log-probabilities; None: they are not kept.
    reference_cache: Path | None = None
    save_path: Path = Path("ckpt")
    ckpt_path: Path = Path("ckpt/checkpoints_dpo")
    save_steps: int = -1
    eval_steps: int = -1
    logging_steps: int = 1
    max_ckpt_num: int = 3
    max_ckpt_mem_gb: float = 1e8
    load_checkpoint: bool = False
    metrics_path: Path | None = None
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """All settings of a training run."""

    data: DataSettings
    model: ModelSettings
    loss: LossSettings
    optimizer: OptimizerSettings
    shards: ShardSettings
    output: OutputSettings
    published: bool = False
    seed: int = 42


def read_deepspeed_config(path: str) -> dict[str, Any]:
    """DeepSpeed's configuration from a file, as `--deepspeed_config` takes it."""
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--deepspeed_config {path!r} is not a readable JSON file: {error}.") from error
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    if not isinstance(zero, dict) or zero.get("stage") not in {0, 1, 2, 3}:
        raise UsageError(
            f"--deepspeed_config {path!r} must be an object with a section zero_optimization whose stage is "
            "0, 1, 2 or 3 (see configs/engines)."
        )
    if not zero.get("compute_grad_norm", True):
        raise UsageError(
            f"--deepspeed_config {path!r}: leave compute_grad_norm out; without it, gradients that are not "
            "finite would reach the weights."
        )
    for section in ("optimizer", "scheduler", "fp16"):  # there are flags instead
        if section in config:
            raise UsageError(
                f"--deepspeed_config {path!r} has a section {section!r}; remove it. The optimizer is AdamW; "
                "--learning_rate, --lr_scheduler and --bf16 say the rest."
            )
    return dict(config)


def offloads(config: Mapping[str, Any]) -> bool:
    """Whether DeepSpeed's configuration keeps something outside the accelerator."""
    zero = config["zero_optimization"]
    parts = (zero.get(name) or {} for name in ("offload_optimizer", "offload_param"))
    return any(part.get("device", "none") != "none" for part in parts)
