"""Continuous batches against the plain sampling loop: the same tokens, whatever is shared, kept or changed."""

import random
from itertools import pairwise

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from sweet_rl.policies import slots
from sweet_rl.policies.decoding import Decoder, Request
from sweet_rl.policies.engine import Engine, serves
from sweet_rl.policies.weights import WeightsState

ENDS = {3, 17}


@pytest.fixture(params=["tiny_llama", "tiny_gpt2"])
def model(request):
    return AutoModelForCausalLM.from_pretrained(request.getfixturevalue(request.param)).eval()


@pytest.fixture
def llama(tiny_llama):
    return AutoModelForCausalLM.from_pretrained(tiny_llama).eval()


def written(writer, requests):
    """What an engine or a plain loop writes for requests, in their order."""
    found = {}
    if isinstance(writer, Engine):
        places = {writer.add(request): place for place, request in enumerate(requests)}
        while not writer.idle:
            found |= {places[number]: one for number, one in writer.step()}
    else:
        for finished in writer(requests):
            found |= finished
    return [found[place] for place in range(len(requests))]


def tokens(engine, requests):
    return [one.token_ids for one in written(engine, requests)]


def words(draw, count):
    return tuple(draw.randrange(4, 300) for _ in range(count))


def mixed(count=70):
    """Prompts of all lengths, some of which begin others, and all ways of sampling."""
    draw, found = random.Random(0), []
    texts = [words(draw, 60) for _ in range(8)]
    for seed in range(count):
        ids, length = draw.choice(texts)[: draw.randint(1, 60)], draw.randint(1, 40)
        temperature = draw.choice([0.0, 0.7, 1.0])
        top_k, top_p = draw.choice([0, 0, 5]), draw.choice([1.0, 1.0, 0.9])
        found.append(Request(ids, length, temperature, seed, top_k, top_p))
    return found


def dialogues(play, count=9, turns=5):
    """Every turn goes on from what was written before, in a random order of dialogues; all replies."""
    draw = random.Random(1)
    rules = words(random.Random(2), 40)
    texts = [(*rules, *words(random.Random(number), 5)) for number in range(count)]
    replies, left = {}, [number for number in range(count) for _ in range(turns)]
    draw.shuffle(left)
    while left:
        at_once = dict.fromkeys(left[: draw.randint(1, 6)])
        for number in at_once:
            left.remove(number)
        turn = {number: sum(key[0] == number for key in replies) for number in at_once}
        seeds = {number: 100 * number + turn[number] for number in at_once}
        requests = [Request(texts[number], draw.randint(1, 20), 1.0, seeds[number]) for number in at_once]
        for number, ids in zip(at_once, play(requests), strict=True):
            replies[number, turn[number]] = ids
            texts[number] = (*texts[number], *ids, *words(random.Random(len(replies)), 4))
    return replies


# text by text, and all at once
@pytest.mark.parametrize(("rows", "call_bytes"), [(1, 70_000), (7, 0), (64, 10**9)])
def test_the_same_tokens_as_the_plain_loop_whatever_the_batch(model, monkeypatch, rows, call_bytes):
    monkeypatch.setattr(slots, "_CALL_BYTES", call_bytes)
    asked = mixed(8 if rows == 1 else 40)  # one by one each costs most
    expected = written(Decoder(model, ENDS), asked)
    engine = Engine(model, ENDS, max_rows=rows)
    for order in (asked, asked, asked[::-1]):  # nothing read; much of it; much of it, and in another order
        found = written(engine, order)
        found = found if order is asked else found[::-1]
        assert [one.token_ids for one in found] == [one.token_ids for one in expected]
        assert [one.ended for one in found] == [one.ended for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert engine.idle


def test_a_turn_reads_what_is_new_and_writes_the_same(model):
    kept, forgetful = Engine(model, ENDS), Engine(model, ENDS, max_bytes=0)
    expected = dialogues(lambda requests: tokens(Decoder(model, ENDS), requests))
    assert dialogues(lambda requests: tokens(kept, requests)) == expected
    assert dialogues(lambda requests: tokens(forgetful, requests)) == expected
    # Each dialogue has 45 tokens, and in each of 4 more turns 4 that are said; what was written is read once.
    replies = sum(map(len, expected.values()))
    assert kept.read == 45 + 8 * 5 + 9 * 4 * 4 + replies - 9
    assert forgetful.read > 2 * kept.read


def written_apart(found):
    """Distinct beginnings of what was written, but for the last tokens, which nobody reads."""
    return len({ids[:length] for ids in found for length in range(1, len(ids))})


@pytest.mark.parametrize("limits", [{}, {"max_rows": 5, "max_texts": 5}, {"max_rows": 9, "max_bytes": 0}])
def test_requests_with_one_prompt_are_one_text_until_they_differ(model, limits):
    """Whatever begins, ends or is dropped meanwhile; drawn at 0.2 many of them stay alike for long."""
    draw = random.Random(3)
    prompts = [words(draw, draw.randint(1, 60)) for _ in range(4)]
    prompts += [(*prompt, *words(draw, 5)) for prompt in prompts[:2]]
    heat = [0.0, 0.2, 1.0]
    asked = [Request(draw.choice(prompts), draw.randint(1, 30), draw.choice(heat), at) for at in range(60)]
    expected = written(Decoder(model, ENDS), asked)
    engine, found = Engine(model, ENDS, **limits), {}
    numbers = [engine.add(request) for request in asked]
    dropped = set(numbers[::7])
    while not engine.idle:
        found |= dict(engine.step())
        if dropped & engine._rows.keys() and draw.random() < 0.3:
            number = min(dropped & engine._rows.keys())
            dropped.remove(number)
            engine.drop(number)
    assert len(found) > 50
    for number, one in found.items():
        other = expected[numbers.index(number)]
        assert (one.token_ids, one.ended) == (other.token_ids, other.ended)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    engine.clear()
    assert sorted(engine._cache._free) == list(range(engine._cache.slots.slots))


def test_what_is_drawn_alike_is_read_once(llama):
    prompt = words(random.Random(0), 50)
    greedy, drawn = Engine(llama, ()), Engine(llama, ())
    written(greedy, [Request(prompt, 10, 0.0, seed) for seed in range(8)])
    assert greedy.read == 50 + 9
    found = tokens(drawn, [Request(prompt, 10, 0.2, seed) for seed in range(8)])
    assert drawn.read == 50 + written_apart(found)
    assert len(drawn._cache) == 1  # of several behind one prompt the last is kept


def test_long_prompts_are_read_in_parts_while_others_write(model, monkeypatch):
    monkeypatch.setattr("sweet_rl.policies.engine._READ_AT_ONCE", 16)
    draw = random.Random(0)
    asked = [Request(words(draw, length), 20, 1.0, length) for length in (3, 16, 17, 100, 40)]
    engine = Engine(model, ())
    expected = tokens(Decoder(model, ()), asked)
    numbers = [engine.add(request) for request in asked]
    found, most = {}, 0
    while not engine.idle:
        before = engine.read
        found |= {number: one.token_ids for number, one in engine.step()}
        most = max(most, engine.read - before)
    assert [found[number] for number in numbers] == expected
    assert most <= 16 + 5 and next(iter(found)) == numbers[0]


def test_memory_has_a_limit_and_the_oldest_goes_first(llama):
    engine = Engine(llama, (), max_rows=1, max_texts=3)
    draw = random.Random(0)
    prompts = [words(draw, 50) for _ in range(4)]

    def read(prompt):
        before = engine.read
        written(engine, [Request(prompt, 1, 1.0, 0)])
        return engine.read - before

    assert [read(prompt) for prompt in prompts[:3]] == [50] * 3
    assert read(prompts[0]) == 1  # used again: now the second is the oldest
    assert read(prompts[3]) == 50
    assert [read(prompts[number]) for number in (0, 2, 3)] == [1] * 3
    assert read(prompts[1]) == 50
    assert len(engine._cache) == 3


def test_memory_in_bytes(llama):
    """A token of the tiny model has 2 layers x 2 x 2 heads x 8 numbers of 4 bytes: 256."""
    for places, texts in ((256, 5), (512, 2)):
        engine = Engine(llama, (), max_rows=1, max_texts=99, max_bytes=256 * 256 * 5)
        written(engine, [Request((5,), 1, 1.0, 0)])
        draw = random.Random(0)
        for _ in range(8):
            written(engine, [Request(words(draw, places - 1), 1, 1.0, 0)])
        assert engine._cache.slots.bytes_of_a_place == 256
        assert (engine._cache.slots.slots, engine._cache.slots.places) == (texts, places)
        assert len(engine._cache) == texts


def test_texts_at_work_find_a_place_whatever_the_limit(llama):
    engine = Engine(llama, (), max_rows=20, max_texts=1, max_bytes=1)
    asked = mixed(40)
    assert tokens(engine, asked) == tokens(Decoder(llama, ()), asked)
    assert engine._cache.slots.slots == 20


def test_dropped_requests_free_their_slots_and_leave_the_others_alone(llama):
    asked = [Request(words(random.Random(seed), 30), 20, 1.0, seed) for seed in range(6)]
    expected = tokens(Decoder(llama, ()), asked)
    engine = Engine(llama, (), max_rows=4)
    numbers = [engine.add(request) for request in asked]
    found = {}
    for _ in range(3):
        found |= dict(engine.step())
    for number in (numbers[0], numbers[2], numbers[5]):  # two at work, one that waits
        engine.drop(number)
    while not engine.idle:
        found |= dict(engine.step())
    left = {numbers[place]: expected[place] for place in (1, 3, 4)}
    assert {number: one.token_ids for number, one in found.items()} == left
    before = engine.read
    assert tokens(engine, asked[:1]) == expected[:1]  # what it had read and written is not read again
    assert engine.read - before < 30


def test_two_models_in_one_process_share_nothing_and_compute_as_ever_outside(tiny_llama):
    one, other = (AutoModelForCausalLM.from_pretrained(tiny_llama).eval() for _ in range(2))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    ids = torch.arange(30)[None]
    before = one(ids).logits
    engines = [Engine(model, ENDS) for model in (one, other)]
    for engine in engines:
        for request in mixed(10):
            engine.add(request)
    while at_work := [engine for engine in engines if not engine.idle]:
        for engine in at_work:  # steps of both, in turn
            engine.step()
        assert torch.equal(one(ids).logits, before)
    for engine, model in zip(engines, (one, other), strict=True):
        engine.clear()
        assert tokens(engine, mixed(10)) == tokens(Decoder(model, ENDS), mixed(10))


@pytest.mark.parametrize("way", [{}, {"foreach": True}, {"fused": True}])
def test_a_training_step_changes_the_weights(llama, way):
    state, optimizer = WeightsState(llama), torch.optim.AdamW(llama.parameters(), lr=0.05, **way)
    llama(torch.arange(40)[None], labels=torch.arange(40)[None]).loss.backward()
    assert not state.changed()
    optimizer.step()
    assert (state.changed(), state.changed()) == (True, False)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`", "ignore:Adapter cannot be set")
def test_new_weights_and_other_adapters_change_the_weights(llama):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    other = {name: torch.randn_like(one) * 0.2 for name, one in llama.state_dict().items()}
    weight = next(llama.parameters())
    state = WeightsState(llama)
    for change in (lambda: llama.load_state_dict(other), lambda: setattr(weight, "data", weight.data * 1.5)):
        change()
        assert (state.changed(), state.changed()) == (True, False)
    model = peft.get_peft_model(llama, config).eval()
    model.add_adapter("other", config)
    state, weights = WeightsState(model), dict(model.named_parameters())
    changes = [
        lambda: model.set_adapter("other"),
        model.base_model.disable_adapter_layers,
        model.base_model.enable_adapter_layers,
        lambda: torch.nn.init.ones_(next(one for name, one in weights.items() if "lora_B.other" in name)),
        lambda: model.merge_adapter(["default"]),
    ]
    for number, change in enumerate(changes):
        change()
        assert (number, state.changed(), state.changed()) == (number, True, False)


ODD_LAYOUTS = {  # lengths of prompts, and tokens that are written after each
    "one text": ([7], 5),
    "one token": ([1], 3),
    "prompts of one token": ([1] * 9, 4),
    "512 texts": ([1 + number % 5 for number in range(512)], 2),
    "one long prompt beside short ones": ([90, *[3] * 20], 6),
    "each of another length": ([*range(1, 33)], 9),
    "longer than a window, by one, and shorter": ([4, 5, 6, 11, 40], 12),
}


@pytest.mark.parametrize("layout", ODD_LAYOUTS)
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("call_bytes", [0, 3000, 10**9])  # text by text; some together; all in one call
def test_odd_layouts_are_computed_as_text_by_text(monkeypatch, layout, window, call_bytes):
    monkeypatch.setattr(slots, "_CALL_BYTES", call_bytes)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = MistralConfig(vocab_size=300, num_key_value_heads=2, sliding_window=window, **shape)
    model, (lengths, new) = MistralForCausalLM(config).eval(), ODD_LAYOUTS[layout]
    draw, engine = random.Random(0), Engine(model, (), max_rows=512)
    asked = [Request(words(draw, length), new, 1.0, seed) for seed, length in enumerate(lengths)]
    for request, one in list(zip(asked, written(engine, asked), strict=True))[:: 1 + len(asked) // 40]:
        logits_TV = model(torch.tensor([[*request.prompt_ids, *one.token_ids]])).logits[0]
        told = logits_TV.log_softmax(-1)[len(request.prompt_ids) - 1 : -1]
        expected = told.gather(1, torch.tensor(one.token_ids)[:, None])[:, 0].tolist()
        assert one.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("call_bytes", [0, 10**9])
def test_sliding_windows(monkeypatch, call_bytes):
    monkeypatch.setattr(slots, "_CALL_BYTES", call_bytes)
    monkeypatch.setattr("sweet_rl.policies.engine._READ_AT_ONCE", 16)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = MistralConfig(vocab_size=400, num_key_value_heads=2, sliding_window=5, **shape)
    model = MistralForCausalLM(config).eval()
    assert serves(model)
    engine = Engine(model, ENDS)
    # Rows of the plain loop one by one: padded ones see less far back than their window.
    expected = [ids for request in mixed(15) for ids in tokens(Decoder(model, ENDS), [request])]
    assert tokens(engine, mixed(15)) == expected
    assert tokens(engine, mixed(15)) == expected


def test_models_that_cannot_be_read_in_slots_are_known(model, monkeypatch):
    assert serves(model)
    right = slots.Reading.attend
    with monkeypatch.context() as patch:  # a wrong answer of the attention is noticed
        patch.setattr(slots.Reading, "attend", lambda *given: right(*given[:4], given[4] / 2, given[5]))
        assert not serves(model)
    bloom = BloomForCausalLM(BloomConfig(vocab_size=300, hidden_size=32, n_layer=1, n_head=4)).eval()
    assert not serves(bloom)  # distances are in its scores
    model.config._attn_implementation = "eager"
    assert not serves(model)


def test_prompts_grow_by_doubling(llama):
    """Texts move to a larger memory as they are."""
    draw = random.Random(0)
    prompt, engine, seen = words(draw, 10), Engine(llama, ()), []
    for seed in range(8):
        request = Request(prompt, 40, 1.0, seed)
        (ids,) = tokens(engine, [request])
        assert [ids] == tokens(Decoder(llama, ()), [request])
        prompt = (*prompt, *ids, *words(draw, 5))
        seen.append(engine._cache.slots.places)
    assert [one for one, other in pairwise(seen) if one != other] == [256]
    assert seen[-1] == 512
