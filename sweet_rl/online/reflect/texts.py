"""Training texts as tokens: the prompt, and the part to imitate. No torch.

Published behaviour: docs/published/reflect_rl.md#supervised-fine-tuning, #deviations, #flags.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER
from sweet_rl.command_line.listing import written_by
from sweet_rl.errors import DataError, UsageError
from sweet_rl.records import read_rows
from sweet_rl.types import derive_seed
from sweet_rl.worlds.registry import stages


class Example(NamedTuple):
    """Tokens of a text: those that are given, and those behind the marker.

    With `branches` a command is pointed at: they are what may follow the given tokens, the action marker and
    then each command on offer, and the target is the place of one of these commands, counted from 0.
    """

    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...] = ()

    @property
    def without_target(self) -> Example:
        """What is given, before anything was chosen."""
        return self._replace(target_ids=())

    @property
    def sequence(self) -> list[int]:
        """The input for scoring the targets: all tokens but the last."""
        return [*self.prompt_ids, *self.target_ids[:-1]]

    @property
    def sequences(self) -> list[list[int]]:
        """The inputs for scoring the commands: the given tokens with each branch."""
        return [[*self.prompt_ids, *branch] for branch in self.branches]


def read_texts(path: str | Path) -> list[str]:
    """The texts of a .jsonl file of `{"text": ...}`."""
    path = Path(path).expanduser()
    if not path.is_file() or path.suffix == ".json":
        what = "holds records, not texts" if path.is_file() else "is no file"
        hint = written_by(path, stages()) if path.suffix == ".jsonl" else ""
        raise UsageError(
            f"--task_file {str(path)!r} {what}.{hint} Name a .jsonl file of training texts, as the "
            "stages write them whose names end with gen_sft."
        )
    texts = []
    for line, row in read_rows(path):
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise DataError("must be a string", path=path, line=line, field="text", value=text)
        texts.append(text)
    if not texts:
        raise UsageError(f"--task_file {str(path)!r} holds no texts.")
    return texts


def check_kind(texts: Sequence[str], path: str | Path, *, reflect: bool) -> None:
    """Refuse texts of the other model: nothing would be learnt from them, or the wrong thing."""
    for line, text in enumerate(texts, 1):
        action, analysis = text.rfind(ACTION_MARKER), text.rfind(ANALYSE_MARKER)
        if reflect and (analysis < 0 or action > analysis):
            raise DataError(
                "is no text of a reflection model: it does not end in a reflection",
                path=path,
                line=line,
                field="text",
                value=text[-60:],
                repair="Leave --reflect out, or name a file such as sft_reflection.jsonl.",
            )
        if not reflect and action < 0:
            ends = "ends in a reflection" if analysis >= 0 else "has no action marker"
            raise DataError(
                f"is no text of a policy: it {ends}",
                path=path,
                line=line,
                field="text",
                value=text[-60:],
                repair="Add --reflect to train the reflection model on it.",
            )


def encode(tokenizer: Any, text: str, *, reflect: bool, room: int) -> Example:
    """A text as tokens; the part after its last marker is the target.

    The target's tokens are those that a model writes behind the prompt; the end of a reflection is one of
    them, or it would never end (published). A text with more than `room` tokens loses its
    beginning.
    """
    marker = ANALYSE_MARKER if reflect else ACTION_MARKER
    at = text.rfind(marker)
    prompt, target = text[: at + len(marker)], text[at + len(marker) :]
    if at < 0 or not target:
        raise ValueError("there is no marker, or no text after it")
    prompt_ids = list(tokenizer(prompt)["input_ids"])
    while len(prompt_ids) > 1 and prompt_ids[-1] == tokenizer.eos_token_id:
        prompt_ids.pop()  # a tokenizer that ends every text
    bare = tokenizer(marker, add_special_tokens=False)["input_ids"]
    both = tokenizer(marker + target, add_special_tokens=False)["input_ids"]
    alike = both[: len(bare)] == bare
    target_ids = both[len(bare) :] if alike else tokenizer(target, add_special_tokens=False)["input_ids"]
    if reflect and tokenizer.eos_token_id is not None:
        target_ids = [*target_ids, tokenizer.eos_token_id]
    kept = max(1, room - len(target_ids))
    return Example(tuple(prompt_ids[-kept:]), tuple(target_ids[: room - 1]))


def encode_published(tokenizer: Any, text: str, *, reflect: bool, room: int) -> Example | None:
    """The same as published: the whole text as tokens, searched for the marker's; None where it has none."""
    marker = tokenizer(ANALYSE_MARKER if reflect else ACTION_MARKER, add_special_tokens=False)["input_ids"]
    ids = list(tokenizer(text)["input_ids"])[-room:]
    starts = [at for at in range(len(ids)) if ids[at : at + len(marker)] == marker]
    if not starts or starts[-1] + len(marker) >= len(ids):
        return None
    cut = starts[-1] + len(marker)
    return Example(tuple(ids[:cut]), tuple(ids[cut:]))


class Order:
    """The rows of each update: every pass over them is shuffled again.

    Args:
        by_length: rows of an update are of similar lengths (group_by_length).
    """

    def __init__(self, lengths: Sequence[int], *, batch: int, seed: int, by_length: bool = False) -> None:
        self._lengths, self._batch, self._seed, self._by_length = lengths, batch, seed, by_length
        self._known: tuple[int, list[int]] = (-1, [])

    def rows(self, update: int) -> list[int]:
        """Numbers of the update's rows; the same whenever it is asked."""
        count = len(self._lengths)
        first = update * self._batch
        return [self._pass(at // count)[at % count] for at in range(first, first + self._batch)]

    def _pass(self, number: int) -> list[int]:
        if self._known[0] != number:
            order = list(range(len(self._lengths)))
            random.Random(derive_seed(self._seed, "texts", number)).shuffle(order)
            if self._by_length:
                size = 50 * self._batch
                chunks = [order[at : at + size] for at in range(0, len(order), size)]
                order = [
                    row for chunk in chunks for row in sorted(chunk, key=lambda row: -self._lengths[row])
                ]
            self._known = (number, order)
        return self._known[1]
