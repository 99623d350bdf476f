"""What every training stage is told, and what a stage that reads pairs is told besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sweet_rl.command_line.stages import Stage, needing, stage
from sweet_rl.commands.training_groups import OptimizerFlags, OutputFlags, RowFlags, ShardFlags, WeightFlags
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, Settings, flag

if TYPE_CHECKING:
    from sweet_rl.training.settings import DataSettings, LossSettings, ModelSettings, TrainSettings

_PACKAGES = frozenset({"torch", "transformers", "accelerate", "jinja2"})
"""What the extra `training` installs."""


@dataclass(frozen=True, kw_only=True)
class TrainingFlags(OutputFlags, RowFlags, OptimizerFlags, WeightFlags, ShardFlags):
    """What is the same whatever is trained."""

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
            UsageError: names the flag whose value cannot be, or the files that would be lost.
        """
        from sweet_rl.training.settings import TrainSettings

        if trains:
            self.replaces_nothing()
        return TrainSettings(
            data=data,
            model=model,
            loss=loss,
            optimizer=self.optimizer(published=published),
            shards=self.shards(),
            output=self.output(),
            published=published,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class TrainedOn(Settings):
    """Model and data."""

    pretrain: str = flag(REQUIRED, "the model to train: a folder or a hub name.", positional=True)
    dataset: str = flag(
        REQUIRED,
        "pairs: .jsonl, .json or .csv files, or hub names (name@data_dir); several with commas between them.",
        positional=True,
    )


@dataclass(frozen=True, kw_only=True)
class ExpertsFlags(Settings):
    """The loss."""

    aux_loss_coef: float = flag(
        0.0, "weight of the balance loss of a mixture of experts.", at_least=0, shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class FieldFlags(Settings):
    """How preference pairs are read."""

    prompt_key: str | None = flag(
        None,
        "field with the prompt that both sides answer; default: prompt in rows that have it, else the sides are whole dialogues (published: always whole dialogues).",
    )
    chosen_key: str = flag(
        "chosen",
        "field with the preferred side: a text, an object with input and output, or a list of messages, which may show pictures.",
        shown="all",
    )
    input_template: str | None = flag(
        None, "text around the prompt, which takes the place of {}.", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class PairFlags(FieldFlags):
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
    rejected_key: str = flag("rejected", "field with the other side.", shown="all")
    apply_chat_template: bool = flag(
        False,
        "accepted for the published command line: fields that are lists of messages become texts by the model's chat template in any case.",
        shown="never",
    )
    image_processor: str | None = flag(
        None, "folder or hub name that says how pictures are cut up; default: the model's own.", shown="all"
    )
    min_pixels: int = flag(12544, "pictures with fewer pixels are enlarged.", at_least=1, shown="all")
    max_pixels: int = flag(
        50176,
        "pictures with more pixels are made smaller; 784 of them are one token.",
        at_least=1,
        shown="all",
    )

    def check_together(self) -> None:
        """A picture has at most as many pixels as it has at least, or more."""
        if self.max_pixels < self.min_pixels:
            raise UsageError(
                f"--max_pixels must be at least {self.min_pixels} (--min_pixels), got {self.max_pixels}."
            )

    def data(self, rows: RowFlags, dataset: str, *, published: bool) -> DataSettings:
        """The data's settings where rows are preference pairs."""
        return rows.data(dataset, find_prompt=not published, **asdict(self))


def training_stage(
    *, helps: Mapping[str, str] | None = None, **defaults: Any
) -> Callable[[Callable[..., None]], Stage]:
    """Make a stage of a function that trains.

    Args:
        helps: flags that are explained otherwise in this stage.
        **defaults: flags whose default is another one in this stage.
    """

    def decorate(function: Callable[..., None]) -> Stage:
        guarded = needing(_PACKAGES, "training", needed_for="training")(function)
        return stage(defaults=defaults, helps=helps)(guarded)

    return decorate
