"""The encoders of runs: ours by the settings, and the published rules; tokenizers that rows were sampled with.

Published behaviour: docs/published/sweet_rl.md#in-training, #preference-training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweet_rl.chat import Span, TokenizerChat, tokenizer_digest
from sweet_rl.errors import UsageError
from sweet_rl.training.data import DataRow
from sweet_rl.training.encoding import Branch, Encoded, EncodingReport, Side, TurnEncoder, some_of
from sweet_rl.training.settings import DataSettings
from sweet_rl.training.vision import Pictures, Vision


def turn_encoder(tokenizer: Any, data: DataSettings, vision: Vision | None = None) -> TurnEncoder:
    """The encoder of a run's settings."""
    return TurnEncoder(
        tokenizer,
        max_len=data.max_len,
        vision=vision,
        response_template=data.response_template,
        learn_thoughts=data.learn_thoughts,
        plain_prompts=data.input_template is not None,
    )


def scored_texts(branches: Sequence[Branch], tokenizer: Any) -> list[str]:
    """What is learned, turn by turn, special tokens written out."""
    return [
        str(tokenizer.decode(list(branch.ids[start:end]), clean_up_tokenization_spaces=False))
        for branch in branches
        for start, end in branch.scored
    ]


def check_tokenizers(rows: Sequence[DataRow], tokenizer: Any, *, allowed: bool) -> None:
    """Refuse rows that were sampled with another tokenizer, unless their texts may be tokenised anew."""
    digest = tokenizer_digest(tokenizer)
    foreign = [row.place for row in rows if row.tokenizer not in {None, digest}]
    if foreign and not allowed:
        raise UsageError(
            f"{len(foreign):,} of {len(rows):,} rows were sampled with another tokenizer than that of "
            f"{tokenizer.name_or_path!r} ({some_of(foreign)}). Train the model that they were sampled with, sample "
            "again with this one, or pass --other_tokenizer to tokenise the texts again."
        )


class PublishedEncoder:
    """Blank and end token appended, truncation from the right, the last id forced to the end token.

    Without a response template every token is in the mask, the prompt's too; with one, every occurrence opens
    a turn that lasts to the next end token. A mean divides by the whole mask, position 0 and prompt included.
    Rows with a picture that is cut are left out.
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
        self._tokenizer, self._vision, self._max_len = tokenizer, vision, max_len
        self._chat: Any = TokenizerChat(tokenizer) if tokenizer.chat_template else None
        self._header = None if response_template is None else self._ids([response_template])[0]

    def encode(self, rows: Sequence[DataRow]) -> tuple[list[Encoded], EncodingReport]:
        """Encoded pairs in the order of the rows, without those whose prompt fills `max_len`."""
        report, pairs = EncodingReport(), list[Encoded]()
        texts = zip(*map(self._texts, rows), strict=True)
        for index, (row, ids) in enumerate(
            zip(rows, zip(*(self._ids(list(one), cut=True) for one in texts), strict=True), strict=True)
        ):
            length = len(ids[0])
            sides = tuple(
                self._side(side_ids, length, row.prompt.pictures + side.pictures)
                for side_ids, side in zip(ids[1:], row.sides, strict=True)
            )
            whole = self._vision is None or all(
                self._vision.complete(branch.ids, branch.pictures)
                for side in sides
                for branch in side.branches
            )
            if length >= self._max_len - 2 or not whole:
                report.too_long.append(row.place)
            else:
                pairs.append(Encoded(index, sides, row))
        return pairs, report

    def _texts(self, row: DataRow) -> list[str]:
        """Prompt, and prompt with each side, with as many tokens for each picture as it has."""
        if self._chat is None and any(said.messages for said in (row.prompt, *row.sides)):
            raise UsageError(f"{row.place} holds messages, and the tokenizer has no chat template for them.")
        prompt = row.prompt.text or (self._chat.render(row.prompt.messages) if row.prompt else "")
        texts = [(prompt, row.prompt.pictures)]
        for side in row.sides:
            text = side.text
            if side.messages:
                whole = self._chat.render([*row.prompt.messages, *side.messages], open_turn=False)
                text = whole.removeprefix(prompt)
            texts.append((self._closed(prompt + text), row.prompt.pictures + side.pictures))
        if self._vision is None:
            return [text for text, _ in texts]
        return [self._vision.expanded(*one, place=row.place) for one in texts]

    def _side(self, ids: list[int], prompt_length: int, pictures: Pictures) -> Side:
        eos = self._tokenizer.eos_token_id
        ids = [*ids[:-1], eos]
        spans = [Span(0, len(ids))]
        if self._header is not None:
            width = len(self._header)
            starts = [i + width for i in range(len(ids) - width + 1) if ids[i : i + width] == self._header]
            spans = []
            for start in starts:
                if start < len(ids):  # a header inside a turn lengthens it: no token counts twice
                    inside = bool(spans) and start < spans[-1].end
                    begin = spans.pop().start if inside else start
                    spans.append(Span(begin, ids.index(eos, start) + 1))
        scored = sum(end - start for start, end in spans)
        return Side((Branch(tuple(ids), tuple(spans), prompt_length, pictures),), scored)

    def _closed(self, text: str) -> str:
        text, eos = text.rstrip("\n"), self._tokenizer.eos_token
        return text if text.endswith(eos) else f"{text} {eos}"

    def _ids(self, texts: list[str], *, cut: bool = False) -> list[list[int]]:
        options = {"truncation": True, "max_length": self._max_len} if cut else {}
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False, **options)["input_ids"]
        return ids
