"""Continuous batches: texts are written side by side, and a new one begins as soon as another one has ended.

Every step is one forward pass over what is new: the last token of each text that is being written, and the
prompts that are not yet read, without padding. What was read stays (`PrefixCache`), so a turn of a dialogue
reads what was said since the last one: the model's weights must stay, too. Requests with the same prompt are
one text as long as the same is written for them. Importing this module imports torch.

Axes: N tokens read in a step, I texts that are read to their end, R requests that get a token, V vocabulary.
"""

from __future__ import annotations

import inspect
import itertools
from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweet_rl.policies.decoding import Request, Written, draws_of, sent, write_tokens
from sweet_rl.policies.slots import NAME, Reading, Segment, Slots

_READ_AT_ONCE = 2048
"""Tokens of prompts that are read in a step at most: those who write wait for them."""

_ATTENTION = {"full_attention", "sliding_attention"}
"""Kinds of layers that are known here."""

_TOLERANCE = 1e-3
"""By how much logits may differ in float32, of the largest; what is computed otherwise differs by more."""


@dataclass(slots=True)
class _Row:
    """A request at work: its text, which others may share, its draws, and what was written."""

    request: Request
    text: Text
    draws: list[float]
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class Engine:
    """Writes texts with one model: by prompt and seed only, up to rounding, the same as the plain `Decoder`."""

    def __init__(
        self,
        model: Any,
        end_ids: Collection[int],
        *,
        max_rows: int = 64,
        max_texts: int = 128,
        max_bytes: float = 2**31,
    ) -> None:
        self._model, self._end_ids = model, frozenset(end_ids)
        self._max_rows = max_rows
        self._cache = PrefixCache(max_rows=max_rows, max_texts=max_texts, max_bytes=max_bytes)
        self._waiting: dict[int, Request] = {}
        self._rows: dict[int, _Row] = {}
        self._numbers = itertools.count()
        self.read = 0
        """Tokens read so far, those of texts that were written included."""

    def add(self, request: Request) -> int:
        """A number for the request, which is worked on from the next step on."""
        number = next(self._numbers)
        self._waiting[number] = request
        return number

    def drop(self, number: int) -> None:
        """Nobody wants this one any more."""
        self._waiting.pop(number, None)
        row = self._rows.pop(number, None)
        if row is not None and all(one.text is not row.text for one in self._rows.values()):
            self._cache.release(row.text)

    def clear(self) -> None:
        """Drop all requests, and all that was read."""
        for number in [*self._waiting, *self._rows]:
            self.drop(number)
        self._cache.forget()

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._rows

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Written]]:
        """One forward pass; the requests that it finished, by their numbers."""
        self._begin()
        parts = self._parts()
        self._cache.make_room(max(end for _, end in parts.values()))
        ids, segments, whole, asked = array("q"), [], [], []
        for number, (text, (begin, end)) in enumerate(parts.items()):
            ids += text.ids[begin:end]
            segments.append(Segment(text.slot, begin, end))
            text.read = end
            if end == len(text.ids):
                whole.append(text)
                asked.append(number)
        self.read += len(ids)
        logits_IV = read(self._model, self._cache.slots, ids, segments, asked)
        return self._write(whole, logits_IV) if whole else []

    def _begin(self) -> None:
        """Give places to those who wait."""
        if not self._waiting:
            return
        found = {row.request.prompt_ids: row.text for row in self._rows.values() if not row.token_ids}
        unread: set[tuple[int, ...]] = set()
        for number, request in list(self._waiting.items()):
            ids = request.prompt_ids
            if len(self._rows) == self._max_rows:
                return
            if ids in unread:
                continue
            text = found.get(ids) or self._cache.take(ids)
            if text is None:
                unread.add(ids)
            else:
                del self._waiting[number]
                found[ids] = text
                self._rows[number] = _Row(request, text, draws_of(request).tolist())

    def _parts(self) -> dict[Text, tuple[int, int]]:
        """What each text reads in this step, from where to where; those without room for it wait."""
        room, parts = _READ_AT_ONCE, {}
        for text in dict.fromkeys(row.text for row in self._rows.values()):
            begin, end = text.read, len(text.ids)
            if end - begin > 1:
                end = min(end, begin + room)
                room -= end - begin
            if end > begin:
                parts[text] = begin, end
        return parts

    def _write(self, texts: Sequence[Text], logits_IV: Tensor) -> list[tuple[int, Written]]:
        """A token for each request of these texts; the requests that end with it."""
        places = {text: place for place, text in enumerate(texts)}
        rows = {number: row for number, row in self._rows.items() if row.text in places}
        logps_RV = logits_IV.float().log_softmax(dim=-1)
        if len(rows) > len(texts):
            logps_RV = logps_RV[sent([places[row.text] for row in rows.values()], logps_RV.device)]
        draws = [row.draws[len(row.token_ids)] for row in rows.values()]
        draws_R = sent(np.array(draws), logps_RV.device)
        written = write_tokens(logps_RV, [row.request for row in rows.values()], draws_R)
        # a GPU is waited for here only
        tokens, logprobs = torch.stack([one.double() for one in written]).tolist()
        finished = []
        going: dict[Text, dict[int, list[_Row]]] = {text: {} for text in texts}
        for (number, row), token, logprob in zip(rows.items(), map(int, tokens), logprobs, strict=True):
            row.token_ids.append(token)
            row.logprobs.append(logprob)
            ended = token in self._end_ids
            if ended or len(row.token_ids) == row.request.max_new_tokens:
                finished.append((number, Written(tuple(row.token_ids), tuple(row.logprobs), ended)))
                del self._rows[number]
            else:
                going[row.text].setdefault(token, []).append(row)
        for text, ways in going.items():  # it goes on with the first token; who wrote another one, in a copy
            for token, others in list(ways.items())[1:]:
                other = self._cache.fork(text)
                other.ids.append(token)
                for row in others:
                    row.text = other
            if ways:
                text.ids.append(next(iter(ways)))
            else:
                self._cache.release(text)
        return finished


def read(
    model: Any, slots: Slots, ids: array[int], segments: Sequence[Segment], asked: Sequence[int]
) -> Tensor:
    """One forward pass over the segments' tokens; logits [I, V] behind the segments that are asked."""
    reading = Reading(slots, segments, model.device)
    last_I = sent(reading.last_I[asked], model.device)
    keeps = _keeps(type(model).forward)
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = NAME  # it has no public name
    try:
        output = model(
            input_ids=sent(np.frombuffer(ids, dtype=np.int64)[None], model.device),
            position_ids=reading.places_N[None],
            use_cache=False,
            reading=reading,
            **({"logits_to_keep": last_I} if keeps else {}),
        )
    finally:
        config._attn_implementation = before
    logits: Tensor = output.logits[0] if keeps else output.logits[0, last_I]
    return logits


@torch.inference_mode()
def serves(model: Any) -> bool:
    """Whether a model's texts can be read in slots, by a trial: not with states, or an attention of its own."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    if not config._attn_implementation.startswith("sdpa") or not kinds <= _ATTENTION:
        return False
    one, other = (torch.arange(first, first + 8) % config.vocab_size for first in (1, 4))
    slots = Slots()
    slots.resize((), 2, 8)
    ids, asked = array("q", [*one, *other]), [0, 1]
    try:
        expected_IV = model(input_ids=torch.stack([one, other]).to(model.device), use_cache=False).logits
        read(model, slots, ids[:5] + ids[8:15], [Segment(0, 0, 5), Segment(1, 0, 7)], asked)
        read(model, slots, ids[5:7], [Segment(0, 5, 7)], asked[:1])
        last = [Segment(0, 7, 8), Segment(1, 7, 8)]
        logits_IV = read(model, slots, ids[7:8] + ids[15:], last, asked)
    except (NotImplementedError, RuntimeError, TypeError, AttributeError):
        return False
    apart = (logits_IV - expected_IV[:, -1]).abs().max() / expected_IV.abs().max()
    return float(apart) < (_TOLERANCE if logits_IV.dtype == torch.float32 else 100 * _TOLERANCE)


@cache
def _keeps(forward: Any) -> bool:
    """Whether a kind of model can be asked for some tokens' logits only."""
    return "logits_to_keep" in inspect.signature(forward).parameters


_WORTH_WAITING = 32
"""Tokens that must be saved for a text to wait while another one reads them."""

_FIRST_SLOTS, _FIRST_PLACES = 8, 256
"""The memory to begin with; it is doubled as often as needed."""


@dataclass(eq=False, slots=True)
class Text:
    """A text in a slot: tokens, of which `read` are in memory and `prompt` were given; is it `at_work`?"""

    slot: int
    ids: array[int] = field(default_factory=lambda: array("q"))
    read: int = 0
    prompt: int = 0
    at_work: bool = True

    @property
    def key(self) -> bytes:
        """Its prompt."""
        return self.ids[: self.prompt].tobytes()


class PrefixCache:
    """Slots, and whose they are."""

    def __init__(self, *, max_rows: int, max_texts: int, max_bytes: float) -> None:
        self.slots = Slots()
        self._max_rows, self._max_texts, self._max_bytes = max_rows, max_texts, max_bytes
        self._working: list[Text] = []
        self._resting: dict[bytes, Text] = {}  # by prompt, those first that were used longest ago
        self._sorted: list[Text] = []  # all of them by their tokens, if they are `_in_order`
        self._in_order = True
        self._free: list[int] = []
        self._copies: dict[int, tuple[int, int]] = {}  # of slots, by their targets: source and places

    def __len__(self) -> int:
        return len(self._working) + len(self._resting)

    def take(self, prompt_ids: Sequence[int]) -> Text | None:
        """A place for a text with these tokens, what is known of it already read (its last token never is).

        None: another text is just reading its beginning; ask again after the next step.
        """
        wanted = array("q", prompt_ids[:-1])
        best, known, coming = None, 0, 0
        if not self._in_order:
            self._sorted.sort(key=_ids)
            self._in_order = True
        place = bisect_left(self._sorted, wanted, key=_ids)
        # what begins alike is sorted side by side: the further away, the less is shared
        for way in (range(place, len(self._sorted)), range(place - 1, -1, -1)):
            for text in map(self._sorted.__getitem__, way):
                if known == len(wanted) or not _goes_on(text.ids, wanted, known):
                    break
                shared = _shared(text.ids, wanted)
                if shared <= known:
                    break
                coming = max(coming, shared)
                if min(shared, text.read) > known:
                    best, known = text, min(shared, text.read)
        if coming >= known + _WORTH_WAITING:
            return None
        if best is None or best.at_work or known + 1 < best.prompt:
            # Another dialogue goes on from there, too: this one begins with a copy.
            text = Text(self._free_slot())
            if best is not None:
                self._copy(best.slot, text.slot, known)
        else:
            text = self._resting.pop(best.key)
            self._sorted.remove(text)
        text.ids, text.read, text.prompt, text.at_work = array("q", prompt_ids), known, len(prompt_ids), True
        self._working.append(text)
        insort(self._sorted, text, key=_ids)
        return text

    def fork(self, text: Text) -> Text:
        """Another text with the same tokens, of which as many are read."""
        other = Text(self._free_slot(), text.ids[:], text.read, text.prompt)
        self._copy(text.slot, other.slot, text.read)
        self._working.append(other)
        self._sorted.append(other)
        self._in_order = False
        return other

    def release(self, text: Text) -> None:
        """Nobody writes this text any more. Of several behind the same prompt the last one is kept."""
        self._working.remove(text)
        self._in_order = False
        if not text.read or self._max_bytes <= 0:
            self._drop(text)
            return
        del text.ids[text.read :]
        text.at_work = False
        before = self._resting.pop(text.key, None)
        if before is not None:
            self._drop(before)
        self._resting[text.key] = text

    def forget(self) -> None:
        """Drop what is kept of texts that nobody writes."""
        for text in self._resting.values():
            self._drop(text)
        self._resting.clear()

    def _drop(self, text: Text) -> None:
        self._free.append(text.slot)
        self._sorted.remove(text)

    def _copy(self, source: int, target: int, places: int) -> None:
        """What a slot holds, into another one, before it is read next; its source may itself wait for a copy."""
        source, places = self._copies.get(source, (source, places))
        self._copies[target] = source, places

    def _make_copies(self) -> None:
        self.slots.copy([(source, target, places) for target, (source, places) in self._copies.items()])
        self._copies.clear()

    def make_room(self, places: int) -> None:
        """Let every slot have so many places, and what is to be there; texts may grow from now on."""
        self._in_order = False
        self._make_copies()
        if places > self.slots.places:
            self._resize(self.slots.slots, max(places + -places % 16, 2 * self.slots.places, _FIRST_PLACES))

    def _most(self, places: int) -> int:
        """Slots with so many places that fit into the memory."""
        size = places * self.slots.bytes_of_a_place
        fitting = int(self._max_bytes // size) if size else self._max_rows
        return max(self._max_rows, min(fitting, self._max_texts))

    def _free_slot(self) -> int:
        """A slot that is free: a new one, or that of the text that was used longest ago."""
        if not self._free and self.slots.slots < (most := self._most(self.slots.places)):
            self._resize(min(most, max(2 * self.slots.slots, _FIRST_SLOTS)), self.slots.places)
        if not self._free:
            self._drop(self._resting.pop(next(iter(self._resting))))
        self._free.sort(reverse=True)  # the lowest first: rows side by side are computed together
        return self._free.pop()

    def _resize(self, slots: int, places: int) -> None:
        self._make_copies()
        slots = max(1, min(slots, self._most(places)))
        kept = [*self._working, *reversed(self._resting.values())][:slots]
        self.slots.resize([text.slot for text in kept], slots, places)
        for number, text in enumerate(kept):
            text.slot = number
        self._resting = {text.key: text for text in reversed(kept[len(self._working) :])}
        self._sorted = sorted(kept, key=_ids)
        self._free = list(range(len(kept), slots))


def _ids(text: Text) -> array[int]:
    return text.ids


def _goes_on(ids: array[int], wanted: array[int], place: int) -> bool:
    """Whether both have the same token at a place."""
    return place < len(ids) and place < len(wanted) and ids[place] == wanted[place]


def _shared(ids: array[int], wanted: array[int]) -> int:
    """How many first tokens are the same; there is one at least in each."""
    length = min(len(ids), len(wanted))
    one, other = (np.frombuffer(each, dtype=np.int64, count=length) for each in (ids, wanted))
    differ = one != other
    return int(differ.argmax()) if differ.any() else length
