"""Pairs and texts as token ids: which tokens are learned, what a model reads before them, where they are cut.

Every turn of the assistant is a prompt and a completion (`sweet_rl.chat.turns`). Where the prompt of a turn
continues the turn before it, both are one sequence; where it does not, since the template strips thoughts
from the history or moves the system text, they are branches, which share what they begin with.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs, #in-training,
#preference-training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweet_rl.chat import Span, TokenizerChat, Turn, tokenizer_digest
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow
from sweet_rl.training.settings import DataSettings
from sweet_rl.training.turns import RowTurns
from sweet_rl.training.vision import Pictures, Vision

_NO_THOUGHTS = "hold turns with thoughts, which this chat template does not show: they are left out"
_ROWS_AT_ONCE = 512  # Rows whose texts are tokenised together; more would hold many tokens twice


@dataclass(frozen=True, slots=True)
class Branch:
    """One sequence of a side."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    prompt_length: int = 0
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
class Side:
    """One side of a pair, or a text: its sequences, and what a mean over the side divides by.

    `denominator` None means the number of scored tokens.
    """

    branches: tuple[Branch, ...]
    denominator: int | None = None

    @property
    def tokens(self) -> int:
        """How many tokens are scored."""
        return sum(end - start for branch in self.branches for start, end in branch.scored)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair, whose sides are the chosen and the rejected one, or a single text."""

    index: int
    sides: tuple[Side, ...]
    row: DataRow

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The token sequences that a model reads of it."""
        return tuple(branch for side in self.sides for branch in side.branches)

    @property
    def length(self) -> int:
        """Tokens of its longest sequence."""
        return max(len(branch.ids) for branch in self.branches)

    @property
    def weight(self) -> int:
        """What it counts for in its optimizer step's mean: pairs count alike, and so does every token of a text."""
        return 1 if len(self.sides) > 1 else self.sides[0].tokens


@dataclass(slots=True)
class EncodingReport:
    """What happened on the way; `lines` says it to people."""

    noun: str = "pairs"
    counts: Counter[str] = field(default_factory=Counter)
    too_long: list[str] = field(default_factory=list)

    def lines(self, max_len: int) -> list[str]:
        """One line for each thing worth knowing."""
        notes = [f"{rows:,} {self.noun} {what}" for what, rows in self.counts.items() if rows]
        if self.too_long:
            what = f"{len(self.too_long):,} {self.noun} left out, too long for --max_len {max_len}"
            notes.append(f"{what}: {some_of(self.too_long)}")
        return notes


class TurnEncoder:
    """Every turn of the assistant with its end token is scored; headers, other roles and the prompt never are.

    - A prompt is tokenised by itself, as it was when the turn was sampled, and the turn after it.
    - A text without the marks of the chat template is what a user said, or the assistant. A text with marks is
      taken as the template wrote it.
    - Sampled ids are taken as they are: a turn that was cut has no end token, and none is invented.
    - What is too long loses whole turns, oldest first; the opening (up to the first end token: hidden
      solution, begin token, system prompt) stays. Both sides of a pair with a prompt lose the same turns. If
      the opening and the last turn alone do not fit, the pair is left out.
    """

    def __init__(self, tokenizer: Any, *, max_len: int, vision: Vision | None = None, **rules: Any) -> None:
        self._tokenizer, self._vision, self._max_len = tokenizer, vision, max_len
        self._rows = RowTurns(tokenizer, **rules)
        ends = self._ids([self._rows.end])[0] if self._rows.end else []
        self._end_id = ends[-1] if ends and ends[-1] in tokenizer.added_tokens_decoder else None
        tails = ("Hello b", "I", "\nA", "\n\n<a>", "{")
        alone = self._ids(list(tails))

        def splits(before: str, which: int) -> bool:
            ids = self._ids([before])[0] if before else []
            whole = self._ids([before + tail for tail in tails])
            return whole[:which] == [ids + tail for tail in alone[:which]]

        # Whether a turn is tokenised behind its prompt as it is by itself: not where blanks are word parts.
        self._context_free = not self._rows.header.endswith(" ") and splits(self._rows.header, 2)
        # Whether what stands behind an end token is, too.
        self._splits = self._context_free and bool(ends) and splits(self._rows.end, len(tails))

    def encode(self, rows: Sequence[DataRow]) -> tuple[list[Encoded], EncodingReport]:
        """Encoded rows in their order, without those that are too long."""
        report = EncodingReport("texts" if rows and len(rows[0].sides) == 1 else "pairs")
        turns = [self._turns_of(row, report) for row in rows]
        report.counts[_NO_THOUGHTS] += self._rows.thoughts_left_out
        found: list[Encoded] = []
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = range(first, min(first + _ROWS_AT_ONCE, len(rows)))
            texts = {
                text: None
                for i in some
                for side in turns[i]
                for part in self._parts(*side, rows[i].place)
                for text in part[1:]
            }
            if not self._context_free:
                every = [turn for i in some for side, _ in turns[i] for turn in side]
                texts |= {text: None for turn in every for text in (turn.lead, turn.text + turn.end)}
            known = dict(zip(texts, self._ids(list(texts)), strict=True)) if texts else {}
            for i in some:
                sides = self._fitted([self._branches(*side, rows[i], known) for side in turns[i]], report)
                if sides is None:
                    report.too_long.append(rows[i].place)
                    continue
                if not self._rows.end:
                    what = "end without an end token, as the chat template writes none behind a turn"
                    report.counts[what] += 1
                found.append(Encoded(i, sides, rows[i]))
        return found, report

    def _turns_of(self, row: DataRow, report: EncodingReport) -> list[tuple[list[Turn], Pictures]]:
        """The turns and the pictures of each side."""
        carries = bool(row.prompt.text) and all(side.ids for side in row.sides)
        own = carries and row.tokenizer == self._rows.digest
        turns = [self._rows.of(row, side, sampled=own) for side in row.sides]
        uses, played = "use the sampled token ids they carry", row.sides[0].turns
        if len(row.sides) > 1:
            if carries:
                report.counts[
                    uses if own else "carry ids of another tokenizer: their text was tokenised"
                ] += 1
            if turns[0] == turns[1] and not row.twin:
                problem = "has two sides of which the same is learned, so nothing is"
                repair = 'Leave the row out, or say that it is meant: "guard": "twin".'
                raise DataError(problem, path=row.path, line=row.line, repair=repair)
        elif all(turn.ids for turn in turns[0]):
            report.counts[uses] += 1
        elif played and not turns[0][0].prompt.endswith(played[0].input):
            report.counts["were played by other prompts, and are written by this model's chat template"] += 1
        return [
            (own, row.prompt.pictures + side.pictures) for own, side in zip(turns, row.sides, strict=True)
        ]

    def _parts(
        self, turns: Sequence[Turn], pictures: Pictures, place: str
    ) -> Iterator[tuple[bool, str, str, str]]:
        """Of each turn prompt, lead and completion, with as many tokens for each picture as it has.

        The first value says that of the prompt only what stands behind the turn before is there.
        """
        before = ""
        for turn in turns:
            prompt, said = turn.prompt, turn.text + turn.end
            if self._vision is not None:
                shown = pictures[: self._vision.marks(prompt)]
                prompt = self._vision.expanded(prompt, shown, place=place)
                said = self._vision.expanded(said, (), place=place)
            goes_on = bool(before) and self._vision is None and prompt.startswith(before)
            if self._context_free:
                yield goes_on, prompt.removeprefix(before) if goes_on else prompt, turn.lead, said
            else:  # each part is what it adds to the tokens before it
                yield False, prompt, prompt + turn.lead, prompt + turn.lead + said
            blank = turn.text[:1].isspace()  # may be one token with the end of the prompt
            simple = turn.end and self._splits and not (turn.ids or blank)
            before = f"{turn.prompt}{turn.lead}{said}" if simple else ""

    def _branches(
        self, turns: Sequence[Turn], pictures: Pictures, row: DataRow, known: Mapping[str, list[int]]
    ) -> list[Branch]:
        found: list[Branch] = []
        prompt_length = 0
        split = zip(turns, self._parts(turns, pictures, row.place), strict=True)
        for number, (turn, parts) in enumerate(split):
            before, lead, said = (known[text] for text in parts[1:])
            if not self._context_free:
                if lead[: len(before)] == before and said[: len(lead)] == lead:
                    lead, said = lead[len(before) :], said[len(lead) :]
                else:
                    lead, said = known[turn.lead], known[turn.text + turn.end]
            if parts[0]:
                before = [*found[-1].ids, *before]
            prompt_length = len(before) if row.prompt and not number else prompt_length
            start = len(before) + len(lead)
            if turn.ids is not None:  # they hold the lead, too
                start, lead, said = len(before) + self._unlearned(turn), [], list(turn.ids)
            ids = (*before, *lead, *said)
            spans: tuple[Span, ...] = (Span(start, len(ids)),)
            if found and ids[: len(found[-1].ids)] == found[-1].ids:
                spans = found.pop().spans + spans
            shown = pictures[: self._vision.marks(turn.prompt)] if self._vision else ()
            found.append(Branch(ids, spans, prompt_length, shown))
        if not any(branch.scored for branch in found):
            problem = "has nothing to learn: an empty turn, and no end token"
            raise DataError(problem, path=row.place, repair="Leave it out.")
        return found

    def _unlearned(self, turn: Turn) -> int:
        """How many of a turn's sampled ids are thoughts that are not learned."""
        ids = list(turn.ids or ())
        enough = (n for n in range(len(ids)) if len(self._tokenizer.decode(ids[:n])) >= len(turn.lead))
        return next(enough, len(ids))

    def _fitted(self, sides: list[list[Branch]], report: EncodingReport) -> tuple[Side, ...] | None:
        """The sides cut to `max_len`; None if that cannot be done."""
        branches = [branch for side in sides for branch in side]
        if max(len(branch.ids) for branch in branches) > self._max_len:
            prompts = {branch.ids[: branch.prompt_length] for branch in branches}
            if len(prompts) == 1 and (prompt := prompts.pop()):
                room = self._max_len - max(len(branch.ids) - len(prompt) for branch in branches)
                cuts = [self._cut(prompt, room)] * len(branches)
            elif any(branch.prompt_length for branch in branches):
                return None  # the sides would lose different turns
            else:
                cuts = [self._cut(branch.ids, self._max_len) for branch in branches]
            if None in cuts:
                return None
            places = iter([cut for cut in cuts if cut is not None])
            sides = [[self._without(branch, *next(places)) for branch in side] for side in sides]
            report.counts[f"lost their oldest turns (--max_len {self._max_len})"] += 1
        return tuple(Side(tuple(branch for branch in side if branch.scored)) for side in sides)

    def _cut(self, ids: Sequence[int], room: int) -> tuple[int, int] | None:
        """From where to where the oldest turns after the opening stand; None if nothing fits."""
        if len(ids) <= room:
            return 0, 0
        ends = [i + 1 for i, token in enumerate(ids[:-1]) if token == self._end_id]
        return next(((ends[0], end) for end in ends[1:] if len(ids) - end + ends[0] <= room), None)

    def _without(self, branch: Branch, start: int, stop: int) -> Branch:
        """The branch without its tokens from `start` to `stop`."""
        gone = stop - start
        if not gone:
            return branch
        spans = (span for span in branch.spans if span.end <= start or span.end > stop)
        moved = tuple(
            span if span.end <= start else Span(max(span.start, stop) - gone, span.end - gone)
            for span in spans
        )
        pictures = branch.pictures
        if self._vision is not None:
            pictures = self._vision.outside(branch.ids, pictures, start, stop)
        ids = branch.ids[:start] + branch.ids[stop:]
        return replace(
            branch, ids=ids, spans=moved, prompt_length=max(branch.prompt_length - gone, 0), pictures=pictures
        )

    def _ids(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
        return ids


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


def some_of(names: Sequence[str]) -> str:
    """The first three, for a message."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


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
            f"{tokenizer.name_or_path!r} ({some_of(foreign)}): their turns are marked and ended in another way. "
            "Train the model that they were sampled with, sample and rank again with this one, or pass "
            "--other_tokenizer to tokenise the texts again."
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
            raise UsageError(
                f"{row.place} holds messages, and the tokenizer of {self._tokenizer.name_or_path!r} has no chat "
                "template to make texts of them. Put a chat_template.jinja into the model's folder."
            )
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
