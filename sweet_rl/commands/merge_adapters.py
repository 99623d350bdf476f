"""An adapter and the model below it to one model (docs/training.md)."""

from __future__ import annotations

from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("merge_adapters", reads=("adapter_path", "pretrain"))
def merge_adapters(
    adapter_path: str,
    output_path: str | None = None,
    *,
    pretrain: str = "",
    dtype: str = "float32",
    overwrite: bool = False,
) -> None:
    """Merge a LoRA adapter into the weights of its model, for transformers, vLLM and further training.

    Training stages do this by themselves at the end. This is for their checkpoints, for adapters that were made
    elsewhere, and after training in 4 bits, where merging into the unrounded model gives the better result.

    Args:
        adapter_path: folder with adapter_config.json: a checkpoint of a stage with --lora_rank, or one that peft saved.
        output_path: folder for the whole model and its tokenizer.
        pretrain: the model that the adapter was trained on; default: the one that it names.
        dtype: of the merged weights: float32 or bfloat16.
        overwrite: replace the model that output_path holds.
    """
    if output_path is None:
        raise UsageError("--output_path, a folder for the whole model, is needed.")
    if dtype not in {"float32", "bfloat16"}:
        raise UsageError(f"--dtype must be float32 or bfloat16, got {dtype!r}.")
    folder = Path(output_path)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not overwrite)):
        raise UsageError(
            f"--output_path {output_path!r} exists and is not an empty folder; choose another, or pass "
            "--overwrite to replace the model in it."
        )
    from sweet_rl.training.adapters import merge_adapter
    from sweet_rl.training.settings import ModelSettings

    merge_adapter(Path(adapter_path), folder, ModelSettings(pretrain, dtype=dtype))
    tracking.writes(folder, folder=True)
    print(f"model and tokenizer: {output_path}")
