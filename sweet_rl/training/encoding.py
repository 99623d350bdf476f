"""Pairs as token ids: which tokens belong to the answers, and where a dialogue that is too long is cut.

The rules here are ours; `published` holds those of the published system. Both give `EncodedPair`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from sweet_rl.chat import Span, TurnFormat, tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair.

    Attributes:
        ids: prompt and response.
        spans: the loss mask, as positions in `ids`: one span for each assistant turn.
        prompt_length: tokens of the prompt; nothing before it is scored.
        denominator: what a mean over the trajectory divides by; None: the number of scored tokens.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    prompt_length: int = 0
    denominator: int | None = None

    @property
    def mask(self) -> list[int]:
        """The loss mask as zeros and ones, before prompt and first token are cleared."""
        mask = [0] * len(self.ids)
        for start, end in self.spans:
            mask[start:end] = [1] * (end - start)
        return mask

    @property
    def scored(self) -> list[Span]:
        """What enters the loss: the mask without the prompt, and without position 0, which has no past."""
        first = max(1, self.prompt_length)
        clipped = (Span(max(start, first), end) for start, end in self.spans)
        return [span for span in clipped if span.start < span.end]


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """Both sides, the row's number among all rows of the data (from 0), and the row it was made from."""

    index: int
    chosen: Side
    rejected: Side
    row: PairRow

    @property
    def length(self) -> int:
        """Tokens of the longer side: what the pair takes in a batch."""
        return max(len(self.chosen.ids), len(self.rejected.ids))


@dataclass(slots=True)
class EncodingReport:
    """What happened on the way; `lines` says it to people."""

    pairs: int = 0
    from_ids: int = 0
    ids_refused: int = 0
    shortened: int = 0
    too_long: list[str] = field(default_factory=list)
    no_response: list[str] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Rows that cannot be trained on."""
        return len(self.too_long) + len(self.no_response)

    def lines(self, max_len: int) -> list[str]:
        """One line for each thing worth knowing."""
        said: list[str] = []
        if self.from_ids:
            said.append(f"{self.from_ids:,} pairs use the sampled token ids they carry")
        if self.ids_refused:
            said.append(
                f"{self.ids_refused:,} pairs carry ids of another tokenizer: their text was tokenised"
            )
        if self.shortened:
            said.append(f"{self.shortened:,} pairs lost their oldest turns (--max_len {max_len})")
        if self.too_long:
            said.append(
                f"{len(self.too_long):,} pairs left out, too long for --max_len {max_len}: "
                f"{_few(self.too_long)}"
            )
        if self.no_response:
            said.append(
                f"{len(self.no_response):,} pairs left out, no assistant turn in them: "
                f"{_few(self.no_response)}"
            )
        return said


class Encoder(Protocol):
    """Pairs of text to pairs of ids."""

    def encode(self, rows: Sequence[PairRow]) -> tuple[list[EncodedPair], EncodingReport]:
        """Encoded pairs in the order of the rows, without those that cannot be trained on."""
        ...


class TurnEncoder:
    """Every assistant turn with its end token is scored; headers, other roles and the prompt never are.

    - A prompt is tokenised by itself, as it was when the response was sampled, and the response after it.
      Where no header of the chat template precedes a response, the whole response is one turn.
    - The end token is appended to a text that lacks it. Sampled ids are taken as they are: a response that
      was cut has no end token, and none is invented (spec §11.4, item 60).
    - What is too long loses whole turns, oldest first; the opening (up to the first end token: hidden
      solution, begin token, system prompt) stays. Both sides of a pair with a prompt lose the same turns. If
      the opening and the last turn alone do not fit, the pair is left out (spec §11.5, item 67).

    Args:
        tokenizer: a transformers tokenizer.
        max_len: tokens of one side at most.
        response_template: text that opens an assistant turn, where the chat template does not say it.

    Raises:
        UsageError: the chat template gives no turn boundaries, or the response template has no tokens.
    """

    def __init__(self, tokenizer: Any, *, max_len: int, response_template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._max_len = max_len
        self._format = _turn_format(tokenizer, response_template)
        self._end = self._format.end_id if self._format else tokenizer.eos_token_id
        if self._end is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        self._digest = tokenizer_digest(tokenizer)

    def encode(self, rows: Sequence[PairRow]) -> tuple[list[EncodedPair], EncodingReport]:
        """Encoded pairs in the order of the rows, without those that cannot be trained on."""
        if self._format is None and not all(row.prompt for row in rows):
            raise UsageError(
                f"The tokenizer of {self._tokenizer.name_or_path!r} has no chat template, so the assistant's "
                "turns cannot be found in whole dialogues. Give --response_template (the text that opens a "
                "turn), or pairs with a prompt and --prompt_key."
            )
        report = EncodingReport()
        sides = ((row.prompt, row.chosen.rstrip("\n"), row.rejected.rstrip("\n")) for row in rows)
        texts = list(chain.from_iterable(sides))
        ids = self._tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        pairs: list[EncodedPair] = []
        for index, row in enumerate(rows):
            pair = self._pair(index, row, ids[3 * index : 3 * index + 3], report)
            if pair is not None:
                pairs.append(pair)
        report.pairs = len(pairs)
        return pairs, report

    def _pair(
        self, index: int, row: PairRow, ids: Sequence[list[int]], report: EncodingReport
    ) -> EncodedPair | None:
        prompt, chosen, rejected = ids
        if self._use_ids(row, report):
            chosen, rejected = list(row.chosen_ids or ()), list(row.rejected_ids or ())
        else:
            chosen, rejected = self._closed(chosen), self._closed(rejected)
        fitted = self._fitted(prompt, chosen, rejected)
        if fitted is None:
            report.too_long.append(row.place)
            return None
        pair = EncodedPair(index, self._side(fitted[0], fitted[1]), self._side(fitted[0], fitted[2]), row)
        if not (pair.chosen.scored and pair.rejected.scored):
            report.no_response.append(row.place)
            return None
        report.shortened += sum(map(len, fitted)) < len(prompt) + len(chosen) + len(rejected)
        return pair

    def _fitted(
        self, prompt: list[int], chosen: list[int], rejected: list[int]
    ) -> tuple[list[int], list[int], list[int]] | None:
        """Prompt and responses cut to `max_len`; None if that cannot be done."""
        if prompt:
            kept = self._shorten(prompt, self._max_len - max(len(chosen), len(rejected)))
            return None if kept is None else (kept, chosen, rejected)
        sides = self._shorten(chosen, self._max_len), self._shorten(rejected, self._max_len)
        return None if sides[0] is None or sides[1] is None else ([], sides[0], sides[1])

    def _side(self, prompt: list[int], response: list[int]) -> Side:
        ids = (*prompt, *response)
        spans = [span for span in self._format.spans(ids) if span.end > len(prompt)] if self._format else []
        if prompt and not spans:
            spans = [Span(len(prompt), len(ids))]
        return Side(ids, tuple(spans), len(prompt))

    def _use_ids(self, row: PairRow, report: EncodingReport) -> bool:
        if row.chosen_ids is None or row.rejected_ids is None or not row.prompt:
            return False
        usable = row.tokenizer == self._digest
        report.from_ids += usable
        report.ids_refused += not usable
        return usable

    def _closed(self, ids: list[int]) -> list[int]:
        return ids if ids and ids[-1] == self._end else [*ids, self._end]

    def _shorten(self, ids: list[int], room: int) -> list[int] | None:
        """The ids if they fit, else without the oldest turns after the opening; None if nothing fits."""
        if len(ids) <= room:
            return ids
        cuts = [i + 1 for i, token in enumerate(ids[:-1]) if token == self._end]
        if not cuts:
            return None
        opening = ids[: cuts[0]]
        return next(
            ([*opening, *ids[cut:]] for cut in cuts[1:] if len(opening) + len(ids) - cut <= room), None
        )


def find_all(ids: Sequence[int], pattern: Sequence[int]) -> Iterable[int]:
    """Where `pattern` begins in `ids`."""
    width = len(pattern)
    return (i for i in range(len(ids) - width + 1) if tuple(ids[i : i + width]) == tuple(pattern))


def _turn_format(tokenizer: Any, response_template: str | None) -> TurnFormat | None:
    """The chat template's own format, unless a response template says something else."""
    own = TurnFormat.of(tokenizer) if tokenizer.chat_template else None
    if response_template is None:
        return own
    header = tuple(tokenizer(response_template, add_special_tokens=False)["input_ids"])
    if not header:
        raise UsageError(f"--response_template {response_template!r} has no tokens.")
    if own is not None and own.header_ids[: len(header)] == header:
        return own  # the same header, written without the blank line that ends it
    return TurnFormat(header, own.end_id if own else tokenizer.eos_token_id)


def _few(places: Sequence[str], limit: int = 3) -> str:
    return ", ".join(places[:limit]) + (", ..." if len(places) > limit else "")
