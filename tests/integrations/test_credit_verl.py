"""verl's own loss learns from a critic's credit in verl's own batches, each turn its own way; and not without it."""

import numpy as np
import pytest

from sweet_rl.records import replace_rows
from tests.integrations.credit import changed, episode, episodes, findings, shown
from tests.tiny_models import tiny_tokenizer

pytest.importorskip("verl", reason="needs the extra `verl`")

import torch
from transformers import AutoModelForCausalLM
from verl import DataProto
from verl.trainer.config.algorithm import AlgoConfig
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.utils.torch_functional import logprobs_from_logits
from verl.workers.config import ActorConfig

from sweet_rl.integrations.tokens import credited_rows, runs
from sweet_rl.integrations.verl_credit import batch_of, credited, scored

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]  # of what verl still does


def batch(rows):
    return batch_of(rows, pad_id=tiny_tokenizer().eos_token_id)


def logprobs(model, data):
    """Of the responses' tokens, by verl's own function; (B, T)."""
    given = {name: data.batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    width = data.batch["responses"].shape[1]
    logits = model(**given).logits[:, -width - 1 : -1]
    return logprobs_from_logits(logits, data.batch["responses"])


def learned(rows, folder, *, steps=1):
    """The policy before and after steps of verl's policy loss, and the gradient of the first."""
    model = AutoModelForCausalLM.from_pretrained(folder / "policy")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    loss_of, data, gradient = get_policy_loss_fn("vanilla"), batch(rows), None
    for _ in range(steps):
        logps = logprobs(model, data)
        loss, _ = loss_of(
            old_log_prob=logps.detach(), log_prob=logps, advantages=data.batch["advantages"],
            response_mask=data.batch["response_mask"], loss_agg_mode="token-mean", config=config,
        )  # fmt: skip
        optimizer.zero_grad()
        loss.backward()
        if gradient is None:
            gradient = torch.cat([value.grad.flatten() for value in model.parameters()])
        optimizer.step()
    return model, gradient


def test_a_batch_has_what_was_sampled_in_verls_places(rows):
    data = batch(rows)
    assert findings(dumped(data)) == []
    assert set(data.batch.keys()) == {
        "prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask", "rollout_log_probs",
        "rm_scores", "token_level_scores", "token_level_rewards", "advantages", "returns",
    }  # fmt: skip
    assert data.non_tensor_batch["uid"].tolist() == [row["task_id"] for row in rows]
    width = data.batch["prompts"].shape[1]
    for place, row in enumerate(rows):
        one = {name: data.batch[name][place].tolist() for name in data.batch.keys()}  # noqa: SIM118 - a TensorDict
        size, length = len(row["prompt_ids"]), len(row["completion_ids"])
        assert one["prompts"][width - size :] == row["prompt_ids"]
        assert one["input_ids"] == one["prompts"] + one["responses"]
        assert one["responses"][:length] == row["completion_ids"]
        padded = [0] * (len(one["responses"]) - length)
        assert one["response_mask"] == row["env_mask"] + padded
        assert one["attention_mask"] == [0] * (width - size) + [1] * (size + length) + padded
        assert one["position_ids"][width - size : width + length] == list(range(size + length))
        assert one["rollout_log_probs"][:length] == pytest.approx(row["logprobs"])
        assert one["advantages"][:length] == pytest.approx(row["advantages"], abs=1e-6)
        ends = [end - 1 for _, end in runs(row["env_mask"])]
        assert [one["token_level_rewards"][end] for end in ends] == pytest.approx(row["credit"], abs=1e-6)
        assert sum(one["token_level_rewards"]) == pytest.approx(sum(row["credit"]), abs=1e-5)
    assert {len(row["completion_ids"]) for row in rows} != {len(rows[0]["completion_ids"])}


def dumped(data):
    """A batch's columns, a row each."""
    names = ("responses", "response_mask", "advantages", "token_level_rewards")
    columns = zip(*(data.batch[name].tolist() for name in names), strict=True)
    uids = data.non_tensor_batch["uid"].tolist()
    return [dict(zip(names, one, strict=True), uid=uid) for one, uid in zip(columns, uids, strict=True)]


def estimated(name, *, by_turns=False):
    """Rows of verl's own estimator: two tasks, repeats of one to three turns, rewarded at the end or at each."""
    from verl.trainer.ppo.ray_trainer import compute_advantage  # it warns

    some = [episode(task, repeat, turns=1 + repeat) for task in range(2) for repeat in range(3)]
    paid = [[0.5], [0.25, 1.0], [0.0, 1.0, 0.125], [0.0], [2.0, 0.5], [0.25, 0.5, 0.75]]
    paid = paid if by_turns else [[0.0] * (len(own) - 1) + own[-1:] for own in paid]
    data = batch(credited_rows(some, paid, tiny_tokenizer()))
    data.non_tensor_batch["score"] = data.batch["rm_scores"].sum(1).numpy()
    data.batch["values"] = torch.randn(data.batch["responses"].shape, generator=torch.manual_seed(0))
    data.batch["reward_baselines"] = torch.tensor([0.25] * 3 + [0.5] * 3)
    config = AlgoConfig(adv_estimator=name, gdpo_reward_keys=["score"])
    return dumped(compute_advantage(data, name, lam=0.9, config=config))


NAMES = "gae grpo grpo_passk reinforce_plus_plus_baseline rloo rloo_vectorized reinforce_plus_plus remax gpg"


def shifted(row):
    row["response_mask"] = [0, *row["response_mask"][:-1]]


def lost(row):
    start, end = runs(row["response_mask"])[2]
    row["advantages"][start:end] = [0.0] * (end - start)


@pytest.mark.parametrize(("name", "fault", "words"), [
        *((name, dict, None) for name in NAMES.split()),
        *((name, shifted, "stand where the agent said nothing") for name in ("grpo", "remax", "gae")),
        *((name, lost, "turn 2: it has no advantage (0)") for name in ("grpo", "reinforce_plus_plus", "gae")),
        ("opo", dict, "counts tokens, not episodes"),
        ("gdpo", dict, "normalised twice: over the episodes of each group"),
])  # fmt: skip
def test_rows_of_verls_estimators_pass_and_what_is_wrong_with_them_is_found(name, fault, words):
    for rows in (estimated(name), estimated(name, by_turns=True)):
        fault(rows[2])
        found = findings(rows)
        assert words in found[0][1] if words else found == []
        assert fault is not dict or findings(rows, claim="other") == []


def test_verls_own_function_computes_the_advantages(rows):
    """`algorithm.adv_estimator=turn_credit`: by its registry and its `compute_advantage`."""
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data = batch(rows)
    wanted = data.batch.pop("advantages")
    data.batch.pop("returns")
    found = compute_advantage(data, "turn_credit", config=AlgoConfig(adv_estimator="turn_credit"))
    torch.testing.assert_close(found.batch["advantages"], wanted)
    mask, rewards = torch.tensor([[1, 1, 0, 1]]), torch.tensor([[0.5, 1.0, 9.0, 4.0]])
    advantages, _ = get_adv_estimator_fn("turn_credit")(token_level_rewards=rewards, response_mask=mask)
    assert advantages.tolist() == [[-1.25, -1.25, 0.0, 1.25]]


def test_verls_loss_moves_each_turn_its_own_way(rows, folder):
    model, _ = learned(rows, folder, steps=3)
    data = batch(rows)
    with torch.no_grad():
        before = AutoModelForCausalLM.from_pretrained(folder / "policy")
        gains = logprobs(model, data) - logprobs(before, data)
    kinds = set()
    for place, row in enumerate(rows):
        for start, end in runs(row["env_mask"]):
            if abs(row["advantages"][start]) > 0.2:
                kinds.add((row["advantages"][start] > 0, gains[place, start:end].mean().item() > 0))
    assert kinds == {(True, True), (False, False)}


def test_without_credit_there_is_no_gradient_and_the_other_way_round_its_opposite(rows, folder):
    """Broken on purpose: zero, the same for all turns, flipped, dealt to other turns."""
    _, gradient = learned(rows, folder)
    assert gradient.abs().max() > 1e-3
    for factor in (lambda value: 0.0, lambda value: 7.0):
        assert not learned(changed(rows, factor), folder)[1].any()
    torch.testing.assert_close(learned(changed(rows, lambda value: -value), folder)[1], -gradient)
    swapped = [row | {"credit": row["credit"][::-1]} for row in rows]
    assert torch.cosine_similarity(learned(swapped, folder)[1], gradient, dim=0) < 0.5


def test_what_the_page_shows_is_that_loss(rows, folder, tmp_path):
    replace_rows(tmp_path / "rows.jsonl", rows)
    model = AutoModelForCausalLM.from_pretrained(folder / "policy")
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    loss = shown("batch.py")["loss"]
    loss(tmp_path / "rows.jsonl", lambda data: logprobs(model, data), config, tiny_tokenizer().eos_token_id).backward()  # fmt: skip
    gradient = torch.cat([value.grad.flatten() for value in model.parameters()])
    torch.testing.assert_close(gradient, learned(rows, folder)[1], rtol=1e-4, atol=1e-6)


def test_a_turn_without_credit_is_no_part_of_the_loss(rows):
    data = batch([rows[0] | {"credit": [None, 1.0]}, *rows[1:]])
    (start, end), (_, last) = runs(rows[0]["env_mask"])
    assert data.batch["response_mask"][0, start:end].sum() == 0
    assert data.batch["rm_scores"][0].nonzero().tolist() == [[last - 1]]
    mean = (1.0 + sum(value for row in rows[1:] if row["task_id"] == "t0" for value in row["credit"])) / 3
    assert data.batch["advantages"][0, last - 1] == pytest.approx(1.0 - mean, abs=1e-6)


def test_what_verl_has_played_is_credited(rows, critic):
    """The same numbers of a batch as an agent loop leaves it: tokens, masks, the reference solution."""
    wanted, data = batch(rows), batch(rows)
    told = {one.task.task_id: one.task.ground_truth for one in episodes()}
    kept = ("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
    solutions = np.array([{"style": "rule", "ground_truth": told[row["task_id"]]} for row in rows], object)
    others = {"uid": data.non_tensor_batch["uid"], "reward_model": solutions}
    played = DataProto.from_dict({name: data.batch[name] for name in kept}, others)
    found = credited(played, critic, tiny_tokenizer())
    for name in ("response_mask", "rm_scores", "token_level_rewards", "advantages", "returns"):
        torch.testing.assert_close(found.batch[name], wanted.batch[name], atol=1e-5, rtol=1e-5)


def test_a_batch_of_one_group_needs_no_uid(rows):
    data = batch(rows)
    del data.non_tensor_batch["uid"]
    values = [row["credit"] for row in rows]
    every = [value for own in values for value in own]
    found = scored(data, values).batch["advantages"]
    assert found[0, 0] == pytest.approx(values[0][0] - sum(every) / len(every), abs=1e-6)
