"""Optimizer steps of DPO on step pairs at a given shape: ours, TRL's DPOTrainer, and the published layout.

All train the same kind of model, made from config and seed, on the same token ids, with adapters or without,
in the same precision, with activations recomputed or not; the reference is asked before the clock runs. What
is timed is a Trainer's step (ours, TRL), or the published arithmetic written plainly.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from _gpu_shapes import GIB, SHAPES, Shape, free_memory, made, work_of
from _measure import Clock, callback, on_gpu

from sweet_rl.chat import Span
from sweet_rl.training.batches import Collator, Reader, to_device
from sweet_rl.training.data import DataRow, Said
from sweet_rl.training.encoding import Branch, Encoded, Side
from sweet_rl.training.forward import attention_span

LORA_MODULES = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


@dataclass(frozen=True)
class Data:
    """Step pairs: in each step some turns, in each turn pairs of different candidates after one history."""

    history: int
    response: int
    pairs_of_turn: int = 4
    turns: int = 4
    steps: int = 5
    shortest: float = 1.0  # Share of `history` that a turn's may have at least

    @property
    def pairs_of_step(self) -> int:
        return self.turns * self.pairs_of_turn

    def pairs(self, vocabulary: int) -> list[Encoded]:
        rng = random.Random(0)

        def words(count: int) -> tuple[int, ...]:
            return tuple(rng.randrange(6, vocabulary) for _ in range(count))

        found: list[Encoded] = []
        for _ in range(self.steps * self.turns):
            least = round(self.shortest * self.history)
            history = words(rng.randint(least, self.history))
            span = Span(len(history), len(history) + self.response)
            for _ in range(self.pairs_of_turn):
                sides = [
                    Side((Branch((*history, *words(self.response - 1), 1), (span,), len(history)),))
                    for _ in range(2)
                ]
                found.append(
                    Encoded(
                        len(found), tuple(sides), DataRow(Said(), (Said(), Said()), "made", len(found) + 1)
                    )
                )
        return found


def ours(
    shape: Shape,
    data: Data,
    device: str,
    *,
    attention: str = "sdpa",
    tree: bool = True,
    compiled: bool = False,
) -> Clock:
    import torch

    from sweet_rl.training.forward import PreferenceObjective
    from sweet_rl.training.models import bare_model, trainable
    from sweet_rl.training.trainer import Rows, Run, StepTrainer

    torch.backends.cuda.enable_cudnn_sdp(False)  # as wherever the library loads a model
    pairs = data.pairs(shape.vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(shape, data, device, folder, tree=tree, compiled=compiled)
        run = Run("train_dpo", settings, Rows(None, pairs, []), lambda _: None)
        model = made(shape, device, attention=attention)
        read = Reader(0, attention_span(bare_model(model)) if tree else 0)
        ask = PreferenceObjective(model.eval(), settings)
        reference = torch.zeros(len(pairs), 2)
        with torch.inference_mode(), _autocast(device):
            for pair in pairs:
                batch = to_device(Collator("sum", read)([(pair, 0.0)]), device)
                logps = ask.logps(model, batch)[0]
                reference[pair.index] = torch.stack([logps.chosen_B[0], logps.rejected_B[0]]).cpu()
        model = trainable(model, settings)
        clock = Clock(device)
        trainer = StepTrainer(
            model,
            run,
            collator=Collator(settings.reduction, read, reference),
            objective=PreferenceObjective(bare_model(model), settings),
        )
        trainer.add_callback(callback(clock))
        trainer.train()
    return clock


def _settings(shape: Shape, data: Data, device: str, folder: str, *, tree: bool, compiled: bool) -> Any:

    from sweet_rl.training.settings import TrainSettings

    return TrainSettings(
        dataset="made",
        pretrain="made",
        bf16=on_gpu(device),
        dtype=shape.dtype,
        device="cuda" if on_gpu(device) else "cpu",
        lora_rank=shape.lora_rank,
        lora_alpha=2 * shape.lora_rank,
        target_modules=LORA_MODULES,
        gradient_checkpointing=shape.checkpointing,
        torch_compile=compiled,
        train_batch_size=data.pairs_of_step,
        max_tokens_per_batch=max(16_384, 2 * (data.history + data.response)),
        shuffle=False,
        prefix_tree=tree,
        eval_fraction=0,
        max_len=data.history + data.response,
        ckpt_path=folder,
        save_path=folder,
        quiet=True,
        seed=42,
    )


def trl(shape: Shape, data: Data, device: str, *, at_once: bool) -> Clock:
    from _step_pairs import tokenizer_of_words, train_by_trl
    from datasets import Dataset

    tokenizer = tokenizer_of_words(shape.vocabulary)
    tokenizer.pad_token = tokenizer.eos_token
    clock, gpu = Clock(device), on_gpu(device)
    rows = Dataset.from_list([_texts(pair, tokenizer) for pair in data.pairs(shape.vocabulary)])
    beside = {"peft_config": _lora(shape) if shape.lora_rank else None, "callbacks": [callback(clock)]}
    how = {"max_length": None, "use_cpu": not gpu, "bf16": gpu, "optim": f"adamw_torch{'_fused' * gpu}"}
    how |= {"gradient_checkpointing_kwargs": {"use_reentrant": False}}
    how |= {"gradient_checkpointing": shape.checkpointing}
    train_by_trl(made(shape, device), rows, tokenizer, data.pairs_of_step, at_once, beside, **how)
    return clock


def _texts(pair: Encoded, tokenizer: Any) -> dict[str, str]:
    """Words, which TRL's tokenizing makes the same ids of."""
    chosen, rejected = pair.sides[0].branches[0], pair.sides[1].branches[0]
    cut = chosen.prompt_length

    def text(ids: tuple[int, ...]) -> str:
        return " ".join(tokenizer.convert_ids_to_tokens(list(ids)))

    sides = {"chosen": chosen.ids[cut:], "rejected": rejected.ids[cut:]}
    return {"prompt": text(chosen.ids[:cut]) + " ", **{name: text(ids) for name, ids in sides.items()}}


def _lora(shape: Shape) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        task_type="CAUSAL_LM",
        r=shape.lora_rank,
        lora_alpha=2 * shape.lora_rank,
        target_modules=LORA_MODULES.split(","),
    )


def published(shape: Shape, data: Data, device: str, *, shares: bool = False) -> Clock:
    """The published layout: one pair at a time as two padded rows, all logits in float32.

    Or, where rows `shares` prefixes, by the package flash-pref, which needs flash-attn: the pairs of a turn.
    """
    import torch
    from torch.nn.functional import logsigmoid

    if shares:
        from flash_pref import shared_prefix
    model = made(shape, device, attention="flash_attention_2" if shares else "sdpa")
    if shape.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if shape.lora_rank:
        from peft import get_peft_model

        model.enable_input_require_grads()
        model = get_peft_model(model, _lora(shape))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=on_gpu(device))
    pairs = data.pairs(shape.vocabulary)
    size = data.pairs_of_turn if shares else 1
    batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]

    def read(some: Sequence[Encoded]) -> Any:
        return torch.tensor([branch.ids for pair in some for branch in pair.branches], device=device)

    def logps(some: Sequence[Encoded]) -> Any:
        ids = read(some)
        with _autocast(device):
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        table = logits[:, :-1].float().log_softmax(-1)
        start = some[0].branches[0].prompt_length - 1
        return table.gather(2, ids[:, 1:, None])[:, start:, 0].sum(-1).view(-1, 2)

    model.eval()
    with torch.no_grad():
        references = [logps(some) for some in batches]
    model.train()
    clock = Clock(device)
    clock.begin()
    for number, (some, reference) in enumerate(zip(batches, references, strict=True), start=1):
        ids = read(some)
        mask = torch.ones_like(ids)
        with shared_prefix(model, input_ids=ids, attention_mask=mask) if shares else nullcontext():
            chosen, rejected = (logps(some) - reference).T
            (-logsigmoid(0.1 * (chosen - rejected)).sum() / data.pairs_of_step).backward()
        if number * size % data.pairs_of_step:
            continue
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        clock.step()
    return clock


def _autocast(device: str) -> Any:
    import torch

    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=on_gpu(device))


OURS, FLEX, PUBLISHED = "ours", "ours, flex_attention", "published layout"
ONE_BY_ONE = "TRL, one pair at a time"
COMPILED = "ours, flex_attention, compiled"
CONTENDERS: dict[str, Callable[[Shape, Data, str], Clock]] = {
    OURS: ours,
    FLEX: lambda *all_: ours(*all_, attention="flex_attention"),
    COMPILED: lambda *all_: ours(*all_, attention="flex_attention", compiled=True),
    "ours without trees": lambda *all_: ours(*all_, tree=False),
    "TRL": lambda *all_: trl(*all_, at_once=True),
    ONE_BY_ONE: lambda *all_: trl(*all_, at_once=False),
    PUBLISHED: published,
    "flash-pref": lambda *all_: published(*all_, shares=True),
}


def steps(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One contender's steps: seconds, tokens/s, MFU on distinct tokens, memory."""
    shape = SHAPES[arguments.shape]
    data = Data(arguments.history, arguments.response, steps=arguments.steps, shortest=arguments.shortest)
    found = CONTENDERS[arguments.contender](shape, data, arguments.device).result()
    pairs, size = data.pairs(shape.vocabulary), data.pairs_of_step
    timed = [pairs[start : start + size] for start in range(size, len(pairs), size)]  # all but the first step
    works = [work_of(Collator("sum", Reader(0))([(pair, 1.0) for pair in step])) for step in timed]
    tokens = [sum(len(branch.ids) for pair in step for branch in pair.branches) for step in timed]

    def rate(amounts: Iterable[float]) -> float:
        return statistics.median(each / s for each, s in zip(amounts, found["steps"], strict=True))

    row: dict[str, Any] = {
        "s": statistics.median(found["steps"]),
        "first_s": found["first"],
        "tokens_s": rate(tokens),
        "distinct_tokens_s": rate(work.distinct_tokens for work in works),
        "peak_gib": found["peak"] * 2**20 / GIB,
        "remark": f"a first step of {found['first']:.1f} s",
    }
    if arguments.peak_tflops:
        row["mfu"] = rate(work.flops(shape) for work in works) / arguments.peak_tflops / 1e12
    return [row]


def kernels(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    (row,) = steps(arguments)
    compiled_s = row["first_s"] - row["s"]
    return [{"s": compiled_s, "remark": "by which the first step is longer: kernels are compiled, and kept"}]


def largest_history(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of one turn's pairs behind histories that double, until memory or half of the time is gone."""
    import torch

    shape = SHAPES[arguments.shape]
    history, rows = arguments.history, []
    ends = "no longer one was tried"
    began = time.monotonic()
    while history <= arguments.longest:
        if time.monotonic() - began > arguments.seconds / 2:
            ends = f"{history:,} tokens: not tried, for want of time"
            break
        data = Data(history, arguments.response, turns=1, steps=2)
        free_memory(arguments.device)
        try:
            found = CONTENDERS[arguments.contender](shape, data, arguments.device).result()
        except torch.OutOfMemoryError:
            ends = f"{history:,} tokens: out of memory"
            break
        rows.append({"history": history, "s": found["steps"][0], "peak_gib": found["peak"] * 2**20 / GIB})
        history *= 2
    if not rows:
        raise torch.OutOfMemoryError(ends)
    return [rows[-1] | {"all": rows, "remark": f"a history of {rows[-1]['history']:,} tokens fits; {ends}"}]
