"""Flags of every training, in groups, and the part of `sweet_rl.training.settings` that each becomes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from sweet_rl import tracking
from sweet_rl.cli.progress import on_interrupt
from sweet_rl.cli.stage import Stage, needing, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag
from sweet_rl.flags.models import Dataset, MaxPixels, OtherTokenizer, PairFields, Pretrain, RejectedKey
from sweet_rl.flags.shared import LogTo, Overwriting, Quiet, SaveSteps, Seeded
from sweet_rl.tracking import Destination
from sweet_rl.training.settings import (
    DataSettings,
    LossSettings,
    ModelSettings,
    OptimizerSettings,
    OutputSettings,
    ShardSettings,
    TrainSettings,
)


@dataclass(frozen=True, kw_only=True)
class OutputFlags(Overwriting, LogTo, Quiet, Seeded, SaveSteps):
    """What is written, and how a run is resumed."""

    save_path: str = flag("./ckpt", "folder for the trained model and its tokenizer.")
    load_checkpoint: bool = flag(
        False, "resume from the newest checkpoint in ckpt_path, if there is one.", aliases=("resume",)
    )
    metrics_path: str | None = flag(None, ".jsonl file for numbers; default metrics.jsonl in save_path.")
    logging_steps: int = flag(1, "updates between two lines of it.", at_least=1, shown="all")
    eval_steps: int = flag(
        -1, "updates between two evaluations of the held-out rows; -1: at the end.", shown="all"
    )
    ckpt_path: str = flag("./ckpt/checkpoints_dpo", "folder for checkpoints.")
    max_ckpt_num: int = flag(3, "checkpoints to keep at most.", at_least=1, shown="all")
    max_ckpt_mem: float = flag(
        1e8, "gigabytes that they may take; the newest stays in any case.", shown="all"
    )
    use_tensorboard: str | None = flag(
        None, "the same as log_to tensorboard, with the folder for its files.", shown="all"
    )
    use_wandb: str | None = flag(
        None,
        "log_to wandb where it is installed and has a login: WANDB_API_KEY, `wandb login`, or the key as this flag's value, which other "
        "users of the machine can see.",
        bare="True",
    )
    wandb_org: str | None = flag(None, "its entity.", shown="all")
    wandb_group: str | None = flag(None, "its group, and trackio's.", shown="all")
    wandb_project: str = flag("openrlhf_train_dpo", "its project, and trackio's.", shown="all")
    wandb_run_name: str | None = flag(None, "its name for the run, and trackio's.", shown="all")

    def output(self) -> OutputSettings:
        """Where things go, and how often."""
        from sweet_rl.training.settings import OutputSettings

        own = {
            "save_path": Path(self.save_path),
            "ckpt_path": Path(self.ckpt_path),
            "max_ckpt_mem_gb": self.max_ckpt_mem,
            "metrics_path": self._metrics(),
        }
        return OutputSettings(**same_fields(OutputSettings, self) | own)

    def _metrics(self) -> Path:
        return Path(self.metrics_path) if self.metrics_path else Path(self.save_path) / "metrics.jsonl"

    def written(self) -> list[Path]:
        """Folders and files that the training writes."""
        metrics, found = self._metrics(), [Path(self.save_path)]
        found += [metrics] if metrics.parent != found[0] else []
        return found + ([Path(self.ckpt_path)] if self.save_steps > 0 or self.load_checkpoint else [])

    def replaces_nothing(self) -> None:
        """Make sure, before anything is loaded, that no model and no numbers are lost."""
        from sweet_rl.training.checkpoints import checkpoints_in

        if self.overwrite or os.environ.get("RANK", "0") != "0":
            return
        goes_on, place = self.load_checkpoint, Path(self.ckpt_path)
        kept = checkpoints_in(place, "--ckpt_path") if goes_on else []
        if kept:
            return
        if self.save_steps > 0 and (kept := checkpoints_in(place)):
            raise UsageError(
                f"--ckpt_path {self.ckpt_path!r} holds {kept[-1].name} of an earlier training. Pass --overwrite "
                "to replace its checkpoints, --load_checkpoint to resume it, or choose another --ckpt_path."
            )
        folder = Path(self.save_path)
        there = [folder / "config.json", *([] if goes_on else [self._metrics()])]
        for path in there:
            if path.exists() and path.stat().st_size:
                raise UsageError(
                    f"{str(path)!r} is there already, of an earlier training. Pass --overwrite to replace it, "
                    "--load_checkpoint to resume from a checkpoint, or choose another --save_path."
                )

    def destination(self) -> Destination:
        """Where numbers go, by --log_to and by the published flags, which may name two places."""
        published = {"tensorboard": bool(self.use_tensorboard), "wandb": self._wandb()}
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
            may_lack=("wandb",) if published["wandb"] and self.log_to is None else (),
        )

    def _wandb(self) -> bool:
        if self.use_wandb is None or self.use_wandb.lower() in {"false", "none", ""}:
            return False
        if (
            self.use_wandb.lower() != "true"
        ):  # the published way; records leave out what such a variable holds
            os.environ["WANDB_API_KEY"] = self.use_wandb
        return True


@dataclass(frozen=True, kw_only=True)
class TokenFlags(OtherTokenizer):
    """The rows."""

    max_len: int = flag(
        512,
        "tokens of one text at most; oldest turns go first, rows that cannot be cut at a turn are left out.",
        at_least=1,
    )
    response_template: str | None = flag(
        None,
        "text that opens an assistant turn, for models whose chat template does not say it.",
        shown="all",
    )
    learn_thoughts: bool = flag(
        True,
        "learn what the agent thought before it spoke, too; --nolearn_thoughts only reads it.",
        shown="all",
    )


@dataclass(frozen=True, kw_only=True)
class RowFlags(TokenFlags):
    """The rows."""

    max_samples: float = flag(1e8, "take the first so many rows of each dataset.", at_least=1, shown="all")
    eval_fraction: float = flag(
        0.03, "share of the rows to hold out, drawn by seed; 0 for none.", at_least=0, below=1
    )

    def data(self, dataset: str, **own: Any) -> DataSettings:
        """The shared part of the data's settings, and a stage's own."""
        from sweet_rl.training.settings import DataSettings

        shared = same_fields(DataSettings, self) | {"max_samples": int(self.max_samples)}
        return DataSettings(dataset=dataset, **shared | own)


@dataclass(frozen=True, kw_only=True)
class ShardFlags(Settings):
    """Several processes."""

    zero_stage: Literal[0, 1, 2, 3] = flag(
        2,
        "what DeepSpeed shards over several processes: 1 optimizer states, 2 and gradients, 3 and weights; 0: plain data parallel.",
    )
    adam_offload: bool = flag(
        False, "keep the optimizer's states in main memory (with fsdp2 the weights, too)."
    )
    shard_with: Literal["deepspeed", "fsdp2"] | None = flag(
        None,
        "what shards the model over several processes: deepspeed, or fsdp2 (torch's own; always shards weights too); default: as set for `accelerate launch`, else deepspeed.",
        shown="all",
    )
    timeout_s: int = flag(
        1800,
        "seconds that a process waits for the others before it ends with a message.",
        at_least=1,
        shown="all",
    )
    deepspeed_config: str | None = flag(
        None,
        ".json file for DeepSpeed in place of the flags below (configs/engines); default: as of `accelerate launch`, else none.",
        shown="all",
    )
    zpg: int = flag(
        1, "for zero_stage 3: GPUs that keep a second copy of the shards among them.", at_least=1, shown="all"
    )
    grad_accum_dtype: str | None = flag(
        None, "in which DeepSpeed accumulates gradients: fp32, fp16 or bf16.", shown="all"
    )
    overlap_comm: bool = flag(False, "DeepSpeed reduces gradients while computing others.", shown="all")
    local_rank: int = flag(-1, "given by launchers; the environment has the same value.", shown="never")

    def shards(self) -> ShardSettings:
        """The sharding engine and its configuration file; defaults may come from `accelerate launch`."""
        from sweet_rl.training.settings import ShardSettings

        return ShardSettings(**same_fields(ShardSettings, self) | self._engine())

    def _engine(self) -> dict[str, Any]:
        from sweet_rl.training.settings import offloads, read_deepspeed_config

        default = "fsdp2" if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else "deepspeed"
        engine = self.shard_with or default
        path = self.deepspeed_config or os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE", "none")
        if engine == "fsdp2":
            if self.deepspeed_config:
                raise UsageError(
                    "--deepspeed_config has no effect with --shard_with fsdp2; leave one of them out."
                )
            return {"shard_with": engine, "deepspeed_config": None}
        if path.lower() == "none":
            stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "")
            if stage.isdigit() and int(stage) != self.zero_stage:
                raise UsageError(
                    f"`accelerate launch` sets ZeRO stage {stage}, and --zero_stage {self.zero_stage}. Give the "
                    "same to both, or a file to --deepspeed_config."
                )
            return {"shard_with": engine, "deepspeed_config": None}
        config = read_deepspeed_config(path)
        stage = config["zero_optimization"]["stage"]
        return {
            "shard_with": engine,
            "deepspeed_config": config,
            "zero_stage": stage,
            "adam_offload": offloads(config),
        }


def same_fields(kind: Any, flags: Any) -> dict[str, Any]:
    """The fields of a settings class that have a flag of the same name."""
    names = {field.name for field in fields(kind)}
    return {field.name: getattr(flags, field.name) for field in fields(flags) if field.name in names}


_PACKAGES = frozenset({"torch", "transformers", "accelerate", "jinja2"})
"""What the extra `training` installs."""


@dataclass(frozen=True, kw_only=True)
class TrainingFlags(OutputFlags, RowFlags, OptimizerSettings, ModelSettings, ShardFlags):
    """Flags of every training."""

    def model(self, pretrain: str, ref_pretrain: str | None = None) -> ModelSettings:
        """The weights to load, and what they are computed with."""
        own = {"pretrain": pretrain, "ref_pretrain": ref_pretrain}
        return ModelSettings(**same_fields(ModelSettings, self) | own)

    def settings(
        self,
        data: DataSettings,
        model: ModelSettings,
        *,
        loss: LossSettings,
        published: bool = False,
        trains: bool = True,
    ) -> TrainSettings:
        """The whole run; `trains` where a model will be saved."""
        destination = self.destination()
        if trains:
            self.replaces_nothing()
            tracking.logs_to(destination)
        elif destination.kinds:
            raise UsageError(
                f"Nothing is trained, so there are no numbers over time for {destination.kinds[0]}; leave it out."
            )
        optimizer = OptimizerSettings(**same_fields(OptimizerSettings, self))
        return TrainSettings(
            data=data,
            model=model,
            loss=loss,
            optimizer=optimizer.resolved(published=published),
            shards=self.shards(),
            output=self.output(),
            published=published,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class TrainedOn(Pretrain, Dataset):
    """Model and data."""


@dataclass(frozen=True, kw_only=True)
class ExpertsFlags(Settings):
    """The loss."""

    aux_loss_coef: float = flag(
        0.0, "weight of the balance loss of a mixture of experts.", at_least=0, shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class FieldFlags(PairFields):
    """How preference pairs are read."""

    input_template: str | None = flag(
        None, "text around the prompt, which takes the place of {}.", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class PairFlags(FieldFlags, RejectedKey, MaxPixels):
    """How preference pairs are read."""

    dataset_probs: str = flag(
        "1.0", "for several datasets: how often each is drawn from, with commas between the numbers."
    )
    train_split: str = flag("train", "of a dataset from the hub.", shown="all")
    eval_split: str = flag(
        "test",
        "of a dataset from the hub: what to hold out, if it has such a split, in place of eval_fraction.",
        shown="all",
    )
    apply_chat_template: bool = flag(
        False,
        "accepted for the published command line: fields that are lists of messages become texts by the model's chat template in any case.",
        shown="never",
    )
    image_processor: str | None = flag(
        None, "folder or hub name of the image processor; default: the model's own.", shown="all"
    )
    min_pixels: int = flag(12544, "pictures with fewer pixels are enlarged.", at_least=1, shown="all")

    def check_together(self) -> None:
        """A picture has at most as many pixels as it has at least, or more."""
        super().check_together()
        if self.max_pixels < self.min_pixels:
            raise UsageError(
                f"--max_pixels must be at least {self.min_pixels} (--min_pixels), got {self.max_pixels}."
            )

    def data(self, rows: RowFlags, dataset: str, *, published: bool) -> DataSettings:
        """The data's settings where rows are preference pairs."""
        return rows.data(dataset, find_prompt=not published, **asdict(self))


@dataclass(frozen=True, kw_only=True)
class Loss(Settings):
    """The loss."""

    loss: str | None = flag(
        None,
        "sigmoid (DPO's, the default), sigmoid_norm (with means in place of sums, as mean_log_prob), ipo, hinge, robust, logexp, that of an installed package, or your own function as module:FUNCTION (docs/losses.md).",
    )


_HELPS: Final = {
    "seed": "of order, held-out rows, adapters and dropout.",
    "device": "auto, cpu or cuda.",
    "dtype": "precision of the weights: auto (float32), float32 or bfloat16 (small learning rates get lost in it; see bf16).",
    "other_tokenizer": "train also on turns that were sampled with another tokenizer; their texts are tokenised again.",
}
_NARROW: Final[Mapping[str, Mapping[str, Any]]] = {
    "device": {"choices": ("auto", "cpu", "cuda"), "shown": "help"},
    "dtype": {"choices": ("auto", "float32", "bfloat16")},
}


def training_stage(
    *, helps: Mapping[str, str] | None = None, **defaults: Any
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function that trains."""

    def decorate(function: Callable[..., None]) -> Stage:
        guarded = needing(_PACKAGES, "training", needed_for="training")(_alone(function))
        return stage(
            "pretrain",
            "dataset",
            defaults={"seed": 42} | defaults,
            helps=_HELPS | dict(helps or {}),
            narrow=_NARROW,
            only={"device": None, "dtype": None},
        )(guarded)

    return decorate


def _alone(function: Callable[..., None]) -> Callable[..., None]:
    """The stage, which no other run writes beside, and which says how to resume when it is stopped."""

    @functools.wraps(function)
    def alone(*groups: Any) -> None:
        training = next(group for group in groups if isinstance(group, TrainingFlags))
        evaluates = any(getattr(group, "eval_only", False) for group in groups)
        if evaluates or os.environ.get("RANK", "0") != "0":  # one process writes
            function(*groups)
            return
        from sweet_rl.training.checkpoints import held

        again = "The same command with --load_checkpoint resumes from the newest checkpoint in"
        words = (
            f"{again} {training.ckpt_path}."
            if training.save_steps > 0
            else "There are no checkpoints (--save_steps)."
        )
        with held(*training.written()), on_interrupt(words):
            function(*groups)

    return alone
