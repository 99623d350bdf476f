"""Models, losses and trainers against what the published code computed on a tiny GPT-2."""

import random

import pytest
import torch

from sweet_rl.online.reflect.agent import Agent, Sampling, dropout, entropy_of, sampling_logps
from sweet_rl.online.reflect.models import _with_fresh_adapter, _with_trained_adapter, save_agent
from sweet_rl.online.reflect.play import Played, Step
from sweet_rl.online.reflect.settings import ReflectSettings
from sweet_rl.online.reflect.trainer import (
    Critic,
    Trainer,
    ValueHead,
    policy_gradient_loss,
    ppo_loss,
    q_values,
    value_loss,
)
from sweet_rl.online.replay import Successes
from tests.online.reflect.tiny import CharTokenizer, golden, logps_of, tiny_model

LABELS = [str(number) for number in range(6)]


@pytest.fixture
def found(shared):
    return golden(shared)


def made(shared, lora=True, **more):
    return Agent(tiny_model(shared, lora=lora), CharTokenizer(), Sampling(), **more)


@pytest.fixture
def agent(shared, found):
    return made(shared, labels=LABELS, label_ids=found["shrink_head"]["action_token_ids"])


def close(one, other):
    return one == pytest.approx(other, abs=1e-4)


def steps(found):
    """The recorded batch: prompts, actions, Q values as costs of the last step on."""
    rows = found["compile"]
    costs = [cost for episode in found["q_values"]["costs"] for cost in episode]
    made = []
    each = zip(rows["tokens"], rows["attention_mask"], costs, rows["prob"], strict=True)
    for ids, mask, cost, prob in each:
        real = [token for token, seen in zip(ids, mask, strict=True) if seen]
        prompt = CharTokenizer().decode(real[:-1])
        made.append(Step(prompt, str(real[-1]), (real[-1],), torch.tensor(prob).log().item(), 0.0, cost))
    return made


def episodes(found):
    made = steps(found)
    return [Played("a", 0, 0.0, tuple(made[:3])), Played("b", 0, 0.0, tuple(made[3:]))]


def tensors(found):
    made = steps(found)
    return [step.prompt for step in made], [step.token_ids for step in made]


def test_the_small_head_gives_the_labels_logits_of_the_whole_one(agent, found, shared):
    case = found["shrink_head"]
    whole = made(shared, lora=False)
    small = made(shared, lora=False, labels=LABELS, label_ids=case["action_token_ids"])
    ids = case["input_ids"]
    place = [[len(ids[0]) - 1]]
    with torch.no_grad():
        adapted, bare = agent.read(ids, place)[0][0], whole.read(ids, place)[0][0]
        assert torch.allclose(small.read(ids, place)[0][0], bare[case["action_token_ids"]], atol=1e-6)
    assert close(adapted.tolist(), case["shrunk_last_logits"])
    assert close(adapted.softmax(dim=0).tolist(), case["softmax"])


def distribution(agent, prompts):
    with torch.inference_mode():
        sequences = [agent.encode(prompt) for prompt in prompts]
        logits, _ = agent.read(sequences, [[len(ids) - 1] for ids in sequences])
        return sampling_logps(logits, agent.sampling)


def test_completion_has_the_distribution_whatever_is_beside_it(agent, found, shared):
    cases = [case for case in found["completion"]["results"] if case["prompt"] is not None]
    together = distribution(agent, [case["prompt"] for case in cases])
    for case, logps in zip(cases, together, strict=True):
        assert close(logps.exp().tolist(), case["distribution"])
        assert close(entropy_of(logps).item(), case["entropy"])
        assert close(distribution(agent, [case["prompt"]])[0].tolist(), logps.tolist())
    chosen = agent.choose([case["prompt"] for case in cases], [1, 2, 3])
    for logps, one in zip(together, chosen, strict=True):
        assert one.logprob == pytest.approx(logps[one.token_ids[0]].item(), abs=1e-5)
        assert one.text == LABELS[one.token_ids[0]]


def test_q_values(found):
    case = found["q_values"]
    names = ("costs", "entropy", "coef0", "coef0.1")
    for costs, entropies, plain, bonus in zip(*(case[name] for name in names), strict=True):
        assert q_values(costs, entropies) == plain
        assert q_values(costs, entropies, 0.1) == pytest.approx(bonus)


def test_policy_gradient_and_its_norm(agent, found):
    case = found["pg"]
    logps = logps_of(agent, *tensors(found))
    assert close(logps.tolist(), case["log_prob_per_row"])
    assert close(logps.exp().tolist(), found["calc_probs"]["probs"])
    q = torch.tensor(found["compile"]["Q_value"])
    loss = policy_gradient_loss(logps, q)
    assert close(loss.item(), case["sum_loss"])
    (loss / 5).backward()
    norm = torch.nn.utils.clip_grad_norm_(agent.trainable(), 1e9)
    assert norm.item() == pytest.approx(case["lora_grad_norm_of_mean_loss"], rel=1e-4)


@pytest.mark.parametrize("clip", [0.1, 0.2])
def test_ppo(agent, found, clip):
    case = found["ppo"]
    logps = logps_of(agent, *tensors(found)).detach()
    old = torch.tensor(case["old_probs"]).log()
    assert close((logps - old).exp().tolist(), case["ratio"])
    loss = ppo_loss(logps, old, torch.tensor(found["compile"]["advantage"]), clip) / 5
    assert close(loss.item(), case[f"loss_clip{clip}"])


def sums(model):
    return {
        name: [value.sum().item(), value.abs().sum().item()]
        for name, value in model.named_parameters()
        if value.requires_grad
    }


SETTINGS = {"per_device_train_batch_size": 5, "learning_rate": 2e-4, "env": "taxi"}


def test_one_update_moves_the_adapter_as_published(agent, found):
    case = found["pg_trainer_one_update"]
    before = sums(agent.model)
    assert all(close(before[name], value) for name, value in case["lora_sum_abssum_before"].items())
    update = Trainer(agent, ReflectSettings(**SETTINGS)).train(episodes(found))
    assert close(update.loss, case["returned"]["loss"])
    assert update.critic_loss is None
    after = sums(agent.model)
    assert all(close(after[name], value) for name, value in case["lora_sum_abssum_after"].items())


def test_accumulation_pools_calls_and_empty_ones_do_not_count(agent, found):
    trainer = Trainer(agent, ReflectSettings(gradient_accumulation_steps=2, **SETTINGS))
    first, second = episodes(found)
    assert trainer.train([first]) == (None, None)
    assert trainer.train([]) == (None, None)
    assert close(trainer.train([second]).loss, found["pg_trainer_accumulate2"]["second"]["loss"])


@pytest.mark.parametrize(("compat", "count"), [("published", 1), ("fixed", 2)])
def test_the_critic_gets_every_call_of_an_update(agent, found, compat, count):
    settings = ReflectSettings(gradient_accumulation_steps=2, compat=compat, **SETTINGS)
    trainer = Trainer(agent, settings, published_critic(agent))
    for episode in episodes(found):
        trainer.train([episode])
    episodes_of = {3: 1, 2: 1, 5: 2}
    assert episodes_of[len(trainer._critic_data)] == count


TEXTS = ["aa", "bbb", "c", "dd", "eeee"]
"""What the published critic was shown for the five steps, in batches of two."""


class Shown(Critic):
    """A critic that is shown other texts than the policy, as in the recording."""

    def features(self, prompts):
        shown = dict(zip(self.prompts, TEXTS, strict=True))
        return super().features([shown.get(prompt, prompt) for prompt in prompts])


def shown_critic(agent, found):
    critic = published_critic(agent)
    shown = Shown(agent, critic.head, compat="published")
    shown.prompts = tensors(found)[0]
    return shown


def published_critic(agent, *, compat="published"):
    head = ValueHead(16)
    with torch.no_grad():
        head.score[0].weight.copy_(0.3 * torch.cos(0.5 * torch.arange(16.0)))
        head.score[0].bias.fill_(0.05)
    return Critic(agent, head, compat=compat)


def test_published_values_read_twenty_tokens_and_depend_on_padding(agent, found):
    case = found["critic"]
    critic = published_critic(agent)
    for text, value in case["values"].items():
        assert close(critic.values([text]).item(), value)
    assert close(critic.values(["aa", "bbb"]).tolist(), case["batched_values_aa_bbb"])


def test_values_depend_on_the_text_alone(agent, found):
    critic = published_critic(agent, compat="fixed")
    texts = ["aa", "bbb", "this prompt is longer than twenty characters"]
    alone = [critic.values([text]).item() for text in texts]
    assert critic.values(texts).tolist() == pytest.approx(alone, abs=1e-5)
    assert close(alone[:2], [found["critic"]["values"][text] for text in texts[:2]])
    assert alone[2] != pytest.approx(found["critic"]["values"][texts[2]], abs=1e-3)


def test_published_advantages(agent, found):
    settings = ReflectSettings(compat="published", **{**SETTINGS, "per_device_train_batch_size": 2})
    trainer = Trainer(agent, settings, shown_critic(agent, found))
    rows = [row for episode in episodes(found) for row in trainer.rows(episode)]
    assert close(trainer._advantages(rows).tolist(), found["critic"]["advantages"])


def test_ppo_with_the_critic_one_pass(agent, found):
    case = found["ppo_trainer_one_iter"]
    settings = ReflectSettings(
        trainer="ppo", ppo_update_iter=1, critic_update_freq=1, critic_update_iter=1, compat="published",
        **{**SETTINGS, "learning_rate": 1e-5},
    )  # fmt: skip
    update = Trainer(agent, settings, shown_critic(agent, found)).train(episodes(found))
    assert close(update.loss, case["loss"])
    assert update.critic_loss == pytest.approx(case["critic_loss"], rel=1e-5)


def test_the_critics_update(agent, found):
    case = found["critic"]
    settings = ReflectSettings(critic_update_iter=1, compat="published", **SETTINGS)
    critic = shown_critic(agent, found)
    trainer = Trainer(agent, settings, critic)
    rows = [row for episode in episodes(found) for row in trainer.rows(episode)]
    assert close(trainer._update_critic(rows), case["update_mean_loss_full_batch_1iter"])
    assert close(critic.head.score[0].bias.item(), case["score_bias_after"])


@pytest.mark.parametrize(("compat", "moved"), [("published", 1), ("fixed", 2)])
def test_accumulated_critic_gradients_are_all_of_them(agent, found, compat, moved, monkeypatch):
    more = {"gradient_accumulation_steps": 2, "critic_update_iter": 1, "per_device_train_batch_size": 1}
    settings = ReflectSettings(compat=compat, **SETTINGS | more)
    trainer = Trainer(agent, settings, published_critic(agent, compat=compat))
    seen = []
    monkeypatch.setattr(
        "sweet_rl.online.reflect.trainer.clipped_step",
        lambda *_: seen.append(trainer.critic.head.score[0].bias.grad.item()),
    )
    row = trainer.rows(episodes(found)[0])[0]
    trainer._update_critic([row, row])
    one = value_loss(torch.tensor([row.q]), trainer.critic.head(trainer.critic.features([row.step.prompt])))
    trainer.critic.head.zero_grad()
    one.backward()
    single = trainer.critic.head.score[0].bias.grad.item() / 2
    assert seen == pytest.approx([moved * single])


def test_ppo_needs_a_critic(agent):
    with pytest.raises(Exception, match="needs a critic"):
        Trainer(agent, ReflectSettings(trainer="ppo", **SETTINGS))


def test_replay(found):
    case = found["replay"]
    replay = Successes([0, 1, 2, 3, 4], maxlen=3)
    assert list(replay) == case["buffer"]
    assert len(set(case["weights"])) == 1  # so ours has none
    assert replay.sample(6, random.Random(5)) == case["sample_seed5_k6"]
    assert Successes(maxlen=3).sample(4, random.Random(0)) == case["sample_empty"]
    assert list(Successes([1], maxlen=0)) == case["size0"]


def test_dropout_of_the_adapter_only(shared, found):
    settings = ReflectSettings(lora_r=4, lora_dropout=0.5, env="taxi")
    wrapped = _with_fresh_adapter(tiny_model(shared, lora=False), settings, "tiny").eval()
    modules = [pair for pair in wrapped.named_modules() if isinstance(pair[1], torch.nn.Dropout)]
    with dropout(wrapped, active=True):
        in_adapter = [module.training for name, module in modules if "lora" in name]
        in_blocks = [module.training for name, module in modules if "lora" not in name]
    assert in_adapter == found["adapter_load"]["lora_dropout_training"]
    assert not any(in_blocks)
    assert not any(module.training for _, module in modules)


@pytest.mark.parametrize(("compat", "scaling"), [("published", 99 / 4), ("fixed", 16 / 4)])
def test_scale_of_a_loaded_adapter(shared, found, tmp_path, compat, scaling):
    save_agent(tiny_model(shared), CharTokenizer(), tmp_path)
    settings = ReflectSettings(lora_r=4, lora_alpha=99, compat=compat)
    loaded = _with_trained_adapter(tiny_model(shared, lora=False), tmp_path, settings, trains=True)
    used = [module.scaling["default"] for module in loaded.modules() if hasattr(module, "lora_A")]
    assert set(used) == {scaling}
    assert (found["adapter_load"]["scaling_used"] == [scaling]) == (compat == "published")
