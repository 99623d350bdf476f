"""A linear policy: what can be had without a model that reads. A baseline, fitted to training texts. Imports torch.

It chooses among the commands on offer by a weighted sum of what can be counted in a prompt. Axes: F features, C
commands on offer, N features of a batch.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sweet_rl.chat.reflect_format import ACTION_MARKER, offered_commands, resolve_label, split_prompt
from sweet_rl.errors import DataError
from sweet_rl.online.reflect.agent import Sampling, draws_of, entropy_of
from sweet_rl.online.reflect.play import Chosen
from sweet_rl.policies.decoding import choose

SIZE: Final = 2**18  # Weights; features share them where their hashes do

EPOCHS: Final = 5
BATCH: Final = 32
RATE: Final = 0.05  # Of Adagrad

_PART: Final = re.compile(r"^(?:# |--- | # )(\w+).*$", re.MULTILINE)
_WORD: Final = re.compile(r"[a-z]+|\d+")
_PICTURE: Final = re.compile(r"^[+|].*[+|]$")
_STEM: Final = 5

Ids = NDArray[np.int64]


class Counted(NamedTuple):
    labels: tuple[str, ...]
    features: list[Ids]
    values: list[NDArray[np.float32]]


class LinearActor:
    """Chooses commands; an `Actor` of `play`."""

    def __init__(self, head: str, sampling: Sampling, *, seed: int = 0) -> None:
        self._head, self._sampling, self._seed = head, sampling, seed
        self._weights = torch.zeros(SIZE, requires_grad=True)

    def fit(self, texts: Sequence[str], path: str, *, epochs: int = EPOCHS) -> LinearActor:
        """Imitate the labels behind the action markers; returns itself."""
        rows = [self._row(text, path, line) for line, text in enumerate(texts, 1)]
        optimizer = torch.optim.Adagrad([self._weights], lr=RATE)
        rng = random.Random(self._seed)
        for _ in range(epochs):
            rng.shuffle(rows)
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                logps_SC = self._scores([counted for counted, _ in part]).log_softmax(dim=1)
                loss = -logps_SC[torch.arange(len(part)), torch.tensor([place for _, place in part])].mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return self

    def places(self, prompts: Sequence[str]) -> list[int]:
        return [int(self._scores([counted(prompt, self._head)]).argmax()) for prompt in prompts]

    def choose(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[Chosen]:
        """One command for each prompt, by its label; it depends on the prompt and its seed."""
        found = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            known = counted(prompt, self._head)
            with torch.no_grad():
                logps_1C = (self._scores([known]) / self._sampling.temperature).log_softmax(dim=1)
            draw_1 = torch.tensor(draws_of(seed, self._sampling)[:1], dtype=torch.float64)
            place = int(choose(logps_1C, torch.ones_like(draw_1), draw_1))
            entropy = float(entropy_of(logps_1C))
            found.append(Chosen(known.labels[place], (place,), float(logps_1C[0, place]), entropy))
        return found

    def _row(self, text: str, path: str, line: int) -> tuple[Counted, int]:
        at = text.rfind(ACTION_MARKER) + len(ACTION_MARKER)
        offered = offered_commands(text[:at], self._head)
        label = resolve_label(text[at:], offered)
        if label is None:
            problem = "chooses no command of its list; a linear policy needs one"
            raise DataError(problem, path=path, line=line, field="text", value=text[-60:])
        return counted(text[:at], self._head), list(offered).index(label)

    def _scores(self, states: Sequence[Counted]) -> Tensor:
        """Scores [S, C], -inf behind the last command of a state."""
        features = [ids for state in states for ids in state.features]
        values_N = np.concatenate([values for state in states for values in state.values])
        commands_N = np.repeat(np.arange(len(features)), [len(ids) for ids in features])
        weighed_N = self._weights.index_select(0, torch.from_numpy(np.concatenate(features)))
        scores_C = torch.zeros(len(features)).index_add(
            0, torch.from_numpy(commands_N), weighed_N * torch.from_numpy(values_N)
        )
        parts = torch.split(scores_C, [len(state.labels) for state in states])
        padded: Tensor = pad_sequence(list(parts), batch_first=True, padding_value=-torch.inf)
        return padded


def counted(prompt: str, head: str) -> Counted:
    offered = offered_commands(prompt, head)
    parts = dict(_parts(split_prompt(prompt, head).before))
    words = {f"{name}|{word}" for name, there in parts.items() for word in there}
    beside = _hashed(sorted(words))
    features, values = [], []
    for command in offered.values():
        own = _words(command)
        verb, *rest = own or [""]
        single = _hashed([*(f"c|{word}" for word in own), f"v|{verb}|{len(rest) > 0}"])
        crossed = (beside[:, None] * 31 + _hashed(own)[None, :] * 17).reshape(-1) % SIZE
        shared = {f"o|{name}|{verb}": sum(word in there for word in rest) for name, there in parts.items()}
        told = [name for name, count in shared.items() if count]
        features.append(np.concatenate([single, crossed, _hashed(told)]))
        ones = np.ones(len(single) + len(crossed), dtype=np.float32)
        values.append(np.concatenate([ones, np.array([shared[name] for name in told], dtype=np.float32)]))
    return Counted(tuple(offered), features, values)


def _parts(text: str) -> Iterator[tuple[str, set[str]]]:
    """The parts of a state by the first word of their headings; of those called alike the last one."""
    pieces = _PART.split(text)
    yield "", _seen(pieces[0])
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        yield name.lower(), _seen(body)


def _seen(text: str) -> set[str]:
    """The words of a part; in a picture the letters with their places."""
    lines = text.splitlines()
    picture = [line for line in lines if _PICTURE.match(line)]
    rows = ((row, column, letter) for row, line in enumerate(picture) for column, letter in enumerate(line))
    letters = {f"{row},{column}{letter}" for row, column, letter in rows if letter.isalpha()}
    return {word for line in lines if line not in picture for word in _words(line)} | letters


def _words(text: str) -> list[str]:
    return [word[:_STEM] for word in _WORD.findall(text.lower())]


def _hashed(names: Sequence[str]) -> Ids:
    return np.array([crc32(name.encode()) % SIZE for name in names], dtype=np.int64)
