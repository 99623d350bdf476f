"""Stage 6 of the pipeline: ranked candidates to preference pairs of single turns.

Published behaviour: docs/published/sweet_rl.md#step-pairs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, InputPath, Margin, OutputPath, Overwriting, Seeded
from sweet_rl.flags.models import Tokenizer
from sweet_rl.types import Json

if TYPE_CHECKING:
    from sweet_rl.preferences.candidates import Candidates


@dataclass(frozen=True, kw_only=True)
class StepPairFlags(InputPath, OutputPath, Margin, Tokenizer, Seeded, Compatible, Overwriting):
    """Pairs."""

    get_sft: bool = flag(False, "write one random candidate as both sides, for fine-tuning.")
    no_prompt: bool = flag(False, "put the prompt into both texts instead of a field of its own.")
    num_pairs: int = flag(
        8, "pairs of each turn, at most; exactly so many with --with_replacement.", at_least=1
    )
    with_replacement: bool = flag(False, "the same pair may be drawn again.", shown="all")


@recorded("generate_random_pairs_from_ranks", reads=("input_path", "tokenizer"))
@stage(
    "input_path",
    "output_path",
    defaults={"seed": 42},
    helps={
        "input_path": "ranked turns of rank_best_of_n.py, or a published file.",
        "output_path": "the .jsonl file for the pairs.",
        "margin": "smallest difference of the two scores.",
        "tokenizer": "folder or name of the tokenizer whose end token closes the texts; needed for published files only.",
        "seed": "of the draws and of the order.",
        "compat": "fixed, or published: its draws in its sequence of random numbers, ties and repetitions included.",
    },
)
def generate_random_pairs_from_ranks(flags: StepPairFlags, /) -> None:
    """Draw pairs from ranked turns: chosen from the better half of the candidates, rejected from the worse.

    Two candidates of the same text or of the same score are never a pair. The file is replaced at once or not
    at all, and the same seed gives the same file.
    """
    from sweet_rl.runs import new_file

    new_file(flags.output_path, "output_path", overwrite=flags.overwrite)
    from sweet_rl.preferences.candidates import candidates_from_rows
    from sweet_rl.preferences.step_pairs import (
        draw_pairs,
        draw_singles,
        pair_row,
        published_draws,
        why_unusable,
    )
    from sweet_rl.records import read_rows, replace_rows

    rows = candidates_from_rows(list(read_rows(flags.input_path)), path=flags.input_path)
    if not rows:
        raise UsageError(f"{flags.input_path!r} holds no rows. Rank with rank_best_of_n.py first.")
    for row in rows:
        if row.scores is None and not (flags.get_sft and not flags.published):
            raise DataError(
                "is missing",
                path=flags.input_path,
                line=row.line,
                field="judge_result",
                repair="Score the candidates first, with rank_best_of_n.py.",
            )
    end_tokens = _end_tokens(rows, flags.tokenizer, flags.input_path)
    rng = random.Random(flags.seed)
    if flags.published:
        drawn = published_draws(rows, flags.num_pairs, rng, get_sft=flags.get_sft, path=flags.input_path)
    elif flags.get_sft:
        drawn = [
            draw_singles(row, flags.num_pairs, rng, with_replacement=flags.with_replacement) for row in rows
        ]
    else:
        drawn = [
            draw_pairs(
                row, flags.num_pairs, rng, margin=flags.margin, with_replacement=flags.with_replacement
            )
            for row in rows
        ]
    pairs: list[dict[str, Json]] = [
        pair_row(row, pair, end_token=end, no_prompt=flags.no_prompt, published=flags.published)
        for row, end, row_pairs in zip(rows, end_tokens, drawn, strict=True)
        for pair in row_pairs
    ]
    if not pairs:
        raise UsageError(
            f"No row of {flags.input_path!r} gives a pair: {why_unusable(rows, margin=flags.margin)}. Sample more "
            "candidates (--best_of_n), or at a higher temperature."
        )
    rng.shuffle(pairs)
    tracking.writes(flags.output_path)
    replace_rows(flags.output_path, pairs)
    empty = sum(not row_pairs for row_pairs in drawn)
    print(f"{len(pairs)} pairs of {len(rows) - empty} turns are in {flags.output_path}.")
    if empty:
        print(
            f"{empty} turns gave none: {why_unusable([r for r, d in zip(rows, drawn, strict=True) if not d])}."
        )


def _end_tokens(rows: Sequence[Candidates], tokenizer: str | None, path: str) -> list[str]:
    """The text that ends each row's candidates: the tokenizer's that is named, or the row's own."""
    if tokenizer is not None:
        from sweet_rl.chat import load_tokenizer
        from sweet_rl.commands.tokenizers import end_token_of

        return [end_token_of(load_tokenizer(tokenizer))] * len(rows)
    found = []
    for row in rows:
        if row.end_token is None:
            raise DataError(
                "is missing",
                path=path,
                line=row.line,
                field="end_token",
                repair="The file does not say what ends a turn: name the sampler's tokenizer with --tokenizer.",
            )
        found.append(row.end_token)
    return found
