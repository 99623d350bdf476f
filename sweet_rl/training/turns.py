"""Rows of data as turns of an agent: what a model was given, and what it wrote. No torch.

Three kinds of rows: an agent's own turns, taken as they were given and written; messages, which the chat
template of the model that is trained writes; and texts, of which those with the template's marks are what it
wrote, and those without are what people say. What is none of these is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sweet_rl.chat import TokenizerChat, Turn, TurnTemplate, UnparsableError, tokenizer_digest
from sweet_rl.chat.formats import Entry, read_back
from sweet_rl.chat.turns import between_marks
from sweet_rl.errors import DataError, UsageError
from sweet_rl.training.data import DataRow, Said
from sweet_rl.types import AgentTurn, FinishReason

_THOUGHT_TAG = re.compile(r"</?think(?:ing)?>|\[/?THINK\]", re.IGNORECASE)
_ROLE = re.compile(r"^(?:system|developer|user|human|assistant|model)(?:\n|\Z)", re.IGNORECASE)
_ANY_MARK = re.compile(r"<\|?[^<>\s]{1,40}>|\[/?[A-Z_]{2,20}\]|<</?SYS>>|\[\|\w+\|\]")
_ANSWER_OPENS = re.compile(r"(?:^|\s)(?:### ?)?(?:Assistant|ASSISTANT|Response)\s*:\s*\Z")
_QUESTION_OPENS = re.compile(r"\A\s*(?:### ?)?(?:Human|User|USER|Instruction)\s*:")
# Marks that templates write and people do not.
_FOREIGN = re.compile(r"<\|[\w ]+\|>|<start_of_turn>|\[/?INST\]|<\uff5c\w+\uff5c>")


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
        self._header = response_template
        if response_template is not None:
            if not tokenizer(response_template, add_special_tokens=False)["input_ids"]:
                raise UsageError(f"--response_template {response_template!r} has no tokens.")
            if self._template and self._template.header.startswith(response_template):
                self._header = None  # the same header, written without the blank line that ends it
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
            if template is None:
                return self._without_template(prompt.text, side)
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
                repair="Leave the row out, or write it as messages (prompt, chosen and rejected as lists of role "
                "and content), which the model's own chat template turns into text; sweet-rl show_tokens shows "
                "what is learned from a file.",
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

    def _without_template(self, prompt: str, side: Said) -> list[Turn]:
        if not prompt:
            raise UsageError(
                "the tokenizer has no chat template, so the assistant's turns cannot be found in whole dialogues. "
                "Give --response_template (the text that opens a turn), or rows with a prompt"
            )
        return [Turn(prompt, "", side.text.rstrip("\n").removesuffix(self.end), self.end, side.ids)]
