"""A world behind OpenEnv's own server and client; TRL's GRPO learns from it."""

import asyncio
import re
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from itertools import groupby
from types import SimpleNamespace

import pytest

import sweet_rl
from tests.integrations.agent import hidden_in, policy, say

pytest.importorskip("openenv", reason="needs the extra `openenv`")

from openenv import GenericEnvClient

pytestmark = pytest.mark.timeout(900)


@contextmanager
def served(*words):
    """The address of a server."""
    command = [sys.executable, "-m", "sweet_rl", "serve_env", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        found = re.search(r"http://\S+", process.stdout.readline())[0]
        while True:
            try:
                urllib.request.urlopen(f"{found}/health")
                break
            except OSError:
                assert process.poll() is None
        try:
            yield found
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def url():
    with served("code", "--tasks", "mini:test", "--num_tasks", "20") as found:
        yield found


def played(client, task_id):
    """The rewards of the scripted agent's episode, and all that the client was told."""
    heard, rewards, told = client.reset(task_id=task_id), [], []
    while not heard.done:
        told.append(heard.observation)
        messages = [sweet_rl.Message(**one) for one in heard.observation["messages"]]
        heard = client.step({"text": say(messages)})
        rewards.append(heard.reward)
    return rewards, told


def test_reset_step_and_state(url):
    tasks = sweet_rl.load_tasks("mini:test", num_tasks=20)
    ours = sweet_rl.grade(sweet_rl.simulate("code", tasks, agent=policy()))
    with GenericEnvClient(base_url=url) as client:
        for task, episode in zip(tasks, ours, strict=True):
            rewards, told = played(client, task.task_id)
            assert rewards == [0.0] * (len(rewards) - 1) + [episode.reward]
            wanted = {"task_id": task.task_id, "step_count": len(rewards), "rewards": rewards}
            assert {name: client.state()[name] for name in wanted} == wanted
            assert hidden_in(task, told) == []


def test_a_port_that_is_taken_is_named(url):
    command = [sys.executable, "-m", "sweet_rl", "serve_env", "code", "--num_tasks", "1"]
    command += ["--port", url.rpartition(":")[2]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Serving" not in done.stdout
    assert "Cannot listen on 127.0.0.1, port" in done.stderr


def test_sessions_do_not_share_an_episode(url):
    first, second = (task.task_id for task in sweet_rl.load_tasks("mini:test", num_tasks=2))
    with GenericEnvClient(base_url=url) as one, GenericEnvClient(base_url=url) as other:
        one.reset(task_id=first)
        other.reset(task_id=second)
        one.step({"text": "Why?"})
        assert (one.state()["task_id"], one.state()["step_count"]) == (first, 1)
        assert (other.state()["task_id"], other.state()["step_count"]) == (second, 0)


async def test_a_session_that_ends_frees_its_episode():
    from sweet_rl.integrations.openenv import WorldEnvironment
    from sweet_rl.integrations.worlds import WorldChoice, open_world

    async with open_world(WorldChoice(world="code", num_tasks=1)) as world:
        session = WorldEnvironment(world)
        await session.reset_async()
        closed = asyncio.Event()

        async def close():
            closed.set()

        session._episode.close = close
        await asyncio.to_thread(session.close)
        await asyncio.wait_for(closed.wait(), 10)


@pytest.mark.filterwarnings("ignore")  # of what TRL still does
def test_grpo_takes_three_steps(url, tmp_path):
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sweet_rl.chat.formats import EMBEDDED, model_path
    from sweet_rl.integrations.trl import Rollout, total

    seen = []

    class Watched(Rollout):
        def __call__(self, prompts, trainer):
            seen.append(super().__call__(prompts, trainer))
            return seen[-1]

    path = model_path(EMBEDDED)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    tasks = sweet_rl.load_tasks("mini:test", num_tasks=6)
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=total,
        rollout_func=Watched(url, max_tokens=48),
        train_dataset=datasets.Dataset.from_list([{"prompt": task.task_id} for task in tasks]),
        args=trl.GRPOConfig(
            str(tmp_path), max_steps=3, per_device_train_batch_size=4, num_generations=4, learning_rate=1e-3,
            use_cpu=True, bf16=False, report_to="none", save_strategy="no", max_completion_length=2048,
        ),
    )  # fmt: skip
    trainer.train()
    assert trainer.state.global_step == 3
    assert any((before[name] != value).any() for name, value in model.named_parameters())
    assert len(seen) == 3
    for batch in seen:
        columns = (batch[name] for name in ("completion_ids", "env_mask", "logprobs"))
        for ids, mask, logprobs in zip(*columns, strict=True):
            assert len(ids) == len(mask) == len(logprobs) and sum(mask) > 0
            assert max(logprob for logprob, own in zip(logprobs, mask, strict=True) if own) <= 0


def test_what_the_agent_is_told_is_no_part_of_the_loss():
    torch = pytest.importorskip("torch")
    pytest.importorskip("trl")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sweet_rl.chat.formats import EMBEDDED, model_path
    from sweet_rl.integrations.trl import Rollout

    path = model_path(EMBEDDED)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    trainer = SimpleNamespace(model=model, processing_class=tokenizer, args=SimpleNamespace(temperature=0.5))
    trainer.accelerator = SimpleNamespace(unwrap_model=lambda one: one)
    (task,) = sweet_rl.load_tasks("twenty-questions:test", num_tasks=1)
    with served("twenty_questions", "--max_turns", "3") as found:
        played = Rollout(found, max_tokens=8)([task.task_id], trainer)
    (ids,), (mask,), (logprobs,) = (played[name] for name in ("completion_ids", "env_mask", "logprobs"))
    assert played["rewards"] == [[-1.0, -1.0, -1.0]]
    groups = groupby(zip(ids, mask, strict=True), lambda pair: pair[1])
    parts = [(own, [one for one, _ in group]) for own, group in groups]
    assert [own for own, _ in parts] == [1, 0, 1, 0, 1]
    for own, part in parts:
        text = tokenizer.decode(part, skip_special_tokens=True)
        assert len(part) <= 8 if own else ("No" in text or "Yes" in text or "Invalid" in text), text
    assert [known for known, own in zip(logprobs, mask, strict=True) if not own] == [0.0] * mask.count(0)
    with (
        torch.no_grad()
    ):  # the trainer's pass over the whole, at its temperature, gives the sampler's numbers
        prompt = played["prompt_ids"][0]
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1] / 0.5
    again = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    own = torch.tensor(mask).bool()
    assert torch.allclose(again[own], torch.tensor(logprobs)[own], atol=1e-4)
