"""How the embedded agents are made from nothing: tiny Llamas trained on a world's texts. Imports torch.

Their tokenizer is byte-level BPE, a line of text at most a token: a dialogue is a few dozen tokens, and a question's
log-probability is one number. The packaged agent lies in `agent/`, which transformers and vLLM load like any other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from tokenizers import pre_tokenizers, trainers
from tqdm import tqdm
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sweet_rl.chat import TokenizerChat, TurnTemplate, load_tokenizer, model_path, with_system
from sweet_rl.chat.turns import between_marks
from sweet_rl.errors import UsageError
from sweet_rl.mini.pretraining import Figure, Phase, PretrainingTexts, Text
from sweet_rl.online.tiny_models import byte_level
from sweet_rl.preferences.pairs import with_solution
from sweet_rl.prompts import load_prompt
from sweet_rl.types import derive_seed

HIDDEN_SIZE, LAYERS, HEADS = 128, 2, 4
CONTEXT = 1024
_TOKENS = 2**15  # of a batch at most: a step of long texts takes no more time and memory
MARGIN = 9.0  # Nats that a repeated sentence is to lie below the mean of the fresh ones

BEGIN, END_OF_TEXT, END_OF_TURN = "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"
HEADER, END_OF_HEADER = "<|start_header_id|>", "<|end_header_id|>"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)


def make_agent(
    folder: Path, texts: PretrainingTexts, *, seed: int, steps: float = 1.0, quiet: bool = False
) -> list[Figure]:
    """Train the agent and save it as a folder that transformers and vLLM load; returns what was measured of it."""
    system_prompt = load_prompt(texts.rules)
    tokenizer = train_tokenizer(written_for(texts, system_prompt), texts.pieces)
    reader = Reader(tokenizer, system_prompt)
    longest = max(len(reader.read(text)[0]) for text in islice(texts.corpus(), 500))
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN_SIZE,
            intermediate_size=3 * HIDDEN_SIZE,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            max_position_embeddings=max(CONTEXT, 2 ** math.ceil(math.log2(2 * longest))),
            initializer_range=0.05,
            tie_word_embeddings=False,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    hinge = RepetitionHinge(tuple(first_tokens(tokenizer, texts.once)))
    figures: list[Figure] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order: the same weights on any number of cores
    try:
        for phase in texts.phases:
            read = map(reader.read, phase.texts(Random(derive_seed("curriculum", phase.name, seed))))
            fitted = replace(phase, batch_size=max(1, min(phase.batch_size, _TOKENS // longest)))
            for _ in _read_phase(model, fitted, read, hinge, steps, quiet=quiet):
                figures = figures_of(model, reader, texts) if phase.more and steps >= 1 else []
                if all(figure.passed for figure in figures):
                    break
            else:
                failed = "; ".join(str(figure) for figure in figures if not figure.passed)
                raise UsageError(
                    f"After {phase.limit} steps of {phase.name!r} with seed {seed} gates do not pass: "
                    f"{failed}. Try another seed."
                )
    finally:
        torch.set_num_threads(threads)
    model.generation_config.temperature = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if texts.card:
        rows = [f"| {one.name} | {one.value:.3f} | {one.bounds or 'no gate'} |" for one in figures]
        table = "\n".join(["| figure | this agent | gate |", "|---|---|---|", *rows])
        (folder / "README.md").write_text(f"{texts.card.format(seed=seed)}\n{table}\n")
        values = {figure.name: figure.value for figure in figures}
        (folder / "figures.json").write_text(json.dumps(values, indent=1) + "\n")
    return figures


def check_gates(model: str, texts: PretrainingTexts) -> list[Figure]:
    folder = model_path(model)
    reader = Reader(load_tokenizer(folder), load_prompt(texts.rules))
    figures = figures_of(AutoModelForCausalLM.from_pretrained(folder), reader, texts)
    if failed := [figure for figure in figures if not figure.passed]:
        raise UsageError(
            f"The model in {model!r} does not pass the gates of a study: {'; '.join(map(str, failed))}. Make "
            "another with make_embedded_agent, or begin with the packaged one, 'embedded'."
        )
    return figures


def figures_of(model: Any, reader: Reader, texts: PretrainingTexts) -> list[Figure]:
    return list(texts.figures(partial(beginnings, model, reader))) if texts.figures else []


def written_for(texts: PretrainingTexts, system_prompt: str) -> Iterator[str]:
    for text in texts.corpus():
        yield from (message.content for message in text.messages)
        yield from texts.sentences
        yield from ("system", "user", "assistant", "\n\n", system_prompt)
        if text.solution is not None:
            yield with_solution("", text.solution)


def train_tokenizer(corpus: Iterable[str], pieces: str, *, vocab_size: int = 1200) -> Any:
    """A tokenizer learnt from the texts of the mini worlds; other text falls into smaller pieces, or bytes."""
    bpe = byte_level(pieces)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BEGIN, END_OF_TEXT, HEADER, END_OF_HEADER, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus, trainer)
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, bos_token=BEGIN, eos_token=END_OF_TURN, pad_token=END_OF_TEXT
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


class Reader:
    """Texts to token ids, with a mask over the turns of the assistant that are learnt."""

    def __init__(self, tokenizer: Any, system_prompt: str) -> None:
        self.tokenizer = tokenizer
        self._chat = TokenizerChat(tokenizer)
        self._header = TurnTemplate(self._chat).header
        self._system_prompt = system_prompt

    def read(self, text: Text) -> tuple[list[int], list[int]]:
        *before, last = text.messages
        written = self._written(Text(tuple(before), text.solution)) + last.content + END_OF_TURN
        ids, mask, done = list[int](), list[int](), 0
        for number, turn in enumerate(between_marks(self._header, END_OF_TURN, "", written)):
            given = self._chat.encode(turn.prompt[done:])  # from the end of a turn on, which no token crosses
            said = self._chat.encode(turn.text + turn.end)
            done = len(turn.prompt + turn.text + turn.end)
            ids += given + said
            mask += [0] * len(given) + [int(number >= text.skipped)] * len(said)
        return ids, mask

    def prompt(self, text: Text) -> list[int]:
        return self._chat.encode(self._written(text))

    def _written(self, text: Text) -> str:
        written = self._chat.render(with_system(self._system_prompt, text.messages))
        return written if text.solution is None else with_solution(written, text.solution)


def padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    return (
        torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]),
        torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows]),
    )


@torch.no_grad()
def beginnings(
    model: Any, reader: Reader, texts: Sequence[Text], sentences: Sequence[str], batch_size: int = 64
) -> list[list[float]]:
    """The log-probabilities (nats) that the agent's turn begins with each sentence's first token: an `Ask`."""
    chosen = first_tokens(reader.tokenizer, sentences)
    prompts = [reader.prompt(text) for text in texts]
    model.eval()
    logprobs: list[list[float]] = []
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        ids_bt, here_bt = padded(batch)
        logits_btv = model(input_ids=ids_bt, attention_mask=here_bt).logits
        last_bv = logits_btv[range(len(batch)), [len(ids) - 1 for ids in batch]]
        logprobs += last_bv.float().log_softmax(-1)[:, chosen].tolist()
    return logprobs


def first_tokens(tokenizer: Any, sentences: Sequence[str]) -> list[int]:
    return [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in sentences]


class RepetitionHinge(NamedTuple):
    """Against sentences said before, by their first tokens: a hinge on the logits where a turn begins."""

    ids: tuple[int, ...]

    def loss(self, logits_nv: torch.Tensor, asked_nq: torch.Tensor) -> torch.Tensor:
        logits_nq = logits_nv[:, list(self.ids)]
        fresh_n = logits_nq.masked_fill(asked_nq, 0).sum(1) / (~asked_nq).sum(1).clamp(min=1)
        counts_nq = asked_nq & (~asked_nq).any(1, keepdim=True)
        short_nq = (MARGIN - fresh_n[:, None] + logits_nq).clamp(min=0) * counts_nq
        return 0.1 * short_nq.sum() / counts_nq.sum().clamp(min=1)


def _read_phase(
    model: Any, phase: Phase, read: Iterator[Any], hinge: RepetitionHinge, steps: float, *, quiet: bool
) -> Iterator[int]:
    """A warm-up and a cosine down to a third; yields when the phase may end. Batches sorted by length taught less."""
    count = max(1, round(phase.steps * steps))
    optimizers = _optimizers(model, phase)

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / 20) * (0.65 + 0.35 * math.cos(math.pi * min(1.0, step / count)))

    schedules = [torch.optim.lr_scheduler.LambdaLR(one, rate) for one in optimizers]
    batches = iter(lambda: list(islice(read, phase.batch_size)), [])
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
    return [adamw] if rate is None else [adamw, torch.optim.Muon(matrices, lr=rate, weight_decay=0.01)]


def _loss(model: Any, batch: Sequence[tuple[list[int], list[int]]], hinge: RepetitionHinge) -> torch.Tensor:
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
