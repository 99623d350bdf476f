"""Dialogues with a critic's credit, token by token, for other trainers (docs/doors/credit.md)."""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.commands.tables import check_table
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag
from sweet_rl.flags.common import OutputPath, Overwriting, SavedPath
from sweet_rl.flags.models import Tokenizer, WithoutHidden


@dataclass(frozen=True, kw_only=True)
class ExportCreditFlags(SavedPath, OutputPath, WithoutHidden, Tokenizer, Overwriting):
    """The data set."""

    credit_path: str = flag(REQUIRED, "what sweet-rl credit wrote about the file.")

    def check_together(self) -> None:
        """Whether the output can be written.

        Raises:
            UsageError: its ending.
        """
        super().check_together()
        check_table(self.output_path)


@recorded("export_credit", reads=("saved_path", "credit_path", "tokenizer"))
@stage(
    "saved_path",
    "credit_path",
    "output_path",
    defaults={"tokenizer": REQUIRED},
    helps={
        "saved_path": "the trajectory file, of an agent that sampled tokens here.",
        "output_path": "the .jsonl or .parquet file for the data set.",
        "tokenizer": "folder or name of the model that sampled.",
        "without_hidden": "the scores that were given without the hidden solution; default: those with it.",
    },
)
def export_credit(flags: ExportCreditFlags, /) -> None:
    """Write dialogues by their sampled tokens, each turn with its credit, as TRL and verl learn from them.

    Columns: prompt_ids, completion_ids, env_mask (1: the agent's), logprobs, credit (one number for each
    turn), and advantages (on every token, less the mean of the task's turns).

    The smallest run: export_credit runs.jsonl runs.credit.critic.jsonl rows.jsonl --tokenizer MODEL
    """
    from sweet_rl.chat import load_tokenizer
    from sweet_rl.commands.critic_worlds import warn_of_a_file
    from sweet_rl.commands.tables import write_table
    from sweet_rl.doors.tokens import credited_rows
    from sweet_rl.preferences.credit import Way, advantages_in
    from sweet_rl.records import load_trajectories
    from sweet_rl.runs import new_file

    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    episodes = load_trajectories(flags.saved_path)
    way: Way = "without_hidden" if flags.without_hidden else "hidden"
    credit = advantages_in(flags.credit_path, episodes, way)
    rows = credited_rows(episodes, credit, load_tokenizer(str(flags.tokenizer)))
    if not rows:
        raise UsageError(f"{flags.saved_path!r} holds no agent turns.")
    warn_of_a_file(flags.credit_path, episodes)
    tracking.writes(flags.output_path)
    write_table(flags.output_path, rows)
    turns = [value for row in rows for value in row["credit"]]
    print(
        f"{len(turns):,} turns of {len(episodes):,} dialogues are in {flags.output_path}: {len(rows):,} rows."
    )
    if missing := turns.count(None):
        print(f"{missing:,} turns have no credit: nothing is learned from them.")
