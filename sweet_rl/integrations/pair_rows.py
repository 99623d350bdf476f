"""Preference pairs as other trainers read them: TRL's DPOTrainer and OpenRLHF's train_dpo. No torch.

Both score everything behind the prompt: whole dialogues are cut where the agent begins the first turn in which they may
differ. Both tokenise texts again, which may give other tokens than were sampled: drift. Rows for TRL carry the ids, too.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from sweet_rl.chat import tokenizer_digest
from sweet_rl.chat.turns import common_beginning
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow
from sweet_rl.training.encoding import TurnEncoder
from sweet_rl.training.settings import DataSettings
from sweet_rl.types import Json

Layout = Literal["trl", "openrlhf"]


@dataclass(slots=True)
class ExportReport:
    """Counts about the rows; `lines` formats them."""

    layout: Layout
    end_token: str
    eos_token: str | None
    whole: int = 0
    several_turns: int = 0
    same: int = 0
    cut: int = 0
    text_before_begin: int = 0
    sampled: int = 0
    drifted: list[str] = field(default_factory=list)

    @property
    def drift(self) -> float:
        """Share of the pairs with sampled ids whose texts become other tokens."""
        return len(self.drifted) / self.sampled if self.sampled else 0.0

    def lines(self) -> list[str]:
        """One line for each thing worth knowing."""
        end, drifted = self.end_token, ", ".join(self.drifted[:3])
        where = f" ({drifted}{', ...' if len(self.drifted) > 3 else ''})" if drifted else ""
        if drifted and self.layout == "trl":
            where += "; train on the ids that the rows carry: docs/export_and_credit.md#exact-tokens"
        counts = {
            f"the texts of {len(self.drifted):,} of {self.sampled:,} pairs become other tokens than were sampled{where}": (
                self.sampled
            ),
            f"{self.whole:,} pairs without a prompt: their common beginning became the prompt": self.whole,
            f"{self.several_turns:,} pairs continue over several turns: there the partner's words are scored "
            "too (train_dpo of sweet_rl scores the agent's turns only)": self.several_turns,
            f"{self.same:,} pairs have the same text on both sides: nothing is learned from them": self.same,
            f"{self.cut:,} sides were cut by the token limit when they were sampled; their texts end with "
            f"{end!r} all the same": self.cut,
            f"{self.text_before_begin:,} pairs do not begin with the begin token, which TRL puts first": (
                self.text_before_begin
            ),
            f"the tokenizer's eos_token is {self.eos_token!r}: trainers append it to {end!r}, which ends a "
            f"turn. Set eos_token to {end!r} in the model's tokenizer_config.json": self.eos_token != end,
        }
        return [line for line, count in counts.items() if count]


class PairExporter:
    """Pairs to rows with the fields `prompt`, `chosen` and `rejected`, whose texts end with the end token of a turn.

    With `trl` rows also have `prompt_ids`, `chosen_ids` and `rejected_ids`, the tokens that training here sees,
    and a begin token at the start is dropped where the tokenizer adds it by itself; `openrlhf` keeps it.
    """

    def __init__(self, tokenizer: Any, *, layout: Layout) -> None:
        self._encoder = TurnEncoder(tokenizer, DataSettings(dataset="", max_len=sys.maxsize))
        self._end = self._encoder.end or tokenizer.eos_token
        if self._end is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        self._end_id = tokenizer(self._end, add_special_tokens=False)["input_ids"][-1]
        begin = tokenizer.bos_token_id  # which the tokenizer may put before everything that it is given
        adds_begin = begin is not None and tokenizer("a")["input_ids"][:1] == [begin]
        self._begin = tokenizer.bos_token if adds_begin else None
        self._layout, self._name = layout, tokenizer.name_or_path
        self._tokenizer, self._digest = tokenizer, tokenizer_digest(tokenizer)
        self.report = ExportReport(layout, self._end, tokenizer.eos_token)

    def rows(self, pairs: Iterable[DataRow]) -> list[dict[str, Json]]:
        """One row for each pair, in their order."""
        rows: list[dict[str, Json]] = []
        for pair in pairs:
            report, ours = self.report, pair.tokenizer == self._digest
            # whether both sides carry ids of this tokenizer behind a prompt
            sampled = ours and bool(pair.sides[0].ids and pair.sides[1].ids and pair.prompt.text)
            prompt, *sides = self._parts(pair, sampled=sampled)
            row: dict[str, Json] = {"prompt": prompt, "chosen": sides[0], "rejected": sides[1]}
            if self._layout == "trl":
                if self._begin:
                    report.text_before_begin += not prompt.startswith(self._begin)
                    row["prompt"] = prompt.removeprefix(self._begin)
                row |= self._ids(prompt, pair)
            rows.append(row)
            report.whole += not pair.prompt
            report.same += sides[0] == sides[1]
            report.sampled += sampled
            known = [side.ids for side in pair.sides if ours and side.ids is not None]
            report.cut += sum(ids[-1] != self._end_id for ids in known)
            if sampled:  # do the texts become other tokens, an end token behind those that lack it?
                before = self._tokens(prompt)
                closed = [[*ids, *([] if ids[-1] == self._end_id else [self._end_id])] for ids in known]
                again = [self._tokens(prompt + text) for text in sides]
                if again != [before + ids for ids in closed]:
                    report.drifted.append(pair.place)
        return rows

    def _parts(self, pair: DataRow, *, sampled: bool) -> tuple[str, str, str]:
        """What both sides begin with, up to where the agent speaks, and how each goes on, closed with the end token."""
        texts, starts = list[str](), list[set[int]]()
        for side in pair.sides:
            turns = self._encoder.turns(pair, side, sampled=sampled)
            wholes = [turn.prompt + turn.lead + turn.text + self._end for turn in turns]
            for whole, turn in zip(wholes, turns[1:], strict=False):
                if not turn.prompt.startswith(whole):
                    raise DataError(
                        f"has turns of which the chat template of {self._name!r} rewrites the history, and other "
                        "trainers read one prompt for a pair",
                        path=pair.path,
                        line=pair.line,
                        field="chosen",
                        value=turn.prompt,
                        repair="Export pairs of single turns, or train with train_dpo here.",
                    )
            texts.append(wholes[-1])
            starts.append({len(turn.prompt + turn.lead) for turn in turns})
        common = len(common_beginning(*texts))
        shared = [start for start in starts[0] & starts[1] if start <= common]
        if not shared:
            raise DataError(
                "share no beginning in which the agent is about to speak",
                path=pair.path,
                line=pair.line,
                field="chosen, rejected",
                value=texts[0][:common],
                repair=f"By the chat template of {self._name!r}: is this the tokenizer of the model that the "
                "dialogues were made with? --prompt_key names a field with a prompt.",
            )
        at = min(shared) if pair.prompt else max(shared)
        self.report.several_turns += any(max(own) > at for own in starts)
        return texts[0][:at], texts[0][at:], texts[1][at:]

    def _ids(self, prompt: str, pair: DataRow) -> dict[str, Json]:
        """The tokens that training here sees, in three parts."""
        encoded, _ = self._encoder.encode([pair])
        chosen, rejected = (side.branches[-1].ids for side in encoded[0].sides)
        # of whole dialogues: a blank behind the header may be one token with what follows
        columns = zip(self._tokens(prompt), chosen, rejected, strict=False)
        shared = sum(1 for _ in itertools.takewhile(lambda tokens: len(set(tokens)) == 1, columns))
        if pair.prompt:
            shared = encoded[0].sides[0].branches[-1].scored[0].start
        sides = {"chosen_ids": list(chosen[shared:]), "rejected_ids": list(rejected[shared:])}
        return {"prompt_ids": list(chosen[:shared])} | sides

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
