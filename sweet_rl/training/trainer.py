"""The training loop: transformers' Trainer with our batches, loss, schedule, checkpoints and log.

Trainer accumulates, clips, shards and keeps random states. What is ours here: every row of an optimizer step
counts for its weight, a loss or a gradient that is not finite never reaches the weights, an update for which
memory does not suffice is begun again with smaller micro-batches, and checkpoints are whole.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback, TrainingArguments

from sweet_rl.command_line.running import progress
from sweet_rl.errors import ServiceError, first_line
from sweet_rl.training import adapters, checkpoints, engines, memory
from sweet_rl.training.attention import attend_plainly
from sweet_rl.training.batches import to_device
from sweet_rl.training.encoding import Encoded
from sweet_rl.training.forward import Objective, RowLosses
from sweet_rl.training.metrics import Guard, MetricsLog
from sweet_rl.training.settings import TrainSettings
from sweet_rl.training.steps import Packs, Positions, StepSampler, rate_factor
from sweet_rl.types import Json

CHECKED = {"cuda"}
"""Devices whose fused attention is not taken at its word."""

_TRIES = (
    "Begin anew, with another --ckpt_path: with a lower --learning_rate or --max_norm, without --bf16, with "
    "--attention eager, or without these rows."
)


class StepTrainer(Trainer):
    """Trains one model on encoded rows.

    Args:
        packs: divides the held-out rows into micro-batches.
        most_places: tokens of a micro-batch, padding included, that memory is known to suffice for.
        made_from: what checkpoints are compared by when a run resumes.
    """

    def __init__(
        self,
        model: Any,
        arguments: TrainingArguments,
        settings: TrainSettings,
        *,
        rows: Sequence[Encoded],
        held_out: Sequence[Encoded],
        packs: Packs,
        sampler: StepSampler,
        collator: Callable[[Any], Any],
        objective: Objective,
        metrics: MetricsLog,
        most_places: float = math.inf,
        say: Callable[[str], None],
        made_from: dict[str, Json],
    ) -> None:
        self._settings, self._rows, self._held_out = settings, rows, held_out
        self._by_index = {row.index: row for row in rows}
        self._packs = packs
        self._collator, self._metrics, self._objective = collator, metrics, objective
        self._sums: Tensor | None = None
        self._names: list[str] = []
        self._preparing, self._made_from = False, made_from
        self._most, self._say = most_places, say
        self._update: list[Any] = []
        self._sums_before: Tensor | None = None
        self._guard, self._norm = Guard("the training", _TRIES), None  # the norm of the next update
        self._update_B: list[Tensor] = []
        self._bad: list[int] = []
        # A loss function tells Trainer that our loss is already scaled; `compute_loss` below is what runs.
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=list(rows),
            eval_dataset=list(held_out),
            compute_loss_func=_unused,
            callbacks=[_Hooks(self._begin_epoch, self._check_gradient)],
        )
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if self.is_world_process_zero():
            self.add_callback(ProgressBar(quiet=settings.output.quiet))
        self.sampler = sampler

    def _begin_epoch(self, updates: int) -> None:
        self.sampler.set_epoch(updates // max(1, self.sampler.steps))

    # -- batches ------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Micro-batches of this process; not prepared by accelerate, which would divide them once more."""
        return DataLoader(
            Positions(self._rows),
            batch_sampler=self.sampler,
            collate_fn=self._collator,
            generator=torch.Generator().manual_seed(self._settings.seed),
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: Any
    ) -> tuple[list[Any], int | None]:
        """The micro-batches of one optimizer step, with its number of rows."""
        del device
        samples = [batch for _, batch in zip(range(num_batches), epoch_iterator, strict=False)]
        self._update, self._sums_before = [], self._sums
        self._update_B = [batch["index_B"][batch["scale_B"] > 0] for batch in samples]
        return samples, sum(len(batch["scale_B"]) for batch in samples)

    def _prepare_inputs(self, inputs: Any) -> Any:
        return to_device(inputs, self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        """0: operations are not counted."""
        del inputs
        return 0

    # -- gradients ----------------------------------------------------------------------------------------

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Add a micro-batch's gradients; where they cannot be had so, those of the whole update another way.

        A fused kernel that makes no number of what plain arithmetic makes one of is not used again.
        """
        alone = self.args.world_size == 1 and engines.engine_of(self._settings) is None
        if not alone:
            return super().training_step(model, inputs, num_items_in_batch)
        self._update.append(inputs)
        loss = self._add_gradients(model, [inputs])
        if self.accelerator.sync_gradients and self.args.device.type in CHECKED:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
            if not norm.isfinite() and attend_plainly(adapters.bare_model(model)):
                self._say(
                    f"The gradient is not finite at update {self.state.global_step + 1}. From here on plain "
                    "attention is computed, which is slower than torch's fused kernels; nothing was lost."
                )
                loss = self._add_gradients(model, self._begin_again(model))
        return loss

    def _begin_again(self, model: Any) -> list[Any]:
        """Drop the gradients of the update; its micro-batches so far."""
        model.zero_grad()
        memory.free_cache()
        self._sums, self._bad = self._sums_before, []
        return [*self._update]

    def _add_gradients(self, model: Any, waiting: list[Any]) -> Tensor:
        loss = torch.zeros((), device=self.args.device)
        while waiting:
            batch = waiting.pop(0)
            rows = list(zip(batch["index_B"].tolist(), batch["scale_B"].tolist(), strict=True))
            size, failure = memory.places(batch), ""
            if size > self._most and len(rows) > 1 and self._objective.by_row:
                items = [(self._by_index[index], scale) for index, scale in rows]
                half = len(items) // 2
                waiting[:0] = [self._collator(items[:half]), self._collator(items[half:])]
                continue
            try:
                loss = loss + super().training_step(model, batch)
            except (RuntimeError, MemoryError) as error:
                if not memory.exhausted(error):
                    raise
                failure = first_line(error)[:200]
            if failure:  # here the error is gone, and with it what the pass had made
                update = self.state.global_step + 1
                if len(rows) == 1 or not self._objective.by_row:
                    places = ", ".join(self._by_index[index].row.place for index, _ in rows[:5])
                    raise ServiceError(
                        f"Out of memory at update {update} with {size:,} tokens at once ({failure}), in the rows "
                        f"{places}. {memory.REPAIR}"
                    )
                self._most = 3 * size // 4
                self._say(
                    f"Out of memory at update {update} with {size:,} tokens at once ({failure}). From now on it "
                    f"is {self._most:,}; the result is the same."
                )
                waiting, loss = self._begin_again(model), torch.zeros_like(loss)
        return loss

    # -- loss and schedule --------------------------------------------------------------------------------

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The micro-batch's share of its step's mean loss.

        One that is not finite makes the gradient NaN, on every process; then `_check_gradient` ends them all.
        """
        del return_outputs, num_items_in_batch
        losses = self._objective(model, inputs)
        used_B = inputs["scale_B"] > 0
        bad_B = used_B & ~losses.total_B.isfinite()
        if bad_B.any():
            self._bad += inputs["index_B"][bad_B].tolist()
            return losses.total_B.sum() * math.nan
        self._sums = self._summed(losses, used_B) + (0 if self._sums is None else self._sums)
        loss = (
            (losses.total_B * inputs["scale_B"])[used_B].sum() if used_B.any() else 0 * losses.total_B.sum()
        )
        if losses.aux is not None:
            loss = loss + losses.aux * (inputs["scale_B"] * losses.weight_B).sum()
        return loss

    def _summed(self, losses: RowLosses, used_B: Tensor) -> Tensor:
        """Sums over the rows in use: of what is logged, and of the weights."""
        self._names = list(losses.numbers)
        rows_FB = torch.stack(
            [field.detach().float() for field in (*losses.numbers.values(), losses.weight_B)]
        )
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
        update, folder = self.state.global_step + 1, self._settings.output.ckpt_path
        before = [
            path for path in checkpoints.complete_checkpoints(folder) if checkpoints.step_of(path) < update
        ]
        raise self._guard.error(
            update,
            f"{'the loss of these rows' if bad else 'the gradient, not the losses'}; norm {float(norm):.4g}",
            ", ".join(rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else ""),
            f"The checkpoint {str(before[-1])!r} is from before it. "
            if before
            else "No checkpoint was written yet. ",
        )

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The published schedule, or the one that was chosen."""
        optimizer = optimizer or self.optimizer
        if self.lr_scheduler is None:
            options = self._settings.optimizer
            factor = rate_factor(
                options.lr_scheduler,
                steps=num_training_steps,
                warmup_ratio=options.lr_warmup_ratio,
                published=self._settings.published,
            )
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    # -- numbers ------------------------------------------------------------------------------------------

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means over the rows since the last line, and write the line to metrics.jsonl."""
        if "loss" in logs and self._sums is not None:
            means, self._sums = self._means(self._sums), None
            logs = {**means, **_renamed(logs)}
            self._metrics.append({"step": self.state.global_step, "epoch": self.state.epoch, **logs})
            self._guard.note(
                self.state.global_step,
                means.get("total_loss", math.nan),
                float(logs.get("grad_norm", math.nan)),
            )
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The training metrics on the held-out rows; batches are divided over the processes."""
        if not self._held_out:
            return {}
        model, (rank, world) = self.model_wrapped, (self.args.process_index, self.args.world_size)
        batches = self._packs(list(range(len(self._held_out))))
        sums: Tensor | int = 0
        training = model.training
        model.eval()
        for start in range(0, len(batches), world):  # all make the same number of passes, for sharded models
            mine = batches[min(start + rank, len(batches) - 1)]
            divides = world == 1 and self._objective.by_row
            found = (
                memory.by_halves(mine, self._held_out_losses) if divides else [self._held_out_losses(mine)]
            )
            for losses in found:
                used_B = torch.full_like(losses.total_B, start + rank < len(batches), dtype=torch.bool)
                sums = self._summed(losses, used_B) + sums
        engines.reshard(model)
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

    # -- checkpoints --------------------------------------------------------------------------------------

    def _get_output_dir(self, trial: Any = None) -> str:
        del trial
        folder = self._settings.output.ckpt_path
        return str(folder / checkpoints.PARTIAL if self._preparing else folder)

    def _save_checkpoint(self, model: Any, trial: Any = None) -> None:
        output, first = self._settings.output, self.is_world_process_zero()
        folder, name = output.ckpt_path, f"checkpoint-{self.state.global_step}"
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
                covers = [] if output.metrics_path is None else [output.metrics_path]
                checkpoints.publish(folder, name, self._made_from, covers)
        if first:
            checkpoints.rotate(folder, keep=output.max_ckpt_num, max_gb=output.max_ckpt_mem_gb)
        self.accelerator.wait_for_everyone()


class _Hooks(TrainerCallback):
    """Where Trainer calls us: as an epoch begins, with the exact number of updates, and before a step."""

    def __init__(self, begin_epoch: Callable[[int], None], check: Callable[[], None]) -> None:
        self._begin_epoch, self._check = begin_epoch, check

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Also called once after a resume."""
        del args, control
        self._begin_epoch(state.global_step)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The gradient is there, and the step is not."""
        del args, state, control
        self._check()


class ProgressBar(ProgressCallback):
    """A bar with the last loss and accuracy, which starts where a resumed run does."""

    training_bar: Any

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open the bar at the update from which the run resumes."""
        del args, control
        self.training_bar = progress(state.max_steps, state.global_step, unit="update", quiet=self._quiet)
        self.current_step = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Show the last loss and accuracy beside the bar."""
        del args, state, control
        shown = {name: value for name, value in (logs or {}).items() if name in {"loss", "acc"}}
        if shown:
            self.training_bar.set_postfix(
                {name: f"{value:.4g}" for name, value in shown.items()}, refresh=False
            )


def _unused(*_: Any) -> Tensor:
    raise NotImplementedError


def _renamed(logs: dict[str, float]) -> dict[str, float]:
    """Trainer's own numbers under the published names; its loss is our total, which we know already."""
    names = {"learning_rate": "lr"}
    return {names.get(name, name): value for name, value in logs.items() if name != "loss"}
