"""The flags that every training stage has, once: their defaults, their help, and what they become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweet_rl.commands.flag_groups import Stage, needing, with_flags
from sweet_rl.errors import UsageError

if TYPE_CHECKING:
    from sweet_rl.training.settings import DataSettings, LossSettings, ModelSettings, TrainSettings

_PACKAGES = frozenset({"torch", "transformers", "accelerate", "jinja2"})
"""What the extra `training` installs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFlags:
    """What is the same whatever is trained.

    Args:
        save_path: folder for the trained model and its tokenizer.
        eval_fraction: share of the rows to hold out, drawn by seed; 0 for none.
        max_samples: take the first so many rows of each dataset.
        max_len: tokens of one text at most; oldest turns go first, rows that cannot be cut at a turn are left out.
        response_template: text that opens an assistant turn, for models whose chat template does not say it.
        other_tokenizer: train on turns that were sampled with another tokenizer all the same; their texts are tokenised anew.
        max_epochs: passes over the data.
        train_batch_size: rows of one update, over all processes.
        micro_train_batch_size: rows in one forward pass at most; has no influence on the result.
        learning_rate: the highest.
        lr_scheduler: after the warm-up: cosine_with_floor (ends at a tenth), linear (ends at 0) or constant.
        lr_warmup_ratio: share of the updates over which the rate rises.
        l2: weight decay of AdamW; biases and norms have none.
        adam_betas: both of them with a comma between.
        max_norm: gradients are clipped to this norm.
        seed: of order, held-out rows, adapters and dropout.
        shuffle: a new order for every epoch; --noshuffle keeps the order of the file.
        group_by_history: rows that begin with the same history come in the same update; default yes, with --compat published no.
        max_tokens_per_batch: tokens in one forward pass at most, those that rows share counted once; instead of micro_train_batch_size.
        prefix_tree: compute what rows of a batch begin with in common only once; the result is the same.
        group_by_length: updates of rows of like length, which saves padding; default yes, with --compat published no.
        metrics_path: .jsonl file for numbers; default metrics.jsonl in save_path.
        logging_steps: updates between two lines of it.
        eval_steps: updates between two evaluations of the held-out rows; -1: at the end.
        save_steps: updates between two checkpoints; -1: none.
        ckpt_path: folder for checkpoints.
        max_ckpt_num: checkpoints to keep at most.
        max_ckpt_mem: gigabytes that they may take; the newest stays in any case.
        overwrite: replace the model and the numbers that save_path holds.
        load_checkpoint: go on from the newest checkpoint in ckpt_path, if there is one.
        resume: the same as load_checkpoint.
        device: auto, cpu or cuda.
        dtype: precision of the weights: auto (float32), float32 or bfloat16 (small learning rates get lost in it; see bf16).
        bf16: compute in bfloat16, with weights in float32.
        gradient_checkpointing: compute activations again instead of keeping them: less memory, more time.
        gradient_checkpointing_use_reentrant: torch's older way of doing so.
        flash_attn: the package flash-attn instead of torch's fused attention; it cannot share what rows begin with in common.
        attention: auto (sdpa), sdpa, eager, flash_attention_2, or flex_attention, which skips what trees hide: for GPUs and long histories.
        load_in_4bit: quantised weights under an adapter (bitsandbytes).
        lora_rank: train an adapter of this rank, merged into the model at the end; 0 trains all weights.
        lora_alpha: scale of the adapter.
        lora_dropout: dropout before the adapter.
        target_modules: modules that get an adapter, with commas between them, or all-linear.
        shard_with: what shards the model over several processes: deepspeed, or fsdp2 (torch's own; always shards weights too); default: as `accelerate launch` was told, else deepspeed.
        timeout_s: seconds that a process waits for the others before it ends with a message.
        deepspeed_config: .json file for DeepSpeed in place of the flags below (configs/engines); default: as of `accelerate launch`, else none.
        zero_stage: what DeepSpeed shards over several processes: 1 optimizer states, 2 and gradients, 3 and weights; 0: plain data parallel.
        adam_offload: keep the optimizer's states in main memory (with fsdp2 the weights, too).
        zpg: for zero_stage 3: GPUs that keep a second copy of the shards among them.
        grad_accum_dtype: in which DeepSpeed accumulates gradients: fp32, fp16 or bf16.
        overlap_comm: DeepSpeed reduces gradients while computing others.
        local_rank: given by launchers; the environment says the same.
        use_tensorboard: folder for TensorBoard's files.
        use_wandb: log to Weights & Biases; the key comes from the environment (WANDB_API_KEY) or from `wandb login`.
        wandb_org: its entity.
        wandb_group: its group.
        wandb_project: its project.
        wandb_run_name: its name for the run.
        quiet: no progress bar.
    """

    save_path: str = "./ckpt"
    eval_fraction: float = 0.03
    max_samples: float = 1e8
    max_len: int = 512
    response_template: str | None = None
    other_tokenizer: bool = False
    max_epochs: int = 1
    train_batch_size: int = 128
    micro_train_batch_size: int = 8
    learning_rate: float = 1e-5
    lr_scheduler: str = "cosine_with_floor"
    lr_warmup_ratio: float = 0.03
    l2: float = 0.0
    adam_betas: str = "0.9,0.95"
    max_norm: float = 1.0
    seed: int = 42
    shuffle: bool = True
    group_by_length: bool | None = None
    group_by_history: bool | None = None
    prefix_tree: bool = True
    max_tokens_per_batch: int | None = None
    metrics_path: str | None = None
    logging_steps: int = 1
    eval_steps: int = -1
    save_steps: int = -1
    ckpt_path: str = "./ckpt/checkpoints_dpo"
    max_ckpt_num: int = 3
    max_ckpt_mem: float = 1e8
    overwrite: bool = False
    load_checkpoint: bool = False
    resume: bool = False
    device: str = "auto"
    dtype: str = "auto"
    bf16: bool = False
    gradient_checkpointing: bool = False
    gradient_checkpointing_use_reentrant: bool = False
    flash_attn: bool = False
    attention: str = "auto"
    load_in_4bit: bool = False
    lora_rank: int = 0
    lora_alpha: int = 16
    lora_dropout: float = 0.0
    target_modules: str = "q_proj,k_proj,v_proj,o_proj"
    shard_with: str | None = None
    timeout_s: int = 1800
    deepspeed_config: str | None = None
    zero_stage: int = 2
    adam_offload: bool = False
    zpg: int = 1
    grad_accum_dtype: str | None = None
    overlap_comm: bool = False
    local_rank: int = -1
    use_tensorboard: str | None = None
    use_wandb: str | None = None
    wandb_org: str | None = None
    wandb_group: str | None = None
    wandb_project: str = "openrlhf_train_dpo"
    wandb_run_name: str | None = None
    quiet: bool = False

    def data(self, dataset: str, **own: Any) -> DataSettings:
        """The shared part of the data's settings, and a stage's own."""
        from sweet_rl.training.settings import DataSettings

        return DataSettings(
            dataset=dataset,
            max_samples=int(self.max_samples),
            max_len=self.max_len,
            response_template=self.response_template,
            other_tokenizer=self.other_tokenizer,
            eval_fraction=self.eval_fraction,
            **own,
        )

    def pair_data(self, dataset: str, pairs: PairFlags, *, published: bool) -> DataSettings:
        """The data's settings where rows are preference pairs.

        Raises:
            UsageError: no picture can have so many pixels.
        """
        at_least(1, min_pixels=pairs.min_pixels)
        at_least(pairs.min_pixels, max_pixels=pairs.max_pixels)
        return self.data(dataset, find_prompt=not published, **asdict(pairs))

    def model(self, pretrain: str, ref_pretrain: str | None = None) -> ModelSettings:
        """The weights to load, their precision and the adapter's shape."""
        from sweet_rl.training.settings import ModelSettings

        return ModelSettings(pretrain=pretrain, ref_pretrain=ref_pretrain, **_same(ModelSettings, self))

    def settings(
        self,
        data: DataSettings,
        model: ModelSettings,
        *,
        loss: LossSettings,
        published: bool = False,
        trains: bool = True,
    ) -> TrainSettings:
        """The whole run; `trains` where a model will be saved.

        Raises:
            UsageError: names the flag whose value cannot be.
        """
        from sweet_rl.training import settings as s

        betas = self._checked()
        group = not published and self.shuffle if self.group_by_length is None else self.group_by_length
        alike = not published and self.shuffle if self.group_by_history is None else self.group_by_history
        own = {"adam_betas": betas, "group_by_length": group, "group_by_history": alike}
        metrics = Path(self.metrics_path) if self.metrics_path else Path(self.save_path) / "metrics.jsonl"
        if trains:
            self._replaces_nothing(metrics)
        return s.TrainSettings(
            data=data,
            model=model,
            loss=loss,
            optimizer=s.OptimizerSettings(**_same(s.OptimizerSettings, self) | own),
            shards=s.ShardSettings(**_same(s.ShardSettings, self) | self._sharding()),
            output=s.OutputSettings(
                **_same(s.OutputSettings, self)
                | {
                    "save_path": Path(self.save_path),
                    "ckpt_path": Path(self.ckpt_path),
                    "max_ckpt_mem_gb": self.max_ckpt_mem,
                    "load_checkpoint": self.load_checkpoint or self.resume,
                    "metrics_path": metrics,
                    "tensorboard": self.use_tensorboard,
                    "wandb": self._wandb(),
                }
            ),
            published=published,
            seed=self.seed,
        )

    def _replaces_nothing(self, metrics: Path) -> None:
        """Make sure, before anything is loaded, that no model and no numbers are lost.

        Raises:
            UsageError: save_path holds a model, or the numbers of a run that this one does not go on with.
        """
        import os

        from sweet_rl.training.checkpoints import newest_checkpoint

        if self.overwrite or os.environ.get("RANK", "0") != "0":
            return
        goes_on = self.load_checkpoint or self.resume
        if goes_on and newest_checkpoint(Path(self.ckpt_path)) is not None:
            return
        folder = Path(self.save_path)
        there = [folder / "config.json", *([] if goes_on else [metrics])]
        for path in there:
            if path.exists() and path.stat().st_size:
                raise UsageError(
                    f"{str(path)!r} is there already, of an earlier training. Pass --overwrite to replace it, "
                    "--load_checkpoint to go on from a checkpoint, or choose another --save_path."
                )

    def _checked(self) -> tuple[float, float]:
        """Adam's betas, when every other value can be."""
        from sweet_rl.training.schedule import SCHEDULES

        one_of("device", self.device, ("auto", "cpu", "cuda"))
        one_of("attention", self.attention, ("auto", "sdpa", "eager", "flex_attention", "flash_attention_2"))
        one_of("dtype", self.dtype, ("auto", "float32", "bfloat16"))
        one_of("zero_stage", self.zero_stage, (0, 1, 2, 3))
        one_of("lr_scheduler", self.lr_scheduler, SCHEDULES)
        names = "max_samples max_len max_epochs logging_steps train_batch_size micro_train_batch_size zpg timeout_s"
        at_least(1, **{name: getattr(self, name) for name in (*names.split(), "max_ckpt_num")})
        at_least(
            1, max_tokens_per_batch=1 if self.max_tokens_per_batch is None else self.max_tokens_per_batch
        )
        names = "learning_rate lr_warmup_ratio l2 max_norm lora_rank"
        at_least(0, **{name: getattr(self, name) for name in names.split()})
        if not 0 <= self.eval_fraction < 1:
            raise UsageError(f"--eval_fraction must be at least 0 and below 1, got {self.eval_fraction}.")
        try:
            first, second = (float(part) for part in self.adam_betas.replace(",", " ").split())
        except ValueError:
            raise UsageError(
                "--adam_betas must be two numbers with a comma between them (0.9,0.95), got "
                f"{self.adam_betas!r}."
            ) from None
        return first, second

    def _sharding(self) -> dict[str, Any]:
        """Which engine, and what a file says about it; what is not given, `accelerate launch` may have set."""
        import os

        from sweet_rl.training.sharding import offloads, read_deepspeed_config

        told = "fsdp2" if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else "deepspeed"
        engine = self.shard_with or told
        one_of("shard_with", engine, ("deepspeed", "fsdp2"))
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
                    f"`accelerate launch` says ZeRO stage {stage}, and --zero_stage {self.zero_stage}. Give the "
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

    def _wandb(self) -> bool:
        """Whether to log there; its client reads the rest from the environment."""
        if self.use_wandb is None or self.use_wandb.lower() in {"false", "none", ""}:
            return False
        if self.use_wandb.lower() != "true":
            raise UsageError(
                "--use_wandb is a switch: a key on the command line is seen by every user of the machine. Put "
                "it into the environment variable WANDB_API_KEY, or run `wandb login` once."
            )
        import os

        names = {"WANDB_ENTITY": self.wandb_org, "WANDB_RUN_GROUP": self.wandb_group}
        for name, value in (names | {"WANDB_PROJECT": self.wandb_project}).items():
            if value:
                os.environ[name] = value
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFlags:
    """How preference pairs are read.

    Args:
        dataset_probs: for several datasets: how often each is drawn from, with commas between the numbers.
        train_split: of a dataset from the hub.
        eval_split: of a dataset from the hub: what to hold out, if it has such a split, in place of eval_fraction.
        prompt_key: field with the prompt that both sides answer; default: prompt in rows that have it, else the sides are whole dialogues (published: always whole dialogues).
        chosen_key: field with the preferred side: a text, an object with input and output, or a list of messages, which may show pictures.
        rejected_key: field with the other side.
        input_template: text around the prompt, which takes the place of {}.
        apply_chat_template: accepted for the published command line: fields that are lists of messages become texts by the model's chat template in any case.
        image_processor: folder or hub name that says how pictures are cut up; default: the model's own.
        min_pixels: pictures with fewer pixels are enlarged.
        max_pixels: pictures with more pixels are made smaller; 784 of them are one token.
    """

    dataset_probs: str = "1.0"
    train_split: str = "train"
    eval_split: str = "test"
    prompt_key: str | None = None
    chosen_key: str = "chosen"
    rejected_key: str = "rejected"
    input_template: str | None = None
    apply_chat_template: bool = False
    image_processor: str | None = None
    min_pixels: int = 12544
    max_pixels: int = 50176


_GROUPS: dict[str, type] = {"pairs": PairFlags, "flags": TrainingFlags}
"""Parameters of a stage's function that stand for several flags."""


def training_stage(**defaults: Any) -> Callable[[Stage], Stage]:
    """Give a stage's function the shared flags, in signature and help, in place of `flags` and `pairs`.

    Args:
        **defaults: shared flags whose default is another one in this stage.
    """

    def decorate(function: Stage) -> Stage:
        return with_flags(_GROUPS, defaults)(needing(_PACKAGES, "training", needed_for="training")(function))

    return decorate


def _same(kind: Any, flags: TrainingFlags) -> dict[str, Any]:
    """The fields of a settings class that have a flag of the same name."""
    names = {field.name for field in fields(kind)}
    return {field.name: getattr(flags, field.name) for field in fields(flags) if field.name in names}


def model_and_data(pretrain: str | None, dataset: str | None, what: str) -> tuple[str, str]:
    """Both, or an error that asks for them."""
    if pretrain is None or dataset is None:
        raise UsageError(f"--pretrain (a model) and --dataset ({what}) are needed.")
    return pretrain, dataset


def one_of(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises UsageError unless the flag's value is one of the choices."""
    if value not in choices:
        raise UsageError(f"--{name} must be one of {', '.join(map(str, choices))}, got {value!r}.")


def at_least(least: int, **flags: float) -> None:
    """Raises UsageError for a flag whose value is smaller."""
    for name, value in flags.items():
        if value < least:
            raise UsageError(f"--{name} must be at least {least}, got {value}.")
