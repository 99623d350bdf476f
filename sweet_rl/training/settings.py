"""Settings of a preference-training run. No torch.

Published behaviour: docs/published/sweet_rl.md#reward-models, #preference-training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag, no_flag
from sweet_rl.flags.models import Device, DType
from sweet_rl.types import Json

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


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Device, DType):
    """The weights, and what they are computed with."""

    pretrain: str = no_flag("")
    ref_pretrain: str | None = no_flag(None)

    bf16: bool = flag(False, "compute in bfloat16, with weights in float32.")
    gradient_checkpointing: bool = flag(
        False, "compute activations again instead of keeping them: less memory, more time."
    )
    gradient_checkpointing_use_reentrant: bool = flag(False, "torch's older way of doing so.", shown="all")
    torch_compile: bool = flag(
        False,
        "compile the layers: faster steps on a GPU after a first one that takes longer; best with flex_attention.",
        shown="all",
    )
    flash_attn: bool = flag(
        False,
        "the package flash-attn instead of torch's fused attention; it cannot share what rows begin with in common.",
        shown="all",
    )
    attention: Literal["auto", "sdpa", "eager", "flex_attention", "flash_attention_2"] = flag(
        "auto",
        "auto (sdpa), sdpa, eager, flash_attention_2, or flex_attention, which skips what trees hide: for GPUs and long histories.",
        shown="all",
    )
    lora_rank: int = flag(
        0,
        "train an adapter of this rank, merged into the model at the end; 0 trains all weights.",
        at_least=0,
    )
    lora_alpha: int = flag(16, "scale of the adapter.", shown="all")
    lora_dropout: float = flag(0.0, "dropout before the adapter.", shown="all")
    target_modules: str = flag(
        "q_proj,k_proj,v_proj,o_proj",
        "modules that get an adapter, with commas between them, or all-linear.",
        shown="all",
    )
    load_in_4bit: bool = flag(False, "quantised weights under an adapter (bitsandbytes).", shown="all")


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Settings):
    """The optimizer and its batches."""

    learning_rate: float = flag(1e-5, "the highest.", at_least=0)
    max_epochs: int = flag(1, "passes over the data.", at_least=1)
    train_batch_size: int = flag(128, "rows of one update, over all processes.", at_least=1)
    micro_train_batch_size: int | None = flag(
        None,
        "rows in one forward pass at most; has no influence on the result; default 8, on one GPU as its memory allows.",
        at_least=1,
    )
    max_tokens_per_batch: int | None = flag(
        None,
        "tokens in one forward pass at most, those that rows share counted once; instead of micro_train_batch_size; default on one GPU: measured by its free memory.",
        at_least=1,
    )
    lr_scheduler: Literal["cosine_with_floor", "linear", "constant"] = flag(
        "cosine_with_floor",
        "after the warm-up: cosine_with_floor (ends at a tenth), linear (ends at 0) or constant.",
        shown="all",
    )
    lr_warmup_ratio: float = flag(
        0.03, "share of the updates over which the rate rises.", at_least=0, shown="all"
    )
    l2: float = flag(0.0, "weight decay of AdamW; biases and norms have none.", at_least=0, shown="all")
    adam_betas: str = flag("0.9,0.95", "both of them with a comma between.", shown="all")
    max_norm: float = flag(1.0, "gradients are clipped to this norm.", at_least=0, shown="all")
    shuffle: bool = flag(
        True, "a new order for every epoch; --noshuffle keeps the order of the file.", shown="all"
    )
    group_by_history: bool | None = flag(
        None,
        "rows that begin with the same history come in the same update; default yes, with --compat published no.",
        shown="all",
    )
    group_by_length: bool | None = flag(
        None,
        "updates of rows of like length, which saves padding; default yes, with --compat published no.",
        shown="all",
    )
    prefix_tree: bool = flag(
        True,
        "compute what rows of a batch begin with in common only once; the result is the same.",
        shown="all",
    )

    @property
    def betas(self) -> tuple[float, float]:
        try:
            first, second = (float(part) for part in self.adam_betas.replace(",", " ").split())
        except ValueError:
            raise UsageError(
                f"--adam_betas must be two numbers with a comma between them (0.9,0.95), got {self.adam_betas!r}."
            ) from None
        return first, second

    def resolved(self, *, published: bool) -> OptimizerSettings:
        """With what the flags leave open."""
        usual = not published and self.shuffle
        length, history = self.group_by_length, self.group_by_history
        return replace(
            self,
            group_by_length=usual if length is None else length,
            group_by_history=usual if history is None else history,
        )


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

    def plain(self) -> dict[str, Json]:
        """All of them as records and checkpoints have them."""
        found = asdict(self)
        found["optimizer"]["adam_betas"] = self.optimizer.betas
        return found


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
