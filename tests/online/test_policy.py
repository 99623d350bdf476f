"""The token policy: what it reads, what it says, that it scores what it samples from; and what the published agents say."""

import math

import pytest
import torch
from tokenizers import AddedToken
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from sweet_rl.errors import UsageError
from sweet_rl.online.models import actor_of, with_adapter
from sweet_rl.online.policy import TokenPolicy, Utterance
from sweet_rl.online.published import PublishedPolicy
from sweet_rl.online.settings import ArcherSettings
from tests.online.models import logprobs, policy_model, policy_tokenizer
from tests.tiny_models import tiny_tokenizer

OBSERVATIONS = [
    "Questions:\n",
    "Questions:\nIs it big? No.\n",
    "Questions:\nIs it big? No.\nIs it red? Yes.\n",
    "Questions:\n",
]


def policy_of(**more):
    return TokenPolicy(policy_model(), policy_tokenizer(), ArcherSettings(**more))


def llama(tokenizer, **more):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    return TokenPolicy(LlamaForCausalLM(config), tokenizer, ArcherSettings(**more))


def plain_logps(model, prompt, ids):
    """One row alone, no padding, no cache."""
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*prompt, *ids]])).logits[0]
    return logits_TV[len(prompt) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]


@pytest.mark.parametrize("make", [policy_of, lambda **more: llama(tiny_tokenizer(), **more)])
def test_scores_are_those_of_each_row_alone_and_of_what_was_sampled(make):
    policy = make(max_new_tokens=9)
    said = policy.sample(OBSERVATIONS, [1, 2, 3, 4])
    assert len({one.token_ids for one in said}) == 4
    scores = policy.scores(OBSERVATIONS, said)
    for number, one in enumerate(said):
        expected = plain_logps(policy.model, policy.prompt(OBSERVATIONS[number]).ids, one.token_ids)
        kept = scores.mask_BT[number] > 0
        assert scores.logps_BT[number][kept].tolist() == pytest.approx(expected.tolist(), abs=1e-4)
        assert one.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
        assert scores.logps_BT[number][~kept].abs().sum() == 0
    assert logprobs(policy, OBSERVATIONS, said).tolist() == pytest.approx(scores.logps_B.tolist(), abs=1e-5)


def test_an_utterance_ends_with_a_newline_which_counts_and_is_no_part_of_it():
    policy = policy_of(max_new_tokens=40)
    policy.model.transformer.ln_f.bias.data = policy.model.transformer.wte.weight[
        10
    ].detach()  # a newline is likely
    said = policy.sample(["Questions:\n"] * 40, range(40))
    assert any(one.finished for one in said)
    for one in said:
        assert "\n" not in one.text
        assert one.finished == (one.token_ids[-1] in (10, 256))
        assert not {10, 256} & set(one.token_ids[:-1])
        assert one.finished or len(one.token_ids) == 40


def test_the_end_of_an_utterance_is_learnt():
    policy = policy_of()
    one = policy.utterance("Questions:\n", "Is it?")
    assert one.token_ids == tuple(b"Is it?\n")
    shorter = Utterance(one.text, one.token_ids[:-1], finished=False)
    whole, part = logprobs(policy, ["Questions:\n"] * 2, [one, shorter])
    end = plain_logps(policy.model, tuple(b"Questions:\n"), one.token_ids)[-1]
    assert (whole - part).item() == pytest.approx(end.item(), abs=1e-5)


def test_text_before_the_newline_in_the_last_token_belongs_to_the_utterance():
    torch.manual_seed(0)
    tokenizer = policy_tokenizer()
    tokenizer.add_tokens([AddedToken("?\n", normalized=False)])
    config = GPT2Config(vocab_size=258, n_positions=64, n_embd=16, n_layer=1, n_head=2, eos_token_id=256)
    model = GPT2LMHeadModel(config)
    model.transformer.ln_f.bias.data = (
        1000 * model.transformer.wte.weight[257].detach()
    )  # it says nothing else
    policy = TokenPolicy(model, tokenizer, ArcherSettings(max_new_tokens=8))
    (said,) = policy.sample(["Hi"], [0])
    assert said == Utterance("?", (257,), finished=True, logprobs=said.logprobs)
    assert policy.utterance("Hi\n", "Is it?").token_ids == (*b"Is it", 257)
    assert policy.known_utterance("Hi\n", "?", (257,)).token_ids == (257,)
    assert policy.known_utterance("Hi\n", "other", (257,)).token_ids == tuple(b"other\n")


def test_a_longer_end_may_be_spelled_by_several_tokens():
    policy = policy_of(eos_str="</", max_new_tokens=5)
    weight = policy.model.transformer.wte.weight.detach()
    policy.model.transformer.ln_f.bias.data = 30 * weight[ord("<")] + 29 * weight[ord("/")]
    for one in policy.sample(["a"] * 20, range(20)):
        written = bytes(one.token_ids).decode()
        assert written.find("</") in (-1, len(written) - 2)
        assert one.text == written.removesuffix("</")
        assert one.finished == written.endswith("</")


@pytest.mark.parametrize(("temperature", "top_k"), [(0.5, 0), (1.0, 3), (2.0, 5)])
def test_scores_obey_temperature_and_top_k_as_samples_do(temperature, top_k):
    policy = policy_of(temperature=temperature, top_k=top_k, max_new_tokens=3)
    said = policy.sample(OBSERVATIONS, range(4))
    scores = policy.scores(OBSERVATIONS, said)
    for number, one in enumerate(said):
        prompt = policy.prompt(OBSERVATIONS[number]).ids
        with torch.no_grad():
            every_TV = policy.model(torch.tensor([[*prompt, *one.token_ids]])).logits[0, len(prompt) - 1 : -1]
        parts = zip(every_TV / temperature, one.token_ids, scores.logps_BT[number], strict=False)
        for logits, token, found in parts:
            among = logits.topk(top_k).indices.tolist() if top_k else list(range(257))
            assert token in among
            expected = logits[token] - logits[among].logsumexp(0)
            assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    stranger = [Utterance("x", (one.token_ids[0] ^ 1,), finished=False) for one in said]
    assert all(math.isfinite(value) for value in logprobs(policy, OBSERVATIONS, stranger))


def test_what_is_sampled_follows_what_is_scored():
    policy = policy_of(max_new_tokens=1, temperature=0.3, top_k=4)
    said = policy.sample(["Questions:\n"] * 4000, range(4000))
    counts = {one: said.count(one) / 4000 for one in set(said)}
    for one, share in counts.items():
        (score,) = logprobs(policy, ["Questions:\n"], [one])
        assert share == pytest.approx(math.exp(score), abs=0.03)


def test_the_seed_decides_whatever_else_is_in_the_batch():
    policy = policy_of(max_new_tokens=6, max_tokens_per_batch=30)
    seeds = [7, 8, 9, 7]
    together = policy.sample(OBSERVATIONS, seeds)
    assert together[0] == together[3]
    alone = [policy.sample([text], [seed])[0] for text, seed in zip(OBSERVATIONS, seeds, strict=True)]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]


def test_the_oldest_of_a_long_observation_is_dropped():
    policy = policy_of(max_context=20, max_new_tokens=8)
    prompt = policy.prompt("abc" * 100 + "the end.\n")
    assert prompt.ids == tuple(prompt.text.encode())
    assert (len(prompt.ids), prompt.text[-9:]) == (20, "the end.\n")
    assert len(policy_of(max_new_tokens=100).prompt("a" * 500).ids) == 60  # the model has 160 positions


def test_a_template_is_never_cut_and_a_begin_token_is_kept():
    policy = policy_of(max_context=40, max_new_tokens=8, template="Play: {obs}Your question: ")
    prompt = policy.prompt("x" * 300 + "last\n")
    assert prompt.text == "Play: " + "x" * 14 + "last\nYour question: "
    assert len(prompt.ids) == 40
    with pytest.raises(UsageError, match="no room for an observation"):
        policy_of(max_context=20, template="Play this game with me: {obs}")
    tokenizer = tiny_tokenizer()
    begins = llama(tokenizer, max_context=12)
    for text in ("short", "a very long text indeed " * 20):
        ids = begins.prompt(text).ids
        assert ids.count(tokenizer.bos_token_id) == 1
        assert (ids[0], len(ids) <= 12) == (tokenizer.bos_token_id, True)
    written = llama(tokenizer, template=f"{tokenizer.bos_token}Say {{obs}}").prompt("hi").ids
    assert written.count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("action", ["", "\n", "Is it ünïcode 🦊?", "x" * 10_000])
def test_any_action_can_be_imitated(action):
    policy = policy_of()
    one = policy.utterance("Questions:\n", action)
    assert len(one.token_ids) <= 160 - len("Questions:\n")
    assert logprobs(policy, ["Questions:\n"], [one]).isfinite().all()


@pytest.mark.parametrize("with_checkpointing", [False, True])
def test_an_adapter_is_trained_and_its_base_is_not(with_checkpointing):
    tokenizer = tiny_tokenizer()
    how = {"lora_rank": 2, "gradient_checkpointing": with_checkpointing, "max_new_tokens": 5}
    settings = ArcherSettings(use_lora=True, **how)
    policy = actor_of(with_adapter(llama(tokenizer).model.to(torch.bfloat16), settings), tokenizer, settings)
    names = [name for name, p in policy.model.named_parameters() if p.requires_grad]
    assert len(names) == 2 * 4 * 2
    assert all("lora_" in name for name in names)
    said = policy.sample(["Hi there.\n"] * 3, range(3))
    policy.scores(["Hi there.\n"] * 3, said).logps_B.sum().backward()
    changed = [p.grad.abs().sum() > 0 for p in policy.parameters()]
    assert any(changed)
    assert not any(module.training for module in policy.model.modules())  # no dropout


def test_recomputed_activations_give_the_same_gradients(monkeypatch):
    from transformers.modeling_layers import GradientCheckpointingLayer

    plain = policy_of()
    saving = actor_of(policy_model(), policy_tokenizer(), ArcherSettings(gradient_checkpointing=True))
    said = plain.sample(OBSERVATIONS, range(4))
    ran = []

    def counted(inner):
        return lambda *given, **more: ran.append(1) or inner(*given, **more)

    for layer in saving.model.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer._gradient_checkpointing_func = counted(layer._gradient_checkpointing_func)
    for policy in (plain, saving):
        policy.scores(OBSERVATIONS, said).logps_B.sum().backward()
    assert len(ran) == 2
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad)
    assert saving.sample(OBSERVATIONS, range(4)) == said


@pytest.mark.parametrize("make", [policy_of, lambda **more: llama(tiny_tokenizer(), **more)])
@pytest.mark.parametrize("wide", [0, 256])
def test_observations_of_one_episode_are_read_once(make, wide, monkeypatch):
    """As trees where a model is wide enough; else the longest of those that begin each other."""
    plain = make(max_new_tokens=6)
    plain._prefill.serves = False
    monkeypatch.setattr("sweet_rl.online.policy.WIDE", wide)
    shared = make(max_new_tokens=6)
    episode = "Questions:\n" + "".join(f"Is it number {n}? No.\n" for n in range(4))
    observations = [episode, "Other:\n", episode[:50], "Questions:\n", episode, episode[:29] + "red? Yes.\n"]
    read, forward = [], type(shared.model).forward

    def spy(self, input_ids, **others):
        read.append(input_ids.numel())
        return forward(self, input_ids=input_ids, **others)

    monkeypatch.setattr(type(shared.model), "forward", spy)
    one, other = (policy.sample(observations, range(6)) for policy in (shared, plain))
    assert [said.token_ids for said in one] == [said.token_ids for said in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
    longest = len(shared.prompt(episode).ids)
    assert read[0] == 3 * longest if wide else read[0] < 3 * longest
    assert max(read) == 5 * longest


def said(texts, monkeypatch, **more):
    """`get_action` of a model that writes these texts."""
    told = ArcherSettings(compat="published", **more)
    model = policy_model()
    policy = PublishedPolicy(model, policy_tokenizer(), told)

    def generate(input_ids, **_):
        width = max(len(text.encode()) for text in texts)
        new = [[*text.encode(), *[256] * (width - len(text.encode()))] for text in texts]
        return torch.cat([input_ids, torch.tensor(new)], dim=1)

    monkeypatch.setattr(model, "generate", generate)
    return policy.get_action(["o"] * len(texts))


WRITTEN = ["Is it?\nmore", "\n\n\nIs it?\nmore", "\n\n\n\nIs it?", "\nA\n", "no end", "", "\n \nB\n"]


def test_up_to_three_leading_newlines_are_dropped_by_both_agents(monkeypatch):
    """Then the text is cut at its end, whatever that is, which only Online CHAI keeps."""
    cut = ["Is it?", "Is it?", "", "A", "no end", "", " "]
    assert said(WRITTEN, monkeypatch) == cut
    assert said(WRITTEN, monkeypatch, agent_type="chai") == [f"{text}\n" for text in cut]
    written = ["\n\n\n\nA\nB; C", "\n\nA"]
    assert said(written, monkeypatch, eos_str=";") == ["\nA\nB", "A"]
    assert said(written, monkeypatch, eos_str=";", agent_type="chai") == ["\nA\nB;", "A;"]
    assert said(written, monkeypatch, eos_str=None) == ["\nA\nB; C", "A"]
