"""The learners: what an update needs and changes, resume to the bit, PPO and REINFORCE, and learners from folders."""

import asyncio
import copy
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sweet_rl.commands.archer_config import load_config
from sweet_rl.commands.run_archer import _loop_settings
from sweet_rl.errors import NonFiniteError, UsageError
from sweet_rl.online import losses
from sweet_rl.online.learner import LEARNERS
from sweet_rl.online.models import load_actor, load_weights, make_learner
from sweet_rl.online.policy import TokenPolicy, Utterance
from sweet_rl.online.replay import ReplayBuffer, transitions
from sweet_rl.online.settings import ON_POLICY, ArcherSettings
from sweet_rl.policies.weights import device_of
from sweet_rl.records import load_trajectories
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
from tests.online.test_loop import TRANSCRIPT, Watcher, play

TINY = ArcherSettings(
    max_new_tokens=6, batch_size=2, grad_accum_steps=3, epochs=2, actor_epochs=2, critic_lr=1e-3,
    lm_lr=1e-3, seed=5,
)  # fmt: skip
KINDS = [kind for kind in LEARNERS if kind != "archer_llm"]  # which is ArCHer
WITHOUT_CRITIC = ("online_filteredbc", "ppo", "reinforce")


def numbers_of(losses, statistics):
    of_each = (f"{name}.{key}" for name in statistics.split() for key in ("mean", "min", "max", "std"))
    return {*losses.split(), *of_each}


CRITIC_KEYS = numbers_of("q1.loss q2.loss v1.loss v2.loss", "q1 q2 v1 v2 target_q1 target_q2")
ACTOR_KEYS = numbers_of("pg.loss values.loss", "values advantages residual_advantages")
MODEL_SEED = 0
NEVER_MOVE = ("attn.c_attn.bias", "key.bias")
"""Biases of keys change nothing, so their gradients are rounding errors, which Adam makes steps of."""


def make(kind="archer", **more):
    settings = replace(TINY, agent_type=kind, **more)
    policy = TokenPolicy(policy_model(MODEL_SEED), policy_tokenizer(), settings)
    critic = None if kind in WITHOUT_CRITIC else critic_model(MODEL_SEED)
    return LEARNERS[kind](settings, policy, critic, Joined())


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


def test_values_of_tokens_are_learnt_and_resumed():
    learner, draw = make(use_baseline=True, lm_lr=1e-2), drawing()
    assert learner.policy.value_head.weight.abs().sum() == 0
    assert learner.update(draw, update_actor=True)["values.loss"] > 0
    assert learner.policy.value_head.weight.abs().sum() > 0
    state = torch.load(saved(learner.state_dict()), weights_only=True)
    resumed = make(use_baseline=True, lm_lr=1e-2)
    resumed.load_state_dict(state)
    infos = [one.update(drawing(1), update_actor=True) for one in (learner, resumed)]
    assert infos[0] == infos[1]
    assert all(map(torch.equal, weights(learner), weights(resumed)))


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def test_an_optimizer_that_made_no_step_is_saved_and_loaded_without_one():
    learner, again = make(), make()
    learner.update(drawing(), update_actor=False)
    state = torch.load(saved(learner.state_dict()), weights_only=True)
    assert state["lm_optimizer_state_dict"] == {}
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
    observations, actions = {row.observation for row in rows}, {row.action for row in rows}
    assert learner.critic.encoder.texts_read == len(observations) + len(actions)
    assert (
        learner.target.encoder.texts_read <= len(observations | {row.next_observation for row in rows}) + 24
    )


@pytest.mark.parametrize("kind", ["archer", "chai"])
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


@pytest.mark.parametrize("kind", ["archer", "online_filteredbc", "ppo"])
def test_a_loss_that_is_no_number_stops_before_the_step_and_keeps_the_rows(kind, tmp_path):
    learner = make(kind, save_path=str(tmp_path))
    bad = replace(ROWS[0], reward=float("nan"), mc_return=float("nan"))
    if kind == "online_filteredbc":
        learner.policy.model.transformer.wte.weight.data[:] = float("nan")
    before = weights(learner)
    with pytest.raises(NonFiniteError, match=r"nonfinite_batch\.jsonl"):
        learner.update(lambda count: [bad] * count, update_actor=True)
    assert all(torch.equal(a, b) or a.isnan().any() for a, b in zip(before, weights(learner), strict=True))
    lines = (tmp_path / "nonfinite_batch.jsonl").read_text().splitlines()
    assert [json.loads(line)["observation"] for line in lines] == [bad.observation] * 6


@pytest.mark.parametrize("normalize", [True, False])
def test_normalized_advantages_forget_what_all_rows_have_in_common(normalize):
    right, off = (make(normalize_advantages=normalize, epochs=0, actor_epochs=1) for _ in range(2))
    with torch.no_grad():
        for head in (off.critic.v_critic1, off.critic.v_critic2):
            head[-1].bias += 3
    found, found_off = (learner.update(drawing(), update_actor=True) for learner in (right, off))
    difference = found["advantages.mean"] - found_off["advantages.mean"]
    assert difference == pytest.approx(3, abs=1e-4)  # as they are
    policies = [list(learner.policy.model.parameters()) for learner in (right, off)]
    assert (distance(*policies) < 1e-6) == normalize


PUBLISHED = {"compat": "published"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"agent_type": "dqn"}, "^agent_type must "), ({"gamma": 1.5}, "^gamma must ")),
        *(({"batch_size": 0}, "^batch_size must "), ({"template": "no place"}, "^template must ")),
        *(({"compat": "old"}, "^compat must "), ({"shard_with": "zero"}, "shard_with must be fsdp2, got 'zero'")),
        (PUBLISHED | {"shard_with": "fsdp2"}, "compat=published computes in one process only"),
        (PUBLISHED | {"agent_type": "ppo"}, "agent_type=ppo is not part of the published code"),
        ({"agent_type": "ppo", "shard_with": "fsdp2"}, "shard_with divides no policy of agent_type=ppo"),
        ({"agent_type": "ppo", "clip_range": 0.0}, "clip_range must be positive"),
        (PUBLISHED | {"double_critic": False}, "compat=published has two critics"),
        (PUBLISHED | {"normalize_advantages": True}, "normalize_advantages.* or take compat=fixed"),
        (PUBLISHED | {"top_k": 3}, "top_k.* or take compat=fixed"),
        (PUBLISHED | {"agent_type": "chai", "eos_str": None}, "eos_str"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        ArcherSettings(**settings)
    ArcherSettings(agent_type="chai", eos_str=None)
    assert ArcherSettings(compat="published", top_k=50).top_k == 50


@pytest.mark.parametrize(
    ("more", "message"), [({"policy_lm": "./nothing"}, "nothing"), ({"device": "abacus"}, "device")]
)
def test_what_is_not_there_is_named(folders, more, message):
    assert device_of(settings_of(folders).device) == CPU
    with pytest.raises(UsageError, match=message):
        make_learner(settings_of(folders, **more), chat_format=Joined())


def test_every_update_step_and_row_has_draws_of_its_own():
    learner, seeds = make(), set()
    for update in range(2):
        assert learner.state_dict()["updates"] == update
        for phase in ("critic-0", "critic-1", "actor-0"):
            seeds |= {ask.seed for ask in learner._asks(phase, ROWS)}
        learner.update(drawing(), update_actor=False)
    assert len(seeds) == 2 * 3 * len(ROWS)


def test_the_clipped_loss_by_hand():
    """Ratios 1.5, 0.5, 1.1 and padding; what has moved too far already counts as if it had not."""
    old = torch.zeros(2, 2)
    new = torch.tensor([[1.5, 0.5], [1.1, 9.0]]).log()
    advantages = torch.tensor([[2.0, -1.0], [-3.0, 5.0]])
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    found = losses.clipped_losses(new, old, advantages, mask, 0.2)
    assert found.tolist() == pytest.approx([-(1.2 * 2 - 0.8), 1.1 * 3])


@pytest.mark.parametrize("kind", ["ppo", "reinforce"])
def test_what_returned_more_becomes_likelier(kind):
    """Two replies to the same words: after one of them the episode went well."""
    first = ROWS[0]
    good, bad = (replace(first, action=action, mc_return=own) for action, own in (("A?", 0.0), ("B?", -5.0)))
    learner = make(kind, actor_epochs=3)

    def odds():
        with torch.no_grad():
            said = [learner.policy.utterance(first.observation, one.action) for one in (good, bad)]
            scores = learner.policy.scores([first.observation] * 2, said).logps_B
        return (scores[0] - scores[1]).item()

    before = odds()
    learner.update(lambda count: [good, bad] * (count // 2), update_actor=True)
    assert odds() > before


def test_ppo_learns_the_values_of_tokens_and_leaves_what_has_moved_enough():
    still = make("ppo", actor_epochs=4, lm_lr=0.0, critic_lr=0.1)
    before = still.policy.value_head.weight.clone()
    info = still.update(drawing(), update_actor=True)
    assert not torch.equal(before, still.policy.value_head.weight)
    assert info["values.loss"] > 0
    wide, narrow = (make("ppo", actor_epochs=8, lm_lr=1e-2, clip_range=range_) for range_ in (10.0, 1e-4))
    first = [p.detach().clone() for p in wide.policy.model.parameters()]
    moved = []
    for learner in (wide, narrow):
        learner.update(drawing(), update_actor=True)
        weights = zip(first, learner.policy.model.parameters(), strict=True)
        moved.append(sum((a - b).pow(2).sum().item() for a, b in weights))
    assert moved[1] < moved[0]


def test_a_single_token_keeps_its_advantage():
    """Normalized or not: the deviation of one number is none."""
    row = drawing()(1)[0]
    moved = []
    for normalize in (True, False):
        one = {"max_new_tokens": 1, "batch_size": 1, "grad_accum_steps": 1}
        learner = make("ppo", normalize_advantages=normalize, **one)
        learner.policy.known_utterance = lambda *_: Utterance("I", (73,), finished=False)
        info = learner.update(lambda _: [row], update_actor=True)
        assert math.isfinite(info["pg.loss"])
        moved.append([p.detach().clone() for p in learner.policy.model.parameters()])
    assert all(map(torch.equal, *moved))


def test_it_learns_from_the_newest_iteration_only_and_from_its_own_discount(tmp_path):
    watcher = Watcher(draws=60)
    play(tmp_path / "run", watcher, on_policy=True, gamma=0.5)
    games = load_trajectories(tmp_path / "run" / "trajectories.jsonl")
    for iteration, seen in enumerate(watcher.seen):
        own = [game for game in games if game.extra["iteration"] == iteration]
        turns = {turn.observation + turn.action for game in own for turn in transitions(game, TRANSCRIPT)}
        assert set(seen) <= turns
    game = next(game for game in games if len(transitions(game, TRANSCRIPT)) >= 3)
    turns = transitions(game, TRANSCRIPT, 0.5)
    assert turns[-2].mc_return == turns[-2].reward + 0.5 * turns[-1].reward


def test_what_a_run_remembers_by_its_configuration():
    for kind in ("archer", "ppo"):  # the latter no older games
        loop = _loop_settings(load_config("archer_debug", [f"agent_type={kind}", "gamma=0.5"]))
        assert (loop.on_policy, loop.gamma) == ((kind != "archer"), 0.95 if kind == "archer" else 0.5)
    with pytest.raises(UsageError, match="compat=published draws turn by turn: leave whole_games out"):
        _loop_settings(load_config("archer_debug", ["whole_games=true", "compat=published"]))


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
    [(kind, "fixed") for kind in KINDS] + [(kind, "published") for kind in KINDS if kind not in ON_POLICY],
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
    assert all(map(torch.equal, weights(learner), weights(other)))
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
        *(one.encode(["a"]) for one in (learner.critic, learner.target))
    )  # with its own weights
    exact = make_learner(replace(settings, dtype="float32"), chat_format=Joined())
    said = exact.policy.sample([row.observation for row in ROWS], range(7))
    scores = [logprobs(one.policy, [row.observation for row in ROWS], said) for one in (learner, exact)]
    assert scores[0].tolist() != scores[1].tolist()
    assert scores[0].tolist() == pytest.approx(scores[1].tolist(), rel=0.05)
    info = learner.update(lambda count: ROWS[:count], update_actor=True)
    assert all(map(math.isfinite, info.values()))
