"""The learners: what an update needs and changes, resume to the bit, and that nothing depends on how it is cut."""

import asyncio
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sweet_rl.errors import NonFiniteError, UsageError
from sweet_rl.online.archer import (
    ArcherLearner,
    ChaiLearner,
    FilteredBCLearner,
    OnPolicyLearner,
    make_learner,
)
from sweet_rl.online.policy import TokenPolicy
from sweet_rl.online.replay import ReplayBuffer
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.types import Message, Observation
from tests.online.models import ROWS, Joined, critic_model, policy_model, policy_tokenizer

TINY = ArcherSettings(
    max_new_tokens=6,
    batch_size=2,
    grad_accum_steps=3,
    epochs=2,
    actor_epochs=2,
    critic_lr=1e-3,
    lm_lr=1e-3,
    seed=5,
)
KINDS = {
    "archer": ArcherLearner,
    "chai": ChaiLearner,
    "online_filteredbc": FilteredBCLearner,
    "ppo": OnPolicyLearner,
    "reinforce": OnPolicyLearner,
}
WITHOUT_CRITIC = ("online_filteredbc", "ppo", "reinforce")
CRITIC_KEYS = {f"{name}.loss" for name in ("q1", "q2", "v1", "v2")} | {
    f"{name}.{key}"
    for name in ("q1", "q2", "v1", "v2", "target_q1", "target_q2")
    for key in ("mean", "min", "max", "std")
}
ACTOR_KEYS = {"pg.loss", "values.loss"} | {
    f"{name}.{key}"
    for name in ("values", "advantages", "residual_advantages")
    for key in ("mean", "min", "max", "std")
}


MODEL_SEED = 0
NEVER_MOVE = ("attn.c_attn.bias", "key.bias")
"""Biases of keys change nothing, so their gradients are rounding errors, which Adam makes steps of."""


def make(kind="archer", **more):
    settings = replace(TINY, agent_type=kind, **more)
    policy = TokenPolicy(
        policy_model(MODEL_SEED),
        policy_tokenizer(),
        max_new_tokens=settings.max_new_tokens,
        max_tokens_per_batch=settings.max_tokens_per_batch,
        use_baseline=replace(settings, agent_type=kind).has_value_head,
    )
    if kind in WITHOUT_CRITIC:
        return KINDS[kind](settings, policy, Joined())
    return KINDS[kind](settings, policy, critic_model(MODEL_SEED), Joined())


def drawing(seed=0):
    buffer = ReplayBuffer(100)
    buffer.extend(ROWS)
    rng = np.random.default_rng(seed)
    return lambda count: buffer.sample(count, rng)


def weights(learner):
    parts = [learner.policy.model, *([learner.critic, learner.target] if hasattr(learner, "critic") else [])]
    named = [pair for part in parts for pair in part.named_parameters()]
    return [p.detach().clone() for name, p in named if not name.endswith(NEVER_MOVE)]


def distance(one, other):
    return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_gives_the_published_numbers_and_warm_up_leaves_the_policy_alone(kind):
    learner = make(kind)
    before = [p.detach().clone() for p in learner.policy.model.parameters()]
    info = learner.update(drawing(), update_actor=False)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.policy.model.parameters(), strict=True))
    assert set(info) == (set() if kind in WITHOUT_CRITIC else CRITIC_KEYS)
    info = learner.update(drawing(), update_actor=True)
    wanted = {"archer": CRITIC_KEYS | ACTOR_KEYS, "chai": CRITIC_KEYS, "online_filteredbc": {"bc.loss"}}
    wanted |= {"ppo": ACTOR_KEYS, "reinforce": ACTOR_KEYS}
    assert set(info) == wanted[kind]
    assert all(np.isfinite(value) for value in info.values())
    moved = any(not torch.equal(a, b) for a, b in zip(before, learner.policy.model.parameters(), strict=True))
    assert moved == (kind != "chai")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_baseline", [False, True])
def test_a_run_that_was_stopped_and_continued_is_the_run_that_was_not(kind, use_baseline):
    straight = make(kind, use_baseline=use_baseline)
    draw = drawing()
    straight.update(draw, update_actor=True)
    state = straight.state_dict()
    state = torch.load(_saved(state), weights_only=True)
    straight.update(drawing(1), update_actor=True)
    resumed = make(kind, use_baseline=use_baseline)
    resumed.load_state_dict(state)
    resumed.update(drawing(1), update_actor=True)
    assert all(torch.equal(a, b) for a, b in zip(weights(straight), weights(resumed), strict=True))


def _saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def test_an_optimizer_that_made_no_step_is_saved_and_loaded_without_one():
    learner = make()
    learner.update(drawing(), update_actor=False)
    state = torch.load(_saved(learner.state_dict()), weights_only=True)
    assert state["lm_optimizer_state_dict"] == {}
    again = make()
    again.load_state_dict(state)
    assert not learner.lm_optimizer.state
    assert not again.lm_optimizer.state


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_does_not_depend_on_how_its_rows_are_cut(kind):
    whole, cut = (make(kind, use_baseline=True), make(kind, use_baseline=True, max_tokens_per_batch=40))
    infos = [learner.update(drawing(), update_actor=True) for learner in (whole, cut)]
    assert infos[0] == pytest.approx(infos[1], rel=1e-5, abs=1e-6)
    assert distance(weights(whole), weights(cut)) < 1e-6


def test_each_distinct_text_is_encoded_once_a_step():
    learner = make(epochs=1, grad_accum_steps=12)
    rows = [ROWS[number % 7] for number in range(24)]
    learner.update(lambda count: rows[:count], update_actor=False)
    assert learner.critic.encoder.texts_read == len({row.observation for row in rows}) + len(
        {row.action for row in rows}
    )
    assert (
        learner.target.encoder.texts_read
        <= len({text for row in rows for text in (row.observation, row.next_observation)}) + 24
    )


@pytest.mark.parametrize("kind", KINDS)
def test_at_play(kind):
    learner = make(kind)

    async def turns(policy):
        observation = Observation("t", (Message("user", "Questions:\n"),), seed=3)
        others = [replace(observation, seed=seed) for seed in range(5)]
        found = await asyncio.gather(*map(policy.act, [observation, *others]))
        alone = await policy.act(observation)
        await policy.close()
        return found, alone

    found, alone = asyncio.run(turns(learner.rollout_policy(greedy=False)))
    assert found[0].completion.token_ids == found[4].completion.token_ids == alone.completion.token_ids
    assert len({one.completion.token_ids for one in found}) > 1
    assert all(one.input == "Questions:\n" and "\n" not in one.completion.text for one in found)
    greedy, _ = asyncio.run(turns(learner.rollout_policy(greedy=True)))
    assert len({one.completion.token_ids for one in greedy}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_no_number_stops_before_the_step_and_keeps_the_rows(kind, tmp_path):
    learner = make(kind, save_path=str(tmp_path))
    if kind == "online_filteredbc":
        learner.policy.model.transformer.wte.weight.data[0] = float("nan")
        bad = ROWS[0]
        with torch.no_grad():
            learner.policy.model.transformer.wte.weight.data[:] = float("nan")
    else:
        bad = replace(ROWS[0], reward=float("nan"), mc_return=float("nan"))
    before = weights(learner)
    with pytest.raises(NonFiniteError, match=r"nonfinite_batch\.jsonl"):
        learner.update(lambda count: [bad] * count, update_actor=True)
    assert all(torch.equal(a, b) or a.isnan().any() for a, b in zip(before, weights(learner), strict=True))
    lines = (tmp_path / "nonfinite_batch.jsonl").read_text().splitlines()
    assert [json.loads(line)["observation"] for line in lines] == [bad.observation] * 6


def test_values_of_tokens_are_learnt():
    learner = make(use_baseline=True, lm_lr=1e-2)
    assert learner.policy.value_head.weight.abs().sum() == 0
    info = learner.update(drawing(), update_actor=True)
    assert info["values.loss"] > 0
    assert learner.policy.value_head.weight.abs().sum() > 0


@pytest.mark.parametrize("normalize", [True, False])
def test_normalized_advantages_forget_what_all_rows_have_in_common(normalize):
    right, off = (make(normalize_advantages=normalize, epochs=0, actor_epochs=1) for _ in range(2))
    with torch.no_grad():
        for head in (off.critic.v_critic1, off.critic.v_critic2):
            head[-1].bias += 3
    found, found_off = (learner.update(drawing(), update_actor=True) for learner in (right, off))
    assert found["advantages.mean"] - found_off["advantages.mean"] == pytest.approx(
        3, abs=1e-4
    )  # as they are
    policies = [list(learner.policy.model.parameters()) for learner in (right, off)]
    assert (distance(*policies) < 1e-6) == normalize


def test_settings_out_of_range_are_refused():
    for wrong in (
        {"agent_type": "dqn"},
        {"gamma": 1.5},
        {"batch_size": 0},
        {"template": "no place"},
        {"compat": "old"},
    ):
        with pytest.raises(UsageError, match=f"^{next(iter(wrong))} must "):
            ArcherSettings(**wrong)


def test_models_that_are_not_there_are_named(tmp_path):
    settings = ArcherSettings(policy_lm=str(tmp_path / "nothing"), critic_lm=str(tmp_path / "neither"))
    with pytest.raises(UsageError, match="nothing"):
        make_learner(settings, chat_format=Joined())


@pytest.mark.parametrize("kind", KINDS)
def test_every_update_step_and_row_has_draws_of_its_own(kind):
    learner, seeds = make(kind), set()
    for update in range(2):
        assert learner.state_dict()["updates"] == update
        seeds |= {
            ask.seed for phase in ("critic-0", "critic-1", "actor-0") for ask in learner._asks(phase, ROWS)
        }
        learner.update(drawing(), update_actor=False)
    assert len(seeds) == 2 * 3 * len(ROWS)
