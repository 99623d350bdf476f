"""Pairs as token ids under the published rules, to compare numbers with.

Published behaviour: docs/published/sweet_rl.md#preference-training, #in-training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweet_rl.chat import Span, TokenizerChat
from sweet_rl.errors import UsageError
from sweet_rl.training.data import PairRow
from sweet_rl.training.encoding import Encoded, EncodingReport, Side
from sweet_rl.training.pictures import Pictures
from sweet_rl.training.vision import Vision


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

    def encode(self, rows: Sequence[PairRow]) -> tuple[list[Encoded], EncodingReport]:
        """Encoded pairs in the order of the rows, without those whose prompt fills `max_len`."""
        report = EncodingReport()
        if not rows:
            return [], report
        texts = zip(*map(self._texts, rows), strict=True)
        prompts, chosen, rejected = (self._ids(list(column), cut=True) for column in texts)
        pairs: list[Encoded] = []
        for index, row in enumerate(rows):
            length, shown = len(prompts[index]), row.prompt.pictures
            sides = (
                self._side(chosen[index], length, shown + row.chosen.pictures),
                self._side(rejected[index], length, shown + row.rejected.pictures),
            )
            whole = self._vision is None or all(
                self._vision.complete(branch.ids, branch.pictures)
                for side in sides
                for branch in side.branches
            )
            if length >= self._max_len - 2 or not whole:
                report.too_long.append(row.place)
                continue
            pairs.append(Encoded(index, sides, row))
        return pairs, report

    def _texts(self, row: PairRow) -> tuple[str, str, str]:
        """Prompt, and prompt with each side, with as many tokens for each picture as it has."""
        if self._chat is None and (row.prompt.messages or row.chosen.messages or row.rejected.messages):
            raise UsageError(
                f"{row.place} holds messages, and the tokenizer of {self._tokenizer.name_or_path!r} has no chat "
                "template to make texts of them. Put a chat_template.jinja into the model's folder."
            )
        prompt = row.prompt.text or (self._chat.render(row.prompt.messages) if row.prompt else "")
        texts, shown = [prompt], [row.prompt.pictures]
        for side in (row.chosen, row.rejected):
            text = side.text
            if side.messages:
                whole = self._chat.render([*row.prompt.messages, *side.messages], open_turn=False)
                text = whole.removeprefix(prompt)
            texts.append(self._closed(prompt + text))
            shown.append(row.prompt.pictures + side.pictures)
        if self._vision is not None:
            texts = [
                self._vision.expanded(text, pictures, place=row.place)
                for text, pictures in zip(texts, shown, strict=True)
            ]
        return texts[0], texts[1], texts[2]

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
        return Side.single(tuple(ids), tuple(spans), prompt_length, denominator=scored, pictures=pictures)

    def _closed(self, text: str) -> str:
        text, eos = text.rstrip("\n"), self._tokenizer.eos_token
        return text if text.endswith(eos) else f"{text} {eos}"

    def _ids(self, texts: list[str], *, cut: bool = False) -> list[list[int]]:
        options = {"truncation": True, "max_length": self._max_len} if cut else {}
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False, **options)["input_ids"]
        return ids
