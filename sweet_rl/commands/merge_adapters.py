"""An adapter and the model below it to one model (docs/training.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.models import DType, Pretrain
from sweet_rl.flags.shared import OutputPath, Overwriting


@dataclass(frozen=True, kw_only=True)
class MergeFlags(OutputPath, Pretrain, DType, Overwriting):
    """The adapter."""

    adapter_path: str = flag(
        REQUIRED,
        "folder with adapter_config.json: a checkpoint of a stage with --lora_rank, or one that peft saved.",
    )


@recorded("merge_adapters", reads=("adapter_path", "pretrain"))
@stage(
    "adapter_path",
    "output_path",
    defaults={"pretrain": "", "dtype": "float32"},
    helps={
        "output_path": "folder for the whole model and its tokenizer.",
        "pretrain": "the model that the adapter was trained on; default: the one that it names.",
        "dtype": "of the merged weights: float32 or bfloat16.",
        "overwrite": "replace the model that output_path holds.",
    },
    narrow={"dtype": {"choices": ("float32", "bfloat16")}},
    only={"dtype": None},
)
def merge_adapters(flags: MergeFlags, /) -> None:
    """Merge a LoRA adapter into the weights of its model, for transformers, vLLM and further training.

    Training stages do this by themselves at the end. This is for their checkpoints, for adapters that were made
    elsewhere, and after training in 4 bits, where merging into the unrounded model gives the better result.
    """
    folder = Path(flags.output_path)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not flags.overwrite)):
        raise UsageError(
            f"--output_path {flags.output_path!r} exists and is not an empty folder; choose another, or pass "
            "--overwrite to replace the model in it."
        )
    from sweet_rl.training.models import merge_adapter
    from sweet_rl.training.settings import ModelSettings

    merge_adapter(Path(flags.adapter_path), folder, ModelSettings(pretrain=flags.pretrain, dtype=flags.dtype))
    tracking.writes(folder, folder=True)
    print(f"model and tokenizer: {flags.output_path}")
