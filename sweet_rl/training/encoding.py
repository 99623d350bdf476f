"""Pairs and texts as token ids: which tokens are learned, what a model reads before them, where they are cut.

Every turn of the assistant is a prompt and a completion (`sweet_rl.chat.turns`). Where the prompt of a turn
continues the turn before it, both are one sequence; where it does not, since the template strips thoughts
from the history or moves the system text, they are branches, which share what they begin with.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs, #in-training,
#preference-training.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweet_rl.chat import Span, TokenizerChat, Turn, TurnTemplate, UnparsableError, tokenizer_digest
from sweet_rl.chat.formats import Entry, read_back
from sweet_rl.chat.turns import between_marks
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow, Said
from sweet_rl.training.vision import Pictures, Vision
from sweet_rl.types import AgentTurn, FinishReason

_NO_THOUGHTS = "hold turns with thoughts, which this chat template does not show: they are left out"
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


def some_of(names: Sequence[str]) -> str:
    """The first three, for a message."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


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


class RowTurns:
    """Takes rows apart into turns."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        response_template: str | None = None,
        learn_thoughts: bool = True,
        plain_prompts: bool = False,
    ) -> None:
        self._tokenizer, self._plain_prompts, self._name = tokenizer, plain_prompts, tokenizer.name_or_path
        self._template: TurnTemplate | None = None
        if tokenizer.chat_template:
            self._template = TurnTemplate(TokenizerChat(tokenizer), learn_thoughts=learn_thoughts)
        elif tokenizer.eos_token is None:
            raise UsageError(f"The tokenizer of {tokenizer.name_or_path!r} has no end token (eos_token).")
        # What ends a turn; empty where the chat template writes nothing behind one.
        self.end: str = self._template.end if self._template else tokenizer.eos_token
        self.header: str = self._template.header if self._template else ""
        if response_template == "":
            raise UsageError("--response_template '' has no tokens.")
        # The template's own header may be written without the blank line that ends it.
        same = response_template is not None and self.header.startswith(response_template)
        self._header = None if same else response_template
        self.digest = tokenizer_digest(tokenizer)
        specials = self._template.specials if self._template else []
        marks = [re.escape(mark) for mark in specials if not _THOUGHT_TAG.fullmatch(mark)]
        self._specials = re.compile("|".join(marks) or r"(?!)")

    @property
    def thoughts_left_out(self) -> int:
        """Turns that had thoughts, of which the chat template shows none."""
        return self._template.thoughts_left_out if self._template else 0

    def of(self, row: DataRow, side: Said, *, sampled: bool) -> list[Turn]:
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
                if (largest := max(side.ids or ())) >= len(self._tokenizer):
                    raise UsageError(
                        f"its token id {largest} is none of the tokenizer's {len(self._tokenizer):,}"
                    )
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
            if self._plain_prompts:
                return [template.said(prompt.text, side.text)]
            if template.has_marks(prompt.text):
                return template.written(template.opened(prompt.text), side.text)
            if found := _ANSWER_OPENS.search(prompt.text) or _QUESTION_OPENS.search(side.text):
                raise UsageError(
                    f"{found[0].strip()!r} is how another template writes who speaks; {self._name!r} has its own"
                )
            return self._of_messages((asked,), (answered,))
        except (UnparsableError, UsageError) as error:
            raise DataError(
                f"cannot be learned from: {error}",
                path=row.path,
                line=row.line,
                repair="Leave the row out, or write it as messages (lists of role and content); sweet-rl show_tokens "
                "shows what is learned from a file.",
            ) from error

    def _of_messages(self, before: Sequence[Entry], after: Sequence[Entry]) -> list[Turn]:
        """The assistant's turns in `after`, written by the chat template."""
        if self._template is None:
            raise UsageError("it holds messages, and the tokenizer has no chat template to write them")
        entries = [self._without_end(entry) for entry in (*before, *after)]
        turns = self._template.turns(entries, first=len(before))
        if not turns:
            raise UsageError("no message of the assistant stands in it")
        return turns

    def _without_end(self, entry: Entry) -> Entry:
        """The message; an end token that closes its text is dropped, any other special token refused."""
        content = entry["content"]
        texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
        if entry["role"] == "assistant" and isinstance(content, str) and self.end:
            texts = [content := content.removesuffix(self.end)]
            entry = {**entry, "content": content}
        for text in texts:
            if found := self._specials.search(text) or _FOREIGN.search(text):
                raise UsageError(
                    f"the {entry['role']}'s message has the mark {found[0]!r} in it, which chat templates write and "
                    "nobody says; take it out"
                )
        return entry

    def _played(self, side: Said) -> list[Turn]:
        """The turns of a dialogue that an agent played: as it was given and wrote them, or by the template."""
        template = self._template
        if template is None:
            return [
                Turn(turn.input, "", turn.output, self._closing(turn), turn.token_ids) for turn in side.turns
            ]
        exact = [turn for turn in map(self._exact, side.turns) if turn is not None]
        if len(exact) == len(side.turns):
            return exact
        if not side.messages:
            raise UsageError("its turns were given prompts of another chat template, and it has no messages")
        system = self._system_of(side.turns[0].input, str(side.messages[0]["content"]))
        turns = self._of_messages(system, side.messages)
        return [turn._replace(end=self._closing(own)) for turn, own in zip(turns, side.turns, strict=True)]

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

    def _exact(self, turn: AgentTurn) -> Turn | None:
        """A turn whose tokens or prompt are this tokenizer's own; else None."""
        if self._template is None or not turn.input:
            return None
        said = self._template.said(turn.input, turn.output, cut=turn.finish_reason is FinishReason.LENGTH)
        ids = turn.token_ids
        if ids and max(ids) < len(self._tokenizer):
            spelled = self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
            if spelled.removesuffix(self.end) == turn.output:
                return said._replace(ids=ids)
        return said if self._template.opens(turn.input) else None

    def _closing(self, turn: AgentTurn) -> str:
        return "" if turn.finish_reason is FinishReason.LENGTH else self.end


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
            foreign = "carry ids of another tokenizer: their text was tokenised"
            report.counts[uses if own else foreign] += carries
            if turns[0] == turns[1] and not row.twin:
                problem = "has two sides of which the same is learned, so nothing is"
                repair = 'Leave the row out, or say that it is meant: "guard": "twin".'
                raise DataError(problem, path=row.path, line=row.line, repair=repair)
        elif all(turn.ids for turn in turns[0]):
            report.counts[uses] += 1
        elif played and not turns[0][0].prompt.endswith(played[0].input):
            report.counts["were played by other prompts, and are written by this model's chat template"] += 1
        pictures = [row.prompt.pictures + side.pictures for side in row.sides]
        return list(zip(turns, pictures, strict=True))

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
