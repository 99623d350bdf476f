"""Tiny models in folders, made from a configuration and a seed: nothing is downloaded."""

import shutil
import string
from pathlib import Path

from sweet_rl.chat import EMBEDDED, model_path

BEGIN, HEADER, HEADER_END, TURN_END = "<|begin|>", "<|header|>", "<|end_header|>", "<|end_turn|>"

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|header|>' + m['role'] + '<|end_header|>\n\n' + m['content'] "
    "+ '<|end_turn|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|header|>assistant<|end_header|>\n\n' }}"
    "{% endif %}"
)
"""Llama-like, with the begin token written out; what the tokenizer adds by itself would be a second one."""

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CORPUS = [
    "I want you to write a function. What should it return? It should return a list of numbers.",
    "The signature of the function is: def total(prices, discount)",
    "I WANT TO ANSWER:\ndef total(prices, discount):\n    return sum(prices) * (1 - discount)\n",
    "system user assistant Does an empty list count? Yes, it gives zero. " + string.printable,
]


def tiny_tokenizer(chat_template: str | None = CHAT_TEMPLATE):
    """A byte-level BPE that adds a begin token of its own, as the tokenizers of Llama do."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[BEGIN, HEADER, HEADER_END, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(CORPUS, trainer)
    begin_id = bpe.token_to_id(BEGIN)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, begin_id)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=TURN_END)
    tokenizer.chat_template = chat_template
    return tokenizer


def save_tiny_llama(folder: Path, *, context: int = 512, seed: int = 0, head_dim: int = 8) -> Path:
    """Two layers, random weights; `head_dim` 32 is the least that vLLM's CPU build can compute."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tiny_tokenizer()
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=4 * head_dim,
        intermediate_size=8 * head_dim,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_gpt2(folder: Path, *, context: int = 256, seed: int = 0) -> Path:
    """Two layers with learned positions, and no chat template."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = tiny_tokenizer(chat_template=None)
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=context,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_tiny_chatml(folder: Path) -> Path:
    """The embedded agent in SmolLM2's template, which it has never seen: a model that can win after some imitation."""
    shutil.copytree(model_path(EMBEDDED), folder)
    (folder / "figures.json").unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (folder / name).read_text()
        text = text.replace("<|start_header_id|>", "<|im_start|>").replace("<|eot_id|>", "<|im_end|>")
        (folder / name).write_text(text)
    (folder / "chat_template.jinja").write_text(CHATML)
    return folder
