"""Tiny models for online learning, made from nothing: a GPT-2 policy, a DistilBERT critic.

Both read the same tokens. Without texts a token is a byte; with texts, a sentence that is frequent in them is
one token, so that a turn is three tokens and learning takes minutes: the question with its mark, the end of
the line, which ends the utterance and is always a token of its own, and the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

POLICY, CRITIC = "policy", "critic"
CONTEXT = 576
"""Positions of both models: 512 tokens of an observation and an utterance."""

_SPREAD = 0.1
"""Standard deviation of fresh weights: the usual 0.02 is for wide models and leaves narrow ones constant."""

_HEAD = 16
"""Width of an attention head: to remember what it has asked, a policy looks for several things at once."""

_END, _PAD, _BEGIN = "<|end|>", "<|pad|>", "<|begin|>"


def make_models(
    folder: Path,
    *,
    seed: int,
    texts: Sequence[str] = (),
    hidden_size: int = 64,
    layers: int = 2,
    critic_layers: int = 1,
) -> tuple[Path, Path]:
    """Write the two models with their tokenizers, unless they are there; returns their folders."""
    import torch  # seconds; only for those who make models
    from transformers import DistilBertConfig, DistilBertModel, GPT2Config, GPT2LMHeadModel

    policy, critic = folder / POLICY, folder / CRITIC
    if (critic / "model.safetensors").is_file():
        return policy, critic
    tokenizer = _tokenizer(texts)
    shape: dict[str, Any] = {"vocab_size": len(tokenizer)}
    ends: dict[str, Any] = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    heads = max(2, hidden_size // _HEAD)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        actor = GPT2LMHeadModel(
            GPT2Config(
                **shape,
                **ends,
                n_positions=CONTEXT,
                n_embd=hidden_size,
                n_layer=layers,
                n_head=heads,
                activation_function="gelu_pytorch_tanh",  # GPT-2's, as one operation
                initializer_range=_SPREAD,
            )
        )
        judge = DistilBertModel(
            DistilBertConfig(
                **shape,
                **ends,
                dim=hidden_size,
                hidden_dim=4 * hidden_size,
                n_layers=critic_layers,
                n_heads=heads,
                max_position_embeddings=CONTEXT,
                initializer_range=_SPREAD,
            )
        )
    for path, model in ((policy, actor), (critic, judge)):
        tokenizer.save_pretrained(path)
        model.save_pretrained(path)
    return policy, critic


def _tokenizer(texts: Iterable[str]) -> Any:
    """Byte-level BPE; what stands up to the mark of a question or the end of a line may become one token."""
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^?\n]+\??|\?|\n"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=2000,
            special_tokens=[_PAD, _BEGIN, _END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            min_frequency=2,
            show_progress=False,
        ),
    )
    begin, end = bpe.token_to_id(_BEGIN), bpe.token_to_id(_END)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{_BEGIN} $A {_END}", special_tokens=[(_BEGIN, begin), (_END, end)]
    )
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, bos_token=_BEGIN, eos_token=_END, pad_token=_PAD
    )
    return tokenizer
