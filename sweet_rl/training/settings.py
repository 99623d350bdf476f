"""Settings of preference training, which are its flags: a stage's settings are one flat dataclass. No torch.

Published behaviour: docs/published/sweet_rl.md#reward-models, #preference-training.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag, group, no_flag
from sweet_rl.flags.models import Dataset, MaxPixels, MinReward, PairFields, Placement, Pretrain
from sweet_rl.flags.shared import Compatible, LogTo, Overwriting, Quiet, SaveSteps, Seeded
from sweet_rl.tracking import Destination
from sweet_rl.types import Json

# How token log-probabilities become one number of a response: their sum, their mean over all assistant
# tokens, or the sum over turns of each turn's mean (the paper's turn-level advantage).
Reduction = Literal["sum", "trajectory", "turn"]
Engine = Literal["deepspeed", "fsdp2"]  # What shards a model over several processes


@group("The loss")
class LossSettings(Settings):
    loss: str | None = flag(
        None,
        "loss: sigmoid (DPO's, the default), sigmoid_norm (means instead of sums, as with --mean_log_prob), "
        "ipo, hinge, robust, logexp, one that an installed package registers, or your own function as "
        "module:FUNCTION (docs/train_offline.md).",
    )
    mean_log_prob: str = flag(
        "none",
        "how token log-probabilities are combined: none (sum over the response), trajectory (mean over its "
        "tokens; also --mean_log_prob without a value) or turn (sum of each turn's mean).",
        bare="True",
    )
    beta: float = flag(0.1, "DPO's beta: how strongly the policy is kept close to the reference.", above=0)
    ipo: bool = flag(False, "the same as --loss ipo.", shown="all")
    label_smoothing: float = flag(0.0, "assumed share of wrong preferences.", at_least=0, shown="all")
    nll_loss_coef: float = flag(0.0, "weight of the chosen response's NLL per token.", at_least=0)
    aux_loss_coef: float = flag(0.0, "weight of a mixture-of-experts' balance loss.", at_least=0, shown="all")
    # by `mean_log_prob` and the loss (`sweet_rl.training.losses.check_loss`)
    reduction: Reduction = no_flag("sum")

    @property
    def loss_name(self) -> str:
        """As `sweet_rl.training.losses.LOSSES` knows it, or imitation, which knows no pairs."""
        return self.loss or ("ipo" if self.ipo else "sigmoid")


@group("How preference pairs are read")
class _Pairs(PairFields, MaxPixels):
    input_template: str | None = flag(
        None, "text around the prompt; {} is replaced by the prompt.", shown="all"
    )
    dataset_probs: str = flag("1.0", "sampling weights of several datasets, separated by commas.")
    train_split: str = flag("train", "split of a hub dataset to train on.", shown="all")
    eval_split: str = flag(
        "test", "split of a hub dataset that is held out in place of --eval_fraction.", shown="all"
    )
    apply_chat_template: bool = flag(
        False, "of no effect: lists of messages become texts anyway.", shown="never"
    )
    image_processor: str | None = flag(None, "folder or hub name; default: the model's own.", shown="all")
    min_pixels: int = flag(12544, "pictures with fewer pixels are enlarged.", at_least=1, shown="all")


@group("The rows")
class _Rows(Settings):
    max_samples: float = flag(1e8, "use only this many rows of each dataset.", at_least=1, shown="all")
    eval_fraction: float = flag(
        0.03, "share of the rows to hold out, drawn with --seed; 0: none.", at_least=0, below=1
    )
    max_len: int = flag(
        512,
        "longest text, in tokens. Longer ones lose their oldest turns; rows that cannot be cut at a turn are left out.",
        at_least=1,
    )
    response_template: str | None = flag(
        None, "text that starts a turn of the agent, if there is no chat template.", shown="all"
    )
    learn_thoughts: bool = flag(True, "also train on the agent's private thoughts.", shown="all")


@group("Which rows, and how they become token ids")
class DataSettings(_Pairs, _Rows, Dataset):
    def check_together(self) -> None:
        """A picture has at most as many pixels as it has at least, or more."""
        if self.max_pixels < self.min_pixels:
            raise UsageError(
                f"--max_pixels must be at least {self.min_pixels} (--min_pixels), got {self.max_pixels}."
            )


@group("Outputs and resuming")
class OutputSettings(Overwriting, Quiet, Seeded, SaveSteps):
    save_path: str = flag("./ckpt", "folder for the trained model and its tokenizer.")
    load_checkpoint: bool = flag(
        False, "resume from the newest checkpoint in --ckpt_path, if there is one.", aliases=("resume",)
    )
    metrics_path: str | None = flag(None, ".jsonl file of metrics; default metrics.jsonl in --save_path.")
    logging_steps: int = flag(1, "updates between two lines in the metrics file.", at_least=1, shown="all")
    eval_steps: int = flag(
        -1, "updates between two evaluations on held-out rows; -1: only at the end.", shown="all"
    )
    ckpt_path: str = flag("./ckpt/checkpoints_dpo", "folder for the checkpoints.")
    max_ckpt_num: int = flag(3, "most checkpoints to keep.", at_least=1, shown="all")
    max_ckpt_mem: float = flag(1e8, "most gigabytes of checkpoints; the newest is always kept.", shown="all")


@group("Outputs and resuming")
class TrackerSettings(LogTo):
    use_tensorboard: str | None = flag(
        None, "like --log_to tensorboard, with the folder for its files.", shown="all"
    )
    use_wandb: str | None = flag(
        None,
        "like --log_to wandb, if it is installed and logged in: by WANDB_API_KEY, `wandb login`, or the key "
        "as this flag's value, which other users of the machine can see.",
        bare="True",
    )
    wandb_org: str | None = flag(None, "entity (team) in wandb.", shown="all")
    wandb_group: str | None = flag(None, "group of the run in wandb and trackio.", shown="all")
    wandb_project: str = flag("openrlhf_train_dpo", "project in wandb and trackio.", shown="all")
    wandb_run_name: str | None = flag(None, "name of the run in wandb and trackio.", shown="all")

    def destination(self) -> Destination:
        """Where numbers go, by --log_to and by the published flags, which may name two places."""
        wandb = self.use_wandb is not None and self.use_wandb.lower() not in {"false", "none", ""}
        if wandb and str(self.use_wandb).lower() != "true":  # records leave out what such a variable holds
            os.environ["WANDB_API_KEY"] = str(self.use_wandb)
        published = {"tensorboard": bool(self.use_tensorboard), "wandb": wandb}
        kinds = tuple(kind for kind, wanted in published.items() if wanted)
        for kind in kinds:
            if self.log_to not in {None, kind}:
                raise UsageError(
                    f"--log_to {self.log_to} and --use_{kind} contradict each other; leave one of them out."
                )
        return Destination(
            kinds=kinds or super().destination().kinds,
            folder=self.use_tensorboard,
            project=self.wandb_project,
            name=self.wandb_run_name,
            group=self.wandb_group,
            entity=self.wandb_org,
            may_lack=("wandb",) if wandb and self.log_to is None else (),
        )


@group("Weights, precision and memory")
class ModelSettings(Placement):
    pretrain: str = no_flag("")
    ref_pretrain: str | None = no_flag(None)

    bf16: bool = flag(False, "compute in bfloat16, but keep the weights in float32.")
    gradient_checkpointing: bool = flag(
        False, "recompute activations instead of keeping them: less memory, more time."
    )
    gradient_checkpointing_use_reentrant: bool = flag(False, "torch's reentrant form of it.", shown="all")
    torch_compile: bool = flag(False, "compile the layers: faster on a GPU with flex_attention.", shown="all")
    flash_attn: bool = flag(False, "use the package flash-attn; shares no common prefixes.", shown="all")
    attention: Literal["auto", "sdpa", "eager", "flex_attention", "flash_attention_2"] = flag(
        "auto",
        "attention implementation: auto (sdpa), sdpa, eager, flash_attention_2, or flex_attention, which "
        "skips masked blocks of prefix trees and suits GPUs and long histories.",
        shown="all",
    )
    lora_rank: int = flag(0, "train an adapter of this rank, merged at the end; 0: all weights.", at_least=0)
    lora_alpha: int = flag(16, "scaling factor alpha of the adapter.", shown="all")
    lora_dropout: float = flag(0.0, "dropout before the adapter.", shown="all")
    target_modules: str = flag(
        "q_proj,k_proj,v_proj,o_proj",
        "modules with an adapter, separated by commas, or all-linear.",
        shown="all",
    )
    load_in_4bit: bool = flag(False, "4-bit weights under an adapter (needs bitsandbytes).", shown="all")


@group("The optimizer and its batches")
class OptimizerSettings(Settings):
    learning_rate: float = flag(1e-5, "peak learning rate.", at_least=0)
    max_epochs: int = flag(1, "passes over the data.", at_least=1)
    train_batch_size: int = flag(128, "rows in one update, over all processes.", at_least=1)
    micro_train_batch_size: int | None = flag(
        None, "most rows in one forward pass; default 8, on one GPU as many as memory allows.", at_least=1
    )
    max_tokens_per_batch: int | None = flag(
        None,
        "most tokens in one forward pass, counting shared ones once; on one GPU the default is measured.",
        at_least=1,
    )
    lr_scheduler: Literal["cosine_with_floor", "linear", "constant"] = flag(
        "cosine_with_floor",
        "schedule: cosine_with_floor (to a tenth), linear (to 0) or constant.",
        shown="all",
    )
    lr_warmup_ratio: float = flag(
        0.03, "share of the updates over which the learning rate rises.", at_least=0, shown="all"
    )
    l2: float = flag(0.0, "weight decay of AdamW, except for biases and norms.", at_least=0, shown="all")
    adam_betas: str = flag("0.9,0.95", "AdamW's two betas, separated by a comma.", shown="all")
    max_norm: float = flag(1.0, "gradients are clipped to this norm.", at_least=0, shown="all")
    shuffle: bool = flag(
        True, "shuffle the rows in every epoch; otherwise keep the order of the file.", shown="all"
    )
    group_by_history: bool | None = flag(
        None, "updates of rows with the same history; published: no.", shown="all"
    )
    group_by_length: bool | None = flag(
        None, "updates of rows of similar length; published: no.", shown="all"
    )
    prefix_tree: bool = flag(
        True, "compute common prefixes of a batch only once; this does not change the result.", shown="all"
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


@group("Several processes")
class ShardSettings(Settings):
    zero_stage: Literal[0, 1, 2, 3] = flag(
        2, "what DeepSpeed shards: 0 nothing, 1 optimizer states, 2 gradients as well, 3 weights as well."
    )
    adam_offload: bool = flag(
        False, "keep the optimizer's states in CPU memory (with fsdp2 the weights, too)."
    )
    shard_with: Literal["deepspeed", "fsdp2"] | None = flag(
        None,
        "library that shards the model: deepspeed, or fsdp2 (part of torch; always shards the weights, too); "
        "default: as set for `accelerate launch`, else deepspeed.",
        shown="all",
    )
    timeout_s: int = flag(1800, "seconds that a process waits for the others.", at_least=1, shown="all")
    deepspeed_config: str | None = flag(
        None,
        ".json configuration for DeepSpeed, which replaces the flags below (examples: configs/engines); "
        "default: that of `accelerate launch`, if any.",
        shown="all",
    )
    zpg: int = flag(
        1, "with --zero_stage 3: GPUs that share a second copy of the shards.", at_least=1, shown="all"
    )
    grad_accum_dtype: str | None = flag(None, "DeepSpeed's gradients: fp32, fp16 or bf16.", shown="all")
    overlap_comm: bool = flag(False, "let DeepSpeed reduce gradients while it computes others.", shown="all")
    local_rank: int = flag(-1, "given by launchers; the environment has the same value.", shown="never")
    # What the file says; flags and file that a run was not started with by a stage say nothing.
    deepspeed: Mapping[str, Any] | None = no_flag(None)

    def engine(self) -> dict[str, Any]:
        """The sharding engine as flags, `accelerate launch` and a file of DeepSpeed's say together."""
        default = "fsdp2" if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else "deepspeed"
        engine = self.shard_with or default
        path = self.deepspeed_config or os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
        if engine == "fsdp2" and self.deepspeed_config:
            raise UsageError(
                "--deepspeed_config has no effect with --shard_with fsdp2; leave one of them out."
            )
        if engine == "deepspeed" and path.lower() != "none":
            config = read_deepspeed_config(path)
            zero = config["zero_optimization"]
            parts = (zero.get(name) or {} for name in ("offload_optimizer", "offload_param"))
            offloads = any(part.get("device", "none") != "none" for part in parts)
            found = {"deepspeed": config, "zero_stage": zero["stage"], "adam_offload": offloads}
            return {"shard_with": engine, **found}
        stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "")
        if engine == "deepspeed" and stage.isdigit() and int(stage) != self.zero_stage:
            raise UsageError(
                f"`accelerate launch` sets ZeRO stage {stage}, and --zero_stage {self.zero_stage}. Give the "
                "same to both, or a file to --deepspeed_config."
            )
        return {"shard_with": engine}


@dataclass(frozen=True, kw_only=True)
class TrainSettings(
    LossSettings,
    Compatible,
    DataSettings,
    OutputSettings,
    TrackerSettings,
    OptimizerSettings,
    ModelSettings,
    ShardSettings,
):
    """All settings of a training run; a stage has the flags of those that have a meaning for it."""

    def resolved(self) -> Self:
        """With what the flags leave open."""
        usual = not self.published and self.shuffle
        length, history = self.group_by_length, self.group_by_history
        return replace(
            self,
            metrics_path=self.metrics_path or str(Path(self.save_path) / "metrics.jsonl"),
            group_by_length=usual if length is None else length,
            group_by_history=usual if history is None else history,
            **self.engine(),
        )

    def plain(self) -> dict[str, Any]:
        """All of them in groups, as records and checkpoints have them."""
        groups = {
            "data": DataSettings,
            "model": ModelSettings,
            "loss": LossSettings,
            "optimizer": OptimizerSettings,
            "shards": ShardSettings,
            "output": OutputSettings,
        }
        found: dict[str, dict[str, Json]] = {
            group: {one.name: getattr(self, one.name) for one in fields(kind)}
            for group, kind in groups.items()
        }
        for name in ("loss", "mean_log_prob", "ipo"):
            del found["loss"][name]
        found["loss"]["name"] = self.loss_name
        found["optimizer"]["adam_betas"] = self.betas
        found["shards"]["deepspeed_config"] = found["shards"].pop("deepspeed")
        del found["shards"]["local_rank"]
        return found | {"published": self.published}


@group("The loss")
class DPOSettings(Pretrain, TrainSettings):
    ref_pretrain: str | None = flag(
        None, "reference model; default: --pretrain before training.", shown="all"
    )
    eval_only: bool = flag(
        False, "do not train; write each pair's log-probabilities and loss to --metrics_path.", shown="all"
    )
    reference_cache: str | None = flag(
        None,
        "folder that caches reference log-probabilities; default in the user's cache; or none.",
        shown="all",
    )
    ref_offload: bool = flag(False, "of no effect: the reference is freed before training.", shown="never")
    packing_samples: bool = flag(False, "not there: in the published code it does not run.", shown="never")
    ring_attn_size: int = flag(1, "only 1: one process reads a whole pair.", shown="never")
    ring_head_stride: int = flag(1, "of no effect: belongs to ring attention.", shown="never")
    disable_fast_tokenizer: bool = flag(False, "of no effect.", shown="never")

    def check_together(self) -> None:
        """Published flags that have no effect here."""
        if self.packing_samples:
            raise UsageError("--packing_samples is not there: --max_tokens_per_batch packs without padding.")
        if self.ring_attn_size != 1:
            raise UsageError(
                "--ring_attn_size is not there: use --zero_stage 3 and --gradient_checkpointing for long texts."
            )


@group("Which dialogues are imitated")
class SFTSettings(Pretrain, MinReward, TrainSettings):
    best_of_task: bool = flag(False, "imitate only each task's best trajectory (the first of equal ones).")


@group("The critic")
class CriticSettings(Pretrain, TrainSettings):
    pass


def read_deepspeed_config(path: str) -> dict[str, Any]:
    """DeepSpeed's configuration from a file, as `--deepspeed_config` takes it."""
    try:
        config = dict(json.loads(Path(path).read_text(encoding="utf-8")))
        zero = dict(config["zero_optimization"])
        if zero["stage"] not in {0, 1, 2, 3}:
            raise ValueError(f"stage {zero['stage']!r}")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"--deepspeed_config {path!r} must be a JSON object with a section zero_optimization whose stage is "
            f"0, 1, 2 or 3 (see configs/engines): {type(error).__name__}: {error}."
        ) from error
    refused = {"optimizer", "scheduler", "fp16"} & config.keys()  # there are flags instead
    if not zero.get("compute_grad_norm", True):  # what is not finite would reach the weights
        refused |= {"compute_grad_norm"}
    if refused:
        raise UsageError(f"--deepspeed_config {path!r}: remove {', '.join(sorted(refused))}.")
    return config
