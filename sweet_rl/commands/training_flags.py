"""Flags of every training stage, and of stages that read pairs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sweet_rl import tracking
from sweet_rl.cli.stage import Stage, needing, stage
from sweet_rl.commands.training_groups import OutputFlags, RowFlags, ShardFlags, same_fields
from sweet_rl.errors import UsageError
from sweet_rl.flags import Settings, flag
from sweet_rl.flags.models import Dataset, MaxPixels, PairFields, Pretrain, RejectedKey
from sweet_rl.training.settings import ModelSettings, OptimizerSettings, TrainSettings

if TYPE_CHECKING:
    from sweet_rl.training.settings import DataSettings, LossSettings

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
        from sweet_rl.cli.progress import on_interrupt
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
