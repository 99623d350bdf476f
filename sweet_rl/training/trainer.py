"""The training loop: transformers' Trainer with our batches, loss, schedule, checkpoints and log.

Trainer accumulates, clips, shards and keeps random states. What is ours here: every row of an optimizer step
counts for its weight, a loss or a gradient that is not finite never reaches the weights, an update for which
memory does not suffice is begun again with smaller micro-batches, and checkpoints are whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback, TrainingArguments

from sweet_rl.cli.progress import progress
from sweet_rl.errors import ServiceError, UsageError, first_line
from sweet_rl.training import checkpoints, forward, processes, sharding
from sweet_rl.training.batches import to_device
from sweet_rl.training.checkpoints import Guard, MetricsLog
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.forward import Objective, RowLosses
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.steps import Packs, Positions, StepSampler, rate_factor
from sweet_rl.training.vision import Vision
from sweet_rl.types import Json

Say = Callable[[str], None]
_TRIES = (
    "Begin anew, with another --ckpt_path: with a lower --learning_rate or --max_norm, without --bf16, with "
    "--attention eager, or without these rows."
)


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


class Run(NamedTuple):
    """A run that has begun, and the checkpoint it resumes from."""

    settings: TrainSettings
    rows: Rows
    steps: StepSampler
    held_out_packs: Packs
    arguments: TrainingArguments
    resume: Path | None
    made_from: dict[str, Json]
    share: bool
    say: Say
    most_places: float = math.inf  # tokens of a micro-batch, padding included, that memory suffices for


def check_sizes(model: Any, rows: Sequence[Encoded], settings: TrainSettings) -> None:
    """Raises UsageError for ids or lengths that the model has no embedding for, and for unseen pictures."""
    config, name = model.config.get_text_config(), model.name_or_path
    if show_pictures(rows) and not hasattr(model.config, "image_token_id"):
        raise UsageError(f"{name!r} reads no pictures, and the data have some.")
    longest = max(row.length for row in rows)
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and longest > context:
        what = f"The longest row has {longest:,} tokens, and {name!r} reads {context:,}"
        raise UsageError(f"{what}: set --max_len {context} (it is {settings.max_len}).")
    for row in rows:
        largest = max(max(branch.ids) for branch in row.branches)
        if largest >= config.vocab_size:
            what = (
                f"{row.row.place} has the token id {largest}, but {name!r} knows {config.vocab_size:,} tokens"
            )
            raise UsageError(f"{what}: its tokenizer does not belong to it.")


def show_pictures(rows: Sequence[Encoded]) -> bool:
    """Whether any does. Such rows share no tokens: a tree's positions have one axis, a picture's three."""
    return any(branch.pictures for row in rows for branch in row.branches)


def pairs_digest(pairs: Sequence[Encoded]) -> str:
    """A fingerprint of the tokens, the scored positions and the pictures."""
    total = hashlib.sha256()
    for pair in pairs:
        for side in pair.sides:
            for branch in side.branches:
                scored = [pair.index, side.denominator, *map(tuple, branch.scored)]
                total.update(json.dumps([branch.ids, scored]).encode())
                total.update("".join(picture.digest for picture in branch.pictures).encode())
    return total.hexdigest()[:16]


class StepTrainer(Trainer):
    """Trains one model on the encoded rows of a run."""

    def __init__(self, model: Any, run: Run, *, collator: Callable[[Any], Any], objective: Objective) -> None:
        self._run, self._settings, self._held_out = run, run.settings, run.rows.held_out
        self._by_index = {row.index: row for row in run.rows.train}
        self._collator, self._objective = collator, objective
        done = checkpoints.step_of(run.resume) if run.resume else 0
        writes = run.settings.metrics_path if processes.rank() == 0 else None
        self._metrics = MetricsLog(writes, after_step=done)
        self._sums: Tensor | None = None
        self._names: list[str] = []
        self._preparing, self._most, self._say = False, run.most_places, run.say
        self._update: list[Any] = []
        self._sums_before: Tensor | None = None
        self._guard, self._norm = Guard("the training", _TRIES), None  # the norm of the next update
        self._update_B: list[Tensor] = []
        self._bad: list[int] = []
        # A loss function tells Trainer that our loss is already scaled; `compute_loss` below is what runs.
        super().__init__(
            model=model,
            args=run.arguments,
            train_dataset=list(run.rows.train),
            eval_dataset=list(self._held_out),
            compute_loss_func=objective,
            callbacks=[_Hooks(run.steps, self._check_gradient)],
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if self.is_world_process_zero():
            self.add_callback(ProgressBar(quiet=run.settings.quiet))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Micro-batches of this process; not prepared by accelerate, which would divide them once more."""
        return DataLoader(
            Positions(self._run.rows.train),
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
        self._update_B = [batch["index_B"][batch["scale_B"] > 0] for batch in samples]
        return samples, sum(len(batch["scale_B"]) for batch in samples)

    def _prepare_inputs(self, inputs: Any) -> Any:
        return to_device(inputs, self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # they are not counted

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Add a micro-batch's gradients; where memory does not suffice, those of the whole update in smaller ones."""
        if self.args.world_size > 1 or sharding.engine_of(self._settings) is not None:
            return super().training_step(model, inputs, num_items_in_batch)
        self._update.append(inputs)
        waiting, loss = [inputs], torch.zeros((), device=self.args.device)
        while waiting:
            batch = waiting.pop(0)
            rows = list(zip(batch["index_B"].tolist(), batch["scale_B"].tolist(), strict=True))
            size, failure = forward.places(batch), ""
            if size > self._most and len(rows) > 1 and self._objective.by_row:
                items = [(self._by_index[index], scale) for index, scale in rows]
                half = len(items) // 2
                waiting[:0] = [self._collator(items[:half]), self._collator(items[half:])]
                continue
            try:
                loss = loss + super().training_step(model, batch)
            except (RuntimeError, MemoryError) as error:
                if not forward.exhausted(error):
                    raise
                failure = first_line(error)[:200]
            if failure:  # here the error is gone, and with it what the pass had made
                update = self.state.global_step + 1
                if len(rows) == 1 or not self._objective.by_row:
                    places = ", ".join(self._by_index[index].row.place for index, _ in rows[:5])
                    raise ServiceError(
                        f"Out of memory at update {update} with {size:,} tokens at once ({failure}), in the rows "
                        f"{places}. {forward.REPAIR}"
                    )
                self._most = 3 * size // 4
                self._say(
                    f"Out of memory at update {update} with {size:,} tokens at once ({failure}). From now on it "
                    f"is {self._most:,}; the result is the same."
                )
                model.zero_grad()
                forward.free_cache()
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
        mine = (self._bad, [index for part in self._update_B for index in part.tolist()])
        seen: list[Any] = [mine] * self.args.world_size
        if self.args.world_size > 1:
            torch.distributed.all_gather_object(seen, mine)
        bad, all_rows = (sorted({index for share in seen for index in share[kind]}) for kind in (0, 1))
        rows = [f"{self._by_index[index].row.place} (index {index})" for index in (bad or all_rows)]
        update, folder = self.state.global_step + 1, Path(self._settings.ckpt_path)
        found = checkpoints.complete_checkpoints(folder)
        before = [path for path in found if checkpoints.step_of(path) < update]
        kept = "No checkpoint was written yet. "
        if before:
            kept = f"The checkpoint {str(before[-1])!r} is from before it. "
        what = "the loss of these rows" if bad else "the gradient, not the losses"
        named = ", ".join(rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
        raise self._guard.error(update, f"{what}; norm {float(norm):.4g}", named, kept)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The published schedule, or the one that was chosen."""
        if self.lr_scheduler is None:
            options, name = self._settings, self._settings.lr_scheduler
            about: dict[str, Any] = {"warmup_ratio": options.lr_warmup_ratio, "published": options.published}
            factor = rate_factor(name, steps=num_training_steps, **about)
            of: Any = optimizer or self.optimizer
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(of, factor)
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
        if not self._held_out:
            return {}
        model, (rank, world) = self.model_wrapped, (self.args.process_index, self.args.world_size)
        batches = self._run.held_out_packs(list(range(len(self._held_out))))
        sums: Tensor | int = 0
        training = model.training
        model.eval()
        for start in range(0, len(batches), world):  # all make the same number of passes, for sharded models
            mine = batches[min(start + rank, len(batches) - 1)]
            divides, work = world == 1 and self._objective.by_row, self._held_out_losses
            for losses in forward.by_halves(mine, work) if divides else [work(mine)]:
                used_B = torch.full_like(losses.total_B, start + rank < len(batches), dtype=torch.bool)
                sums = self._summed(losses, used_B) + sums
        sharding.reshard(model)
        model.train(training)
        means = self._means(torch.as_tensor(sums, device=self.args.device))
        metrics = {f"eval_{name}": value for name, value in means.items()}
        self._metrics.append({"step": self.state.global_step, "epoch": self.state.epoch, **metrics})
        super().log(metrics)
        return metrics

    def _held_out_losses(self, rows: Sequence[int]) -> RowLosses:
        batch = self._prepare_inputs(self._collator([(self._held_out[i], 0.0) for i in rows]))
        # Not inference_mode: FSDP2 would keep its buffers, and cannot train with them.
        with torch.no_grad(), self.compute_loss_context_manager():
            return self._objective(self.model_wrapped, batch)

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


class _Hooks(TrainerCallback):
    """Where Trainer calls us: as an epoch begins, with the exact number of updates, and before a step."""

    def __init__(self, sampler: StepSampler, check: Callable[[], None]) -> None:
        self._sampler, self._check = sampler, check

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Also called once after a resume."""
        self._sampler.epoch = state.global_step // max(1, self._sampler.steps)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The gradient is there, and the step is not."""
        self._check()


class ProgressBar(ProgressCallback):
    """A bar with the last loss and accuracy, which starts where a resumed run does."""

    training_bar: Any

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the bar at the update from which the run resumes."""
        self.training_bar = progress(state.max_steps, state.global_step, unit="update", quiet=self._quiet)
        self.current_step = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Show the last loss and accuracy beside the bar."""
        shown = {name: f"{value:.4g}" for name, value in (logs or {}).items() if name in {"loss", "acc"}}
        if shown:
            self.training_bar.set_postfix(shown, refresh=False)
