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
    ids: array[int]
    read: int
    prompt: int
    used: int
    at_work: bool = True
    outdated: bool = False


class PrefixCache:
    """Slots, and whose they are.

    Args:
        max_rows: texts that are written at once at most; they always find a place.
        max_texts: texts at most, those that only wait for their next turn included.
        max_bytes: memory at most, unless `max_rows` texts need more; it grows as it is needed.
    """

    def __init__(self, *, max_rows: int, max_texts: int, max_bytes: float) -> None:
        self.slots = Slots()
        self._max_rows, self._max_texts, self._max_bytes = max_rows, max_texts, max_bytes
        self._texts: list[Text] = []
        self._clock = itertools.count()

    def __len__(self) -> int:
        return len(self._texts)

    def take(self, prompt_ids: Sequence[int]) -> Text | None:
        """A place for a text with these tokens, what is known of it already read; its last token never is.

        None: another text is just reading its beginning; ask again after the next step.
        """
        wanted = array("q", prompt_ids[:-1])
        best, known, coming = None, 0, 0
        for text in reversed(self._texts):  # the newest has most often the same prompt
            if known == len(wanted):
                break
            if text.outdated or not (_goes_on(text.ids, wanted, known) or _goes_on(text.ids, wanted, coming)):
                continue  # it shares no more than what is found
            shared = _shared(text.ids, wanted)
            coming = max(coming, shared)
            if min(shared, text.read) > known:
                best, known = text, min(shared, text.read)
        if coming >= known + _WORTH_WAITING:
            return None
        if best is None or best.at_work or known + 1 < best.prompt:
            # Another dialogue goes on from there, too: this one begins with a copy.
            text = Text(self._free_slot(), array("q"), 0, 0, 0)
            if best is not None and known:
                self.slots.copy(best.slot, text.slot, known)
            self._texts.append(text)
        else:
            text = best
        text.ids = array("q", prompt_ids)
        text.read, text.prompt, text.used, text.at_work = known, len(prompt_ids), next(self._clock), True
        return text

    def release(self, text: Text) -> None:
        """Nobody writes this text any more. Of several behind the same prompt the last one is kept."""
        del text.ids[text.read :]
        text.at_work = False
        text.used = next(self._clock)
        alike = [one for one in self._texts if not one.at_work and one is not text and _same(one, text)]
        for one in [*alike, *([text] if text.outdated or self._max_bytes <= 0 else [])]:
            self._texts.remove(one)

    def forget(self) -> None:
        """Drop what is kept. What is being written stays, and is dropped at its end."""
        self._texts = [text for text in self._texts if text.at_work]
        for text in self._texts:
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
        taken = {text.slot for text in self._texts}
        if len(taken) == self.slots.slots < (most := self._most(self.slots.places)):
            self._resize(min(most, max(2 * self.slots.slots, _FIRST_SLOTS)), self.slots.places)
        if len(taken) == self.slots.slots:
            oldest = min((text for text in self._texts if not text.at_work), key=lambda text: text.used)
            self._texts.remove(oldest)
            return oldest.slot
        return next(number for number in itertools.count() if number not in taken)

    def _resize(self, slots: int, places: int) -> None:
        slots = max(1, min(slots, self._most(places)))
        by_worth = sorted(self._texts, key=lambda text: (not text.at_work, -text.used))
        self._texts = by_worth[:slots]
        self.slots.resize([text.slot for text in self._texts], slots, places)
        for number, text in enumerate(self._texts):
            text.slot = number


def _goes_on(ids: array[int], wanted: array[int], place: int) -> bool:
    """Whether both have the same token at a place."""
    return place < len(ids) and place < len(wanted) and ids[place] == wanted[place]


def _shared(ids: array[int], wanted: array[int]) -> int:
    """How many first tokens are the same; there is one at least in each."""
    length = min(len(ids), len(wanted))
    one, other = (np.frombuffer(each, dtype=np.int64, count=length) for each in (ids, wanted))
    differ = one != other
    return int(differ.argmax()) if differ.any() else length


def _same(one: Text, other: Text) -> bool:
    return one.prompt == other.prompt and one.ids[: one.prompt] == other.ids[: other.prompt]


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
    return 0 if parameter.is_inference() else parameter._version  # noqa: SLF001


@dataclass
class _Steps:
    """Steps of all optimizers of this process: fused ones write to weights without being counted by them."""

    count: int = field(default=0)

    def __call__(self, *_: object) -> None:
        self.count += 1


_steps = _Steps()
register_optimizer_step_post_hook(_steps)
