"""Makes the embedded agents from nothing: tiny Llamas trained on a world's texts. Imports torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.chat import TokenizerChat, TurnFormat, with_system
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.sft_data.schools import Phase, School, Text
from sweet_rl.tiny_models.tokenizer import END_OF_TURN, train_tokenizer
from sweet_rl.training.logprobs import next_logprobs
from sweet_rl.types import derive_seed

HIDDEN_SIZE, LAYERS, HEADS = 128, 2, 4
CONTEXT = 1024


def make_agent(
    folder: Path,
    system_prompt: str,
    *,
    seed: int,
    school: School,
    steps: float = 1.0,
    quiet: bool = False,
) -> None:
    """Train the agent and save it as a folder that transformers and vLLM load.

    Args:
        folder: where to.
        system_prompt: the agent's rules, as they will stand before every dialogue.
        seed: of weights and texts; the tokenizer is the same for all seeds.
        school: what it reads.
        steps: a factor on the steps of every phase, for tests.
        quiet: no progress bar.
    """
    tokenizer = train_tokenizer(written_for(school, system_prompt))
    torch.manual_seed(seed)
    model = LlamaForCausalLM(_config(tokenizer))
    reader = _Reader(tokenizer, system_prompt)
    for phase in school.phases:
        rng = Random(derive_seed("curriculum", phase.name, seed))
        count = max(1, round(phase.steps * steps))
        batches = _batches(map(reader.read, phase.texts(rng)), phase.batch_size)
        _read_phase(model, phase, islice(batches, count), count, quiet=quiet)
    model.generation_config.temperature = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class _Reader:
    """Texts to token ids, with a mask over the assistant's turns."""

    def __init__(self, tokenizer: Any, system_prompt: str) -> None:
        self._chat = TokenizerChat(tokenizer)
        self._turns = TurnFormat.of(tokenizer)
        self._system_prompt = system_prompt

    def read(self, text: Text) -> tuple[list[int], list[int]]:
        """Ids and mask of one text."""
        *before, last = with_system(self._system_prompt, text.messages)
        written = self._chat.render(before) + last.content + END_OF_TURN
        if text.solution is not None:
            written = with_solution(written, text.solution)
        ids = self._chat.encode(written)
        mask = [0] * len(ids)
        for start, end in self._turns.spans(ids):
            mask[start:end] = [1] * (end - start)
        return ids, mask


def _read_phase(
    model: Any, phase: Phase, batches: Iterator[Sequence[Any]], count: int, *, quiet: bool
) -> None:
    """AdamW with a short warm-up and a cosine down to a third."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=phase.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 20) * (0.65 + 0.35 * math.cos(math.pi * step / count))
    )
    model.train()
    bar = tqdm(batches, total=count, desc=phase.name, unit="step", disable=quiet)
    for batch in bar:
        loss = _loss(model, batch, all_tokens=phase.all_tokens)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)


def _loss(model: Any, batch: Sequence[tuple[list[int], list[int]]], *, all_tokens: bool) -> torch.Tensor:
    """Mean negative log-probability of the tokens to be learnt."""
    width = max(len(ids) for ids, _ in batch)
    ids_bt = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in batch])
    here_bt = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in batch])
    mask_bt = torch.tensor([mask + [0] * (width - len(mask)) for _, mask in batch])
    logits_btv = model(input_ids=ids_bt, attention_mask=here_bt).logits
    logprobs_bt = next_logprobs(logits_btv[:, :-1], ids_bt[:, 1:])
    learnt_bt = (here_bt if all_tokens else mask_bt)[:, 1:]
    return -(logprobs_bt * learnt_bt).sum() / learnt_bt.sum()


def _batches(texts: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Batches as the texts come, of all kinds.

    Sorting texts by length saves padding, but then a batch holds one kind only, and more steps of drills
    taught less.
    """
    while True:
        yield list(islice(texts, size))


def written_for(school: School, system_prompt: str) -> Iterator[str]:
    """What the tokenizer is learnt from."""
    for text in school.corpus():
        yield from (message.content for message in text.messages)
        yield from school.sentences
        yield from ("system", "user", "assistant", "\n\n", system_prompt)
        if text.solution is not None:
            yield with_solution("", text.solution)


def _config(tokenizer: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN_SIZE,
        intermediate_size=3 * HIDDEN_SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        initializer_range=0.05,
        tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
