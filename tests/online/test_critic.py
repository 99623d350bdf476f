"""Encoders of any kind, texts encoded once, targets and gradients by hand."""

from dataclasses import replace

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, DebertaV2Config, DebertaV2Model, GPT2Config, GPT2Model

from sweet_rl.chat import EMBEDDED, TokenizerChat, load_tokenizer
from sweet_rl.errors import UsageError
from sweet_rl.online.critic import DoubleCritic, TextEncoder, best_places, copied, critic_step, critic_targets
from sweet_rl.online.losses import StepSettings
from sweet_rl.online.models import load_archer_critic
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.training.steps import padded_batches
from sweet_rl.types import Message
from tests.online.models import ROWS, critic_model, critic_tokenizer, policy_tokenizer

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
TEXTS = ["Questions:\n", "Is it alive?", "Questions:\nIs it alive? No.\nIs it big? Yes.\n", "x"]


def encoders():
    torch.manual_seed(0)
    gpt2 = GPT2Config(vocab_size=257, n_positions=64, n_embd=32, n_layer=1, n_head=2)
    deberta = DebertaV2Config(
        vocab_size=261, max_position_embeddings=64, relative_attention=True, position_biased_input=False, **SIZES
    )  # fmt: skip
    bert = BertConfig(vocab_size=261, max_position_embeddings=64, **SIZES)
    return {
        "gpt2": (GPT2Model(gpt2), policy_tokenizer(), "last", 64),
        "deberta": (DebertaV2Model(deberta), critic_tokenizer(), "first", 512),
        "bert": (BertModel(bert), critic_tokenizer(), "pooler", 64),
        "bert without pooler": (BertModel(bert, add_pooling_layer=False), critic_tokenizer(), "first", 64),
    }


@pytest.mark.parametrize("name", encoders())
def test_any_encoder_serves_whatever_its_width_and_pooling(name):
    model, tokenizer, pooling, longest = encoders()[name]
    critic = DoubleCritic(model, tokenizer)
    width, joined = (64, 160) if pooling == "last" else (32, 64)
    made = critic.encoder.pooling, critic.encoder.max_length, critic.critic1[0].in_features
    assert made == (pooling, longest, joined)
    features = critic.encode([*TEXTS, "a" * 2000, "", TEXTS[0]])
    assert features.shape == (7, width)
    assert critic.encoder.texts_read == (5 if pooling == "last" else 6)  # one begins another
    for text, together in zip([*TEXTS, "a" * 2000, ""], features, strict=False):
        assert torch.allclose(critic.encode([text])[0], together, atol=1e-5)
    values = critic(features, features)
    assert [tensor.shape for tensor in values] == [(7,)] * 4
    torch.stack(values).sum().backward()


def begun(adds_end=False):
    """The embedded tokenizer, which adds no begin token, as one that adds it, and the end token if asked."""
    tokenizer = load_tokenizer(EMBEDDED)
    begin, end = tokenizer.bos_token, tokenizer.eos_token
    ids = [(begin, tokenizer.bos_token_id), (end, tokenizer.eos_token_id)]
    pieces = f"{begin} $A {end}" if adds_end else f"{begin} $A"
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=pieces, special_tokens=ids)
    return tokenizer


def test_a_text_begins_once_and_its_oldest_part_is_dropped():
    """Llama's template writes the begin token, and its tokenizer adds one to what has none; `<s>` is RoBERTa's first token, too."""
    encoder = TextEncoder(critic_model().base_lm, critic_tokenizer(), max_length=12)
    assert torch.equal(encoder(["x" * 50 + "0123456789"], 100), encoder(["0123456789"], 100))
    agent, plain = begun(), load_tokenizer(EMBEDDED)
    model = GPT2Model(GPT2Config(n_embd=16, n_layer=1, n_head=1, vocab_size=len(agent)))
    chat, encoder = TokenizerChat(agent), TextEncoder(model, agent)
    text = chat.render([Message("user", "Hello, and " * 9)])
    whole = chat.encode(text)
    assert encoder._ids(text) == tuple(whole)
    assert encoder._ids("Hello.") == (agent.bos_token_id, *chat.encode("Hello."))
    for tokenizer in (agent, plain):
        assert TextEncoder(model, tokenizer, max_length=9)._ids(text) == (agent.bos_token_id, *whole[-8:])
    marked, words = begun(adds_end=True), "Hello, and " * 9
    encoder = TextEncoder(critic_model().base_lm, marked, pooling="first", max_length=9)
    expected = (marked.bos_token_id, *load_tokenizer(EMBEDDED)(words)["input_ids"][-7:], marked.eos_token_id)
    assert encoder._ids(marked.bos_token + words) == encoder._ids(words) == expected


def test_rows_with_one_observation_stay_together():
    rows, critic = [ROWS[number] for number in (0, 1, 3, 2, 5)], critic_model()  # 0, 3 and 5 begin a game
    optimizer, settings = (
        torch.optim.Adam(critic.parameters()),
        StepSettings(len(rows), max_tokens_per_batch=30),
    )
    critic_step(critic, copied(critic), optimizer, rows, [["x"]] * len(rows), settings)
    assert critic.encoder.texts_read <= 3 + len(rows)


def test_a_time_limit_does_not_end_the_world():
    target, settings = critic_model(), StepSettings(batch_size=1, gamma=0.5)
    ended, limit = ROWS[2], ROWS[4]
    assert (ended.terminated, limit.truncated, limit.reward) == (True, True, -1.0)
    unknown = replace(limit, next_observation="")
    found = critic_targets(target, [ended, limit, unknown], [["a"], ["b"], ["c"]], settings)
    with torch.no_grad():
        v1, v2 = target.v(target.encode([limit.next_observation]))
        q1, _ = target.q(target.encode([limit.observation]), target.encode(["b"]))
    assert found.y1_B.tolist() == pytest.approx([0.0, -1 + 0.5 * v1.item(), -1.0])
    assert found.y2_B[1].item() == pytest.approx(-1 + 0.5 * v2.item())
    assert found.tq1_B[1].item() == pytest.approx(q1.item())


def test_of_several_proposals_the_target_takes_the_best():
    target = critic_model()
    names = ["a", "bb", "ccc", "dd"]
    found = critic_targets(target, ROWS[:2], [names, names[:1]], StepSettings(1))
    with torch.no_grad():
        values = target.read([ROWS[0].observation] * 4, names)
    best = torch.minimum(values.q1_B, values.q2_B).argmax()
    assert found.tq1_B[0].item() == pytest.approx(values.q1_B[best].item())
    assert best_places(torch.tensor([1.0, 3.0, 3.0, 0.0]), [0, 0, 0, 1]) == [1, 3]


def test_a_copy_has_weights_of_its_own():
    critic = critic_model()
    target = copied(critic)
    assert not any(p.requires_grad for p in target.parameters())
    assert target.encoder.model is target.base_lm
    before = target.encode(TEXTS)
    for p in critic.parameters():
        p.data.add_(1.0)
    assert torch.equal(target.encode(TEXTS), before)
    assert critic.encoder is not target.encoder


def test_an_encoder_comes_from_a_folder_and_its_heads_from_the_seed(tmp_path):
    def load(folder, seed):
        return load_archer_critic(ArcherSettings(critic_lm=str(folder), seed=seed), torch.device("cpu"))

    critic_model().base_lm.float().save_pretrained(tmp_path)
    critic_tokenizer().save_pretrained(tmp_path)
    one, other, third = (load(tmp_path, seed) for seed in (1, 1, 2))
    assert torch.equal(one.critic1[0].weight, other.critic1[0].weight)
    assert not torch.equal(one.critic1[0].weight, third.critic1[0].weight)
    assert torch.equal(one.encode(TEXTS), third.encode(TEXTS))
    assert one.encoder.max_length == 160  # RoBERTa's positions begin behind the padding's id
    with pytest.raises(UsageError, match="critic_lm"):
        load(tmp_path / "nothing", 1)


def test_a_causal_model_serves_by_its_last_token_and_the_words():
    """The last token alone has read all; the words say what it was. Of both a critic sees how they fit."""
    model, tokenizer, *_ = encoders()["gpt2"]
    encoder = TextEncoder(model.eval(), tokenizer)
    ids = torch.tensor([tokenizer("Is it alive?")["input_ids"]])
    words = model.get_input_embeddings()(ids)[0].mean(dim=0)
    words = (words - words.mean()) / (words.var(correction=0) + 1e-5).sqrt()
    expected = torch.cat([model(ids).last_hidden_state[0, -1], words])
    assert encoder.width == len(expected)
    assert torch.allclose(encoder(["Is it alive?"], 100)[0], expected, atol=1e-6)
    assert torch.allclose(encoder(["Is it?", "Is it alive?"], 100)[1], expected, atol=1e-6)
    critic, hidden = DoubleCritic(model, tokenizer), model.config.hidden_size
    states, actions = critic.encode(["Is it alive?", "Yes"]), critic.encode(["Is it a cat?", "No"])
    joined = critic.encoder.joined(states, actions)
    assert torch.equal(joined[:, : 4 * hidden], torch.cat([states, actions], dim=1))
    assert torch.equal(joined[:, 4 * hidden :], states[:, :hidden] * actions[:, hidden:])
    assert torch.equal(critic.q(states, actions)[0], critic.critic1(joined)[:, 0])


def test_one_critic_stands_for_both_and_trains_the_first_one_alone():
    torch.manual_seed(0)
    critic = critic_model()
    critic.single = True
    states, actions = torch.rand(2, 3, 16).double()
    values = critic(states, actions)
    assert torch.equal(values.q1_B, values.q2_B)
    assert torch.equal(values.v1_B, values.v2_B)
    torch.stack(values).sum().backward()
    trained = {name.split(".")[0] for name, weight in critic.named_parameters() if weight.grad is not None}
    assert trained == {"critic1", "v_critic1"}


@pytest.mark.parametrize("max_tokens", [60, 10_000])
def test_a_causal_model_reads_an_episode_once_and_its_turns_have_the_values_that_they_have_alone(max_tokens):
    """Values and gradients of every turn, in any order, after one pass for each episode; actions apart."""
    model, tokenizer, *_ = encoders()["gpt2"]
    once = DoubleCritic(model.double(), tokenizer).double()
    alone = copied(once).requires_grad_()
    alone.encoder._chained = False
    rows = [ROWS[number] for number in (4, 0, 2, 6, 1, 5, 3)]
    games, actions = 2, len({row.action for row in rows})  # the third is the first one's beginning
    found = []
    for critic in (once, alone):
        values = critic.read([row.observation for row in rows], [row.action for row in rows], max_tokens)
        torch.stack([part * part for part in values]).sum().backward()
        found.append(torch.stack(list(values)))
    assert torch.allclose(*found, atol=1e-9)
    assert once.encoder.texts_read == games + actions
    assert alone.encoder.texts_read == len({row.observation for row in rows}) + actions
    for one, other in zip(once.parameters(), alone.parameters(), strict=True):
        assert (one.grad is None and other.grad is None) or torch.allclose(one.grad, other.grad, atol=1e-9)


def test_a_step_of_a_causal_critic_reads_each_episode_once():
    """The target reads an episode with its last observation, the critic without; each action once."""
    model, tokenizer, *_ = encoders()["gpt2"]
    critic = DoubleCritic(model, tokenizer)
    target, optimizer = copied(critic), torch.optim.Adam(critic.parameters())
    critic_step(critic, target, optimizer, ROWS, [["Is it old?"]] * len(ROWS), StepSettings(len(ROWS)))
    assert target.encoder.texts_read == 2 + 1  # the third episode is the first one's beginning
    assert critic.encoder.texts_read == 2 + len({row.action for row in ROWS})


def test_texts_of_similar_lengths_share_a_batch():
    assert list(padded_batches([3, 9, 4, 1, 9], 18)) == [[1, 4], [2, 0, 3]]
    assert list(padded_batches([50, 2], 18)) == [[0], [1]]
    assert list(padded_batches([10, 10, 9, 8, 1], 1000, worth_tokens=20)) == [[0, 1, 2], [3, 4]]
