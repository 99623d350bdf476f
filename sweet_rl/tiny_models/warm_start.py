"""Makes the embedded agents from nothing: tiny Llamas trained on a world's texts. Imports torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from tqdm import tqdm
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.errors import UsageError
from sweet_rl.preferences.trajectory_pairs import with_solution
from sweet_rl.reflect_data.pretraining import Figure, Phase, School
from sweet_rl.tiny_models.reading import Reader, figures_of, first_tokens, padded, train_tokenizer
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
) -> list[Figure]:
    """Train the agent and save it as a folder that transformers and vLLM load."""
    tokenizer = train_tokenizer(written_for(school, system_prompt))
    torch.manual_seed(seed)
    model = LlamaForCausalLM(_config(tokenizer))
    reader = Reader(tokenizer, system_prompt)
    hinge = RepetitionHinge(tuple(first_tokens(tokenizer, school.once)))
    figures: list[Figure] = []
    for phase in school.phases:
        rng = Random(derive_seed("curriculum", phase.name, seed))
        batches = _batches(map(reader.read, phase.texts(rng)), phase.batch_size)
        with _one_thread():
            for _ in _read_phase(model, phase, batches, hinge, steps, quiet=quiet):
                figures = figures_of(model, reader, school) if phase.more and steps >= 1 else []
                if all(figure.passed for figure in figures):
                    break
            else:
                failed = "; ".join(str(figure) for figure in figures if not figure.passed)
                raise UsageError(
                    f"After {phase.limit} steps of {phase.name!r} with seed {seed} gates do not pass: "
                    f"{failed}. Try another seed."
                )
    model.generation_config.temperature = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if school.card:
        (folder / "README.md").write_text(card(school, seed, figures))
        values = {figure.name: figure.value for figure in figures}
        (folder / "figures.json").write_text(json.dumps(values, indent=1) + "\n")
    return figures


def card(school: School, seed: int, figures: Sequence[Figure]) -> str:
    """The model card: what the agent can and cannot do, and its figures."""
    rows = [f"| {one.name} | {one.value:.3f} | {one.bounds or 'no gate'} |" for one in figures]
    table = ["| figure | this agent | gate |", "|---|---|---|", *rows]
    return f"{school.card.format(seed=seed)}\n" + "\n".join(table) + "\n"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order: the same weights on any number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class RepetitionHinge(NamedTuple):
    """Against sentences that are in the dialogue already: a hinge on the logits where a turn begins."""

    ids: tuple[int, ...]
    """First tokens of the sentences."""
    margin: float = 9.0
    """Nats that a repeated sentence is to lie below the mean of the fresh ones."""
    weight: float = 0.1

    def loss(self, logits_nv: torch.Tensor, asked_nq: torch.Tensor) -> torch.Tensor:
        """The mean over repeated sentences."""
        logits_nq = logits_nv[:, list(self.ids)]
        fresh_n = logits_nq.masked_fill(asked_nq, 0).sum(1) / (~asked_nq).sum(1).clamp(min=1)
        counts_nq = asked_nq & (~asked_nq).any(1, keepdim=True)
        short_nq = (self.margin - fresh_n[:, None] + logits_nq).clamp(min=0) * counts_nq
        return self.weight * short_nq.sum() / counts_nq.sum().clamp(min=1)


def _read_phase(
    model: Any,
    phase: Phase,
    batches: Iterator[Sequence[Any]],
    hinge: RepetitionHinge,
    steps: float,
    *,
    quiet: bool,
) -> Iterator[int]:
    """A short warm-up and a cosine down to a third; yields whenever the phase may end."""
    count = max(1, round(phase.steps * steps))
    optimizers = _optimizers(model, phase)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda step: (
                min(1.0, (step + 1) / 20) * (0.65 + 0.35 * math.cos(math.pi * min(1.0, step / count)))
            ),
        )
        for optimizer in optimizers
    ]
    bar = tqdm(batches, total=count, desc=phase.name, unit="step", disable=quiet)
    for step, batch in enumerate(bar, start=1):
        loss = _loss(model.train(), batch, hinge)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        model.zero_grad()
        bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
        if step == count or (step > count and (step - count) % phase.more == 0):
            yield step
        if step >= max(count, phase.limit):
            return


def _optimizers(model: Any, phase: Phase) -> list[torch.optim.Optimizer]:
    """AdamW, and Muon for the matrices of the layers where the phase says so."""
    rate = phase.muon_learning_rate
    if rate is not None and not hasattr(torch.optim, "Muon"):
        raise UsageError(
            f"Making this agent needs torch.optim.Muon: torch 2.9 or later, and this is {torch.__version__}."
        )
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, weight in model.named_parameters():
        muon = rate is not None and weight.ndim == 2 and ".layers." in name
        (matrices if muon else others).append(weight)
    adamw = torch.optim.AdamW(others, lr=phase.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    if rate is None:
        return [adamw]
    return [adamw, torch.optim.Muon(matrices, lr=rate, weight_decay=0.01)]


def _loss(model: Any, batch: Sequence[tuple[list[int], list[int]]], hinge: RepetitionHinge) -> torch.Tensor:
    """Mean negative log-probability of the agent's tokens, and the hinge."""
    ids_bt, here_bt = padded([ids for ids, _ in batch])
    mask_bt, _ = padded([mask for _, mask in batch])
    learnt_bt, begins_bt = mask_bt[:, 1:] == 1, mask_bt[:, 1:] > mask_bt[:, :-1]
    hidden_bth = model.model(input_ids=ids_bt, attention_mask=here_bt).last_hidden_state[:, :-1]
    logits_nv = model.lm_head(hidden_bth[learnt_bt])  # nowhere else: a fifth of the positions
    nll = torch.nn.functional.cross_entropy(logits_nv, ids_bt[:, 1:][learnt_bt])
    if not hinge.ids:
        return nll
    asked_btq = (ids_bt[:, :-1, None] == torch.tensor(hinge.ids)).cumsum(1) > 0
    return nll + hinge.loss(logits_nv[begins_bt[learnt_bt]], asked_btq[begins_bt])


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
