"""Pairs as token ids under the published rules, to compare numbers with.

Published behaviour: docs/published/sweet_rl.md#preference-training, #in-training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sweet_rl.chat import Span
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow
from sweet_rl.training.encoding import EncodedPair, EncodingReport, Side, find_all
from sweet_rl.training.pictures import Pictures
from sweet_rl.training.vision import Vision


class PublishedEncoder:
    """Blank and end token appended, truncation from the right, the last id forced to the end token.

    Without a response template every token is in the mask, the prompt's too; with one, every occurrence opens
    a turn that lasts to the next end token. A mean divides by the whole mask, position 0 and prompt included.
    Rows with a picture that is cut are left out.

    Raises:
        UsageError: the tokenizer has no end token.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        max_len: int,
        response_template: str | None = None,
        vision: Vision | None = None,
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        self._tokenizer, self._vision = tokenizer, vision
        self._max_len = max_len
        self._template = None if response_template is None else self._ids([response_template])[0]

    def encode(self, rows: Sequence[PairRow]) -> tuple[list[EncodedPair], EncodingReport]:
        """Encoded pairs in the order of the rows, without those whose prompt fills `max_len`."""
        report = EncodingReport()
        if not rows:
            return [], report
        prompts = [len(ids) for ids in self._ids([self._shown(row, "prompt") for row in rows], cut=True)]
        chosen = self._ids([self._shown(row, "chosen") for row in rows], cut=True)
        rejected = self._ids([self._shown(row, "rejected") for row in rows], cut=True)
        pairs: list[EncodedPair] = []
        for index, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
            sides = (
                self._side(chosen[index], prompt, row.prompt_pictures + row.chosen_pictures),
                self._side(rejected[index], prompt, row.prompt_pictures + row.rejected_pictures),
            )
            if prompt >= self._max_len - 2 or not all(map(self._whole, sides)):
                report.too_long.append(row.place)
                continue
            pairs.append(EncodedPair(index, *sides, row=row))
        return pairs, report

    def _shown(self, row: PairRow, field: Literal["prompt", "chosen", "rejected"]) -> str:
        """The text that is tokenised, with as many tokens for each picture as it has."""
        text, pictures = row.prompt, row.prompt_pictures
        if field == "chosen":
            text, pictures = self._closed(text + row.chosen), pictures + row.chosen_pictures
        elif field == "rejected":
            text, pictures = self._closed(text + row.rejected), pictures + row.rejected_pictures
        return self._vision.expanded(text, pictures, place=row.place) if self._vision else text

    def _whole(self, side: Side) -> bool:
        """Whether none of its pictures was cut."""
        return self._vision is None or self._vision.complete(side.ids, side.pictures)

    def _side(self, ids: list[int], prompt_length: int, pictures: Pictures) -> Side:
        eos = self._tokenizer.eos_token_id
        ids = [*ids[:-1], eos]
        spans = [Span(0, len(ids))]
        if self._template is not None:
            starts = [start + len(self._template) for start in find_all(ids, self._template)]
            spans = _merged([Span(start, ids.index(eos, start) + 1) for start in starts if start < len(ids)])
        scored = sum(end - start for start, end in spans)
        return Side(tuple(ids), tuple(spans), prompt_length, scored, pictures)

    def _closed(self, text: str) -> str:
        text, eos = text.rstrip("\n"), self._tokenizer.eos_token
        return text if text.endswith(eos) else f"{text} {eos}"

    def _ids(self, texts: list[str], *, cut: bool = False) -> list[list[int]]:
        options = {"truncation": True, "max_length": self._max_len} if cut else {}
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False, **options)["input_ids"]
        return ids


def _merged(spans: list[Span]) -> list[Span]:
    """Spans that overlap (a header inside a turn's text) as one, so that no token counts twice."""
    merged: list[Span] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged
