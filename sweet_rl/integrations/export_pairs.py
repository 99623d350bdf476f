"""Preference pairs as data sets for other trainers (docs/export.md)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.common import InputPath, OutputPath, Overwriting
from sweet_rl.flags.models import OtherTokenizer, PairFields, RejectedKey, Tokenizer
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.integrations.pair_rows import ExportReport


def check_table(path: str) -> None:
    """Whether the ending is one of the two."""
    if Path(path).suffix.lower() not in {".jsonl", ".parquet"}:
        raise UsageError(f"--output_path must end with .jsonl or .parquet, got {path!r}.")


def write_table(path: str, rows: Sequence[Mapping[str, Json]]) -> None:
    """Write rows; the file is replaced at once or not at all."""
    from sweet_rl.records import replace_file, replace_rows

    if Path(path).suffix.lower() == ".jsonl":
        replace_rows(path, rows)
        return
    try:
        import datasets
    except ImportError as error:
        raise missing_package("datasets", "datasets", needed_for="a .parquet file") from error
    buffer = io.BytesIO()
    datasets.Dataset.from_list([dict(row) for row in rows]).to_parquet(buffer)
    replace_file(path, [buffer.getvalue()])


OPENRLHF_DRIFT: Final = 0.05
"""Share of pairs: by default more drift is refused for OpenRLHF."""


@dataclass(frozen=True, kw_only=True)
class ExportFlags(InputPath, OutputPath, Tokenizer, PairFields, RejectedKey, OtherTokenizer, Overwriting):
    """The data set."""

    format: Literal["trl", "openrlhf"] = flag("trl", "whose trainer reads it.")
    conversational: bool = flag(
        False,
        "write lists of messages instead of texts; refused where the chat template would make another text of them.",
    )
    skip_inexact: bool = flag(
        False, "leave out the pairs for which --conversational is refused, and count them."
    )
    max_drift: float | None = flag(
        None,
        "share of the pairs with sampled tokens whose texts may become other tokens when they are tokenised again; "
        "above it nothing is written. Default: 0.05 with openrlhf, which reads texts; any with trl, whose rows "
        "carry the tokens.",
        at_least=0,
        at_most=1,
    )

    def check_together(self) -> None:
        """Whether the files are possible."""
        super().check_together()
        check_table(self.output_path)
        if "," in self.input_path:
            raise UsageError(
                f"--input_path names one file, got {self.input_path!r}. Export files one by one."
            )


@recorded("export_pairs", reads=("input_path", "tokenizer"))
@stage(
    "input_path",
    "output_path",
    defaults={"tokenizer": REQUIRED},
    helps={
        "input_path": "preference pairs of sweet-rl evaluate_code or sweet-rl generate_random_pairs_from_ranks, or a published file.",
        "output_path": "the .jsonl or .parquet file for the data set.",
        "tokenizer": "folder or name of the model that will be trained: its tokenizer defines how a turn begins and ends.",
        "prompt_key": "field with the prompt that both sides answer; default: prompt in rows that have it, else what both dialogues begin with.",
        "chosen_key": "field with the preferred side.",
    },
)
def export_pairs(flags: ExportFlags, /) -> None:
    """Write preference pairs as a data set that TRL's DPOTrainer or OpenRLHF's train_dpo trains on.

    Rows keep their order. The file is replaced at once or not at all. docs/export.md has the commands that
    train on it there, and what each of them scores.
    """
    from sweet_rl.runs import new_file

    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.integrations.pair_rows import PairExporter
    from sweet_rl.training.data import read_pairs
    from sweet_rl.training.encoding import check_tokenizers
    from sweet_rl.training.settings import DataSettings

    settings = DataSettings(
        flags.input_path,
        prompt_key=flags.prompt_key,
        find_prompt=True,
        chosen_key=flags.chosen_key,
        rejected_key=flags.rejected_key,
    )
    pairs = read_pairs(settings, seed=0)[0]
    loaded = load_tokenizer(str(flags.tokenizer))
    check_tokenizers(pairs, loaded, allowed=flags.other_tokenizer)
    exporter = PairExporter(loaded, layout=flags.format, conversational=flags.conversational)
    rows = exporter.rows(pairs, skip_inexact=flags.skip_inexact)
    if not rows:
        raise UsageError(
            f"No pair of {flags.input_path!r} can be written as messages under the chat template of "
            f"{flags.tokenizer!r}. Export texts: leave --conversational out."
        )
    _check_drift(exporter.report, flags)
    tracking.writes(flags.output_path)
    write_table(flags.output_path, rows)
    print(f"{len(rows):,} pairs are in {flags.output_path}.")
    for line in exporter.report.lines():
        print(line[:1].upper() + line[1:] + ".")


def _check_drift(report: ExportReport, flags: ExportFlags) -> None:
    """Refuse texts that would train on other tokens than were sampled."""
    limit = flags.max_drift
    if limit is None:
        limit = OPENRLHF_DRIFT if flags.format == "openrlhf" else 1.0
    if report.drift > limit:
        raise UsageError(
            f"The texts of {len(report.drifted):,} of {report.sampled:,} pairs ({report.drift:.0%}) become other "
            f"tokens than were sampled, as in {report.drifted[0]}; at most {limit:.0%} may (--max_drift). Train on "
            "the sampled tokens, with train_dpo here or with TRL (--format trl, docs/export.md#exact-tokens), or "
            "raise --max_drift."
        )
