"""Preference pairs as text: from files and from the hub, each with its line number. No torch.

A pair is an object with a chosen and a rejected side, and possibly the prompt that both answer. A
side is a text, `{"input", "output"}` (pages: the last prompt and its answer), or a list of messages, which
may show pictures. Rows may also carry the token ids that were sampled (`chosen_token_ids`,
`rejected_token_ids`) and a digest of the tokenizer they belong to (`tokenizer`).

Published behaviour: docs/published/sweet_rl.md#files, #preference-training.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweet_rl.errors import DataError, UsageError, first_line, missing_package
from sweet_rl.flags import listed
from sweet_rl.records import read_rows
from sweet_rl.training.pictures import Gallery, Pictures
from sweet_rl.training.settings import DataSettings
from sweet_rl.types import Json

Render = Callable[[list[Any], bool], str]
"""Messages to text through a chat template; the flag asks for an open assistant header at the end."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """One pair as text, and the place it comes from. `prompt` is "" when the sides are whole dialogues.

    Pictures stand in the texts as the chat template writes them, one mark each.
    """

    prompt: str
    chosen: str
    rejected: str
    path: str
    line: int
    chosen_ids: tuple[int, ...] | None = None
    rejected_ids: tuple[int, ...] | None = None
    tokenizer: str | None = None
    prompt_pictures: Pictures = ()
    chosen_pictures: Pictures = ()
    rejected_pictures: Pictures = ()

    @property
    def pictures(self) -> Pictures:
        """Pictures of the prompt, of the chosen and of the rejected side, in this order."""
        return self.prompt_pictures + self.chosen_pictures + self.rejected_pictures

    @property
    def place(self) -> str:
        """The row's position as `file:line`, for messages."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class PairSets:
    """Pairs to train on, and pairs of a test split of their own, if the data has one."""

    train: list[PairRow]
    test: list[PairRow]


def read_pairs(settings: DataSettings, *, seed: int, render: Render | None = None) -> PairSets:
    """All pairs of the comma-separated datasets.

    One dataset is taken in its own order. Several are interleaved: each row is drawn from one of them with
    the given probabilities until one has no more, as the published system does.

    Args:
        settings: names, fields and limits.
        seed: of the interleaving.
        render: makes texts of lists of messages; without it they are refused.

    Raises:
        UsageError: no such file, a package is missing, names and probabilities do not match, no pairs at all.
        DataError: names the row that is not a pair.
    """
    gallery = Gallery()
    names = listed(settings.dataset)
    probabilities = _probabilities(settings.dataset_probs, names)
    train: list[list[PairRow]] = []
    test: list[PairRow] = []
    for name in names:
        sets = _read_one(name, settings, render, gallery)
        if not sets.train:
            raise UsageError(
                f"There are no preference pairs in {name!r}. The stage that writes them reports how many it "
                "found; tasks whose answers are all equally good give none."
            )
        train.append(sets.train)
        test += sets.test
    return PairSets(train[0] if len(train) == 1 else _interleave(train, probabilities, seed), test)


def _probabilities(text: str, names: Sequence[str]) -> list[float]:
    try:
        values = [float(part) for part in str(text).split(",")]
    except ValueError:
        raise UsageError(f"--dataset_probs must be numbers with commas between them, got {text!r}.") from None
    if not names:
        raise UsageError("--dataset is empty; name a .jsonl file with preference pairs.")
    if len(names) == 1:
        return [1.0]
    if len(values) != len(names) or min(values) < 0 or sum(values) <= 0:
        raise UsageError(
            f"--dataset names {len(names)} datasets, so --dataset_probs needs {len(names)} numbers that are "
            f"not negative (like {','.join(['0.5'] * len(names))}), got {text!r}."
        )
    return values


def _interleave(sets: Sequence[list[PairRow]], probabilities: Sequence[float], seed: int) -> list[PairRow]:
    draw = random.Random(seed)
    iterators = [iter(rows) for rows in sets]
    mixed: list[PairRow] = []
    while True:
        row = next(draw.choices(iterators, weights=probabilities)[0], None)
        if row is None:
            return mixed
        mixed.append(row)


def _read_one(name: str, settings: DataSettings, render: Render | None, gallery: Gallery) -> PairSets:
    suffix = Path(name).suffix.lower()
    readers = {".jsonl": read_rows, ".json": _read_json, ".csv": _read_csv}
    if suffix in readers:
        return PairSets(_pairs(readers[suffix](name), name, settings, render, gallery), [])
    splits = _from_hub(name, settings)
    return PairSets(*(_pairs(enumerate(rows, 1), name, settings, render, gallery) for rows in splits))


def _pairs(
    rows: Iterator[tuple[int, dict[str, Json]]] | Any,
    path: str,
    settings: DataSettings,
    render: Render | None,
    gallery: Gallery,
) -> list[PairRow]:
    pairs: list[PairRow] = []
    for line, row in rows:
        if len(pairs) == settings.max_samples:
            break
        pairs.append(read_pair(row, path, line, settings, render, gallery))
    return pairs


def read_pair(
    row: dict[str, Json],
    path: str,
    line: int,
    settings: DataSettings,
    render: Render | None = None,
    gallery: Gallery | None = None,
) -> PairRow:
    """One row as a pair.

    Raises:
        DataError: a side is missing or empty, or a picture is of no use.
    """
    key = settings.prompt_key or ("prompt" if settings.find_prompt and row.get("prompt") else None)
    texts = _Texts(row, path, line, render, gallery or Gallery())
    prompt, prompt_pictures = texts.prompt(key) if key else ("", ())
    chosen, chosen_pictures = texts.side(settings.chosen_key, prompt)
    rejected, rejected_pictures = texts.side(settings.rejected_key, prompt)
    if settings.input_template and prompt and not texts.before:
        prompt = settings.input_template.replace("{}", prompt)
    tokenizer = row.get("tokenizer")
    return PairRow(
        prompt,
        chosen,
        rejected,
        path,
        line,
        chosen_ids=_token_ids(row, "chosen_token_ids", path, line),
        rejected_ids=_token_ids(row, "rejected_token_ids", path, line),
        tokenizer=tokenizer if isinstance(tokenizer, str) else None,
        prompt_pictures=prompt_pictures,
        chosen_pictures=chosen_pictures,
        rejected_pictures=rejected_pictures,
    )


class _Texts:
    """A row's fields as texts, each with the pictures in it. `before`: the prompt's messages, if any."""

    def __init__(
        self, row: dict[str, Json], path: str, line: int, render: Render | None, gallery: Gallery
    ) -> None:
        self._row, self._path, self._line = row, path, line
        self._render, self._gallery = render, gallery
        self.before: list[dict[str, Any]] = []

    def prompt(self, field: str) -> tuple[str, Pictures]:
        value = self._row.get(field)
        if self._render is not None and isinstance(value, list) and value:
            self.before, pictures = self._gallery.take(value, path=self._path, line=self._line, field=field)
            return self._rendered(self.before, open_turn=True), pictures
        return self._plain(field), ()

    def side(self, field: str, prompt: str) -> tuple[str, Pictures]:
        value = self._row.get(field)
        if self._render is not None and isinstance(value, list) and value:
            messages, pictures = self._gallery.take(value, path=self._path, line=self._line, field=field)
            return self._rendered([*self.before, *messages]).removeprefix(prompt), pictures
        if isinstance(value, dict):
            asked, answered = value.get("input"), value.get("output")
            if isinstance(asked, str) and isinstance(answered, str) and answered.strip():
                return asked + answered, ()
        return self._plain(field), ()

    def _rendered(self, messages: list[dict[str, Any]], *, open_turn: bool = False) -> str:
        if self._render is None:
            raise ValueError("nothing makes texts of messages")
        try:
            return self._render(messages, open_turn)
        except UsageError as error:
            raise UsageError(f"{self._path}:{self._line}: {error}") from error

    def _plain(self, field: str) -> str:
        value = self._row.get(field)
        if isinstance(value, str) and value.strip():
            return value
        raise DataError(
            "must be a text that is not empty, or an object with the texts input and output"
            + (", or a list of messages" if self._render else ""),
            path=self._path,
            line=self._line,
            field=field,
            value=value,
            repair="A preference pair has a chosen and a rejected text; --chosen_key, --rejected_key and "
            "--prompt_key name the fields.",
        )


def _token_ids(row: dict[str, Json], field: str, path: str, line: int) -> tuple[int, ...] | None:
    value = row.get(field)
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(type(item) is int for item in value):
        raise DataError(
            "must be a list of token ids",
            path=path,
            line=line,
            field=field,
            value=value,
            repair="Leave the field out to have the text tokenised.",
        )
    return tuple(item for item in value if isinstance(item, int))


def _read_json(path: str) -> Iterator[tuple[int, dict[str, Json]]]:
    """A JSON file: one list of objects (numbered from 1), or one object a line."""
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except OSError:
        yield from read_rows(path)  # with its words for what is wrong
        return
    if not content.lstrip().startswith("["):
        yield from read_rows(path)
        return
    try:
        rows = json.loads(content)
    except ValueError as error:
        raise DataError(
            f"is not JSON ({error})", path=path, repair="A list of objects is expected."
        ) from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DataError("must be an object", path=path, line=number, value=row)
        yield number, row


def _read_csv(path: str) -> Iterator[tuple[int, dict[str, Json]]]:
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            for row in reader:
                yield reader.line_num, dict(row)
    except OSError as error:
        raise UsageError(f"Cannot read {path!r}: {error.strerror}.") from error


def _from_hub(name: str, settings: DataSettings) -> tuple[list[Any], list[Any]]:
    """Train and test rows of a dataset by its name (`name@data_dir`) or folder."""
    try:
        import datasets  # noqa: PLC0415 - heavy; only for datasets that are not files
    except ImportError as error:
        raise missing_package("datasets", "datasets", needed_for=f"the dataset {name!r}") from error
    path, _, data_dir = name.partition("@")
    try:
        loaded = datasets.load_dataset(path, data_dir=data_dir or None)
    except (OSError, ValueError, ConnectionError) as error:
        raise UsageError(
            f"No dataset could be loaded from {name!r}: {first_line(error)} Name a .jsonl, .json or "
            ".csv file, or a dataset that is in the local cache or on the hub."
        ) from error
    if settings.train_split not in loaded:
        raise UsageError(
            f"The dataset {name!r} has no split {settings.train_split!r}; it has {', '.join(loaded)}."
        )
    return list(loaded[settings.train_split]), list(loaded.get(settings.eval_split) or [])
