"""Pairs and dialogues as token ids: which tokens are the agent's, and where long ones are cut.

The rules here are ours; `published` holds those of the published system. Both give `EncodedPair`s.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs, #in-training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Protocol

from sweet_rl.chat import Span, TurnFormat, tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow
from sweet_rl.training.dialogues import TextRow
from sweet_rl.training.pictures import Pictures
from sweet_rl.training.vision import Vision


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair.

    Attributes:
        ids: prompt and response.
        spans: the loss mask, as positions in `ids`: one span for each assistant turn.
        prompt_length: tokens of the prompt; nothing before it is scored.
        denominator: what a mean over the trajectory divides by; None: the number of scored tokens.
        pictures: whose tokens stand in `ids`, in that order.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    prompt_length: int = 0
    denominator: int | None = None
    pictures: Pictures = ()

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
    def sides(self) -> tuple[Side, ...]:
        """The token sequences that a model reads of it."""
        return self.chosen, self.rejected

    @property
    def length(self) -> int:
        """Tokens of the longer side: what the pair takes in a batch."""
        return max(len(self.chosen.ids), len(self.rejected.ids))

    @property
    def weight(self) -> int:
        """What it counts for in its optimizer step's mean: pairs count alike."""
        return 1


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text to imitate, the row's number among all rows of the data (from 0), and the row."""

    index: int
    side: Side
    row: TextRow

    @property
    def sides(self) -> tuple[Side, ...]:
        """The token sequences that a model reads of it."""
        return (self.side,)

    @property
    def length(self) -> int:
        """Tokens: what the text takes in a batch."""
        return len(self.side.ids)

    @property
    def weight(self) -> int:
        """What it counts for in its optimizer step's mean: every scored token counts alike."""
        return sum(end - start for start, end in self.side.scored)


class _Text(NamedTuple):
    """What the encoder sees of a row: a prompt, texts that answer it, and their sampled ids."""

    prompt: str
    responses: tuple[str, ...]
    ids: tuple[tuple[int, ...] | None, ...]
    tokenizer: str | None
    closed: bool
    place: str
    pictures: tuple[Pictures, ...]
    """Of the prompt, then of each response."""


@dataclass(slots=True)
class EncodingReport:
    """What happened on the way; `lines` says it to people."""

    noun: str = "pairs"
    from_ids: int = 0
    ids_refused: int = 0
    shortened: int = 0
    too_long: list[str] = field(default_factory=list)
    no_response: list[str] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Number of rows that cannot be trained on and were left out."""
        return len(self.too_long) + len(self.no_response)

    def lines(self, max_len: int) -> list[str]:
        """One line for each thing worth knowing."""
        notes: list[str] = []
        if self.from_ids:
            notes.append(f"{self.from_ids:,} {self.noun} use the sampled token ids they carry")
        if self.ids_refused:
            notes.append(
                f"{self.ids_refused:,} {self.noun} carry ids of another tokenizer: their text was tokenised"
            )
        if self.shortened:
            notes.append(f"{self.shortened:,} {self.noun} lost their oldest turns (--max_len {max_len})")
        if self.too_long:
            notes.append(
                f"{len(self.too_long):,} {self.noun} left out, too long for --max_len {max_len}: "
                f"{_few(self.too_long)}"
            )
        if self.no_response:
            notes.append(
                f"{len(self.no_response):,} {self.noun} left out, no assistant turn in them: "
                f"{_few(self.no_response)}"
            )
        return notes


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
      was cut has no end token, and none is invented.
    - What is too long loses whole turns, oldest first; the opening (up to the first end token: hidden
      solution, begin token, system prompt) stays. Both sides of a pair with a prompt lose the same turns. If
      the opening and the last turn alone do not fit, the pair is left out.

    Args:
        tokenizer: a transformers tokenizer.
        max_len: tokens of one side at most.
        response_template: text that opens an assistant turn, where the chat template does not say it.
        vision: needed where there are pictures. A turn that is lost takes its pictures with it.

    Raises:
        UsageError: the chat template gives no turn boundaries, or the response template has no tokens.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_len: int,
        response_template: str | None = None,
        vision: Vision | None = None,
    ) -> None:
        self._tokenizer, self._vision = tokenizer, vision
        self._max_len = max_len
        self._format = _turn_format(tokenizer, response_template)
        self._end = self._format.end_id if self._format else tokenizer.eos_token_id
        if self._end is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        self._digest = tokenizer_digest(tokenizer)

    def encode(self, rows: Sequence[PairRow]) -> tuple[list[EncodedPair], EncodingReport]:
        """Encoded pairs in the order of the rows, without those that cannot be trained on."""
        texts = [
            _Text(
                row.prompt,
                (row.chosen, row.rejected),
                (row.chosen_ids, row.rejected_ids),
                row.tokenizer,
                closed=True,
                place=row.place,
                pictures=(row.prompt_pictures, row.chosen_pictures, row.rejected_pictures),
            )
            for row in rows
        ]
        report = EncodingReport()
        pairs = [
            EncodedPair(i, chosen, rejected, rows[i])
            for i, (chosen, rejected) in self._encoded(texts, report)
        ]
        return pairs, report

    def encode_texts(self, rows: Sequence[TextRow]) -> tuple[list[EncodedText], EncodingReport]:
        """Encoded texts in the order of the rows, without those that cannot be trained on."""
        texts = [
            _Text(
                row.prompt,
                (row.text,),
                (row.ids,),
                row.tokenizer,
                closed=not row.cut,
                place=row.place,
                pictures=((), ()),
            )
            for row in rows
        ]
        report = EncodingReport("texts")
        encoded = [EncodedText(i, side, rows[i]) for i, (side,) in self._encoded(texts, report)]
        return encoded, report

    def _encoded(
        self, texts: Sequence[_Text], report: EncodingReport
    ) -> Iterator[tuple[int, tuple[Side, ...]]]:
        if self._format is None and not all(text.prompt for text in texts):
            raise UsageError(
                f"The tokenizer of {self._tokenizer.name_or_path!r} has no chat template, so the assistant's "
                "turns cannot be found in whole dialogues. Give --response_template (the text that opens a "
                "turn), or rows with a prompt."
            )
        parts = [self._parts(text) for text in texts]
        flat = list(chain.from_iterable(parts))
        ids = iter(self._tokenizer(flat, add_special_tokens=False)["input_ids"] if flat else [])
        for index, text in enumerate(texts):
            prompt, responses = next(ids), [next(ids) for _ in text.responses]
            sides = self._sides(text, prompt, responses, report)
            if sides is not None:
                yield index, sides

    def _parts(self, text: _Text) -> list[str]:
        """Prompt and responses, with as many tokens for each picture as it has."""
        parts = [text.prompt, *(response.rstrip("\n") for response in text.responses)]
        if self._vision is None:
            return parts
        return [
            self._vision.expanded(part, pictures, place=text.place)
            for part, pictures in zip(parts, text.pictures, strict=True)
        ]

    def _sides(
        self, text: _Text, prompt: list[int], responses: list[list[int]], report: EncodingReport
    ) -> tuple[Side, ...] | None:
        if self._use_ids(text, report):
            responses = [list(ids or ()) for ids in text.ids]
        elif text.closed:
            responses = [self._closed(ids) for ids in responses]
        fitted = self._fitted(prompt, responses)
        if fitted is None:
            report.too_long.append(text.place)
            return None
        kept, shorter = fitted
        shown = [
            self._left(before, now, pictures)
            for before, now, pictures in zip(
                [prompt, *responses], [kept, *shorter], text.pictures, strict=True
            )
        ]
        sides = tuple(
            self._side(kept, response, shown[0] + pictures)
            for response, pictures in zip(shorter, shown[1:], strict=True)
        )
        if not all(side.scored for side in sides):
            report.no_response.append(text.place)
            return None
        report.shortened += len(kept) < len(prompt) or any(
            len(now) < len(before) for now, before in zip(shorter, responses, strict=True)
        )
        return sides

    def _fitted(
        self, prompt: list[int], responses: list[list[int]]
    ) -> tuple[list[int], list[list[int]]] | None:
        """Prompt and responses cut to `max_len`; None if that cannot be done."""
        if prompt:
            kept = self._shorten(prompt, self._max_len - max(map(len, responses)))
            return None if kept is None else (kept, responses)
        shorter = [self._shorten(ids, self._max_len) for ids in responses]
        fitting = [ids for ids in shorter if ids is not None]
        return ([], fitting) if len(fitting) == len(responses) else None

    def _left(self, before: list[int], now: list[int], pictures: Pictures) -> Pictures:
        """The pictures of what `_shorten` left."""
        gone = len(before) - len(now)
        if self._vision is None or not pictures or not gone:
            return pictures
        start = before.index(self._end) + 1
        return self._vision.outside(before, pictures, start, start + gone)

    def _side(self, prompt: list[int], response: list[int], pictures: Pictures) -> Side:
        ids = (*prompt, *response)
        spans = [span for span in self._format.spans(ids) if span.end > len(prompt)] if self._format else []
        if prompt and not spans:
            spans = [Span(len(prompt), len(ids))]
        return Side(ids, tuple(spans), len(prompt), pictures=pictures)

    def _use_ids(self, text: _Text, report: EncodingReport) -> bool:
        if None in text.ids or not text.prompt:
            return False
        usable = text.tokenizer == self._digest
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


class Sampled(Protocol):
    """A row that may say with which tokenizer its text was sampled."""

    @property
    def tokenizer(self) -> str | None:
        """Digest of the tokenizer; None where it is unknown."""
        ...

    @property
    def place(self) -> str:
        """The row's position as `file:line`, for messages."""
        ...


def check_tokenizers(rows: Sequence[Sampled], tokenizer: Any, *, allowed: bool) -> None:
    """Refuse rows that were sampled, and ranked, with another tokenizer than the one that is trained with.

    Args:
        rows: what is read.
        tokenizer: of the model that is trained.
        allowed: the person wants their texts tokenised anew.

    Raises:
        UsageError: names the first of them, and what can be done.
    """
    digest = tokenizer_digest(tokenizer)
    foreign = [row.place for row in rows if row.tokenizer not in {None, digest}]
    if foreign and not allowed:
        raise UsageError(
            f"{len(foreign):,} of {len(rows):,} rows were sampled with another tokenizer than that of "
            f"{tokenizer.name_or_path!r} ({_few(foreign)}): their turns are marked and ended in another way. "
            "Train the model that they were sampled with, sample and rank again with this one, or pass "
            "--other_tokenizer to tokenise the texts again."
        )


def find_all(ids: Sequence[int], pattern: Sequence[int]) -> Iterable[int]:
    """Every position where `pattern` begins in `ids`."""
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
