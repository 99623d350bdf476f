"""The tiny GPT-2 of the goldens, its LoRA, and its stub tokenizer."""

import json

import numpy as np
import torch

GOLDENS = "goldens/reflect_rl"


class CharTokenizer:
    """A character is a token: (ord - 32) % 60; the end token is 63."""

    eos_token_id = pad_token_id = 63
    bos_token_id = unk_token_id = None
    bos_token = None

    def __call__(self, text, add_special_tokens=True):
        return {"input_ids": [(ord(c) - 32) % 60 for c in text]}

    def decode(self, ids, **_):
        return "".join(chr(i + 32) for i in ids)

    def save_pretrained(self, folder):
        (folder / "tokenizer_stub").write_text("x")


def golden(shared, name="model_and_trainers"):
    return json.loads((shared / GOLDENS / f"{name}.json").read_text())


def tiny_model(shared, *, lora=True):
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(**golden(shared)["config"])).eval()
    load(model, np.load(shared / GOLDENS / "tiny_gpt2.npz"))
    if not lora:
        return model
    config = LoraConfig(
        r=4, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules=["c_attn"],
        fan_in_fan_out=True,
    )  # fmt: skip
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = get_peft_model(model, config)
    load(wrapped, np.load(shared / GOLDENS / "tiny_gpt2_lora.npz"))
    return wrapped.eval()


def load(model, arrays):
    state = model.state_dict()
    for name in arrays:
        state[name].copy_(torch.tensor(arrays[name]))


def logps_of(agent, prompts, tokens):
    """Log-probability [S] of the choice after each prompt, summed over its tokens; one batch."""
    return agent.score([agent.example(prompt, ids) for prompt, ids in zip(prompts, tokens, strict=True)])[0]
