"""A tiny GPT-2 (or Llama) for Reflect-RL, made from nothing: every action label is one of its tokens.

Its tokenizer takes words, numbers, line breaks and single signs apart, so that each character of a world's
grid is a token of its own. Without texts a word is its letters; words that are frequent in texts become one
token, and phrases of several words and numbered names too where that is asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, CHOICES

TINY = "tiny"
"""Name of models that are made here, from the seed."""

CONTEXT = 1024
_PIECES = r" ?[A-Za-z]+|\d{1,3}|\n+|[^A-Za-z\d\n]"
_END, _PAD = "<|end|>", "<|pad|>"
_PHRASE = re.compile(r"[^\d\n]+?(?:(?<=[a-z])[,.:;](?=\s)|(?=[\d\n])|(?= #)|$)")
"""Between numbers and line breaks, up to a punctuation mark: part of a sentence, or a row of a grid."""
_PHRASE_LENGTH, _PHRASE_SHARE = 8, 500
"""A phrase has so many characters at least, and stands in one of so many texts."""
_NAME = re.compile(r" [a-z]+ \d+")


def make_reflect_model(
    folder: Path,
    *,
    seed: int,
    texts: Sequence[str] = (),
    labels: Sequence[str] = (),
    hidden_size: int = 64,
    layers: int = 2,
    context: int = CONTEXT,
    rotary: bool = False,
    phrases: bool = False,
    names: bool = False,
    focus: float = 1.0,
    copies: bool = False,
) -> Path:
    """Write the model with its tokenizer, unless it is there; returns its folder."""
    import torch  # seconds; only for those who make models

    if (folder / "model.safetensors").is_file():
        return folder
    tokenizer = _tokenizer(texts, labels)
    named = {name for text in texts for name in _NAME.findall(text)} if names else ()
    tokenizer.add_tokens([*sorted(named), *(_phrases(texts, names=names) if phrases else ())])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if rotary:
            model = _llama(tokenizer, hidden_size, layers, context, copies=copies)
            for layer in model.model.layers:
                for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                    projection.weight.data.mul_(focus)
        else:
            model = _gpt2(tokenizer, hidden_size, layers, context)
    if copies:
        from sweet_rl.tiny_models.copying import teach_copying

        teach_copying(model, tokenizer, seed=seed)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def _phrases(texts: Sequence[str], *, names: bool) -> list[str]:
    """The frequent ones, without numbers, so that labels stay tokens of their own."""
    found: Counter[str] = Counter()
    for text in texts:
        parts = _NAME.split(text) if names else [text]
        found.update({phrase for part in parts for phrase in _PHRASE.findall(part)})
    enough = max(2, len(texts) // _PHRASE_SHARE)
    return sorted(
        phrase for phrase, times in found.items() if times >= enough and len(phrase) >= _PHRASE_LENGTH
    )


def _gpt2(tokenizer: Any, hidden_size: int, layers: int, context: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=context,
        n_embd=hidden_size,
        n_layer=layers,
        n_head=max(2, hidden_size // 32),
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.1,  # the usual 0.02 is for wide models
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config)


def _llama(tokenizer: Any, hidden_size: int, layers: int, context: int, *, copies: bool) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    heads, theta = max(2, hidden_size // 16), 1000.0
    head_dim = hidden_size // heads
    if copies:
        from sweet_rl.tiny_models.copying import HEAD_DIM, THETA

        heads, head_dim, theta = 4, HEAD_DIM, THETA
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=context,
        hidden_size=hidden_size,
        intermediate_size=3 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        head_dim=head_dim,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.1,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
    )
    model: Any = LlamaForCausalLM(config)
    # Adapters leave the head as it is, and a narrow one needs long rows to be sure of a token.
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(4.0)
    return model


def _tokenizer(texts: Iterable[str], labels: Sequence[str]) -> Any:
    """Byte-level BPE over `_PIECES`; labels and markers are learnt first, being the most frequent."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    texts = list(texts)
    known = dict.fromkeys((*CHOICES, *labels))
    formats = [f"{marker}{label}\n" for marker in (ACTION_MARKER, ANALYSE_MARKER) for label in known]
    bpe.train_from_iterator(
        [*texts, *(formats * (1 + sum(map(len, texts)) // 5000))],
        trainers.BpeTrainer(
            vocab_size=2000,
            special_tokens=[_PAD, _END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            min_frequency=2,
            show_progress=False,
        ),
    )
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token=_END, pad_token=_PAD
    )
    return tokenizer
