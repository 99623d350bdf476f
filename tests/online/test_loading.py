"""Learners from folders: every kind, weights to begin with, adapters, and the policy saved for others."""

import asyncio
import copy
import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.errors import UsageError
from sweet_rl.online.archer import make_learner
from sweet_rl.online.models import load_actor, load_weights
from sweet_rl.online.settings import AGENT_TYPES, ON_POLICY, ArcherSettings
from sweet_rl.policies.weights import device_of
from sweet_rl.types import Message, Observation
from tests.online.models import (
    ROWS,
    Joined,
    critic_model,
    critic_tokenizer,
    logprobs,
    policy_model,
    policy_tokenizer,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    policy_model().float().save_pretrained(root / "policy")
    policy_tokenizer().save_pretrained(root / "policy")
    critic_model().base_lm.float().save_pretrained(root / "critic")
    critic_tokenizer().save_pretrained(root / "critic")
    return root


def settings_of(folders, **more):
    small = ArcherSettings(
        policy_lm=str(folders / "policy"), critic_lm=str(folders / "critic"), max_new_tokens=4, batch_size=2,
        grad_accum_steps=2, epochs=1, actor_epochs=1, lm_lr=1e-3, critic_lr=1e-3, device="cpu",
    )  # fmt: skip
    return replace(small, **more)


def turn_of(learner):
    async def turn():
        policy = learner.rollout_policy(greedy=True)
        said = await policy.act(Observation("t", (Message("user", "Questions:\n"),), 0))
        await policy.close()
        return said.completion.text

    return asyncio.run(turn())


@pytest.mark.parametrize(
    ("kind", "compat"),
    [(kind, "fixed") for kind in AGENT_TYPES]
    + [(kind, "published") for kind in AGENT_TYPES if kind not in ON_POLICY],
)
def test_every_learner_plays_learns_and_goes_on(folders, tmp_path, kind, compat):
    settings = settings_of(folders, agent_type=kind, compat=compat)
    learner = make_learner(settings, chat_format=Joined())
    first = turn_of(learner)
    learner.update(lambda count: [ROWS[n % 7] for n in range(count)], update_actor=True)
    other = make_learner(settings, chat_format=Joined())
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    infos = [one.update(lambda count: ROWS[:count], update_actor=True) for one in (learner, other)]
    assert infos[0] == infos[1]
    assert turn_of(other) == turn_of(learner)
    assert isinstance(first, str)
    learner.save_policy(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)
    for one, kept in zip(saved.parameters(), learner.policy.model.parameters(), strict=True):
        assert torch.equal(one, kept)


def test_an_adapter_is_all_that_is_kept_of_a_frozen_policy(folders, tmp_path):
    settings = settings_of(folders, use_lora=True, lora_rank=2)
    learner = make_learner(settings, chat_format=Joined())
    base = {name: p.clone() for name, p in learner.policy.model.named_parameters() if not p.requires_grad}
    learner.update(lambda count: ROWS[:count], update_actor=True)
    state = learner.state_dict()
    assert all("lora_" in name for name in state["model_state_dict"])
    again = make_learner(settings, chat_format=Joined())
    again.load_state_dict(state)
    for name, p in again.policy.model.named_parameters():
        assert torch.equal(p, dict(learner.policy.model.named_parameters())[name])
        assert name not in base or torch.equal(p, base[name])
    learner.save_policy(tmp_path)
    assert (tmp_path / "adapter_config.json").exists()


def test_weights_to_begin_with(folders, tmp_path):
    other = policy_model(seed=7).float()
    torch.save({"model_state_dict": other.state_dict()}, tmp_path / "bc.pt")
    settings = settings_of(folders, checkpoint_path=str(tmp_path / "bc.pt"))
    policy = load_actor(settings, CPU)
    assert torch.equal(policy.model.transformer.wte.weight, other.transformer.wte.weight)
    torch.save({"model_state_dict": {"x": torch.zeros(1)}}, tmp_path / "wrong.pt")
    with pytest.raises(UsageError, match="another model"):
        load_weights(other, str(tmp_path / "wrong.pt"))
    torch.save({"model_state_dict": other}, tmp_path / "code.pt")  # a pickled model may run anything
    for name in ("code.pt", "nothing.pt"):
        with pytest.raises(UsageError, match="cannot be read"):
            load_weights(other, str(tmp_path / name))


def test_bfloat16_computes_in_it_and_keeps_the_weights(folders):
    settings = settings_of(folders, dtype="bfloat16")
    learner = make_learner(settings, chat_format=Joined())
    assert {p.dtype for p in learner.policy.model.parameters()} == {torch.float32}
    learner.target.base_lm.embeddings.word_embeddings.weight.data.zero_()
    assert not torch.equal(
        learner.critic.encode(["a"]), learner.target.encode(["a"])
    )  # each with its own weights
    exact = make_learner(replace(settings, dtype="float32"), chat_format=Joined())
    said = exact.policy.sample([row.observation for row in ROWS], range(7))
    scores = [logprobs(one.policy, [row.observation for row in ROWS], said) for one in (learner, exact)]
    assert scores[0].tolist() != scores[1].tolist()
    assert scores[0].tolist() == pytest.approx(scores[1].tolist(), rel=0.05)
    info = learner.update(lambda count: ROWS[:count], update_actor=True)
    assert all(map(math.isfinite, info.values()))


def test_devices(folders):
    assert device_of(settings_of(folders).device) == CPU
    with pytest.raises(UsageError, match="device"):
        make_learner(settings_of(folders, device="abacus"), chat_format=Joined())
