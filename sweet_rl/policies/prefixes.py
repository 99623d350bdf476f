"""What a model has read, kept so that it need not be read again: the beginning of a dialogue's next turn.

Texts lie in slots (`sweet_rl.policies.slots`). One that nobody writes any more stays until its place is
needed; the one that was used longest ago goes first. All go when the model's weights have changed. Importing
this module imports torch.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch.optim.optimizer import register_optimizer_step_post_hook

from sweet_rl.policies.slots import Slots

_WORTH_WAITING = 32
"""Tokens that must be saved for a text to wait while another one reads them."""

_FIRST_SLOTS, _FIRST_PLACES = 8, 256
"""The memory to begin with; it is doubled as often as needed."""


@dataclass(eq=False, slots=True)
class Text:
    """A text in a slot: its tokens, of which the first `read` are in memory.

    `prompt` is the number of its first tokens that were given and not written. `at_work` says that somebody
    reads or writes it; `outdated`, that the weights have changed since it was begun.
    """

    slot: int
    ids: array[int] = field(default_factory=lambda: array("q"))
    read: int = 0
    prompt: int = 0
    at_work: bool = True
    outdated: bool = False

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
        self._begun: dict[bytes, Text] = {}  # of those, by prompt, the last one
        self._resting: dict[bytes, Text] = {}  # by prompt, those first that were used longest ago
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._working) + len(self._resting)

    def take(self, prompt_ids: Sequence[int]) -> Text | None:
        """A place for a text with these tokens, what is known of it already read; its last token never is.

        None: another text is just reading its beginning; ask again after the next step.
        """
        wanted = array("q", prompt_ids[:-1])
        best, known, coming = None, 0, 0
        key = array("q", prompt_ids).tobytes()
        alike = (one for one in (self._begun.get(key), self._resting.get(key)) if one is not None)
        for text in itertools.chain(alike, reversed(self._working), reversed(self._resting.values())):
            if known == len(wanted):
                break
            more_is_read = text.read > known and _goes_on(text.ids, wanted, known)
            if text.outdated or not (more_is_read or _goes_on(text.ids, wanted, coming)):
                continue  # it shares no more than what is found
            shared = _shared(text.ids, wanted)
            coming = max(coming, shared)
            if min(shared, text.read) > known:
                best, known = text, min(shared, text.read)
        if coming >= known + _WORTH_WAITING:
            return None
        if best is None or best.at_work or known + 1 < best.prompt:
            # Another dialogue goes on from there, too: this one begins with a copy.
            text = Text(self._free_slot())
            if best is not None and known:
                self.slots.copy(best.slot, text.slot, known)
        else:
            text = self._resting.pop(best.key)
        text.ids, text.read, text.prompt, text.at_work = array("q", prompt_ids), known, len(prompt_ids), True
        self._working.append(text)
        self._begun[key] = text
        return text

    def fork(self, text: Text) -> Text:
        """Another text with the same tokens, of which as many are read."""
        other = Text(self._free_slot(), text.ids[:], text.read, text.prompt, outdated=text.outdated)
        self.slots.copy(text.slot, other.slot, text.read)
        self._working.append(other)
        return other

    def release(self, text: Text) -> None:
        """Nobody writes this text any more. Of several behind the same prompt the last one is kept."""
        self._working.remove(text)
        if self._begun.get(text.key) is text:
            del self._begun[text.key]
        if text.outdated or not text.read or self._max_bytes <= 0:
            self._free.append(text.slot)
            return
        del text.ids[text.read :]
        text.at_work = False
        before = self._resting.pop(text.key, None)
        if before is not None:
            self._free.append(before.slot)
        self._resting[text.key] = text

    def forget(self) -> None:
        """Drop what is kept. What is being written stays, and is dropped at its end."""
        self._free += [text.slot for text in self._resting.values()]
        self._resting.clear()
        for text in self._working:
            text.outdated = True

    def make_room(self, places: int) -> None:
        """Let every slot have so many places."""
        if places > self.slots.places:
            self._resize(self.slots.slots, max(places, 2 * self.slots.places, _FIRST_PLACES))

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
            return self._resting.pop(next(iter(self._resting))).slot
        self._free.sort(reverse=True)  # the lowest first: rows side by side are computed together
        return self._free.pop()

    def _resize(self, slots: int, places: int) -> None:
        slots = max(1, min(slots, self._most(places)))
        kept = [*self._working, *reversed(self._resting.values())][:slots]
        self.slots.resize([text.slot for text in kept], slots, places)
        for number, text in enumerate(kept):
            text.slot = number
        self._resting = {text.key: text for text in reversed(kept[len(self._working) :])}
        self._free = list(range(len(kept), slots))


def _goes_on(ids: array[int], wanted: array[int], place: int) -> bool:
    """Whether both have the same token at a place."""
    return place < len(ids) and place < len(wanted) and ids[place] == wanted[place]


def _shared(ids: array[int], wanted: array[int]) -> int:
    """How many first tokens are the same; there is one at least in each."""
    length = min(len(ids), len(wanted))
    one, other = (np.frombuffer(each, dtype=np.int64, count=length) for each in (ids, wanted))
    differ = one != other
    return int(differ.argmax()) if differ.any() else length


class WeightsState:
    """Tells whether what a model computes may have changed since it was last asked."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._seen = self._now()

    def changed(self) -> bool:
        """Whether weights were replaced or written to, an optimizer made a step, or adapters changed."""
        now = self._now()
        changed, self._seen = now != self._seen, now
        return changed

    def _now(self) -> tuple[object, ...]:
        weights = [(one.data_ptr(), _version(one)) for one in self._model.parameters()]
        adapters = [
            (
                tuple(module.active_adapters),
                module.disable_adapters,
                tuple(module.merged_adapters),
                tuple(getattr(module, "scaling", {}).items()),
            )
            for module in self._model.modules()
            if hasattr(module, "merged_adapters")
        ]
        return _steps.count, weights, adapters


def _version(parameter: Any) -> int:
    """How often a tensor was written to; those of inference mode do not count, and are not trained."""
    return 0 if parameter.is_inference() else parameter._version


@dataclass
class _Steps:
    """Steps of all optimizers of this process: fused ones write to weights without being counted by them."""

    count: int = field(default=0)

    def __call__(self, *_: object) -> None:
        self.count += 1


_steps = _Steps()
register_optimizer_step_post_hook(_steps)
