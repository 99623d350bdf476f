"""The policy around the sampling loop: prompts, batches, context, seeds, generation configs, closing."""

import asyncio
import json
import shutil

import pytest

from sweet_rl.chat import PlainChat
from sweet_rl.errors import EpisodeError, UsageError
from sweet_rl.policies.decoding import Decoder
from sweet_rl.policies.engine import Engine
from sweet_rl.policies.transformers import TransformersPolicy
from sweet_rl.types import FinishReason, StopReason
from tests.tiny_models import BEGIN, TURN_END, save_tiny_llama, tiny_tokenizer


def play(policy, *observations):
    """All at once, then close."""

    async def main():
        try:
            return await asyncio.gather(*map(policy.act, observations))
        finally:
            await policy.close()

    return asyncio.run(main())


@pytest.fixture
def seen(monkeypatch):
    """Every request that reaches the engine."""
    requests = []
    add = Engine.add

    def spy(self, request):
        requests.append(request)
        return add(self, request)

    monkeypatch.setattr(Engine, "add", spy)
    return requests


def test_the_recorded_input_is_what_the_model_read_with_one_begin_token(tiny_llama, observe, seen):
    policy = TransformersPolicy(tiny_llama, system_prompt="Rules.", max_new_tokens=5)
    (generation,) = play(policy, observe("Hi."))
    assert generation.input.startswith(f"{BEGIN}<|header|>system<|end_header|>\n\nRules.")
    assert generation.input.endswith("<|header|>assistant<|end_header|>\n\n")
    (request,), tokenizer = seen, tiny_tokenizer()
    assert tokenizer.decode(request.prompt_ids) == generation.input
    assert request.prompt_ids.count(tokenizer.bos_token_id) == 1


def test_text_ids_and_finish_reason(tiny_llama, observe):
    observations = [observe("Hi.", seed=seed) for seed in range(32)]
    generations = play(TransformersPolicy(tiny_llama, max_new_tokens=80), *observations)
    tokenizer, reasons = tiny_tokenizer(), set()
    for completion in (generation.completion for generation in generations):
        stopped = completion.token_ids[-1] == tokenizer.eos_token_id
        assert completion.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        assert len(completion.token_ids) == len(completion.logprobs)
        assert TURN_END not in completion.text
        assert completion.text == tokenizer.decode(completion.token_ids, skip_special_tokens=True)
        reasons.add(completion.finish_reason)
    assert reasons == {FinishReason.STOP, FinishReason.LENGTH}


@pytest.mark.parametrize("continuous", [True, False])
def test_concurrent_turns_share_batches_and_do_not_depend_on_them(tiny_llama, observe, continuous):
    def policy(**settings):
        return TransformersPolicy(tiny_llama, max_new_tokens=15, continuous=continuous, **settings)

    observations = [observe("Hi " * (1 + 7 * i), seed=i) for i in range(5)]
    together = play(policy(max_batch=3), *observations)
    alone = [play(policy(), one)[0] for one in observations]
    assert [g.completion.token_ids for g in together] == [g.completion.token_ids for g in alone]


def test_a_model_not_read_in_slots_writes_batch_after_batch(tiny_llama, observe, monkeypatch, seen):
    monkeypatch.setattr("sweet_rl.policies.engine.serves", lambda _model: False)
    batches, call = [], Decoder.__call__

    def spy(self, requests):
        batches.append(len(requests))
        return call(self, requests)

    monkeypatch.setattr(Decoder, "__call__", spy)
    play(TransformersPolicy(tiny_llama, max_new_tokens=5, max_batch=3), *[observe("Hi.")] * 5)
    assert (batches, seen) == ([3, 2], [])


def test_seeds_of_run_episode_and_turn_all_matter(tiny_llama, observe):
    def tokens(*dialogue, seed=0, run=0):
        policy = TransformersPolicy(tiny_llama, max_new_tokens=12, seed=run, chat_format=Constant())
        return play(policy, observe(*dialogue, seed=seed))[0].completion.token_ids

    class Constant:
        def render(self, messages):
            return "The same prompt for all."

    base = tokens("Hi.")
    assert tokens("Hi.") == base
    assert len({base, tokens("Hi.", seed=1), tokens("Hi.", run=1), tokens("Hi.", "What?", "That.")}) == 4


def test_context_full(tmp_path, observe):
    policy = TransformersPolicy(save_tiny_llama(tmp_path, context=64), chat_format=PlainChat())
    with pytest.raises(EpisodeError, match=r"the prompt has \d+ tokens, the model reads 64") as caught:
        play(policy, observe("word " * 100))
    assert (caught.value.stop_reason, caught.value.failure.kind) == (StopReason.CONTEXT_FULL, "context_full")


def test_the_room_that_is_left_limits_the_turn(tiny_gpt2, observe):
    """A model with learned positions would fail on the token after its last position."""
    policy = TransformersPolicy(tiny_gpt2, chat_format=PlainChat())
    (generation,) = play(policy, observe("ab " * 115))
    prompt_tokens = len(tiny_tokenizer()(generation.input, add_special_tokens=False)["input_ids"])
    assert generation.completion.finish_reason is FinishReason.LENGTH
    assert prompt_tokens + len(generation.completion.token_ids) == 256


def test_the_models_generation_config_changes_ends_and_nothing_else(tiny_llama, tmp_path, observe):
    (plain,) = play(TransformersPolicy(tiny_llama, max_new_tokens=15), observe("Hi."))
    folder = shutil.copytree(tiny_llama, tmp_path / "model")
    end = plain.completion.token_ids[4]
    settings = {"do_sample": True, "top_k": 1, "top_p": 0.1, "temperature": 0.01, "repetition_penalty": 9.0}
    (folder / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": [3, end]}))
    (generation,) = play(TransformersPolicy(folder, max_new_tokens=15), observe("Hi."))
    expected = plain.completion.token_ids
    assert generation.completion.token_ids == expected[: expected.index(end) + 1]
    assert generation.completion.finish_reason is FinishReason.STOP


async def test_sample(tiny_llama, seen):
    policy = TransformersPolicy(tiny_llama, max_new_tokens=6)
    prompts = [f"{BEGIN}one", f"{BEGIN}another prompt"]
    first = await policy.sample(prompts, 3)
    again = await policy.sample(prompts[1:], 3)
    other = await policy.sample(prompts[1:], 3, seeds=[1])
    await policy.close()
    assert [len(completions) for completions in first] == [3, 3]
    assert len({completion.token_ids for completion in first[0]}) == 3
    assert [c.token_ids for c in again[0]] == [c.token_ids for c in first[1]]
    assert [c.token_ids for c in other[0]] != [c.token_ids for c in first[1]]
    with pytest.raises(EpisodeError):  # known before any is computed
        await TransformersPolicy(tiny_llama).sample(["short", "long " * 600], 2)
    assert len(seen) == 12
    assert {request.prompt_ids.count(0) for request in seen} == {1}


async def test_cancelled_and_closed(tiny_llama, observe):
    policy = TransformersPolicy(tiny_llama, max_new_tokens=400, temperature=1.0)
    turn = asyncio.create_task(policy.act(observe("Hi.")))
    await asyncio.sleep(0.05)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await policy.close()
    with pytest.raises(RuntimeError, match="closed"):
        await policy.act(observe("Hi."))


def test_wrong_settings_name_their_repair(tiny_llama, tmp_path):
    tiny_tokenizer().save_pretrained(tmp_path)
    for model, settings, words in (
        (tiny_llama, {"dtype": "float17"}, "dtype must be auto"),
        (tiny_llama, {"max_new_tokens": 0}, "max_new_tokens at least 1"),
        (tiny_llama, {"device": "gpu"}, "--device must be auto"),
        (tmp_path, {}, "No causal language model could be loaded"),
    ):
        with pytest.raises(UsageError, match=words):
            TransformersPolicy(model, **settings)
