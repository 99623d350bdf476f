"""What training reads, as its files have it: preference pairs, and texts and dialogues to imitate. No torch.

A pair has a chosen and a rejected side, and possibly the prompt that both answer. A prompt or a side is a
text, a list of messages (which may show pictures), or `{"input", "output"}` (a turn with its prompt). Rows may
also carry single turns (`chosen_turns`, lists of `{"input", "output"}`), and the token ids that were sampled
(`chosen_token_ids`, `rejected_token_ids`) with a digest of their tokenizer (`tokenizer`).

Published behaviour: docs/published/sweet_rl.md#files, #preference-training, #trajectory-pairs.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweet_rl.chat import tokenizer_digest
from sweet_rl.chat.formats import Entry
from sweet_rl.errors import DataError, UsageError
from sweet_rl.flags import listed
from sweet_rl.records import trajectories_from_rows
from sweet_rl.records.tables import rows_of
from sweet_rl.training.settings import DataSettings
from sweet_rl.training.vision import Gallery, Pictures
from sweet_rl.types import AgentTurn, Json, Trajectory

_FORMS = "must be a text that is not empty, a list of messages, or an object with the texts input and output"
_REPAIR = "A preference pair has a chosen and a rejected side; --chosen_key, --rejected_key and --prompt_key name the fields."


@dataclass(frozen=True, slots=True)
class Said:
    """A prompt or a side: a text, or messages, or an agent's turns (of which `text` is the whole dialogue)."""

    text: str = ""
    messages: tuple[Entry, ...] = ()
    turns: tuple[AgentTurn, ...] = ()
    ids: tuple[int, ...] | None = None
    pictures: Pictures = ()  # of a text one mark each stands in it, as the chat template writes it

    def __bool__(self) -> bool:
        return bool(self.text or self.messages or self.turns)


@dataclass(frozen=True, slots=True)
class DataRow:
    """A preference pair, or one side to imitate; no `prompt` where the sides are whole dialogues."""

    prompt: Said
    sides: tuple[Said, ...]
    path: str
    line: int
    tokenizer: str | None = None  # digest of the tokenizer that the sides' ids are of
    twin: bool = False  # both sides may be the same

    @property
    def pictures(self) -> Pictures:
        return tuple(picture for said in (self.prompt, *self.sides) for picture in said.pictures)

    @property
    def place(self) -> str:
        """The row's position as `file:line`, for messages."""
        return f"{self.path}:{self.line}"


def read_pairs(
    settings: DataSettings, *, seed: int, published: bool = False
) -> tuple[list[DataRow], list[DataRow]]:
    """All pairs of the comma-separated datasets, and those of a test split of their own, if the data has one.

    One dataset is taken in its own order. Several are interleaved: each row is drawn from one of them with
    the given probabilities until one has no more, as the published system does.
    """
    gallery, names = Gallery(), listed(settings.dataset)
    if not names:
        raise UsageError("--dataset is empty; name a .jsonl file with preference pairs.")
    try:
        shares = [float(part) for part in settings.dataset_probs.split(",")]
    except ValueError:
        shares = []
    if len(names) > 1 and (len(shares) != len(names) or min(shares) < 0 or sum(shares) <= 0):
        raise UsageError(
            f"--dataset names {len(names)} datasets, so --dataset_probs needs {len(names)} numbers that are not "
            f"negative, with commas between them, got {settings.dataset_probs!r}."
        )
    train: list[list[DataRow]] = []
    test: list[DataRow] = []
    splits: dict[str, Any] = {"split": settings.train_split, "test_split": settings.eval_split}
    for name in names:
        pairs = [
            [read_pair(row, name, line, settings, gallery, published=published) for line, row in some]
            for some in rows_of(name, most=int(settings.max_samples), **splits)
        ]
        if not pairs[0]:
            raise UsageError(f"There are no preference pairs in {name!r}; answers equally good give none.")
        train.append(pairs[0])
        test += pairs[1]
    if len(train) == 1:
        return train[0], test
    draw, mixed, iterators = random.Random(seed), list[DataRow](), [iter(rows) for rows in train]
    while (row := next(draw.choices(iterators, weights=shares)[0], None)) is not None:
        mixed.append(row)
    return mixed, test


def read_pair(
    row: dict[str, Json],
    path: str,
    line: int,
    settings: DataSettings,
    gallery: Gallery | None = None,
    *,
    published: bool = False,
) -> DataRow:
    """One row as a pair; a prompt that its sides repeat stands there once."""
    key = settings.prompt_key or ("prompt" if row.get("prompt") and not published else None)
    fields, names = (
        _Fields(row, path, line, gallery or Gallery()),
        (settings.chosen_key, settings.rejected_key),
    )
    return fields.read(key, names, settings.input_template, published=published)


def read_texts(
    data: DataSettings, *, min_reward: float | None = None, best_of_task: bool = False
) -> tuple[list[DataRow], list[str]]:
    """All texts of the comma-separated datasets, in order, and how many dialogues are left out, by reason.

    What a file holds is decided by its first row: `dialogue_history` makes it a trajectory file.
    """
    texts, gallery, total, left_out = list[DataRow](), Gallery(), 0, Counter[str]()
    for name in listed(data.dataset):
        rows = rows_of(name, most=int(data.max_samples), split=data.train_split)[0]
        if rows and "dialogue_history" in rows[0][1]:
            texts += _dialogues(rows, name, min_reward, best_of_task, left_out)
            total += len(rows)
            continue
        if rows and (min_reward is not None or best_of_task):
            raise UsageError(
                f"--min_reward and --best_of_task select from a trajectory file; {name!r} is none."
            )
        texts += [read_text(row, name, line, data, gallery) for line, row in rows]
    lines = [f"{n:,} of {total:,} dialogues left out: {why}" for why, n in left_out.items() if n]
    if not texts:
        what = f"nothing to imitate in {data.dataset!r}{''.join(f'; {line}' for line in lines)}"
        raise UsageError(f"There is {what}. Lower --min_reward, or sample more dialogues.")
    return texts, lines


def read_any(data: DataSettings) -> tuple[list[DataRow], list[DataRow]]:
    """The rows of files of either kind, as the training that reads them does: pairs, and texts."""
    pairs, texts = list[DataRow](), list[DataRow]()
    for name in listed(data.dataset):
        one = replace(data, dataset=name)
        rows = rows_of(name, most=1, split=data.train_split)[0]
        first = rows[0][1] if rows else {}
        if data.rejected_key in first and first[data.rejected_key] != first.get(data.chosen_key):
            pairs += read_pairs(one, seed=0)[0]
        else:
            texts += read_texts(one)[0]
    return pairs, texts


def some_of(names: Sequence[str]) -> str:
    """The first three, for a message."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


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


def read_text(
    row: dict[str, Json], path: str, line: int, data: DataSettings, gallery: Gallery | None = None
) -> DataRow:
    """One row as something to imitate: the chosen side of a pair, `messages`, `completion` (behind `prompt`) or `text`."""
    names = (data.chosen_key, "messages", "completion", "text")
    name = next((name for name in names if row.get(name)), data.chosen_key)
    key = data.prompt_key or ("prompt" if row.get("prompt") and name != "messages" else None)
    found = _Fields(row, path, line, gallery or Gallery()).read(key, (name,), data.input_template)
    if found.pictures:
        raise DataError("shows a picture, and texts are imitated here", path=path, line=line, field=name)
    return found


def _dialogues(
    rows: Sequence[tuple[int, Json]],
    path: str,
    least: float | None,
    best_of_task: bool,
    left_out: Counter[str],
) -> list[DataRow]:
    def reward_of(line: int, trajectory: Trajectory) -> float:
        if trajectory.reward is None:
            repair = (
                "Grade the file with sweet-rl evaluate_code, or leave --min_reward and --best_of_task out."
            )
            raise DataError("is missing", path=path, line=line, field="reward", repair=repair)
        return trajectory.reward

    rules: dict[str, Callable[[int, Trajectory], bool]] = {
        "the episode failed": lambda _, one: not one.failed,
        "they do not end with an agent turn": lambda _, one: one.last_turn is not None,
    }
    if least is not None or best_of_task:
        rules["their tasks cannot be graded"] = lambda _, one: not one.cannot_be_graded
    if least is not None:
        rules[f"reward below --min_reward {least}"] = lambda line, one: reward_of(line, one) >= least
    trajectories = trajectories_from_rows(rows, path=path)
    kept = [(line, trajectory) for (line, _), trajectory in zip(rows, trajectories, strict=True)]
    for why, fits in rules.items():
        before, kept = len(kept), [item for item in kept if fits(*item)]
        left_out[why] += before - len(kept)
    if best_of_task:
        best: dict[str, tuple[int, Trajectory]] = {}
        for item in kept:
            held = best.setdefault(item[1].task.task_id, item)
            if reward_of(*item) > reward_of(*held):
                best[item[1].task.task_id] = item
        left_out["not the best of their task"] += len(kept) - len(best)
        kept = list(best.values())
    return [DataRow(Said(), (played(trajectory),), path, line) for line, trajectory in kept]


def played(trajectory: Trajectory) -> Said:
    """A dialogue that an agent played, up to its last turn."""
    history = list(trajectory.dialogue_history)
    while history and not isinstance(history[-1], AgentTurn):
        history.pop()
    turns, messages = tuple(turn for turn in history if isinstance(turn, AgentTurn)), list[Entry]()
    for message in history:
        thoughts = getattr(message, "thoughts", None)
        entry = {"role": message.role, "content": message.content}
        messages.append({**entry, "reasoning_content": thoughts} if thoughts else entry)
    return Said(turns[-1].input + turns[-1].output, tuple(messages), turns)


class _Fields:
    """A row's fields, read and checked."""

    def __init__(self, row: dict[str, Json], path: str, line: int, gallery: Gallery) -> None:
        self._row, self._path, self._line, self._gallery = row, path, line, gallery
        # Whether a stage of ours wrote the row: an agent's turn may be empty, and is an end token then.
        self._own = any(name in row for name in ("turn_index", "guard"))

    def read(
        self, key: str | None, names: Sequence[str], template: str | None, *, published: bool = False
    ) -> DataRow:
        """The prompt and the sides; published: a prompt that the sides repeat is not found out."""
        prompt, sides = self._said(key) if key else Said(), [self._side(name) for name in names]
        if not published:
            prompt, sides = self._with_system(*self._once(prompt, sides))
        if template and prompt.text:
            prompt = replace(prompt, text=template.replace("{}", prompt.text))
        tokenizer = self._row.get("tokenizer")
        known = tokenizer if isinstance(tokenizer, str) else None
        return DataRow(prompt, tuple(sides), self._path, self._line, known, twin=self._own)

    def _said(self, name: str) -> Said:
        value = self._row.get(name)
        if isinstance(value, str) and value.lstrip().startswith(("[{", "{'role'")):  # in a table's cell
            try:
                value = json.loads(value)
            except ValueError:
                if "role" in value:
                    raise self._fail("is a list of messages that is no JSON", name, value) from None
        if isinstance(value, list) and value:
            for place, message in enumerate(value):
                self._check_message(message, f"{name}[{place}]")
            messages, pictures = self._gallery.take(value, path=self._path, line=self._line, field=name)
            return Said(messages=tuple(messages), pictures=pictures)
        if isinstance(value, dict):
            return self._turns(name, [value])
        if isinstance(value, str) and (value.strip() or self._own):
            return Said(self._text(value, name))
        raise self._fail(_FORMS, name, value)

    def _check_message(self, message: Json, name: str) -> None:
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str | list) or not isinstance(message.get("role"), str):
            raise self._fail("must be a message with role and content", name, message)
        if message.get("tool_calls") or message["role"] in {"tool", "function"}:
            repair = "Write calls and results as text, or leave the row out."
            raise self._fail("calls a tool, which is no text of the assistant", name, message, repair)
        parts = content if isinstance(content, list) else [content]
        for part in (*parts, *(message.get(key) for key in ("reasoning_content", "thinking"))):
            text = part.get("text") if isinstance(part, Mapping) else part
            if not isinstance(text, str | None):
                raise self._fail("must hold texts", name, message)
            self._text(text or "", name)

    def _side(self, name: str) -> Said:
        """What is learned, with its ids and single turns; of messages, something that the assistant says."""
        said, ids = self._said(name), self._row.get(f"{name}_token_ids")
        if (turns := self._row.get(f"{name}_turns")) is not None:
            if not isinstance(turns, list) or not turns:
                raise self._fail('must be a list of {"input", "output"}', f"{name}_turns", turns)
            said = replace(said, turns=self._turns(f"{name}_turns", turns).turns)
        if said.messages and not any(one["content"] for one in said.messages if one["role"] == "assistant"):
            raise self._fail("has no words of the assistant", name, self._row.get(name))
        if ids is None:
            return said
        if not (isinstance(ids, list) and ids and all(type(one) is int and 0 <= one < 2**31 for one in ids)):
            repair = "Leave the field out to have the text tokenised."
            raise self._fail("must be a list of token ids", f"{name}_token_ids", ids, repair)
        return replace(said, ids=tuple(ids))

    def _once(self, prompt: Said, sides: list[Said]) -> tuple[Said, list[Said]]:
        """Prompt and sides, of which no side begins with the prompt again."""
        if prompt.text and any(side.messages for side in sides):
            said = [_words(entry)[1] for side in sides for entry in side.messages if entry["role"] == "user"]
            if prompt.text.strip() in said:  # the sides are whole dialogues
                return Said(), sides
        if prompt.messages:
            known = [_words(entry) for entry in prompt.messages]
            beginnings = [known, [words for words in known if words[0] != "system"]]
            for place, side in enumerate(sides):
                said = [_words(entry) for entry in side.messages]
                repeats = next((len(one) for one in beginnings if one and said[: len(one)] == one), 0)
                rest = side.messages[repeats:]
                if repeats and not any(entry["role"] == "assistant" for entry in rest):
                    problem = "repeats the prompt and says nothing more"
                    raise self._fail(problem, "prompt", prompt.messages[-1])
                if repeats:  # their pictures are the prompt's, then their own
                    own = side.pictures[len(prompt.pictures) :]
                    sides[place] = replace(side, messages=rest, pictures=own)
        elif prompt.text and all(
            side.text.startswith(prompt.text) and not side.ids and not side.messages for side in sides
        ):
            tails = [side.text[len(prompt.text) :] for side in sides]
            words = prompt.text[-1].isalnum() and any(text[:1].isalnum() for text in tails)
            if not words and all(text.strip() for text in tails):
                return prompt, [replace(side, text=text) for side, text in zip(sides, tails, strict=True)]
        begins = next((side for side in sides if side.messages and side.messages[0]["role"] == "user"), None)
        if begins is not None and prompt and (prompt.text or prompt.messages[-1]["role"] == "user"):
            repair = "Repeat the prompt in both sides or in none of them."
            problem = "begins with a user's message, and so ends the prompt"
            raise self._fail(problem, "prompt", begins.messages[0], repair)
        return prompt, sides

    def _with_system(self, prompt: Said, sides: list[Said]) -> tuple[Said, list[Said]]:
        """Prompt and sides behind the text of a column `system`, where the rows have one."""
        if not (system := self._row.get("system")):
            return prompt, sides
        entry = {"role": "system", "content": self._text(str(system), "system")}
        asked = prompt.messages or (({"role": "user", "content": prompt.text},) if prompt else ())
        for first in [asked[:1]] if prompt else [side.messages[:1] for side in sides]:
            if not first or (first[0]["role"] == "system" and first[0] != entry):
                problem = "is another system text than the dialogue has, or the dialogue is a text"
                raise self._fail(problem, "system", system)
        if prompt and asked[0] != entry:
            prompt = replace(prompt, text="", messages=(entry, *asked))
        elif not prompt and sides[0].messages[0] != entry:
            sides = [replace(side, messages=(entry, *side.messages)) for side in sides]
        return prompt, sides

    def _turns(self, name: str, values: Sequence[Any]) -> Said:
        turns, keys = [], ("input", "output")
        spoken = any(str(one.get("output") or "").strip() for one in values if isinstance(one, Mapping))
        for value in values:  # of which some may be empty: the agent ended them at once
            asked, answered = (value.get(key) if isinstance(value, Mapping) else None for key in keys)
            if not (isinstance(asked, str) and isinstance(answered, str) and (spoken or self._own)):
                raise self._fail(_FORMS, name, value)
            self._text(asked + answered, name)
            turns.append(AgentTurn("assistant", answered, asked, answered))
        return Said(turns[-1].input + turns[-1].output, turns=tuple(turns))

    def _text(self, text: str, name: str) -> str:
        """The text, which a tokenizer can read."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = f"holds half a character ({text[error.start]!a}), which is no text"
            raise self._fail(problem, name, text, "Write the character whole, or replace it.") from None
        return text

    def _fail(self, problem: str, name: str, value: Json, repair: str = "") -> DataError:
        repair = repair or f"{_REPAIR} The row has {', '.join(map(str, self._row))}."
        return DataError(problem, path=self._path, line=self._line, field=name, value=value, repair=repair)


def _words(entry: Entry) -> tuple[str, Any]:
    content = entry["content"]
    return entry["role"], content.strip() if isinstance(content, str) else content
