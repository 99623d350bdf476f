"""The training loop: transformers' Trainer with our batches, loss, schedule, checkpoints and log.

Trainer accumulates, clips, shards and keeps random states. What is ours here: every row of an optimizer step
counts for its weight, a loss or a gradient that is not finite never reaches the weights, an update for which
memory does not suffice is begun again with smaller micro-batches, and checkpoints are whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments, set_seed

from sweet_rl.cli.progress import Bar
from sweet_rl.errors import ServiceError, UsageError, first_line
from sweet_rl.training import checkpoints, processes, steps
from sweet_rl.training.batches import to_device
from sweet_rl.training.checkpoints import Guard, MetricsLog
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.forward import Objective, RowLosses
from sweet_rl.training.processes import engine_of, rank, world_size
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json

Say = Callable[[str], None]
_TRIES = (
    "Begin anew, with another --ckpt_path: with a lower --learning_rate or --max_norm, without --bf16, with "
    "--attention eager, or without these rows."
)
# Flags that say how a step is computed, not what: another value changes a resumed run by rounding only.
ROUNDING = frozenset({
    "--micro_train_batch_size", "--max_tokens_per_batch", "--gradient_checkpointing", "--torch_compile",
    "--gradient_checkpointing_use_reentrant", "--device", "--attention", "--flash_attn",
})  # fmt: skip
_CALLED = {"name": "loss", "reduction": "mean_log_prob"}  # fields of settings whose flags have another name


class Rows(NamedTuple):
    """The training data, and what it was encoded with; `vision` is for a vision-language model."""

    tokenizer: Any
    train: list[Encoded]
    held_out: list[Encoded]
    vision: Vision | None = None

    @property
    def all(self) -> list[Encoded]:
        return [*self.train, *self.held_out]

    @property
    def pad_id(self) -> int:
        """What fills up a batch; it is never read."""
        known = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        return next((token for token in known if token is not None), 0)

    @property
    def pictured(self) -> bool:
        """Whether any shows a picture. Such rows share no tokens: a tree's positions have one axis, a picture's three."""
        return any(branch.pictures for row in self.all for branch in row.branches)

    @property
    def digest(self) -> str:
        """A fingerprint of the tokens, the scored positions and the pictures."""
        total = hashlib.sha256()
        for row in self.all:
            for side in row.sides:
                for branch in side.branches:
                    scored = [row.index, side.denominator, *map(tuple, branch.scored)]
                    total.update(json.dumps([branch.ids, scored]).encode())
                    total.update("".join(picture.digest for picture in branch.pictures).encode())
        return total.hexdigest()[:16]


class Run:
    """A training that has begun: its rows, divided into updates and micro-batches, and the checkpoint it resumes from."""

    def __init__(
        self, stage: str, settings: TrainSettings, rows: Rows, say: Say, *, share: bool = True
    ) -> None:
        if world_size() > 1 and rows.pictured:
            blind = (row for row in rows.all if not any(branch.pictures for branch in row.branches))
            if (one := next(blind, None)) is not None:
                raise UsageError(
                    f"{one.row.place} shows no picture, and others do. Several processes need one in every pair: train "
                    "on one process, or on one sort."
                )
        self.rows, self.say, self.share = rows, say, share and settings.prefix_tree and not rows.pictured
        self.most_places = math.inf  # tokens of a micro-batch, padding included, that memory suffices for
        self.divide(settings)
        self.arguments = training_arguments(settings, self.steps.accumulation)  # joins the other processes
        if engine := engine_of(settings):
            names = {"deepspeed": f"DeepSpeed ZeRO-{settings.zero_stage}", "fsdp2": "FSDP2"}
            say(f"{names[engine]} over {world_size()} processes")
        self.made_from = made_from(stage, settings, rows) if rank() == 0 else {}
        self.resume: Path | None = None
        if settings.load_checkpoint:
            with processes.lost_processes_named(settings):
                self.resume = processes.from_main(self._found)
        set_seed(settings.seed)

    def divide(self, settings: TrainSettings) -> None:
        """Divide rows as the settings say."""
        held_out = self.rows.held_out
        self.settings = settings
        self.steps = steps.steps_of(settings, self.rows.train, share=self.share)
        packs = steps.packs_of(held_out, settings, share=self.share, world=world_size())
        self.held_out = packs(list(range(len(held_out))))

    def _found(self) -> Path | None:
        folder, instead = Path(self.settings.ckpt_path), "start anew with another --ckpt_path"
        checkpoints.checkpoints_in(folder, "--ckpt_path")
        return checkpoints.resumable(folder, self.made_from, self.say, instead=instead, rounding=ROUNDING)


def made_from(stage: str, settings: TrainSettings, rows: Rows) -> dict[str, Json]:
    """All that decides about the weights, by the flags: values, and digests of data and models."""
    engine = engine_of(settings)
    if not (settings.load_checkpoint or settings.save_steps > 0):
        return {}
    every = settings.plain()
    groups = ["data", "loss", "model", "optimizer", *(["shards"] if engine == "deepspeed" else [])]
    values = {name: value for group in groups for name, value in every[group].items()}
    for free in ("timeout_s", "overlap_comm", "shard_with"):
        values.pop(free, None)
    return {f"--{_CALLED.get(name, name)}": value for name, value in values.items()} | {
        "the stage": stage,
        "the engine": engine,
        "the number of processes": world_size() if engine == "deepspeed" else "any",
        "--dataset": f"{len(rows.train)} rows and {len(rows.held_out)} held out, {rows.digest}",
        "--pretrain": checkpoints.identity_of(settings.pretrain),
        "--ref_pretrain": checkpoints.identity_of(settings.ref_pretrain),
        "--compat": "published" if settings.published else "fixed",
        "--seed": settings.seed,
    }


def training_arguments(settings: TrainSettings, accumulation: int) -> TrainingArguments:
    """Trainer's arguments. Making them also joins the other processes, if there are some."""
    engine = engine_of(settings)
    cuda = torch.cuda.is_available() and settings.device != "cpu"
    processes.check_engine(settings, cuda=cuda)
    processes.claim(settings)
    several = world_size() > 1 or engine is not None
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it need not look for one, and say that there is none
    if several and not cuda:
        processes.join_on_cpu(settings)
    engines: dict[str, Any] = {}
    if engine == "deepspeed":
        engines["deepspeed"] = processes.deepspeed_config(settings)
    elif engine == "fsdp2":
        config = processes.fsdp_config(settings, os.environ, cuda=cuda)
        backend = "cuda:nccl,cpu:gloo" if cuda else "gloo"  # states may lie in main memory
        engines |= {"fsdp": True, "fsdp_config": config, "ddp_backend": backend}
    arguments = TrainingArguments(
        output_dir=settings.ckpt_path
        if settings.save_steps > 0
        else settings.save_path,  # it is made at once
        per_device_train_batch_size=settings.micro_train_batch_size or 1,  # our own batches come
        gradient_accumulation_steps=accumulation,
        num_train_epochs=settings.max_epochs,
        learning_rate=settings.learning_rate,
        weight_decay=settings.l2,
        adam_beta1=settings.betas[0],
        adam_beta2=settings.betas[1],
        max_grad_norm=settings.max_norm,
        optim="adamw_torch_fused" if cuda and engine != "deepspeed" else "adamw_torch",
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps" if settings.save_steps > 0 else "no",
        save_steps=max(1, settings.save_steps),
        eval_strategy="steps" if settings.eval_steps > 0 else "no",
        eval_steps=max(1, settings.eval_steps),
        seed=settings.seed,
        bf16=settings.bf16 and (cuda or engine is None),  # not known for engines on CPUs; accelerate decides
        ddp_find_unused_parameters=False,
        ddp_timeout=settings.timeout_s,
        use_cpu=not cuda and engine is None,
        accelerator_config={
            "use_configured_state": several and not cuda,
            # A gradient that waits whole for its step's other micro-batches would undo the
            "gradient_accumulation_kwargs": {"sync_each_batch": True} if engine == "fsdp2" else None,
        },
        **engines,
        report_to=[],  # numbers go where the metrics do (`sweet_rl.training.checkpoints.MetricsLog`)
        remove_unused_columns=False,
        disable_tqdm=True,
        log_level="error",
        dataloader_pin_memory=cuda,
    )
    if engine == "fsdp2" and settings.bf16:
        from torch.distributed.fsdp import MixedPrecisionPolicy  # not in every build of torch

        # It computes in bfloat16; it adds up gradients, and gives log-probabilities, in float32.
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        arguments.fsdp_plugin_args["mixed_precision_policy"] = policy
    arguments._n_gpu = min(1, arguments.n_gpu)  # several GPUs in one process are not for us
    return arguments


class StepTrainer(Trainer):
    """Trains one model on the encoded rows of a run."""

    def __init__(self, model: Any, run: Run, *, collator: Callable[[Any], Any], objective: Objective) -> None:
        self._run, self._settings, self._collator, self._objective = run, run.settings, collator, objective
        self._by_index = {row.index: row for row in run.rows.train}
        done = checkpoints.step_of(run.resume) if run.resume else 0
        self._metrics = MetricsLog(run.settings.metrics_path if rank() == 0 else None, after_step=done)
        self._guard, self._norm = Guard("the training", _TRIES), None  # the norm of the next update
        self._preparing, self._most = False, run.most_places
        self._names = list[str]()
        # Of what is logged: since the last line, and as the update began.
        self._sums: Tensor | None = None
        self._sums_before: Tensor | None = None
        # Of an update: its micro-batches, the rows that it learns from, and those whose loss is not finite.
        self._update, self._learned, self._bad = list[Any](), list[int](), list[int]()
        # A loss function tells Trainer that our loss is already scaled; `compute_loss` below is what runs.
        super().__init__(
            model=model,
            args=run.arguments,
            train_dataset=list(run.rows.train),
            eval_dataset=list(run.rows.held_out),
            compute_loss_func=objective,
            callbacks=[_Hooks(run, self._check_gradient)],
        )
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Micro-batches of this process; not prepared by accelerate, which would divide them once more."""
        return DataLoader(
            steps.Positions(self._run.rows.train),
            batch_sampler=self._run.steps,
            collate_fn=self._collator,
            generator=torch.Generator().manual_seed(self._settings.seed),
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: Any
    ) -> tuple[list[Any], int | None]:
        """The micro-batches of one optimizer step, with its number of rows."""
        samples = [batch for _, batch in zip(range(num_batches), epoch_iterator, strict=False)]
        self._update, self._sums_before = [], self._sums
        self._learned = [i for batch in samples for i in batch["index_B"][batch["scale_B"] > 0].tolist()]
        return samples, sum(len(batch["scale_B"]) for batch in samples)

    def _prepare_inputs(self, inputs: Any) -> Any:
        return to_device(inputs, self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # they are not counted

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Add a micro-batch's gradients; where memory does not suffice, those of the whole update in smaller ones."""
        if self.args.world_size > 1 or engine_of(self._settings) is not None:
            return super().training_step(model, inputs, num_items_in_batch)
        self._update.append(inputs)
        waiting, loss = [inputs], torch.zeros((), device=self.args.device)
        while waiting:
            batch = waiting.pop(0)
            rows = list(zip(batch["index_B"].tolist(), batch["scale_B"].tolist(), strict=True))
            size, failure = steps.places(batch), ""
            if size > self._most and len(rows) > 1 and self._objective.by_row:
                items = [(self._by_index[index], scale) for index, scale in rows]
                half = len(items) // 2
                waiting[:0] = [self._collator(items[:half]), self._collator(items[half:])]
                continue
            try:
                loss = loss + super().training_step(model, batch)
            except (RuntimeError, MemoryError) as error:
                if not steps.exhausted(error):
                    raise
                failure = first_line(error)[:200]
            if failure:  # here the error is gone, and with it what the pass had made
                update = self.state.global_step + 1
                if len(rows) == 1 or not self._objective.by_row:
                    places = ", ".join(self._by_index[index].row.place for index, _ in rows[:5])
                    raise ServiceError(
                        f"Out of memory at update {update} with {size:,} tokens at once ({failure}), in the rows "
                        f"{places}. {steps.REPAIR}"
                    )
                self._most = 3 * size // 4
                self._run.say(
                    f"Out of memory at update {update} with {size:,} tokens at once ({failure}). From now on it "
                    f"is {self._most:,}; the result is the same."
                )
                model.zero_grad()
                steps.free_cache()
                self._sums, self._bad = self._sums_before, []
                waiting, loss = [*self._update], torch.zeros_like(loss)
        return loss

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The micro-batch's share of its step's mean loss.

        One that is not finite makes the gradient NaN, on every process; then `_check_gradient` ends them all.
        """
        losses = self._objective(model, inputs)
        used_B = inputs["scale_B"] > 0
        bad_B = used_B & ~losses.total_B.isfinite()
        if bad_B.any():
            self._bad += inputs["index_B"][bad_B].tolist()
            return losses.total_B.sum() * math.nan
        self._sums = self._summed(losses, used_B) + (0 if self._sums is None else self._sums)
        loss = 0 * losses.total_B.sum()
        if used_B.any():
            loss = (losses.total_B * inputs["scale_B"])[used_B].sum()
        if losses.aux is not None:
            loss = loss + losses.aux * (inputs["scale_B"] * losses.weight_B).sum()
        return loss

    def _summed(self, losses: RowLosses, used_B: Tensor) -> Tensor:
        """Sums over the rows in use: of what is logged, and of the weights."""
        self._names = list(losses.numbers)
        every = (*losses.numbers.values(), losses.weight_B)
        rows_FB = torch.stack([field.detach().float() for field in every])
        return rows_FB[:, used_B].sum(dim=-1)

    def _means(self, sums: Tensor) -> dict[str, float]:
        """Sums over all processes, divided by the weights."""
        *values, weight = self.accelerator.reduce(sums.clone(), "sum").tolist()
        return {name: value / max(weight, 1) for name, value in zip(self._names, values, strict=True)}

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        self._norm = super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[no-untyped-call]
        return self._norm

    def _check_gradient(self) -> None:
        """Before an optimizer step (DeepSpeed has then skipped its own): all processes see the same norm."""
        norm, self._norm = self._norm, None
        if norm is None:  # a version of transformers that has no `_get_grad_norm`
            sharded = getattr(self.model_wrapped, "get_global_grad_norm", None)
            clip = self.accelerator.clip_grad_norm_
            norm = sharded() if sharded else clip(self.model_wrapped.parameters(), math.inf)
        if math.isfinite(norm) and norm >= 0:  # DeepSpeed says -1 for what is not finite
            return
        mine = (self._bad, self._learned)
        seen: list[Any] = [mine] * self.args.world_size
        if self.args.world_size > 1:
            torch.distributed.all_gather_object(seen, mine)
        bad, all_rows = (sorted({index for share in seen for index in share[kind]}) for kind in (0, 1))
        rows = [f"{self._by_index[index].row.place} (index {index})" for index in (bad or all_rows)]
        update = self.state.global_step + 1
        found = checkpoints.complete_checkpoints(Path(self._settings.ckpt_path))
        before = [path for path in found if checkpoints.step_of(path) < update]
        kept = f"The checkpoint {str(before[-1])!r} is from before it. " if before else ""
        kept = kept or "No checkpoint was written yet. "
        what = "the loss of these rows" if bad else "the gradient, not the losses"
        named = ", ".join(rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        raise self._guard.error(update, f"{what}; norm {float(norm):.4g}", named, kept)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The published schedule, or the one that was chosen."""
        if self.lr_scheduler is None:
            chosen, of = self._settings, optimizer or self.optimizer
            about: dict[str, Any] = {"warmup_ratio": chosen.lr_warmup_ratio, "published": chosen.published}
            factor = steps.rate_factor(chosen.lr_scheduler, steps=num_training_steps, **about)
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(of, factor)  # type: ignore[arg-type]
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means over the rows since the last line, and write the line to metrics.jsonl."""
        if "loss" in logs and self._sums is not None:
            means, self._sums = self._means(self._sums), None
            # Trainer's own numbers under the published names; its loss is our total, which we know already.
            theirs = {"lr" if name == "learning_rate" else name: value for name, value in logs.items()}
            logs = means | {name: value for name, value in theirs.items() if name != "loss"}
            self._metrics.append({"step": self.state.global_step, "epoch": self.state.epoch, **logs})
            loss, norm = means.get("total_loss", math.nan), float(logs.get("grad_norm", math.nan))
            self._guard.note(self.state.global_step, loss, norm)
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The training metrics on the held-out rows; batches are divided over the processes."""
        if not self._run.held_out:
            return {}
        model, sums = self.model_wrapped, torch.zeros((), device=self.args.device)

        def work(rows: Sequence[int]) -> RowLosses:
            batch = self._prepare_inputs(self._collator([(self._run.rows.held_out[i], 0.0) for i in rows]))
            # Not inference_mode: FSDP2 would keep its buffers, and cannot train with them.
            with torch.no_grad(), self.compute_loss_context_manager():
                return self._objective(model, batch)

        training = model.training
        model.eval()
        world, by_row = self.args.world_size, self._objective.by_row
        for counts, losses in steps.own_passes(self._run.held_out, work, world=world, divides=by_row):
            sums = sums + self._summed(losses, torch.full_like(losses.total_B, counts, dtype=torch.bool))
        processes.reshard(model)
        model.train(training)
        metrics = {f"eval_{name}": value for name, value in self._means(sums).items()}
        self._metrics.append({"step": self.state.global_step, "epoch": self.state.epoch, **metrics})
        super().log(metrics)
        return metrics

    def _get_output_dir(self, trial: Any = None) -> str:
        folder = Path(self._settings.ckpt_path)
        return str(folder / checkpoints.PARTIAL if self._preparing else folder)

    def _save_checkpoint(self, model: Any, trial: Any = None) -> None:
        output, first = self._settings, self.is_world_process_zero()
        folder, name = Path(output.ckpt_path), f"checkpoint-{self.state.global_step}"
        with checkpoints.storing(folder / name, folder / checkpoints.PARTIAL):
            if first:
                shutil.rmtree(folder / checkpoints.PARTIAL, ignore_errors=True)
            self.accelerator.wait_for_everyone()
            self._preparing = True
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._preparing = False
            self.accelerator.wait_for_everyone()
            if first:
                checkpoints.publish(folder, name, self._run.made_from)
        if first:
            checkpoints.rotate(folder, keep=output.max_ckpt_num, max_gb=output.max_ckpt_mem)
        self.accelerator.wait_for_everyone()


class _Hooks(ProgressCallback):
    """Where Trainer calls us: as an epoch begins, before a step, and to show a bar with the last loss and accuracy."""

    training_bar: Any

    def __init__(self, run: Run, check: Callable[[], None]) -> None:
        super().__init__()
        self._run, self._check = run, check

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Also called once after a resume."""
        self._run.steps.epoch = state.global_step // max(1, self._run.steps.steps)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The gradient is there, and the step is not."""
        self._check()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the bar at the update from which the run resumes."""
        if state.is_world_process_zero:
            quiet = self._run.settings.quiet
            self.training_bar = Bar(state.max_steps, state.global_step, unit="update", quiet=quiet)
        self.current_step = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        shown = {name: f"{value:.4g}" for name, value in (logs or {}).items() if name in {"loss", "acc"}}
        if shown and state.is_world_process_zero:
            self.training_bar.set_postfix(shown, refresh=False)
