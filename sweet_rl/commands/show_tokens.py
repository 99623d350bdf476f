"""What training would learn from a file: its tokens in colour, or the learned texts as JSON (docs/training.md)."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sweet_rl.chat import load_tokenizer
from sweet_rl.cli.process import drawn_on, inert
from sweet_rl.cli.stage import stage
from sweet_rl.flags import flag
from sweet_rl.flags.models import Pretrain
from sweet_rl.training.settings import DataSettings

if TYPE_CHECKING:
    from sweet_rl.training.encoding import Branch

_LEARNED, _READ, _PLAIN = "\x1b[1;32m", "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class ShownFlags(Pretrain, DataSettings):
    """What is shown."""

    rows: int | None = flag(
        None, "the first so many rows; default 2, and with --json all of them.", at_least=1
    )
    json: bool = flag(
        False, 'one JSON object a side: {"file", "row", "side", "scored"}, the learned texts in order.'
    )


@stage(
    "dataset",
    helps={
        "dataset": "any file that training reads: dialogues, preference pairs, messages, prompts and completions.",
        "pretrain": "the model that would be trained; only its tokenizer and chat template are read.",
    },
    without="""
        dataset_probs train_split eval_split apply_chat_template image_processor min_pixels max_pixels max_samples eval_fraction
    """.split(),
)
def show_tokens(flags: ShownFlags, /) -> None:
    """Show what training would learn from a file, and what the model reads before it.

    What is learned is green (between [ and ] where there are no colours); all else is only read. A side whose
    turns have prompts of their own (the chat template strips thoughts from the history, for example) is shown
    as several sequences. A row that training would refuse is refused here with the same words.

    sweet-rl show_tokens pairs.jsonl --pretrain Qwen/Qwen3-8B --rows 1
    """
    from sweet_rl.training.data import read_any
    from sweet_rl.training.encoders import check_tokenizers, scored_texts, turn_encoder

    count = flags.rows or (None if flags.json else 2)
    data = replace(flags, max_samples=count or flags.max_samples)
    tokenizer = load_tokenizer(flags.pretrain)
    pairs, texts = read_any(data)
    check_tokenizers([*pairs, *texts], tokenizer, allowed=flags.other_tokenizer)
    encoder = turn_encoder(tokenizer, data)
    for encoded, report in map(encoder.encode, (pairs, texts)):
        for row in encoded:
            names = ("chosen", "rejected") if len(row.sides) > 1 else ("text",)
            for name, side in zip(names, row.sides, strict=True):
                if flags.json:
                    scored = scored_texts(side.branches, tokenizer)
                    print(
                        json.dumps(
                            {"file": row.row.path, "row": row.row.line, "side": name, "scored": scored}
                        )
                    )
                else:
                    _draw(f"{row.row.place}, {name}", side.branches, tokenizer)
        for line in report.lines(data.max_len):
            print(line, file=sys.stderr if flags.json else sys.stdout)


def _draw(title: str, branches: tuple[Branch, ...], tokenizer: Any) -> None:
    out = drawn_on(sys.stdout)
    colours = (out.isatty() and "NO_COLOR" not in os.environ) or "FORCE_COLOR" in os.environ
    learned, read, plain = (_LEARNED, _READ, _PLAIN) if colours else ("[", "", "")
    closed = plain if colours else "]"
    for number, branch in enumerate(branches, 1):
        tokens = sum(end - start for start, end in branch.scored)
        which = f", sequence {number} of {len(branches)}" if len(branches) > 1 else ""
        out.write(f"== {inert(title)}{which}: {tokens:,} of {len(branch.ids):,} tokens are learned\n")
        position = 0
        for start, end in branch.scored:
            for mark, ids, back in (
                (read, branch.ids[position:start], plain),
                (learned, branch.ids[start:end], closed),
            ):
                text = tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
                out.write(f"{mark}{inert(str(text))}{back}")
            position = end
        out.write("\n\n")
