"""The cache of prefixes against a plain search: what is known of a text is all that memory has of it."""

import random

import pytest
import torch

from sweet_rl.policies.engine import PrefixCache


class Reader:
    """Reads texts as the engine does, into one layer whose keys are the tokens themselves."""

    def __init__(self, **limits):
        self.cache = PrefixCache(**limits)
        self.cache.make_room(64)
        self.states = (torch.zeros(1, 1, 1),) * 2
        self.at_work = []

    def memory(self, text):
        keys, _ = self.cache.slots.of_layer(0, self.states)
        return keys[text.slot, 0, : text.read, 0].long().tolist()

    def take(self, prompt):
        kept = [*self.at_work, *self.cache._resting.values()]
        reads = [(list(one.ids), one.read) for one in kept if not one.outdated]
        text = self.cache.take(prompt)
        shared = [(common(ids, prompt[:-1]), read) for ids, read in reads]
        known = max((min(both, read) for both, read in shared), default=0)
        if text is None:
            assert max(both for both, _ in shared) >= known + 32
        else:
            assert text.read == known
            self.at_work.append(text)
        return text

    def read(self, text, count):
        """The next tokens of a text."""
        keys, _ = self.cache.slots.of_layer(0, self.states)
        end = min(len(text.ids), text.read + count)
        keys[text.slot, 0, text.read : end, 0] = torch.tensor(list(text.ids[text.read : end])).float()
        text.read = end

    def release(self, text):
        self.at_work.remove(text)
        self.cache.release(text)


def common(one, other):
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@pytest.mark.parametrize("max_bytes", [1e9, 5000, 0])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_known_is_in_memory_whatever_came_before(seed, max_bytes):
    draw = random.Random(seed)
    reader = Reader(max_rows=4, max_texts=10, max_bytes=max_bytes)
    rules = [tuple(draw.randrange(1, 9) for _ in range(40)) for _ in range(3)]
    dialogues = [rule + tuple(draw.randrange(1, 3) for _ in range(9)) for rule in rules for _ in range(4)]
    for _ in range(600):
        what = draw.random()
        if what < 0.35 and len(reader.at_work) < 4:
            reader.take(draw.choice(dialogues)[: draw.randint(2, 49)])
        elif what < 0.75 and reader.at_work:
            text = draw.choice(reader.at_work)
            reader.read(text, draw.choice([1, 8, 64]))
            if text.read == len(text.ids):
                text.ids.append(draw.randrange(1, 3))
        elif what < 0.98 and reader.at_work:
            reader.release(draw.choice(reader.at_work))
        elif what >= 0.98:
            reader.cache.forget()
        texts = [*reader.at_work, *reader.cache._resting.values()]
        assert len({text.slot for text in texts}) == len(texts) == len(reader.cache) <= 10
        for text in texts:
            assert reader.memory(text) == list(text.ids[: text.read])


def test_the_same_prompt_is_found_at_once_however_many_texts_there_are(monkeypatch):
    """Looking through all texts for each of a turn's candidates took most of the time of sampling."""
    from sweet_rl.policies import engine

    reader = Reader(max_rows=300, max_texts=300, max_bytes=1e9)
    for number in range(280):
        reader.read(reader.take((*range(1, 31), 100 + number, 5)), 64)
    looked = []
    shared = engine._shared
    monkeypatch.setattr(engine, "_shared", lambda *both: looked.append(1) or shared(*both))
    assert reader.take((*range(1, 31), 100, 5)).read == 31
    assert len(looked) == 1
    looked.clear()
    assert reader.take((*range(1, 31), 7, 5)).read == 30
    assert len(looked) == 1
