"""One optimizer step of preference training: prefix trees against TRL's DPOTrainer and the published layout.

Every contender trains the same model on the same pairs in an own process, and its steps are timed by the
same clock. Tokens are those of both sides of all pairs, however often a contender computes them, so that
tokens/s compare.

- ours: `train_dpo --max_tokens_per_batch`.
- TRL: DPOTrainer with precomputed reference log-probabilities, all pairs of a step at once or one by one.
- published layout: each pair as two padded rows, all logits in float32, one pair at a time.

Run: python benchmarks/training_step.py [--history 1200] [--pairs_per_turn 4] [--data step|trajectory]
TRL comes with: pip install -e '.[bench]'
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

from _measure import Clock, callback, flags, heading, in_a_process, save, show
from _step_pairs import (
    colbench_turns,
    lengthened,
    mini_turns,
    pairs_of,
    save_model,
    train_by_trl,
    word_tokenizer,
)


def main() -> None:
    given = flags(
        __doc__,
        history=1200,
        tasks=None,
        dialogues=48,
        pairs_per_turn=4,
        data=("step", "trajectory"),
        steps=5,
        rounds=3,
        hidden=256,
        layers=4,
        vocabulary=32_000,
        budget=8192,
        contenders=[name for name in RUN if name != "ours without trees"],
        folder=None,
        output=None,
        run=None,
    )
    if given.run:
        print(json.dumps(RUN[given.run](Path(given.folder), given)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(given.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        tokens = make_data(folder, given)
        measured: dict[str, list[dict[str, Any]]] = {one: [] for one in given.contenders}
        shared = {one: getattr(given, one) for one in ("pairs_per_turn", "steps", "budget")}
        for _ in range(given.rounds):
            for contender, results in measured.items():
                results.append(in_a_process(__file__, {"run": contender, "folder": folder, **shared}))
    print(f"{heading()}\n{json.dumps(vars(given))}")
    rows = {}  # medians over all timed steps and over processes
    for contender, results in measured.items():
        seconds = statistics.median(step for result in results for step in result["steps"])
        memory = statistics.median(result["peak"] - result["idle"] for result in results)
        rows[contender] = {"seconds": seconds, "rate": tokens / seconds, "memory": memory}
    ours = rows.get("ours", {"seconds": math.nan, "memory": math.nan})
    show(
        ("contender", "s a step", "tokens/s", "ours is faster by", "peak MiB over idle", "ours needs"),
        [
            [
                name,
                f"{row['seconds']:.3f}",
                f"{row['rate']:.0f}",
                f"{row['seconds'] / ours['seconds']:.1f}",
                f"{row['memory']:.0f}",
                f"{ours['memory'] / row['memory']:.2f}",
            ]
            for name, row in rows.items()
        ],
    )
    save(given.output, arguments=vars(given), contenders=rows)


def make_data(folder: Path, arguments: argparse.Namespace) -> float:
    """Pairs of one turn a step, and the model; returns the tokens of a step, both sides of all pairs."""
    turns = (
        colbench_turns(folder, arguments.tasks)
        if arguments.tasks
        else mini_turns(folder, arguments.dialogues)
    )
    rng = random.Random(0)
    tokenizer = word_tokenizer([turn["prompt"] + "".join(turn["candidates"]) for turn in turns])
    if arguments.data == "step":
        enough = [turn for turn in turns if len(turn["candidates"]) >= 4]
        drawn = lengthened(rng.sample(enough, arguments.steps), tokenizer, arguments.history)
        rows = [pair for turn in drawn for pair in pairs_of(turn, arguments.pairs_per_turn, rng)]
    else:  # whole dialogues, each of them another one: they share a system prompt at most
        wanted = 2 * arguments.pairs_per_turn * arguments.steps
        drawn = lengthened(rng.sample(turns, wanted), tokenizer, arguments.history)
        texts = [turn["prompt"] + turn["candidates"][0] for turn in drawn]
        rows = [
            {"chosen": one, "rejected": other} for one, other in zip(texts[::2], texts[1::2], strict=True)
        ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_model(
        folder / "model",
        tokenizer,
        hidden=arguments.hidden,
        layers=arguments.layers,
        vocabulary=arguments.vocabulary,
    )
    texts = [row.get("prompt", "") + row[side] for row in rows for side in ("chosen", "rejected")]
    return sum(len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]) / arguments.steps


def _watched() -> Clock:
    from transformers import trainer

    clock = Clock()
    trainer.DEFAULT_CALLBACKS.append(callback(clock))
    return clock


def run_ours(folder: Path, arguments: argparse.Namespace, *, tree: bool = True) -> dict[str, Any]:
    clock = _watched()
    from sweet_rl.commands.train import train_dpo

    with tempfile.TemporaryDirectory() as out:
        train_dpo(
            str(folder / "model"),
            str(folder / "pairs.jsonl"),
            save_path=out,
            ckpt_path=f"{out}/checkpoints",
            eval_fraction=0,
            max_len=20_000,
            shuffle=False,
            train_batch_size=arguments.pairs_per_turn,
            max_tokens_per_batch=arguments.budget,
            prefix_tree=tree,
            reference_cache="none",
            quiet=True,
        )
    return clock.result()


def run_trl(folder: Path, arguments: argparse.Namespace, *, at_once: bool = True) -> dict[str, Any]:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    clock = _watched()
    rows = Dataset.from_list([json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()])
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    how = {"max_length": 20_000, "use_cpu": True, "bf16": False, "gradient_checkpointing": False}
    train_by_trl(model, rows, tokenizer, arguments.pairs_per_turn, at_once, {}, **how)
    return clock.result()


def run_published(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    import torch
    from torch.nn.functional import logsigmoid
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype="float32")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]

    def logps(row: dict[str, str]) -> Any:
        texts = [row.get("prompt", "") + row[side] for side in ("chosen", "rejected")]
        batch = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        start = len(tokenizer(row.get("prompt", ""), add_special_tokens=False)["input_ids"])
        mask = batch["attention_mask"][:, 1:].bool()
        mask[:, : max(0, start - 1)] = False
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.float()
        table = logits[:, :-1].log_softmax(-1)
        return (table.gather(2, batch["input_ids"][:, 1:, None])[..., 0] * mask).sum(-1)

    with torch.no_grad():
        references = [logps(row) for row in rows]
    clock = Clock()
    clock.begin()
    for start in range(0, len(rows), arguments.pairs_per_turn):
        for row, reference in list(zip(rows, references, strict=True))[
            start : start + arguments.pairs_per_turn
        ]:
            ratio = logps(row) - reference
            loss = -logsigmoid(0.1 * (ratio[0] - ratio[1])) / arguments.pairs_per_turn
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        clock.step()
    return clock.result()


RUN = {
    "ours": run_ours,
    "ours without trees": lambda folder, arguments: run_ours(folder, arguments, tree=False),
    "trl": run_trl,
    "trl one by one": lambda folder, arguments: run_trl(folder, arguments, at_once=False),
    "published": run_published,
}


if __name__ == "__main__":
    main()
