"""What is written for other tools and read from them: trajectories as their files, pairs and credit as data sets of trainers."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import DataError, UsageError, missing_package
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import PairFields, Tokenizer, WithoutHidden
from sweet_rl.flags.shared import InputPath, OutputPath, Overwriting, SavedPath
from sweet_rl.types import Trajectory


def check_rows_path(path: str) -> None:
    if Path(path).suffix != ".jsonl":
        raise UsageError(f"--output_path must end with .jsonl, got {path!r}.")


@group("The data set")
class ExportPairsFlags(InputPath, OutputPath, Tokenizer, PairFields, Overwriting):
    format: Literal["trl", "openrlhf"] = flag("trl", "trainer that will read the pairs.")
    max_drift: float | None = flag(
        None,
        "largest share of pairs whose texts may yield other tokens than the sampled ones when tokenised "
        "again; above it, nothing is written. Default: 0.05 with openrlhf, which reads texts; no limit with "
        "trl, whose rows contain the tokens.",
        at_least=0,
        at_most=1,
    )

    def check_together(self) -> None:
        """Whether the files are possible."""
        check_rows_path(self.output_path)
        if "," in self.input_path:
            repair = "Export files one by one."
            raise UsageError(f"--input_path names one file, got {self.input_path!r}. {repair}")


@recorded("export_pairs", reads=("input_path", "tokenizer"))
@stage(
    "input_path",
    "output_path",
    defaults={"tokenizer": REQUIRED},
    helps={
        "input_path": "preference pairs of sweet-rl evaluate_code or sweet-rl generate_random_pairs_from_ranks, or a published file.",
        "output_path": "the .jsonl file for the data set.",
        "tokenizer": "folder or name of the model that will be trained; its tokenizer defines how a turn begins and ends.",
        "prompt_key": "field with the prompt that both sides answer; default: prompt in rows that have it, "
        "else what both dialogues begin with.",
        "chosen_key": "field with the preferred side.",
    },
)
def export_pairs(flags: ExportPairsFlags, /) -> None:
    """Write preference pairs as a data set that TRL's DPOTrainer or OpenRLHF's train_dpo trains on.

    Rows keep their order. The file is replaced atomically. docs/export_and_credit.md has the training
    commands of both tools, and which tokens they score.
    """
    from sweet_rl.runs import new_file

    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.integrations.pair_rows import PairExporter
    from sweet_rl.records import replace_rows
    from sweet_rl.training.data import check_tokenizers, read_pairs
    from sweet_rl.training.settings import DataSettings

    keys = {name: getattr(flags, name) for name in ("prompt_key", "chosen_key", "rejected_key")}
    settings = DataSettings(dataset=flags.input_path, **keys)
    pairs = read_pairs(settings, seed=0)[0]
    loaded = load_tokenizer(str(flags.tokenizer))
    check_tokenizers(pairs, loaded, allowed=flags.other_tokenizer)
    exporter = PairExporter(loaded, layout=flags.format)
    rows, report = exporter.rows(pairs), exporter.report
    limit = {"openrlhf": 0.05}.get(flags.format, 1.0) if flags.max_drift is None else flags.max_drift
    if report.drift > limit:  # refuse texts that would train on other tokens than were sampled
        raise UsageError(
            f"The texts of {len(report.drifted):,} of {report.sampled:,} pairs ({report.drift:.0%}) become other "
            f"tokens than were sampled, as in {report.drifted[0]}; at most {limit:.0%} may (--max_drift). Train on "
            "the sampled tokens, with train_dpo here or with TRL (--format trl, docs/export_and_credit.md#exact-tokens), or "
            "raise --max_drift."
        )
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, rows)
    print(f"{len(rows):,} pairs are in {flags.output_path}.")
    for line in report.lines():
        print(line[:1].upper() + line[1:] + ".")


@group("Inputs and outputs")
class ExportFlags(InputPath, OutputPath, Overwriting):
    to: Literal["inspect", "atif", "trajectories"] = flag(
        "inspect",
        "output format: inspect (a log, .eval), atif (a folder of documents), or trajectories (.jsonl), read "
        "from such a log, document or folder.",
    )
    credit: str | None = flag(
        None, "with --to atif: file of `sweet-rl credit score` whose scores are written into the turns."
    )

    def check_together(self) -> None:
        """Whether the ending of the output is that of what is written, and credit has a place in it."""
        ending = {"inspect": ".eval", "atif": "", "trajectories": ".jsonl"}[self.to]
        if Path(self.output_path).suffix != ending:
            what = f"a file that ends with {ending}" if ending else "a folder, whose name has no ending"
            raise UsageError(f"--to {self.to} writes {what}, got {self.output_path!r}.")
        if self.credit is not None and self.to != "atif":
            raise UsageError(f"--credit is written with --to atif, not with --to {self.to}.")


@recorded("export", reads=("input_path", "credit"))
@stage(
    "input_path",
    "output_path",
    helps={
        "input_path": "trajectory file; with --to trajectories a file of the other tool, or a folder of such files.",
        "output_path": "output file, with the suffix of its kind (.eval or .jsonl); with --to atif a folder.",
    },
)
def export(flags: ExportFlags, /) -> None:
    """Write trajectories as files of another tool, or another tool's files as trajectories.

    Files exported here come back unchanged; from other files, the dialogue and the score are read
    (docs/integrations.md).

    The smallest run: sweet-rl export trajectories.jsonl log.eval --to inspect
    """
    source, target = Path(flags.input_path), Path(flags.output_path)
    if not source.is_file() and not (flags.to == "trajectories" and source.is_dir()):
        raise UsageError(f"--input_path {flags.input_path!r} is no file.")
    from sweet_rl.integrations.logs import credited, write_documents
    from sweet_rl.records import load_trajectories, replace_rows, trajectory_to_row
    from sweet_rl.runs import new_file

    to_folder = flags.to == "atif"
    new_file(target, "output_path", overwrite=flags.overwrite, folder=to_folder)
    found = trajectories_of(source) if flags.to == "trajectories" else load_trajectories(source)
    key, count = Counter(one.key for one in found).most_common(1)[0] if found else (None, 0)
    if count > 1 and flags.to != "trajectories":  # the second would take the place of the first, there
        problem, repair = f"is the same in {count} rows", "Export the file of each run by itself."
        raise DataError(problem, path=source, field="task_id, sample_index", value=key, repair=repair)
    if flags.credit is not None:
        found = credited(found, Path(flags.credit))
    tracking.writes(target, folder=to_folder)
    if flags.to == "inspect":
        _logs().write_log(found, target)
    elif flags.to == "trajectories":
        replace_rows(target, map(trajectory_to_row, found))
    else:
        write_documents(found, target)
    print(f"{len(found)} trajectories are in {flags.output_path}")
    if flags.to == "trajectories" and (unrewarded := sum(one.reward is None for one in found)):
        print(f"{unrewarded} of them have no reward.")


def trajectories_of(source: Path) -> list[Trajectory]:
    """The dialogues of another tool's file: a log of inspect_ai, an ATIF document, or a folder of these."""
    from sweet_rl.integrations.logs import read_documents, trajectories_in

    if source.suffix == ".json":
        with contextlib.suppress(ValueError):  # said by the reader of documents
            document = json.loads(source.read_bytes())
            if isinstance(document, dict) and "eval" in document:
                return trajectories_in(document, source)
    if source.is_dir() or source.suffix == ".json":
        return read_documents(source)
    if source.suffix == ".eval":
        found: list[Trajectory] = _logs().read_log(source)
        return found
    kinds = "logs of inspect_ai end with .eval or .json, ATIF documents with .json"
    raise UsageError(f"{str(source)!r} is none of another tool's files: {kinds}.")


def _logs() -> Any:
    try:
        return import_module("sweet_rl.integrations.inspect")
    except ModuleNotFoundError as error:
        raise missing_package("inspect_ai", "inspect", needed_for="A log of inspect_ai") from error


@group("The data set")
class ExportCreditFlags(SavedPath, OutputPath, WithoutHidden, Tokenizer, Overwriting):
    credit_path: str = flag(REQUIRED, "scores that sweet-rl credit score wrote for this file.")

    def check_together(self) -> None:
        """Whether the output can be written."""
        check_rows_path(self.output_path)


@recorded("export_credit", reads=("saved_path", "credit_path", "tokenizer"))
@stage(
    "saved_path",
    "credit_path",
    "output_path",
    defaults={"tokenizer": REQUIRED},
    helps={
        "saved_path": "trajectory file of an agent whose tokens were sampled and recorded here.",
        "output_path": "the .jsonl file for the data set.",
        "tokenizer": "folder or name of the model that sampled the turns.",
        "without_hidden": "write the scores given without the hidden solution; default: those with it.",
    },
)
def export_credit(flags: ExportCreditFlags, /) -> None:
    """Write dialogues as sampled tokens with the credit of each turn, for training in TRL and verl.

    Columns: prompt_ids, completion_ids, env_mask (1 for the agent's tokens), logprobs, credit (one number for
    each turn), and advantages (one for each token, minus the mean over the task's turns).

    The smallest run: sweet-rl export_credit runs.jsonl runs.credit.critic.jsonl rows.jsonl --tokenizer MODEL
    """
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.integrations.tokens import credited_rows
    from sweet_rl.preferences.credit import Way, advantages_in
    from sweet_rl.records import load_trajectories, replace_rows
    from sweet_rl.runs import new_file

    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    episodes = load_trajectories(flags.saved_path)
    way: Way = "without_hidden" if flags.without_hidden else "hidden"
    credit = advantages_in(flags.credit_path, episodes, way)
    rows = credited_rows(episodes, credit, load_tokenizer(str(flags.tokenizer)))
    if not rows:
        raise UsageError(f"{flags.saved_path!r} holds no agent turns.")
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, rows)
    turns = [value for row in rows for value in row["credit"]]
    where = f"are in {flags.output_path}: {len(rows):,} rows."
    print(f"{len(turns):,} turns of {len(episodes):,} dialogues {where}")
    if missing := turns.count(None):
        print(f"{missing:,} turns have no credit: nothing is learned from them.")
