"""Pairs and texts as token ids: which tokens are learned, what a model reads before them, where they are cut.

Every turn of the assistant is a prompt and a completion (`sweet_rl.chat.turns`). Where the prompt of a turn
continues the turn before it, both are one sequence; where it does not, since the template strips thoughts
from the history or moves the system text, they are branches, which share what they begin with. `PublishedEncoder`
keeps the published rules.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs, #in-training,
#preference-training.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweet_rl.chat import Span, TokenizerChat, Turn, TurnTemplate, UnparsableError, tokenizer_digest
from sweet_rl.chat.formats import Entry, read_back
from sweet_rl.chat.turns import between_marks
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow, Said, some_of
from sweet_rl.training.settings import DataSettings
from sweet_rl.training.vision import Pictures, Vision
from sweet_rl.types import FinishReason

_ROWS_AT_ONCE = 512  # Rows whose texts are tokenised together; more would hold many tokens twice

_THOUGHT_TAG = re.compile(r"</?think(?:ing)?>|\[/?THINK\]", re.IGNORECASE)
_ROLE = re.compile(r"^(?:system|developer|user|human|assistant|model)(?:\n|\Z)", re.IGNORECASE)
_ANY_MARK = re.compile(r"<\|?[^<>\s]{1,40}>|\[/?[A-Z_]{2,20}\]|<</?SYS>>|\[\|\w+\|\]")
_ANSWER_OPENS = re.compile(r"(?:^|\s)(?:### ?)?(?:Assistant|ASSISTANT|Response)\s*:\s*\Z")
_QUESTION_OPENS = re.compile(r"\A\s*(?:### ?)?(?:Human|User|USER|Instruction)\s*:")
# Marks that templates write and people do not.
_FOREIGN = re.compile(r"<\|[\w ]+\|>|<start_of_turn>|\[/?INST\]|<\uff5c\w+\uff5c>")


@dataclass(frozen=True, slots=True)
class Branch:
    """One sequence of a side."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    prompt_length: int = 0
    pictures: Pictures = ()

    @property
    def scored(self) -> list[Span]:
        """What enters the loss: the mask without the prompt, and without position 0, which has no past."""
        first = max(1, self.prompt_length)
        clipped = (Span(max(start, first), end) for start, end in self.spans)
        return [span for span in clipped if span.start < span.end]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair, or a text; a mean over it divides by `denominator`, None: by its scored tokens."""

    branches: tuple[Branch, ...]
    denominator: int | None = None

    @property
    def tokens(self) -> int:
        return sum(end - start for branch in self.branches for start, end in branch.scored)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A pair, whose sides are the chosen and the rejected one, or a single text."""

    index: int
    sides: tuple[Side, ...]
    row: DataRow

    @property
    def branches(self) -> tuple[Branch, ...]:
        return tuple(branch for side in self.sides for branch in side.branches)

    @property
    def length(self) -> int:
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
        notes = [f"{rows:,} {self.noun} {what}" for what, rows in self.counts.items() if rows]
        if self.too_long:
            what = f"{len(self.too_long):,} {self.noun} left out, too long for --max_len {max_len}"
            notes.append(f"{what}: {some_of(self.too_long)}")
        return notes


def scored_texts(branches: Sequence[Branch], tokenizer: Any) -> list[str]:
    """What is learned, turn by turn, special tokens written out."""
    return [
        str(tokenizer.decode(list(branch.ids[start:end]), clean_up_tokenization_spaces=False))
        for branch in branches
        for start, end in branch.scored
    ]


def _ids(tokenizer: Any, texts: list[str], **options: Any) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, **options)["input_ids"]
    return ids


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

    def __init__(self, tokenizer: Any, data: DataSettings, vision: Vision | None = None) -> None:
        self._tokenizer, self._data, self._vision = tokenizer, data, vision
        self._name, self._digest = tokenizer.name_or_path, tokenizer_digest(tokenizer)
        self._template: TurnTemplate | None = None
        if tokenizer.chat_template:
            self._template = TurnTemplate(TokenizerChat(tokenizer), learn_thoughts=data.learn_thoughts)
        elif tokenizer.eos_token is None:
            raise UsageError(f"The tokenizer of {self._name!r} has no end token (eos_token).")
        if data.response_template == "":
            raise UsageError("--response_template '' has no tokens.")
        # What ends a turn; empty where the chat template writes nothing behind one.
        self.end: str = self._template.end if self._template else tokenizer.eos_token
        header: str = self._template.header if self._template else ""
        # The template's own header may be written without the blank line that ends it.
        own = data.response_template is None or header.startswith(data.response_template)
        self._header = None if own else data.response_template
        specials = self._template.specials if self._template else []
        marks = [re.escape(mark) for mark in specials if not _THOUGHT_TAG.fullmatch(mark)]
        self._specials = re.compile("|".join(marks) or r"(?!)")
        ends = _ids(tokenizer, [self.end])[0] if self.end else []
        self._end_id = ends[-1] if ends and ends[-1] in tokenizer.added_tokens_decoder else None
        tails = ("Hello b", "I", "\nA", "\n\n<a>", "{")
        alone = _ids(tokenizer, list(tails))

        def splits(before: str, which: int) -> bool:
            ids = _ids(tokenizer, [before])[0] if before else []
            whole = _ids(tokenizer, [before + tail for tail in tails])
            return whole[:which] == [ids + tail for tail in alone[:which]]

        # Whether a turn is tokenised behind its prompt as it is by itself: not where blanks are word parts.
        self._context_free = not header.endswith(" ") and splits(header, 2)
        # Whether what stands behind an end token is, too.
        self._splits = self._context_free and bool(ends) and splits(self.end, len(tails))

    def encode(self, rows: Sequence[DataRow]) -> tuple[list[Encoded], EncodingReport]:
        """Encoded rows in their order, without those that are too long."""
        report = EncodingReport("texts" if rows and len(rows[0].sides) == 1 else "pairs")
        turns = [self._sides(row, report) for row in rows]
        unread = "hold turns with thoughts, which this chat template does not show: they are left out"
        report.counts[unread] += self._template.thoughts_left_out if self._template else 0
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
            known = dict(zip(texts, _ids(self._tokenizer, list(texts)), strict=True)) if texts else {}
            for i in some:
                sides = self._fitted([self._branches(*side, rows[i], known) for side in turns[i]], report)
                if sides is None:
                    report.too_long.append(rows[i].place)
                    continue
                if not self.end:
                    what = "end without an end token, as the chat template writes none behind a turn"
                    report.counts[what] += 1
                found.append(Encoded(i, sides, rows[i]))
        return found, report

    def _sides(self, row: DataRow, report: EncodingReport) -> list[tuple[list[Turn], Pictures]]:
        """The turns and the pictures of each side."""
        carries = bool(row.prompt.text) and all(side.ids for side in row.sides)
        sampled = carries and row.tokenizer == self._digest
        turns = [self.turns(row, side, sampled=sampled) for side in row.sides]
        uses, played = "use the sampled token ids they carry", row.sides[0].turns
        if len(row.sides) > 1:
            foreign = "carry ids of another tokenizer: their text was tokenised"
            report.counts[uses if sampled else foreign] += carries
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

    def turns(self, row: DataRow, side: Said, *, sampled: bool) -> list[Turn]:
        """The turns of one side of a row; `sampled`: its ids are of this tokenizer."""
        template, prompt = self._template, row.prompt
        asked: Entry = {"role": "user", "content": prompt.text}
        answered: Entry = {"role": "assistant", "content": side.text}
        try:
            if side.turns:
                return self._played(side)
            if side.messages or prompt.messages:
                before = prompt.messages or ((asked,) if prompt.text else ())
                return self._of_messages(before, side.messages or (answered,))
            if sampled and template:
                largest, known = max(side.ids or ()), len(self._tokenizer)
                if largest >= known:
                    raise UsageError(f"its token id {largest} is none of the tokenizer's {known:,}")
                return [template.said(prompt.text, side.text, ids=side.ids)]
            if self._header is not None:
                return between_marks(self._header, self.end, prompt.text, side.text)
            if template is None and prompt.text:
                text = side.text.rstrip("\n").removesuffix(self.end)
                return [Turn(prompt.text, "", text, self.end, side.ids)]
            if template is None:
                raise UsageError(
                    "the tokenizer has no chat template, so the assistant's turns cannot be found in whole "
                    "dialogues. Give --response_template (the text that opens a turn), or rows with a prompt"
                )
            given = read_back(prompt.text or side.text)
            if given is not None and bool(given[2]) is not bool(prompt):
                opening, earlier, last = given
                if not prompt:  # the whole dialogue of an agent that a server or a script played
                    answered = {"role": "assistant", "content": last}
                turns = self._of_messages(earlier if prompt else (), [*(() if prompt else earlier), answered])
                return [turn._replace(prompt=opening + turn.prompt) for turn in turns]
            if not prompt:
                return template.written("", side.text)
            if self._data.input_template is not None:
                return [template.said(prompt.text, side.text)]
            if template.has_marks(prompt.text):
                return template.written(template.opened(prompt.text), side.text)
            if found := _ANSWER_OPENS.search(prompt.text) or _QUESTION_OPENS.search(side.text):
                raise UsageError(
                    f"{found[0].strip()!r} is how another template writes who speaks; {self._name!r} has its own"
                )
            return self._of_messages((asked,), (answered,))
        except (UnparsableError, UsageError) as error:
            repair = "Leave the row out, or write it as messages (lists of role and content)"
            shows = "sweet-rl show_tokens shows what is learned from a file."
            problem, repair = f"cannot be learned from: {error}", f"{repair}; {shows}"
            raise DataError(problem, path=row.path, line=row.line, repair=repair) from error

    def _of_messages(self, before: Sequence[Entry], after: Sequence[Entry]) -> list[Turn]:
        """The assistant's turns in `after`, written by the chat template.

        An end token that closes a message of the assistant is dropped, any other special token refused.
        """
        if self._template is None:
            raise UsageError("it holds messages, and the tokenizer has no chat template to write them")
        entries: list[Entry] = []
        for entry in (*before, *after):
            content = entry["content"]
            if entry["role"] == "assistant" and isinstance(content, str) and self.end:
                content = content.removesuffix(self.end)
            for text in [content] if isinstance(content, str) else [part.get("text", "") for part in content]:
                if found := self._specials.search(text) or _FOREIGN.search(text):
                    raise UsageError(
                        f"the {entry['role']}'s message has the mark {found[0]!r} in it, which chat templates write "
                        "and nobody says; take it out"
                    )
            entries.append({**entry, "content": content})
        turns = self._template.turns(entries, first=len(before))
        if not turns:
            raise UsageError("no message of the assistant stands in it")
        return turns

    def _played(self, side: Said) -> list[Turn]:
        """The turns of a dialogue that an agent played: as it was given and wrote them, or by the template."""
        template, exact = self._template, list[Turn]()
        ends = ["" if turn.finish_reason is FinishReason.LENGTH else self.end for turn in side.turns]
        for turn, end in zip(side.turns, ends, strict=True):
            ids = turn.token_ids
            if template is None:
                exact.append(Turn(turn.input, "", turn.output, end, ids))
            elif turn.input:  # its tokens or its prompt may be this tokenizer's own
                said = template.said(turn.input, turn.output, cut=turn.finish_reason is FinishReason.LENGTH)
                spelled = None
                if ids and max(ids) < len(self._tokenizer):
                    spelled = self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
                if spelled is not None and spelled.removesuffix(self.end) == turn.output:
                    exact.append(said._replace(ids=ids))
                elif template.opens(turn.input):
                    exact.append(said)
        if len(exact) == len(side.turns):
            return exact
        if not side.messages:
            raise UsageError("its turns were given prompts of another chat template, and it has no messages")
        system = self._system_of(side.turns[0].input, str(side.messages[0]["content"]))
        turns = self._of_messages(system, side.messages)
        return [turn._replace(end=end) for turn, end in zip(turns, ends, strict=True)]

    def _system_of(self, given: str, asked: str) -> list[Entry]:
        """The system message in the prompt of a first turn, whichever template wrote it."""
        if given.strip() in {"", asked.strip()}:
            return []
        if (known := read_back(given)) is not None and not known[2]:
            return [entry for entry in known[1] if entry["role"] == "system"]
        places = [found.start() for found in re.finditer(re.escape(asked), given)]
        ends = [at for at in places if _ANY_MARK.match(given[at + len(asked) :].lstrip())]
        before = given[: ends[-1]] if ends else ""
        said = [text for part in _ANY_MARK.split(before) if (text := _ROLE.sub("", part.strip()))]
        if not _ANY_MARK.search(before) or len(said) > 1 or any(text.endswith(":") for text in said):
            raise UsageError(
                "its agent was given a prompt of another chat template, in which the system text cannot be told "
                'from the rest. Play with --tokenizer of the model that is trained, or set `input` to "" in its turns'
            )
        return [{"role": "system", "content": text} for text in said]

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
                counts, said = range(len(turn.ids)), list(turn.ids)
                read = (n for n in counts if len(self._tokenizer.decode(said[:n])) >= len(turn.lead))
                start, lead = len(before) + next(read, len(said)), []  # thoughts may not be learned
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

    def _fitted(self, sides: list[list[Branch]], report: EncodingReport) -> tuple[Side, ...] | None:
        """The sides cut to `max_len`: they lose the oldest turns behind the opening; None if that cannot be done."""
        branches, most = [branch for side in sides for branch in side], self._data.max_len
        if max(len(branch.ids) for branch in branches) > most:

            def cut(ids: Sequence[int], room: int) -> tuple[int, int] | None:
                if len(ids) <= room:
                    return 0, 0
                ends = [i + 1 for i, token in enumerate(ids[:-1]) if token == self._end_id]
                return next(((ends[0], end) for end in ends[1:] if len(ids) - end + ends[0] <= room), None)

            prompts = {branch.ids[: branch.prompt_length] for branch in branches}
            if len(prompts) == 1 and (prompt := prompts.pop()):
                room = most - max(len(branch.ids) - len(prompt) for branch in branches)
                cuts = [cut(prompt, room)] * len(branches)
            elif any(branch.prompt_length for branch in branches):
                return None  # the sides would lose different turns
            else:
                cuts = [cut(branch.ids, most) for branch in branches]
            if None in cuts:
                return None
            places = iter([place for place in cuts if place is not None])
            sides = [[self._without(branch, *next(places)) for branch in side] for side in sides]
            report.counts[f"lost their oldest turns (--max_len {most})"] += 1
        return tuple(Side(tuple(branch for branch in side if branch.scored)) for side in sides)

    def _without(self, branch: Branch, start: int, stop: int) -> Branch:
        gone = stop - start
        if not gone:
            return branch
        spans = tuple(
            span if span.end <= start else Span(max(span.start, stop) - gone, span.end - gone)
            for span in branch.spans
            if span.end <= start or span.end > stop
        )
        pictures = branch.pictures
        if self._vision is not None:
            pictures = self._vision.outside(branch.ids, pictures, start, stop)
        ids = branch.ids[:start] + branch.ids[stop:]
        return Branch(ids, spans, max(branch.prompt_length - gone, 0), pictures)


class PublishedEncoder:
    """Blank and end token appended, truncation from the right, the last id forced to the end token.

    Without a response template every token is in the mask, the prompt's too; with one, every occurrence opens
    a turn that lasts to the next end token. A mean divides by the whole mask, position 0 and prompt included.
    Rows with a picture that is cut are left out.
    """

    def __init__(self, tokenizer: Any, data: DataSettings, vision: Vision | None = None) -> None:
        if tokenizer.eos_token_id is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        self._tokenizer, self._vision, self._max_len = tokenizer, vision, data.max_len
        self._chat: Any = TokenizerChat(tokenizer) if tokenizer.chat_template else None
        template = data.response_template
        self._header = None if template is None else _ids(tokenizer, [template])[0]

    def encode(self, rows: Sequence[DataRow]) -> tuple[list[Encoded], EncodingReport]:
        """Encoded pairs in the order of the rows, without those whose prompt fills `max_len`."""
        report, pairs = EncodingReport(), list[Encoded]()
        cut = {"truncation": True, "max_length": self._max_len}
        texts = zip(*map(self._texts, rows), strict=True)
        columns = (_ids(self._tokenizer, list(column), **cut) for column in texts)
        for index, (row, (prompt, *both)) in enumerate(zip(rows, zip(*columns, strict=True), strict=True)):
            sides = []
            for cut_ids, said in zip(both, row.sides, strict=True):
                ids = [*cut_ids[:-1], self._tokenizer.eos_token_id]
                spans = self._spans(ids)
                branch = Branch(tuple(ids), spans, len(prompt), row.prompt.pictures + said.pictures)
                sides.append(Side((branch,), sum(end - start for start, end in spans)))
            branches = [branch for side in sides for branch in side.branches]
            vision = self._vision
            whole = vision is None or all(vision.complete(one.ids, one.pictures) for one in branches)
            if len(prompt) >= self._max_len - 2 or not whole:
                report.too_long.append(row.place)
            else:
                pairs.append(Encoded(index, tuple(sides), row))
        return pairs, report

    def _texts(self, row: DataRow) -> list[str]:
        """Prompt, and prompt with each side, with as many tokens for each picture as it has."""
        if self._chat is None and any(said.messages for said in (row.prompt, *row.sides)):
            raise UsageError(f"{row.place} holds messages, and the tokenizer has no chat template for them.")
        prompt = row.prompt.text or (self._chat.render(row.prompt.messages) if row.prompt else "")
        texts, eos = [(prompt, row.prompt.pictures)], self._tokenizer.eos_token
        for side in row.sides:
            text = side.text
            if side.messages:
                whole = self._chat.render([*row.prompt.messages, *side.messages], open_turn=False)
                text = whole.removeprefix(prompt)
            text = (prompt + text).rstrip("\n")
            closed = text if text.endswith(eos) else f"{text} {eos}"
            texts.append((closed, row.prompt.pictures + side.pictures))
        if self._vision is None:
            return [text for text, _ in texts]
        return [self._vision.expanded(*one, place=row.place) for one in texts]

    def _spans(self, ids: list[int]) -> tuple[Span, ...]:
        if self._header is None:
            return (Span(0, len(ids)),)
        width, spans = len(self._header), list[Span]()
        starts = [i + width for i in range(len(ids) - width + 1) if ids[i : i + width] == self._header]
        for start in starts:
            if start < len(ids):  # a header inside a turn lengthens it: no token counts twice
                inside = bool(spans) and start < spans[-1].end
                begin = spans.pop().start if inside else start
                spans.append(Span(begin, ids.index(ids[-1], start) + 1))
        return tuple(spans)
