"""The sampling loop against plain forward passes, one row at a time; kept prefixes."""

import random

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.policies.decoding import Decoder, Request, choose, keep_likeliest
from sweet_rl.policies.engine import PrefixCache

PROMPTS = [(0, 5, 6, 7), (0, 9), tuple(range(40, 70)), (0, 9), (0, 11, 300, 12, 13, 14, 15, 200)]
"""Unequal lengths; one of them twice."""


@pytest.fixture(scope="module", params=["tiny_llama", "tiny_gpt2"])
def model(request):
    return AutoModelForCausalLM.from_pretrained(request.getfixturevalue(request.param)).eval()


def decode(model, requests, end_ids=(), **options):
    written = {}
    for finished in Decoder(model, end_ids, **options)(requests):
        written.update(finished)
    return [written[place] for place in range(len(requests))]


def requests(temperature, length=12, prompts=PROMPTS):
    return [Request(ids, length, temperature, seed) for seed, ids in enumerate(prompts)]


@torch.inference_mode()
def plain_logps(model, token_ids):
    """By one forward pass without padding and without cache."""
    return model(torch.tensor([token_ids]), use_cache=False).logits[0].log_softmax(-1)


def of_tokens(logps_NV, token_ids):
    return logps_NV.gather(1, torch.tensor(token_ids)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_writes_what_each_row_writes_alone(model, temperature):
    together = decode(model, requests(temperature))
    alone = [decode(model, [request])[0] for request in requests(temperature)]
    assert [row.token_ids for row in together] == [row.token_ids for row in alone]
    for a, b in zip(together, alone, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_logprobs_are_those_of_a_plain_forward_pass_whatever_the_temperature(model, temperature):
    for prompt_ids, row in zip(PROMPTS, decode(model, requests(temperature)), strict=True):
        expected_NV = plain_logps(model, (*prompt_ids, *row.token_ids))[len(prompt_ids) - 1 : -1]
        assert row.logprobs == pytest.approx(of_tokens(expected_NV, row.token_ids), abs=1e-4)
        if temperature == 0:
            assert expected_NV.argmax(-1).tolist() == list(row.token_ids)


def test_the_seed_decides(model):
    first, again, other = decode(model, [Request((0, 9), 12, 1.0, seed) for seed in (1, 1, 2)])
    assert first == again and first.token_ids != other.token_ids


def test_rows_end_by_an_end_token_or_by_their_limit_while_others_go_on(model):
    free = [row.token_ids for row in decode(model, requests(1.0, length=20))]
    end = free[0][3]  # so that the first row ends early, and perhaps others
    limits = (20, 20, 7, 20, 1)
    pairs = enumerate(zip(PROMPTS, limits, strict=True))
    asked = [Request(ids, limit, 1.0, seed) for seed, (ids, limit) in pairs]
    for ids, limit, row in zip(free, limits, decode(model, asked, {end}), strict=True):
        expected = ids[: ids.index(end) + 1] if end in ids[:limit] else ids[:limit]
        assert (row.token_ids, row.ended, len(row.logprobs)) == (expected, end in expected, len(expected))
    steps = list(Decoder(model, ())([Request((0, 9), limit, 1.0, 0) for limit in (3, 1)]))
    assert [[place for place, _ in finished] for finished in steps] == [[1], [], [0]]
    cut = decode(model, requests(1.0, length=20), ends=lambda ids: len(ids) == 3)
    assert [row.token_ids for row in cut] == [ids[:3] for ids in free]
    assert all(row.ended for row in cut)


def test_a_shared_prompt_is_read_once(model, monkeypatch):
    seen = []
    forward = type(model).forward

    def spy(self, input_ids, **others):
        seen.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **others)

    monkeypatch.setattr(type(model), "forward", spy)
    decode(model, [Request((0, 5, 6, 7), 2, 1.0, seed) for seed in range(8)])
    assert seen == [(1, 4), (8, 1)]


def test_choose_follows_the_distribution():
    logps_BV = torch.tensor([0.1, 0.0, 0.6, 0.3]).log().expand(5, 4)
    draws_B = torch.tensor([0.0, 0.0999, 0.1001, 0.6999, 0.7001], dtype=torch.float64)
    assert choose(logps_BV, torch.ones(5), draws_B).tolist() == [0, 0, 2, 2, 3]
    # At temperature 0.5 the probabilities are squared: 0.01, 0.36, 0.09 of 0.46.
    draws_B = torch.tensor([0.0216, 0.0219, 0.8042, 0.8045, 0.9999], dtype=torch.float64)
    assert choose(logps_BV, torch.full((5,), 0.5), draws_B).tolist() == [0, 2, 2, 3, 3]
    assert choose(logps_BV, torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0]), draws_B).tolist() == [2, 0, 2, 3, 3]


def test_only_the_likeliest_tokens_are_drawn(model):
    asked = [Request((0, 9), 12, 1.0, seed, top_k) for seed, top_k in enumerate((1, 3, 0, 1000))]
    rows = decode(model, asked)
    for request, row in zip(asked, rows, strict=True):
        logps_NV = plain_logps(model, (0, 9, *row.token_ids))[1:-1]
        ranks = (logps_NV > logps_NV.gather(1, torch.tensor(row.token_ids)[:, None])).sum(1)
        assert int(ranks.max()) < (request.top_k or 400)
        assert row.logprobs == pytest.approx(of_tokens(logps_NV, row.token_ids), abs=1e-4)
    assert rows[2].token_ids == decode(model, [Request((0, 9), 12, 1.0, 2)])[0].token_ids
    assert rows[0].token_ids == decode(model, [Request((0, 9), 12, 0.0, 0)])[0].token_ids


def test_keep_likeliest_row_by_row():
    logps_BV = torch.tensor([[0.1, 0.4, 0.3, 0.3]]).log().expand(3, 4)
    kept = keep_likeliest(logps_BV, torch.tensor([1, 2, 0])).isfinite().tolist()
    assert kept == [[False, True, False, False], [False, True, True, True], [True] * 4]  # ties stay
    assert keep_likeliest(logps_BV, torch.tensor([0, 4, 9])) is logps_BV


class Reader:
    """Reads texts as the engine does, into one layer whose keys are the tokens themselves."""

    def __init__(self, **limits):
        self.cache = PrefixCache(**limits)
        self.cache.make_room(64)
        self.states = (torch.zeros(1, 1, 1),) * 2
        self.at_work = []

    def memory(self, text):
        self.cache.make_room(0)  # what was to be copied is
        keys, _ = self.cache.slots.of_layer(0, self.states)
        return keys[text.slot, 0, : text.read, 0].long().tolist()

    def take(self, prompt):
        kept = [*self.at_work, *self.cache._resting.values()]
        reads = [(list(one.ids), one.read) for one in kept]
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
        self.cache.make_room(0)
        keys, _ = self.cache.slots.of_layer(0, self.states)
        end = min(len(text.ids), text.read + count)
        keys[text.slot, 0, text.read : end, 0] = torch.tensor(list(text.ids[text.read : end])).float()
        text.read = end

    def release(self, text):
        self.at_work.remove(text)
        self.cache.release(text)


def common(one, other):
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


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
    looked, shared = [], engine._shared
    monkeypatch.setattr(engine, "_shared", lambda *both: looked.append(1) or shared(*both))
    for number, read in ((100, 31), (7, 30)):
        looked.clear()
        assert reader.take((*range(1, 31), number, 5)).read == read
        assert len(looked) == 1
