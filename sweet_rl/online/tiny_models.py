"""Tiny models for online learning, made from nothing: for games of questions, and for games of labels.

For questions a GPT-2 policy and a DistilBERT critic that read the same tokens: bytes, or of given texts whole sentences, so that a
turn is three tokens (the question, the end of the line, the answer). For labels a GPT-2 or Llama whose tokenizer takes words,
numbers, line breaks and single signs apart; frequent words of given texts are one token, and phrases and numbered names if asked for.

A Llama's attention can copy from the start, as that of any pretrained model can (induction heads): two heads of the first layer look
at the token before and at the one before that, two of the second find where the token before stood earlier and bring what stands
two places behind it. Nothing there knows a task or a word; whether and what to copy is left to learn.

Axes: V vocabulary, H hidden, W dimensions of words, S dimensions of a neighbour.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, CHOICES

POLICY, CRITIC = "policy", "critic"
TINY = "tiny"  # models that are made here, from the seed

_END, _PAD, _BEGIN = "<|end|>", "<|pad|>", "<|begin|>"
_SENTENCES = r"[^?\n]+\??|\?|\n"
_WORDS = r" ?[A-Za-z]+|\d{1,3}|\n+|[^A-Za-z\d\n]"
# Between numbers and line breaks, up to a punctuation mark: part of a sentence, or a row of a grid.
_PHRASE = re.compile(r"[^\d\n]+?(?:(?<=[a-z])[,.:;](?=\s)|(?=[\d\n])|(?= #)|$)")
_PHRASE_LENGTH, _PHRASE_SHARE = 8, 500  # characters of a phrase at least, which is in one of so many texts
_NAME = re.compile(r" [a-z]+ \d+")

HEAD_DIM: Final = 32
THETA: Final = 1e6  # of the rotary positions: some pairs of dimensions turn from token to token, most hardly in a whole text
_TURNING, _STILL = 0.1, 0.007  # radians a token: pairs above tell places apart, below they compare tokens
_LENGTH: Final = 2.2  # of the part of an embedding that says which word it is
_CONSTANT: Final = 1.2  # in the first dimension of every embedding: what heads read that look at places alone
_CONSTANT_READ: Final = 3.8  # about what the first layer's normalisation makes of it
# Scales of looking at a place, of finding what is alike, of keeping a neighbour, of saying what is there.
_SHARP, _ALIKE, _KEPT, _SAID = 9.0, 3.0, 0.6, 2.0
_QUIET: Final = 0.2  # what is left of the random rest, which would drown the copies
_OWN_SHARE: Final = 8  # dimensions of a finding head that compare the token itself with the one before
_WORD_START: Final = "\u0120"  # how a byte-level vocabulary writes the blank before a word


def byte_level(pieces: str) -> Any:
    """A byte-level BPE that has learnt nothing yet; a token stays within one of the pieces, a regular expression."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    bpe = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pieces), "isolated")
    signs = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, signs])
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _tokenizer(
    pieces: str, texts: Iterable[str], *, begin: str | None = None, added: Sequence[str] = ()
) -> tuple[Any, dict[str, Any]]:
    """A byte-level BPE learnt from texts, where what is frequent within a piece is one token; and its part of a model's shape."""
    from tokenizers import pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = byte_level(pieces)
    trainer = trainers.BpeTrainer(
        vocab_size=2000, min_frequency=2, show_progress=False,
        special_tokens=[one for one in (_PAD, begin, _END) if one],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    bpe.train_from_iterator(texts, trainer)
    if begin:
        ends = [(one, bpe.token_to_id(one)) for one in (begin, _END)]
        bpe.post_processor = processors.TemplateProcessing(single=f"{begin} $A {_END}", special_tokens=ends)
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token=_END, pad_token=_PAD, **({"bos_token": begin} if begin else {})
    )
    tokenizer.add_tokens(list(added))
    end = tokenizer.eos_token_id
    first = tokenizer.bos_token_id if begin else end
    ids = {"bos_token_id": first, "eos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
    # The usual range of 0.02 is for wide models and leaves narrow ones constant.
    return tokenizer, {"vocab_size": len(tokenizer), "initializer_range": 0.1, **ids}


def make_models(
    folder: Path, *, seed: int, texts: Sequence[str] = (), hidden_size: int = 64, layers: int = 2, critic_layers: int = 1
) -> tuple[Path, Path]:  # fmt: skip
    """Write the two models of a game of questions with their tokenizers, unless they are there; returns their folders."""
    from transformers import DistilBertConfig, DistilBertModel, GPT2Config, GPT2LMHeadModel

    policy, critic = folder / POLICY, folder / CRITIC
    if (critic / "model.safetensors").is_file():
        return policy, critic
    tokenizer, shared = _tokenizer(_SENTENCES, texts, begin=_BEGIN)
    # A head is narrow: to remember what it has asked, a policy looks for several things at once. Both models
    # have room for 512 tokens of an observation, and an utterance.
    heads, context = max(2, hidden_size // 16), 576
    actor = GPT2Config(
        **shared, n_positions=context, n_embd=hidden_size, n_layer=layers, n_head=heads,
        activation_function="gelu_pytorch_tanh",  # GPT-2's, as one operation
    )  # fmt: skip
    judge = DistilBertConfig(
        **shared, dim=hidden_size, hidden_dim=4 * hidden_size, n_layers=critic_layers, n_heads=heads,
        max_position_embeddings=context,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        models: list[Any] = [GPT2LMHeadModel(actor), DistilBertModel(judge)]
    for path, model in zip((policy, critic), models, strict=True):
        tokenizer.save_pretrained(path)
        model.save_pretrained(path)
    return policy, critic


def make_reflect_model(
    folder: Path, *, seed: int, texts: Sequence[str] = (), labels: Sequence[str] = (), hidden_size: int = 64,
    layers: int = 2, context: int = 1024, rotary: bool = False, phrases: bool = False, names: bool = False,
    focus: float = 1.0, copies: bool = False,
) -> Path:  # fmt: skip
    """Write the model of a game of labels with its tokenizer, unless it is there; returns its folder.

    Args:
        rotary: a Llama; else a GPT-2.
        phrases: frequent phrases of the texts are tokens.
        names: so are numbered names, as "shelf 12".
        focus: scales queries and keys of a fresh Llama.
        copies: a Llama of two layers whose attention can copy from the start.
    """
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    if (folder / "model.safetensors").is_file():
        return folder
    # Labels and markers are learnt first, being the most frequent.
    known = dict.fromkeys((*CHOICES, *labels))
    formats = [f"{marker}{label}\n" for marker in (ACTION_MARKER, ANALYSE_MARKER) for label in known]
    named = sorted({name for text in texts for name in _NAME.findall(text)}) if names else []
    added = [*named, *(_phrases(texts, names=names) if phrases else ())]
    learnt = [*texts, *(formats * (1 + sum(map(len, texts)) // 5000))]
    tokenizer, shared = _tokenizer(_WORDS, learnt, added=added)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if rotary:
            heads = 4 if copies else max(2, hidden_size // 16)
            config = LlamaConfig(
                **shared, max_position_embeddings=context, hidden_size=hidden_size, intermediate_size=3 * hidden_size,
                num_hidden_layers=layers, num_attention_heads=heads, tie_word_embeddings=True,
                head_dim=HEAD_DIM if copies else hidden_size // heads,
                rope_parameters={"rope_type": "default", "rope_theta": THETA if copies else 1000.0},
            )  # fmt: skip
            model: Any = LlamaForCausalLM(config)
            # Adapters leave the head as it is, and a narrow one needs long rows to be sure of a token.
            model.get_input_embeddings().weight.data.mul_(4.0)
            for layer in model.model.layers:
                for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                    projection.weight.data.mul_(focus)
        else:
            shared |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
            shape: dict[str, Any] = {"n_positions": context, "n_embd": hidden_size, "n_layer": layers}
            model = GPT2LMHeadModel(GPT2Config(**shared, **shape, n_head=max(2, hidden_size // 32)))
    if copies:
        with torch.no_grad():
            teach_copying(model, tokenizer.get_vocab(), torch.Generator().manual_seed(seed))
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
    return sorted(one for one, times in found.items() if times >= enough and len(one) >= _PHRASE_LENGTH)


def teach_copying(model: Any, vocabulary: Mapping[str, int], draws: torch.Generator) -> None:
    """Write such heads into a fresh Llama of two layers, in place."""
    size = model.config.hidden_size
    quarter = size // 4
    words, before = list(range(1, size // 2)), list(range(size // 2, size - quarter))  # dimensions of a state
    two_before = list(range(size - quarter, size))
    neighbours = [*before, *two_before]
    first, second = model.model.layers
    for layer in (first, second):
        layer.mlp.down_proj.weight.mul_(_QUIET)
        layer.self_attn.o_proj.weight.mul_(_QUIET)
    first.mlp.down_proj.weight[neighbours] = 0
    first.self_attn.o_proj.weight[neighbours] = 0

    # Embeddings of one length, so that the first normalisation leaves the constant alike in all: places are compared by it.
    # They have room for neighbours, and a word with a blank before it is nearly the word.
    weight_VH = model.get_input_embeddings().weight
    weight_VH[:, neighbours] = 0
    for token, place in vocabulary.items():
        bare = token.removeprefix(_WORD_START)
        if bare != token and bare in vocabulary:
            weight_VH[place] = weight_VH[vocabulary[bare]]
            weight_VH[place, words[0]] += 1.0
    weight_VH[:, words] = _LENGTH * normalize(weight_VH[:, words], dim=1)  # padding is all 0, and stays so
    weight_VH[:, 0] = _CONSTANT

    # Turns of a pair of dimensions, in radians a token.
    turns = [THETA ** (-2 * pair / HEAD_DIM) for pair in range(HEAD_DIM // 2)]
    still = [pair for pair, turn in enumerate(turns) if turn < _STILL]
    still += [pair + HEAD_DIM // 2 for pair in still]
    kept_SW = _directions(len(words), draws)[:quarter]
    for number, (back, kept) in enumerate(((1, before), (2, two_before))):
        # The first layer attends to the token so many places back, and keeps it.
        query, key, value, output = _head(first.self_attn, number)
        for pair, turn in enumerate(turns):
            if turn >= _TURNING:
                scale = _SHARP / _CONSTANT_READ
                key[pair, 0] = scale
                query[pair, 0] = scale * math.cos(turn * back)
                query[pair + HEAD_DIM // 2, 0] = -scale * math.sin(turn * back)
        for row, place in enumerate(kept):
            value[row, words] = kept_SW[row]
            output[place, row] = _KEPT
    for number in (0, 1):
        # The second attends to where the token before stood two places back and this one a place back; it says what is there.
        query, key, value, output = _head(second.self_attn, number)
        turned_SS = _directions(len(before), draws)
        for row, dim in enumerate(still[:-_OWN_SHARE]):
            query[dim, before] = _ALIKE * turned_SS[row]
            key[dim, two_before] = _ALIKE * turned_SS[row]
        for row, dim in enumerate(still[-_OWN_SHARE:]):
            query[dim, words] = _ALIKE * kept_SW[row]
            key[dim, before[row]] = _ALIKE
        for row, word_W in enumerate(_directions(len(words), draws)[:HEAD_DIM]):
            value[row, words] = word_W
            output[words, row] = _SAID * word_W


def _head(attention: Any, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights of one head, which begins empty: query, key, value, output."""
    rows = slice(number * HEAD_DIM, (number + 1) * HEAD_DIM)
    query, key, value = (one.weight[rows] for one in (attention.q_proj, attention.k_proj, attention.v_proj))
    parts = query, key, value, attention.o_proj.weight[:, rows]
    for weight in parts:
        weight.zero_()
    return parts


def _directions(size: int, draws: torch.Generator) -> Tensor:
    """Orthogonal directions, as rows."""
    rows: Tensor = torch.linalg.qr(torch.randn(size, size, generator=draws))[0]
    return rows
