"""Preference pairs as data sets for other trainers (docs/export.md)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.types import Json


@recorded("export_pairs", reads=("input_path", "tokenizer"))
def export_pairs(
    input_path: str,
    output_path: str | None = None,
    *,
    format: str = "trl",  # noqa: A002 - the flag's name
    tokenizer: str | None = None,
    conversational: bool = False,
    skip_inexact: bool = False,
    prompt_key: str | None = None,
    chosen_key: str = "chosen",
    rejected_key: str = "rejected",
    other_tokenizer: bool = False,
    overwrite: bool = False,
) -> None:
    """Write preference pairs as a data set that TRL's DPOTrainer or OpenRLHF's train_dpo trains on.

    Rows keep their order. The file is replaced at once or not at all. docs/export.md has the commands that
    train on it there, and what each of them scores.

    Args:
        input_path: preference pairs of evaluate_code.py or generate_random_pairs_from_ranks.py, or a published file.
        output_path: the .jsonl or .parquet file for the data set.
        format: trl or openrlhf.
        tokenizer: folder or name of the model that will be trained: its tokenizer says what begins and ends a turn.
        conversational: write lists of messages instead of texts; refused where the chat template would make another text of them.
        skip_inexact: leave out the pairs for which --conversational is refused, and count them.
        prompt_key: field with the prompt that both sides answer; default: prompt in rows that have it, else what both dialogues begin with.
        chosen_key: field with the preferred side.
        rejected_key: field with the other side.
        other_tokenizer: export turns that were sampled with another tokenizer all the same.
        overwrite: replace output_path when it exists.
    """
    if output_path is None:
        raise UsageError("--output_path (a .jsonl or .parquet file for the data set) is needed.")
    if format not in {"trl", "openrlhf"}:
        raise UsageError(f"--format must be trl or openrlhf, got {format!r}.")
    if tokenizer is None:
        raise UsageError("--tokenizer (folder or name of the model that will be trained) is needed.")
    suffix = Path(output_path).suffix.lower()
    if suffix not in {".jsonl", ".parquet"}:
        raise UsageError(f"--output_path must end with .jsonl or .parquet, got {output_path!r}.")
    if "," in input_path:
        raise UsageError(f"--input_path names one file, got {input_path!r}. Export files one by one.")

    from sweet_rl.runs import new_file

    new_file(output_path, "output_path", overwrite=overwrite)
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.records import replace_file, replace_rows
    from sweet_rl.training.data import read_pairs
    from sweet_rl.training.encoding import check_tokenizers
    from sweet_rl.training.export import Layout, PairExporter
    from sweet_rl.training.settings import DataSettings

    settings = DataSettings(
        input_path,
        prompt_key=prompt_key,
        find_prompt=True,
        chosen_key=chosen_key,
        rejected_key=rejected_key,
    )
    pairs = read_pairs(settings, seed=0).train
    layout: Layout = "openrlhf" if format == "openrlhf" else "trl"
    loaded = load_tokenizer(tokenizer)
    check_tokenizers(pairs, loaded, allowed=other_tokenizer)
    exporter = PairExporter(loaded, layout=layout, conversational=conversational)
    rows = exporter.rows(pairs, skip_inexact=skip_inexact)
    if not rows:
        raise UsageError(
            f"No pair of {input_path!r} can be written as messages under the chat template of {tokenizer!r}. "
            "Export texts: leave --conversational out."
        )
    tracking.writes(output_path)
    if suffix == ".jsonl":
        replace_rows(output_path, rows)
    else:
        replace_file(output_path, [_parquet(rows)])
    print(f"{len(rows):,} pairs are in {output_path}.")
    for line in exporter.report.lines():
        print(line[:1].upper() + line[1:] + ".")


def _parquet(rows: Sequence[dict[str, Json]]) -> bytes:
    try:
        import datasets
    except ImportError as error:
        raise missing_package("datasets", "datasets", needed_for="a .parquet file") from error
    buffer = io.BytesIO()
    datasets.Dataset.from_list(list(rows)).to_parquet(buffer)
    return buffer.getvalue()
