"""Everything that the published code was seen to compute (goldens/archer), in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sweet_rl.chat import PlainChat
from sweet_rl.online import losses
from sweet_rl.online.critic import critic_step, critic_targets, soft_update
from sweet_rl.online.losses import StepSettings
from sweet_rl.online.policy import TokenPolicy, Utterance
from sweet_rl.online.published import PublishedLearner, PublishedPolicy
from sweet_rl.online.replay import ReplayBuffer, best_numbers, mc_returns
from sweet_rl.online.settings import ArcherSettings
from tests.online.models import golden_critic, golden_policy, load_npz, logprobs, policy_tokenizer

EXACT = {"rel": 1e-8, "abs": 1e-8}


class SaysGoldens(PublishedPolicy):
    """The published policy, but for what it says."""

    said = None

    def get_action(self, observations, *, greedy=False):
        return [self.said[text] for text in observations]


def settings_of(goldens, **more):
    names = "critic_lr lm_lr grad_accum_steps batch_size gamma tau epochs actor_epochs max_grad_norm".split()
    return ArcherSettings(compat="published", **{name: goldens.hyper[name] for name in names}, **more)


def make_learner(goldens, *, with_critic=True, **more):
    settings = settings_of(goldens, **more)
    policy = SaysGoldens(golden_policy(goldens.folder), policy_tokenizer(), settings)
    policy.said = goldens.pi
    critic = golden_critic(goldens.folder) if with_critic else None
    learner = PublishedLearner(settings, policy, critic, PlainChat())
    if with_critic:
        learner.target.load_state_dict(load_npz(goldens.folder / "weights_target_critic.npz"))
    return learner


def close(found, expected, **tolerance):
    assert torch.as_tensor(found).flatten().tolist() == pytest.approx(
        np.ravel(expected).tolist(), **(tolerance or EXACT)
    )


def same_weights(module, path):
    expected = load_npz(path)
    found = module.state_dict()
    for name, weights in expected.items():
        assert torch.allclose(found[name], weights.double(), rtol=1e-7, atol=1e-7), name


@pytest.mark.parametrize("name", ["critic", "target_critic"])
def test_1_values(goldens, name):
    critic = golden_critic(goldens.folder, f"weights_{name}.npz")
    rows = goldens.rows[:4]
    with torch.no_grad():
        values = critic.read([row.observation for row in rows], [row.action for row in rows])
    expected = goldens.expected[f"1_forward_{name}"]
    for found, key in zip(values, ("q1", "q2", "v1", "v2"), strict=True):
        close(found, expected[key])


def test_2_advantage(goldens):
    critic = golden_critic(goldens.folder)
    observations = [row.observation for row in goldens.rows[:4]]
    with torch.no_grad():
        values = critic.read(observations, [goldens.pi[text] for text in observations])
    close(losses.advantages(values), goldens.expected["2_advantage"]["advantage"])


def test_3_critic_loss(goldens):
    learner, expected = make_learner(goldens), goldens.expected["3_critic_loss"]
    loss, info = learner.critic_loss(goldens.rows[:4])
    assert set(info) == set(expected["info"])
    assert info == pytest.approx(expected["info"], **EXACT)
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in learner.critic.parameters()])
    close(norm, expected["grad_norm_critic"])
    wanted = load_npz(goldens.folder / "grads_critic_case3_f64.npz")
    found = {name: p.grad for name, p in learner.critic.named_parameters()}
    for name, gradient in wanted.items():
        assert torch.allclose(found[name], gradient, atol=1e-9), name
    assert all(p.grad is None for p in learner.target.parameters())
    assert all(p.grad is None for p in learner.policy.model.parameters())


def test_3_targets_of_the_repaired_step(goldens):
    target = golden_critic(goldens.folder, "weights_target_critic.npz")
    rows = goldens.rows[:4]
    found = critic_targets(target, rows, [[goldens.pi[row.observation]] for row in rows], StepSettings(4))
    expected = goldens.expected["3_critic_loss"]
    keys = ("q1_target", "q2_target", "v1_target=target_q1(o,pi)", "v2_target")
    for tensor, key in zip(found, keys, strict=True):
        close(tensor, expected[key])


def test_4_polyak(goldens):
    online = golden_critic(goldens.folder)
    target = golden_critic(goldens.folder, "weights_target_critic.npz")
    soft_update(target, online, 0.1)
    expected = goldens.expected["4_polyak_tau0.1"]
    close(sum(p.abs().sum() for p in target.parameters()), expected["sum_abs"])
    close(target.critic1[0].bias[:4].detach(), expected["critic1.0.bias[:4]"])
    soft_update(target, online, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(target.parameters(), online.parameters(), strict=True))


def test_5_published_log_probabilities_depend_on_the_batch(goldens):
    policy = PublishedPolicy(golden_policy(goldens.folder), policy_tokenizer(), settings_of(goldens))
    expected = goldens.expected["5_log_prob"]
    with torch.no_grad():
        together = policy.get_log_prob(expected["observation"], expected["action"])
        close(together, expected["batched_right_padded"])
        for place, pair in enumerate(zip(expected["observation"], expected["action"], strict=True)):
            close(policy.get_log_prob(*([text] for text in pair)), expected["one_row_at_a_time"][place])


def test_5_repaired_log_probabilities_are_those_of_each_row_alone(goldens):
    policy = TokenPolicy(golden_policy(goldens.folder), policy_tokenizer(), ArcherSettings())
    expected = goldens.expected["5_log_prob"]
    without_end = [Utterance(text, tuple(text.encode()), finished=False) for text in expected["action"]]
    close(logprobs(policy, expected["observation"], without_end), expected["one_row_at_a_time"], abs=1e-4)
    whole = list(map(policy.utterance, expected["observation"], expected["action"]))
    assert [one.token_ids for one in whole] == [tuple(f"{text}\n".encode()) for text in expected["action"]]
    found = logprobs(policy, expected["observation"], whole)
    assert (found < torch.tensor(expected["one_row_at_a_time"])).all()


def test_6_actor_loss(goldens):
    learner, expected = make_learner(goldens), goldens.expected["6_actor_loss"]
    loss, info = learner.actor_loss(goldens.rows[:4])
    assert set(info) == set(expected["info"])
    assert info == pytest.approx(expected["info"], **EXACT)
    loss.backward()
    found = {name: p.grad for name, p in learner.policy.model.named_parameters()}
    close(torch.nn.utils.get_total_norm(list(found.values())), expected["grad_norm_policy"])
    for name, gradient in load_npz(goldens.folder / "grads_policy_case6_f64.npz").items():
        assert torch.allclose(found[name], gradient, atol=1e-9), name


def test_7_token_baseline(goldens):
    given, expected = goldens.inputs["token_baseline"], goldens.expected["7_token_baseline"]
    logps = torch.tensor(given["token_log_prob_masked"], dtype=torch.float64, requires_grad=True)
    values = torch.tensor(given["values"], dtype=torch.float64, requires_grad=True)
    mask, advantages = (torch.tensor(given[key], dtype=torch.float64) for key in ("mask", "advantage"))
    found = losses.baseline_losses(logps, values, mask, advantages, over_padding=True)
    policy_B, value_B, residuals_BT = found
    of_tokens = advantages[:, None].expand_as(values)  # its statistics are over tokens, too
    more = {"value_losses_B": value_B, "values": values, "residuals": residuals_BT}
    info = losses.actor_metrics(policy_B, of_tokens, **more)
    assert info == pytest.approx(expected["info"], **EXACT)
    (policy_B.mean() + value_B.mean()).backward()
    close(values.grad, expected["grad_values"])
    close(logps.grad, expected["grad_log_prob"])


def test_8_three_updates(goldens, monkeypatch):
    learner, norms = make_learner(goldens), []
    clip = torch.nn.utils.clip_grad_norm_

    def spy(parameters, max_norm):
        parts = (learner.policy.model, learner.critic, learner.target)
        alone = [[p.grad for p in part.parameters() if p.grad is not None] for part in parts]
        alone = [torch.nn.utils.get_total_norm(grads).item() if grads else 0.0 for grads in alone]
        norm = clip(parameters, max_norm)
        norms.append([*alone, norm.item()])
        return norm

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", spy)
    calls = zip(goldens.inputs["update_calls"], goldens.expected["8_update"], strict=True)
    for number, ((no_actor, order), expected) in enumerate(calls):
        norms.clear()
        info = learner.update(goldens.draw(order), update_actor=not no_actor)
        assert info == pytest.approx(expected["info"], rel=1e-6, abs=1e-6)
        keys = ("policy", "critic", "target", "joint_returned")
        wanted = [[call[key] for key in keys] for call in expected["clip_calls"]]
        assert norms == [pytest.approx(one, rel=1e-6, abs=1e-6) for one in wanted]
        parts = {"policy": learner.policy.model, "critic": learner.critic, "target_critic": learner.target}
        for name, part in parts.items():
            same_weights(part, goldens.folder / f"case8_after_update{number}_{name}_f64.npz")


def test_8_the_repaired_critic_does_the_same_while_it_trains_alone(goldens):
    critic = golden_critic(goldens.folder)
    target = golden_critic(goldens.folder, "weights_target_critic.npz").requires_grad_(requires_grad=False)
    optimizer = torch.optim.Adam(critic.parameters(), lr=goldens.hyper["critic_lr"])
    (_, order), expected = goldens.inputs["update_calls"][0], goldens.expected["8_update"][0]
    draw, infos = goldens.draw(order), []
    for _ in range(2):
        rows = draw(4)
        proposals = [[goldens.pi[row.observation]] for row in rows]
        infos.append(critic_step(critic, target, optimizer, rows, proposals, StepSettings(batch_size=2)))
    assert losses.means(infos) == pytest.approx(expected["info"], rel=1e-6, abs=1e-6)
    same_weights(critic, goldens.folder / "case8_after_update0_critic_f64.npz")
    same_weights(target, goldens.folder / "case8_after_update0_target_critic_f64.npz")


def test_9_behaviour_cloning(goldens):
    learner = make_learner(goldens, with_critic=False, agent_type="online_filteredbc")
    expected = goldens.expected["9_bc"]
    with torch.no_grad():
        close(learner.bc_loss(goldens.rows[:4])[0], expected["loss_batch_0_3"])
        rows = [learner.bc_loss([row])[0].item() for row in goldens.rows[:4]]
        assert rows == pytest.approx(expected["loss_rows"], **EXACT)
    info = learner.update(goldens.draw(goldens.inputs["bc_update_order"]), update_actor=True)
    assert info == pytest.approx(expected["update_info"], rel=1e-6)
    same_weights(learner.policy.model, goldens.folder / "case9_after_bc_policy_f64.npz")
    assert learner.update(goldens.draw([]), update_actor=False) == {}


def test_10_greedy_decoding(goldens):
    settings = settings_of(goldens, max_new_tokens=12)
    policy = PublishedPolicy(golden_policy(goldens.folder), policy_tokenizer(), settings)
    expected = goldens.expected["10_greedy"]
    observations = [row.observation for row in goldens.rows[:4]]
    assert policy.get_action(observations, greedy=True) == expected["get_action"]
    repaired = TokenPolicy(
        golden_policy(goldens.folder), policy_tokenizer(), ArcherSettings(max_new_tokens=12)
    )
    written = repaired.sample(observations, range(4), greedy=True)
    assert [list(one.token_ids) for one in written] == expected["one_row_at_a_time_new_tokens"]


def test_11_chai_takes_what_the_target_likes_best(goldens):
    learner = make_learner(goldens, agent_type="chai")
    expected, rounds = goldens.expected["11_chai"], iter(goldens.inputs["chai_candidates"])
    learner.policy.get_action = lambda observations, greedy=False: next(rounds)
    observations = [row.observation for row in goldens.rows[:4]]
    assert learner.choose(observations) == expected["selected"]
    with torch.no_grad():
        wanted = expected["min_target_q[candidate][row]"]
        for actions, least in zip(goldens.inputs["chai_candidates"], wanted, strict=True):
            values = learner.target.read(observations, actions)
            close(torch.minimum(values.q1_B, values.q2_B), least)


def test_returns_filter_and_buffer(goldens):
    for case in goldens.env["returns"]:
        assert mc_returns(case["rewards"]) == pytest.approx(case["mc_return"])
    row = goldens.rows[0]
    for case in goldens.env["filter"]:
        assert best_numbers(case["episode_rewards"]) == case["kept_indices"]
    case = goldens.env["replay_buffer"]
    buffer = ReplayBuffer(case["capacity"])
    buffer.extend(replace(row, observation=f"o{i}") for i in range(case["inserted"]))
    assert [one.observation for one in buffer.slots] == case["slots"]
    assert (buffer.inserted, len(buffer.slots)) == (case["len"], case["capacity"])
    drawn = buffer.sample_published(12, np.random.RandomState(0))
    assert [one.observation for one in drawn] == case["np.random.seed(0)_12x_sample(1)"]
