"""An assistant's turns as a model wrote them, by any chat template: what it was given, and what it wrote.

The prompt of a turn is the template over the messages before it with the generation prompt: what the model
saw when it spoke. What it wrote is its text and the end token that the template puts behind a last message.
What a template writes around a text is read off a probe in its place, never searched for in people's texts.

Published behaviour: docs/published/sweet_rl.md#in-sampling-ranking-and-pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from sweet_rl.chat.formats import Entry, TokenizerChat, as_entry
from sweet_rl.errors import UsageError
from sweet_rl.thoughts import closing_tag, split_thoughts
from sweet_rl.types import Message, Role

_SAID, _THOUGHT = "qqsaidqq", "qqthoughtqq"
_DIALOGUE = (
    Message("system", "qqsystemqq"),
    Message("user", "qqfirstqq"),
    Message("assistant", "qqanswerqq"),
    Message("user", "qqsecondqq"),
    Message("assistant", "qqlastqq"),
)
_MARK = r"<[^<>\s]+>|\[[^\[\]\s]+\]"
"""What a mark of a template looks like, where the tokenizer does not know it as a token."""


class Span(NamedTuple):
    """Positions `start` to `end` (exclusive) in a sequence of token ids."""

    start: int
    end: int


class Turn(NamedTuple):
    """A turn: a model reads `prompt` and `lead` (a channel, an empty thought) and learns `text` and `end`.

    `end` is empty where the turn was cut. `ids` are text and end as they were sampled, token for token.
    """

    prompt: str
    lead: str
    text: str
    end: str
    ids: tuple[int, ...] | None = None


class UnparsableError(ValueError):
    """A text that the template does not write for any messages; `str(error)` says why, as a clause."""


class _Around(NamedTuple):
    """What a template writes between prompt and thoughts, thoughts and text (None: it drops them), behind."""

    lead: str
    between: str | None
    end: str


class _Marks(NamedTuple):
    """What a template writes around the contents of a dialogue; `to_assistant` in all its forms."""

    begin: str
    to_assistant: tuple[str, ...]
    to_user: str
    end: str
    opens: str
    system: tuple[str, str] | None


class TurnTemplate:
    """A chat template, asked for single turns; without `learn_thoughts` what a model thought is only read."""

    def __init__(self, chat: TokenizerChat, *, learn_thoughts: bool = True) -> None:
        self.chat, self.learn_thoughts = chat, learn_thoughts
        self.thoughts_left_out = 0
        """Turns that had thoughts, of which the template shows none."""
        self._known: dict[tuple[tuple[str, ...], bool], _Around] = {}
        added = {str(token): token.special for token in chat.tokenizer.added_tokens_decoder.values()}
        tokens = sorted(filter(str.strip, added), key=len, reverse=True)
        self._marks_at = re.compile(f"(?:{'|'.join([*map(re.escape, tokens), _MARK])})+")
        self.specials = [token for token in tokens if added[token]]
        """Special tokens as text, the longest first."""
        self.end = self._around(("user",), thinks=False).end
        """What the template writes behind the assistant's last text, without blanks; may be nothing."""

    def turns(self, messages: Sequence[Message | Entry], first: int = 0) -> list[Turn]:
        """The assistant's turns from `first` on; thoughts are a field, or stand in the content between tags."""
        found: list[Turn] = []
        entries = list(map(as_entry, messages))
        for place, entry in enumerate(entries):
            unlearned = entry.get("weight") == 0 or entry.get("train") is False  # as chat APIs mark them
            if entry["role"] != "assistant" or place < first or unlearned:
                continue
            prompt, text = self.chat.render(messages[:place]), entry["content"]
            text = text if isinstance(text, str) else "".join(part["text"] for part in text)
            fields = ("reasoning_content", "thinking", "reasoning")
            own = next((entry[key] for key in fields if entry.get(key)), None)
            spoken = split_thoughts(text)
            roles = tuple(str(one["role"]) for one in entries[:place])
            lead, between, end = self._around(roles, thinks=bool(own or spoken.thoughts))
            closes, thoughts = closing_tag(prompt), own
            if own is None and (between is not None or closes):  # else what stands between tags is text
                text, thoughts = spoken
            self.thoughts_left_out += bool(own and between is None and not closes)
            if closes and between is None and closes not in lead:  # the prompt opens a thought
                lead, between = ("", f"\n{closes}\n\n") if thoughts else (f"\n{closes}\n\n", None)
            if thoughts and between is not None:
                if self.learn_thoughts:  # with what opens them, where the prompt does not
                    lead, text = "", f"{lead}{thoughts}{between}{text}"
                else:
                    lead = f"{lead}{thoughts}{between}"
            found.append(Turn(prompt, lead if lead.strip() else "", text, end))
        return found

    def written(self, prompt: str, text: str, *, cut: bool = False) -> list[Turn]:
        """The turns in a text that the template wrote, behind its beginning `prompt`.

        Anything may stand before what the template writes (a hidden solution). Where a prompt ends with
        another word than the template's, the whole text is one turn. The last turn is closed unless `cut`.
        """
        begin, header = self._marks.begin, self.header
        if prompt and self._marks_at.search(begin) and text.startswith(begin):  # the whole dialogue again
            turns = self.written("", text, cut=cut)
            return turns[max(prompt.count(header.strip()) - prompt.rstrip().endswith(header.strip()), 0) :]
        if prompt and header.strip() and text.startswith(header.strip()) and prompt.endswith(header):
            text = text.removeprefix(header.strip()).lstrip("\n")
        if prompt and not self._goes_on(text):
            return [self.said(prompt, text, cut=cut)]
        if self.writes_alike:
            return between_marks(header, self.end, prompt, text, cut=cut)
        return self._parsed(prompt, text, cut=cut)

    def said(self, prompt: str, text: str, *, cut: bool = False, ids: tuple[int, ...] | None = None) -> Turn:
        """A model's own text behind a prompt, as one turn; its thoughts are in it as it wrote them."""
        text = text.rstrip("\n").removesuffix(self.end) if self.end else text.rstrip("\n")
        lead = ""
        if not self.learn_thoughts and (spoken := split_thoughts(text, prompt).text) != text:
            lead = text.removesuffix(spoken)
            text = spoken
        return Turn(prompt, lead, text, "" if cut else self.end, ids)

    def parse(self, text: str, *, open_turn: bool = False) -> list[Message]:
        """The messages for which the template writes exactly this text, user and assistant in turns."""
        problem = f"it does not begin as that does, with {self._marks.begin[:60]!r}"
        for with_system in (False, True):
            messages = self._divided(text, with_system=with_system, open_turn=open_turn)
            if messages is None:
                continue
            try:
                written = self.chat.render(messages, open_turn=open_turn)
            except UsageError as error:
                problem = f"the template refuses it: {error}"
                continue
            if written == text or (not open_turn and written.rstrip() == text.rstrip()):
                return messages
            at = len(common_beginning(written, text))
            problem = f"at character {at} it has {text[at : at + 30]!r} where the template writes {written[at : at + 30]!r}"
        raise UnparsableError(problem)

    @cached_property
    def header(self) -> str:
        """What stands before a turn where the assistant is about to speak, without the end of the message before."""
        whole = header = self._marks.opens.lstrip()
        while self.end and header.startswith(self.end):
            header = header.removeprefix(self.end).lstrip()
        return whole if self._marks_at.search(whole) and not self._marks_at.search(header) else header

    @cached_property
    def writes_alike(self) -> bool:
        """Whether it writes each turn as the model spoke: then a text of several turns is what it read."""
        dialogue = _DIALOGUE[1:]
        lead, _, end = self._around(("user",), thinks=False)
        spoken = self.chat.render(dialogue[:1]) + lead + dialogue[1].content + end
        whole = self.chat.render(dialogue, open_turn=False)
        return not lead.strip() and bool(end and self.header.strip()) and whole.startswith(spoken)

    def has_marks(self, text: str) -> bool:
        """Whether a special token stands in a text, or what the template begins and a turn begins with."""
        begin, header = self._marks.begin.strip(), self.header.strip()
        opens = bool(begin and header) and begin in text and header in text
        return opens or any(token in text for token in self.specials)

    def opens(self, prompt: str) -> bool:
        """Whether a prompt ends as the template's generation prompt does."""
        return prompt.endswith(self._marks.opens) or prompt.endswith(self.header)

    def opened(self, prompt: str) -> str:
        """A prompt of this template up to where the assistant speaks, which may be missing at its end."""
        opens, header = self._marks.opens, self.header
        if prompt.endswith(header):
            return prompt
        bare, half = prompt.rstrip(), header.rstrip()
        if half and bare.endswith(half):  # without the blank line behind it
            return bare.removesuffix(half) + header
        behind = prompt[prompt.rfind(half) + len(half) :] if half and half in prompt else None
        if behind is not None and not self._goes_on(behind) and not (self.end and self.end in behind):
            return prompt  # the assistant has begun to speak
        asked = opens.removesuffix(header).strip()  # what ends the message before
        closed_by_assistant = bare.rfind(half) > bare.rfind(self._marks.to_user.strip() or bare)
        if asked and bare.endswith(asked) and not closed_by_assistant:
            return bare.removesuffix(asked) + opens
        start = max(0, prompt.find(self._marks.begin))
        for open_one in (bare + opens, prompt + opens, bare + opens.lstrip()):
            with suppress(UnparsableError):
                asked_last = self._clean(self.parse(open_one[start:], open_turn=True))[-1]
                if asked_last.role == "user":
                    return open_one
        where = "not where the assistant is about to speak"
        raise UnparsableError(f"the prompt ends with {prompt[-30:]!r}, {where}")

    def _goes_on(self, text: str) -> bool:
        """Whether a further message of the user stands in a text."""
        to_user = self._marks.to_user.strip()
        return bool(to_user) and to_user in text

    def _around(self, roles: tuple[str, ...], *, thinks: bool) -> _Around:
        """What is written around a turn behind messages of these roles, with thoughts or without."""
        if (roles, thinks) not in self._known:
            before: list[Entry] = [{"role": role, "content": f"qq{n}qq"} for n, role in enumerate(roles)]
            said: dict[str, Any] = {"role": "assistant", "content": _SAID}
            if thinks:
                said |= {"reasoning_content": _THOUGHT, "thinking": _THOUGHT}
            prompt = self.chat.render(before)
            whole = self.chat.render([*before, said], open_turn=False)
            shared = len(common_beginning(prompt, whole))
            at, thought = whole.rfind(_SAID), whole.rfind(_THOUGHT)
            if at < shared:
                name = self.chat.tokenizer.name_or_path
                raise UsageError(f"The chat template of {name!r} does not show the assistant's last message.")
            shown = thinks and thought >= shared
            # what the prompt ends with is written otherwise behind a text: only the prompt's is read
            lead = whole[shared : thought if shown else at] if not prompt[shared:].strip() else ""
            found = self._marks_at.match(whole[at + len(_SAID) :].lstrip())
            end, to_user = found[0] if found else "", self._marks.to_user
            if both := self._marks_at.match(common_beginning(end, to_user.lstrip())):
                end = both[0]  # of several marks behind a last turn the first ones end it
            if to_user.strip() == end and self._marks.begin.endswith(to_user):
                end = ""  # it opens the user's message, and closes nothing
            between = whole[thought + len(_THOUGHT) : at] if shown else None
            self._known[roles, thinks] = _Around(lead, between, end)
        return self._known[roles, thinks]

    @cached_property
    def _marks(self) -> _Marks:
        system, dialogue = _DIALOGUE[:1], _DIALOGUE[1:]
        begin, to_assistant, to_user, to_last, end = self._between(dialogue)
        opens = self.chat.render(dialogue[:1]).partition(dialogue[0].content)[2]
        before, behind = self._between(_DIALOGUE)[:2] if not self.chat.folds_system else ("", "")
        first = self.chat.render([*system, *dialogue]).find(dialogue[0].content)
        leads = not self.chat.folds_system and self.chat.render(_DIALOGUE).find(system[0].content) < first
        forms = tuple(sorted({to_assistant, to_last, opens} - {""}, key=len, reverse=True))
        return _Marks(begin, forms, to_user, end, opens, (before, behind) if leads else None)

    def _between(self, messages: Sequence[Message]) -> list[str]:
        """What stands before, between and behind the contents of probes, each of which stands there once."""
        rest, pieces = self.chat.render(messages, open_turn=False), list[str]()
        for message in messages:
            piece, _, rest = rest.partition(message.content)
            pieces.append(piece)
        return [*pieces, rest]

    def _divided(self, text: str, *, with_system: bool, open_turn: bool) -> list[Message] | None:
        marks, messages = self._marks, list[Message]()
        begin = marks.begin
        if with_system:
            if marks.system is None:
                return None
            begin, behind = marks.system
            content, found, _ = text.removeprefix(begin).partition(behind)
            if not found:
                return None
            messages.append(Message("system", content))
            begin = f"{begin}{content}{behind}"
        if not text.startswith(begin):
            return None
        rest = text[len(begin) :]
        if open_turn or rest.endswith(marks.end):
            rest = rest.removesuffix(marks.opens if open_turn else marks.end)
        else:
            rest = rest.rstrip().removesuffix(marks.end.rstrip())
        role: Role = "user"
        while True:
            forms = marks.to_assistant if role == "user" else (marks.to_user,)
            places = ((rest.find(form), form) for form in forms if form in rest)
            at, mark = min(places, key=lambda one: (one[0], -len(one[1])), default=(-1, ""))
            if at < 0:
                return [*messages, Message(role, rest)]
            messages.append(Message(role, rest[:at]))
            rest = rest[at + len(mark) :]
            role = "assistant" if role == "user" else "user"

    def _clean(self, messages: list[Message]) -> list[Message]:
        """The messages, in which no mark stands: that would be a message of another role."""
        for message in messages:
            if other := next((token for token in self.specials if token in message.content), None):
                raise UnparsableError(f"a message of another role, or the mark {other!r}, stands inside one")
        return messages

    def _parsed(self, prompt: str, text: str, *, cut: bool) -> list[Turn]:
        """The turns of a text with its history as this template writes it, each behind its own prompt."""
        whole = prompt + text.rstrip("\n")
        begins = {self._marks.begin, *(self._marks.system or ())[:1]}
        at = min((place for begin in begins if (place := whole.find(begin)) >= 0), default=0)
        opening, rest = whole[:at], whole[at:]
        if self.has_marks(opening):
            raise UnparsableError(f"it begins otherwise than the chat template does, with {opening[:60]!r}")
        last: list[Turn] = []
        try:
            before = self.parse(rest)
        except UnparsableError:
            behind = rest.rfind(self._marks.opens) + len(self._marks.opens)
            before = self.parse(rest[:behind], open_turn=True)
            last = [self.said(rest[:behind], rest[behind:], cut=cut)]
        turns = [*self.turns(self._clean(before)), *last]
        turns = [turn._replace(prompt=opening + turn.prompt) for turn in turns]
        return [turn for turn in turns if len(turn.prompt) >= len(prompt)] if prompt else turns


def turn_end(tokenizer: Any) -> str:
    """The text of what ends a turn: the chat template's, else the end token's; empty where there is neither."""
    end = TurnTemplate(TokenizerChat(tokenizer)).end if tokenizer.chat_template else ""
    return end or str(tokenizer.eos_token or "")


def between_marks(header: str, end: str, prompt: str, text: str, *, cut: bool = False) -> list[Turn]:
    """The turns behind `prompt` in a text that is what a model read, each between a header and an end."""
    whole, found, position = prompt + text.rstrip("\n"), list[Turn](), 0
    while (at := whole.find(header, position)) >= 0:
        start = at + len(header)
        stop = whole.find(end, start) if end else -1
        last = stop < 0
        stop = len(whole) if last else stop
        position = stop + len(end)
        if start == len(whole) and not prompt:  # an open prompt
            break
        if stop > len(prompt) or start == len(prompt):
            begin = max(start, len(prompt))
            found.append(Turn(whole[:begin], "", whole[begin:stop], "" if last and cut else end))
    if not found and prompt:
        found.append(Turn(prompt, "", text.rstrip("\n").removesuffix(end), "" if cut else end))
    if not found:
        raise UnparsableError(f"no turn of the assistant stands in it, which would begin with {header!r}")
    return found


def common_beginning(first: str, second: str) -> str:
    """The longest text that both begin with."""
    if second.startswith(first):
        return first
    pairs = enumerate(zip(first, second, strict=False))
    return first[: next((place for place, (one, other) in pairs if one != other), len(second))]
