"""The tiny models of the ArCHer goldens, in float64: byte-level tokenizers, weights from files or from a seed."""

import json

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, RobertaConfig, RobertaModel

from sweet_rl.online.critic import DoubleCritic
from sweet_rl.online.replay import Transition


def byte_names():
    """Byte to the character that byte-level BPE writes for it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names, extra = {byte: chr(byte) for byte in printable}, 0
    for byte in range(256):
        if byte not in names:
            names[byte] = chr(256 + extra)
            extra += 1
    return names


def byte_tokenizer(vocabulary, processor=None, **special):
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.decoder = decoders.ByteLevel()
    if processor is not None:
        bpe.post_processor = processor
    return PreTrainedTokenizerFast(tokenizer_object=bpe, padding_side="right", **special)


def policy_tokenizer():
    vocabulary = {name: byte for byte, name in byte_names().items()} | {"<end>": 256}
    return byte_tokenizer(vocabulary, eos_token="<end>", pad_token="<end>")


def critic_tokenizer():
    specials = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
    vocabulary = specials | {name: 5 + byte for byte, name in byte_names().items()}
    processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return byte_tokenizer(
        vocabulary, processor, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>",
        pad_token="<pad>",
    )  # fmt: skip


def load_npz(path):
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def policy_model(seed=0):
    config = GPT2Config(
        vocab_size=257, n_positions=160, n_embd=16, n_layer=2, n_head=2, eos_token_id=256, bos_token_id=256,
        initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(seed)
    return GPT2LMHeadModel(config).double().eval()


def golden_policy(folder):
    model = policy_model()
    missing, unexpected = model.load_state_dict(load_npz(folder / "weights_policy.npz"), strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    return model


def critic_model(seed=0):
    config = RobertaConfig(
        vocab_size=261, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=162, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5,
        initializer_range=0.2,
    )  # fmt: skip
    torch.manual_seed(seed)
    return DoubleCritic(RobertaModel(config), critic_tokenizer()).double()


def golden_critic(folder, name="weights_critic.npz"):
    critic = critic_model()
    critic.load_state_dict(load_npz(folder / name))
    return critic


def played(*lines, terminated=True, beginning="Questions:\n"):
    """An episode of questions: each line "question? answer", -1 a turn, 0 for the last if it is solved."""
    found, observation = [], beginning
    for number, line in enumerate(lines):
        last = number == len(lines) - 1
        following, action = f"{observation}{line}\n", line.split("?")[0] + "?"
        solved, cut_off = last and terminated, last and not terminated
        whole, left = terminated - len(lines), number + 1 - len(lines) - (not terminated)
        reward = float(solved) - 1.0
        found.append(
            Transition(observation, action, reward, following, solved, cut_off, float(whole), float(left))
        )
        observation = following
    return found


ROWS = [
    *played("Is it alive? No.", "Is it big? Yes.", "Is it a car? Yes."),
    *played("Is it a cat? No.", "Is it red? No.", terminated=False),
    *played("Is it alive? No.", "Huh? Yes."),
]


class Joined:
    """A chat format: contents one after the other."""

    def render(self, messages):
        return "".join(message.content for message in messages)


_GIVEN = ("observation", "action", "reward", "next_observation", "mc_return")


class Goldens:
    """Inputs and expected values of `goldens/archer`."""

    def __init__(self, folder):
        self.folder = folder
        self.inputs = json.loads((folder / "inputs.json").read_text())
        self.expected = json.loads((folder / "expected.json").read_text())["f64"]
        self.env = json.loads((folder / "env_expected.json").read_text())
        self.hyper = self.inputs["hyper"]
        self.rows = [
            Transition(terminated=row["done"], **{name: row[name] for name in _GIVEN})
            for row in self.inputs["transitions"]
        ]
        self.pi = self.inputs["pi_actions"]

    def draw(self, order):
        """A draw that gives the rows in this order, as the buffer did."""
        numbers = iter(order)
        return lambda count: [self.rows[next(numbers)] for _ in range(count)]


def logprobs(policy, observations, utterances):
    """Log-probability of each utterance, its end included, as [B]; in the policy's own batches."""
    found = torch.zeros(len(observations), dtype=policy.dtype)
    with torch.no_grad():
        for batch in policy.batches(observations, utterances):
            part = policy.scores([observations[n] for n in batch], [utterances[n] for n in batch])
            found[batch] = part.logps_B.to(found)
    return found
