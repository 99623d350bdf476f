"""The real vLLM, as agent and as human. Needs SWEET_RL_VLLM_PYTHON; `make test-vllm` sets it up.

Three servers are started one after another, each in half a minute or more on two CPU cores.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweet_rl.chat import TokenizerChat
from sweet_rl.errors import EpisodeError, ServiceError
from sweet_rl.openai_client import OpenAIClient
from sweet_rl.policies.openai import OpenAIPolicy
from sweet_rl.policies.vllm import VLLMPolicy, VLLMServer
from sweet_rl.types import FinishReason, Message, Observation, StopReason
from tests.conftest import ROOT
from tests.tiny_models import save_tiny_llama

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

PYTHON = os.environ.get("SWEET_RL_VLLM_PYTHON", "")
ARGS = ("--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill")
"""The last one because a seeded request whose prompt is read in two parts ends vLLM 0.32's engine on a CPU."""

CONTEXT = 8192
"""The published human is given 4096 tokens for its reply, and vLLM refuses more than the model has."""


@pytest.fixture(scope="module", autouse=True)
def small_and_offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("VLLM_NO_USAGE_STATS", "1")
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model whose folder asks for greedy-like sampling: a policy must not listen."""
    folder = save_tiny_llama(tmp_path_factory.mktemp("models") / "llama", context=CONTEXT, head_dim=32)
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(config | {"do_sample": True, "top_k": 1}))
    return folder


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    server = VLLMServer(model, python=PYTHON, args=ARGS, log_path=tmp_path_factory.mktemp("logs") / "human")
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def choices(monkeypatch):
    """Every raw choice that a server sends."""
    received = []
    complete = OpenAIClient.complete

    async def spy(self, body):
        reply = await complete(self, body)
        received.extend(reply)
        return reply

    monkeypatch.setattr(OpenAIClient, "complete", spy)
    return received


def policy_of(server, model, **options):
    client = OpenAIClient([server.base_url])
    return OpenAIPolicy(client, str(model), chat_format=TokenizerChat.from_pretrained(model), **options)


def run(policy, use):
    async def main():
        try:
            return await use(policy)
        finally:
            await policy.close()

    return asyncio.run(main())


def observe(text, seed=0):
    return Observation("t", (Message("user", text),), seed)


def plain_logprobs(model, prompt_ids, token_ids):
    import torch
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model).eval()
    with torch.inference_mode():
        logits_TV = loaded(torch.tensor([[*prompt_ids, *token_ids]])).logits[0, len(prompt_ids) - 1 : -1]
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(token_ids)[:, None])[:, 0].tolist()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_tokens_logprobs_and_a_single_begin_token(server, model, choices, temperature):
    policy = policy_of(server, model, system_prompt="Rules.", temperature=temperature, max_tokens=20)
    generation = run(policy, lambda policy: policy.act(observe("Hi.")))
    completion = generation.completion
    tokenizer = TokenizerChat.from_pretrained(model).tokenizer
    prompt_ids = tokenizer(generation.input, add_special_tokens=False)["input_ids"]
    assert choices[0]["prompt_token_ids"] == prompt_ids
    assert prompt_ids.count(tokenizer.bos_token_id) == 1
    plain = plain_logprobs(model, prompt_ids, completion.token_ids)
    assert completion.logprobs == pytest.approx(plain, abs=1e-3)
    assert completion.finish_reason in {FinishReason.STOP, FinishReason.LENGTH}
    assert completion.text == tokenizer.decode(completion.token_ids, skip_special_tokens=True)


def test_greedy_turns_are_those_of_transformers(server, model):
    from sweet_rl.policies.transformers import TransformersPolicy

    turns = [observe("Hi."), observe("What should it return? A list of numbers.")]

    async def all_at_once(policy):
        return await asyncio.gather(*map(policy.act, turns))

    options = {"system_prompt": "Rules.", "temperature": 0.0}
    theirs = run(policy_of(server, model, max_tokens=15, **options), all_at_once)
    ours = run(TransformersPolicy(model, max_new_tokens=15, **options), all_at_once)
    assert [turn.input for turn in theirs] == [turn.input for turn in ours]
    assert [turn.completion.token_ids for turn in theirs] == [turn.completion.token_ids for turn in ours]


def test_samples_differ_although_the_models_folder_wants_only_the_likeliest(server, model):
    policy = policy_of(server, model, max_tokens=10)
    prompts = ["<|begin|>one", "<|begin|>another"]

    async def twice(policy):
        return await policy.sample(prompts, 4), await policy.sample(prompts, 4)

    first, again = run(policy, twice)
    assert [len({completion.token_ids for completion in completions}) for completions in first] == [4, 4]
    assert [[c.token_ids for c in row] for row in again] == [[c.token_ids for c in row] for row in first]


def test_context_full(server, model):
    with pytest.raises(EpisodeError) as caught:
        run(policy_of(server, model), lambda policy: policy.act(observe("word " * CONTEXT)))
    assert caught.value.stop_reason is StopReason.CONTEXT_FULL


def test_the_last_turn_gets_the_room_that_is_left(server, model):
    policy = policy_of(server, model, max_tokens=CONTEXT)
    generation = run(policy, lambda policy: policy.act(observe("ab " * (CONTEXT // 2 - 11))))
    used = len(TokenizerChat.from_pretrained(model).encode(generation.input))
    assert used + len(generation.completion.token_ids) == CONTEXT
    assert generation.completion.finish_reason is FinishReason.LENGTH


def test_chat(server, model):
    policy = policy_of(server, model, api="chat", max_tokens=5)
    generation = run(policy, lambda policy: policy.act(observe("Hi.")))
    assert json.loads(generation.input) == [{"role": "user", "content": "Hi."}]


def test_a_run_with_vllm_as_agent_and_as_human(server, model, tmp_path):
    """The agent's server is started by the command, the human's runs already."""
    output = tmp_path / "out.jsonl"
    port = server.base_url.rsplit(":", 1)[1].removesuffix("/v1")
    flags = {
        "input_path": "mini:test", "num_tasks": 4, "max_steps": 3, "max_tokens": 32, "agent": "vllm", "agent_model": model,
        "vllm_python": PYTHON, "vllm_args": " ".join(ARGS), "env_model": model, "hostname": "127.0.0.1", "port": port,
        "request_timeout_s": 300, "output_path": output,
    }  # fmt: skip
    command = [sys.executable, ROOT / "scripts/simulate_interactions.py", "--quiet"]
    command = [*map(str, command), *(f"--{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == 4
    for row in rows:
        history = row["dialogue_history"]
        assert [entry["role"] for entry in history] == (["user", "assistant"] * 3)[: len(history)]
        assert row["stop_reason"] in {"turn_limit", "answered"}
        for entry in history[1::2]:
            assert entry["input"].startswith("<|begin|><|header|>system")
            assert len(entry["token_ids"]) == len(entry["logprobs"]) <= 32
        assert not row.get("failures")


async def test_a_server_that_is_killed_ends_the_run_and_leaves_no_process(model, tmp_path):
    server = VLLMServer(model, python=PYTHON, args=ARGS, log_path=tmp_path / "log")

    policy = await VLLMPolicy.start(server, temperature=0.0, max_tokens=5)
    try:
        await policy.act(observe("Hi."))
        parent_watchdog = server._process.pid
        (api_server,) = children(parent_watchdog)
        os.kill(api_server, signal.SIGKILL)
        with pytest.raises(ServiceError, match="died"):
            await policy.act(observe("Hi."))
    finally:
        await policy.close()
    assert not children(parent_watchdog)
    assert not server.running


def children(pid):
    folder = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in folder.read_text().split()] if folder.exists() else []
