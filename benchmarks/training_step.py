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
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _measure import Clock, callback, circumstances, heading
from _step_pairs import colbench_turns, lengthened, mini_turns, pairs_of, save_model, word_tokenizer


def main() -> None:
    arguments = _arguments()
    if arguments.run:
        print(json.dumps(RUN[arguments.run](Path(arguments.folder), arguments)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(arguments.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        tokens = make_data(folder, arguments)
        measured: dict[str, list[dict[str, Any]]] = {one: [] for one in arguments.contenders.split(",")}
        for _ in range(arguments.rounds):
            for contender, results in measured.items():
                results.append(_in_a_process(contender, folder, arguments))
    print(heading())
    print(json.dumps(vars(arguments)))
    rows = {name: _summary(results, tokens) for name, results in measured.items()}
    ours = rows.get("ours")
    print("| contender | s a step | tokens/s | ours is faster by | peak MiB over idle | ours needs |")
    print("|---" * 6 + "|")
    for name, row in rows.items():
        faster = f"{row['seconds'] / ours['seconds']:.1f}" if ours else ""
        smaller = f"{ours['memory'] / row['memory']:.2f}" if ours else ""
        speed = f"{row['seconds']:.3f} | {row['rate']:.0f} | {faster}"
        print(f"| {name} | {speed} | {row['memory']:.0f} | {smaller} |")
    if arguments.output:
        found = {**circumstances(), "arguments": vars(arguments), "contenders": rows}
        Path(arguments.output).write_text(json.dumps(found, indent=1) + "\n")


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


def _in_a_process(contender: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--run", contender, "--folder", str(folder)]
    for name in ("pairs_per_turn", "steps", "budget"):
        command += [f"--{name}", str(getattr(arguments, name))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _summary(results: list[dict[str, Any]], tokens: float) -> dict[str, float]:
    seconds = statistics.median(step for result in results for step in result["steps"])
    memory = statistics.median(result["peak"] - result["idle"] for result in results)
    return {"seconds": seconds, "rate": tokens / seconds, "memory": memory}


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
            quiet=True,
        )
    return clock.result()


def run_trl(folder: Path, arguments: argparse.Namespace, *, at_once: bool = True) -> dict[str, Any]:
    from datasets import load_dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer

    clock = _watched()
    size = arguments.pairs_per_turn if at_once else 1
    with tempfile.TemporaryDirectory() as out:
        config = DPOConfig(
            output_dir=out,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=arguments.pairs_per_turn // size,
            num_train_epochs=1,
            max_length=20_000,
            precompute_ref_log_probs=True,
            learning_rate=1e-5,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        )
        data = load_dataset("json", data_files=str(folder / "pairs.jsonl"), split="train", cache_dir=out)
        trainer = DPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(folder / "model", dtype="float32"),
            args=config,
            train_dataset=data,
            processing_class=AutoTokenizer.from_pretrained(folder / "model"),
        )
        trainer.train()
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--history", type=int, default=1200, help="tokens before a response; 0: as they are")
    parser.add_argument(
        "--tasks", help="dialogues about the tasks of this ColBench file, not of the mini worlds"
    )
    parser.add_argument("--dialogues", type=int, default=48, help="that turns are taken from")
    parser.add_argument("--pairs_per_turn", type=int, default=4)
    parser.add_argument("--data", choices=["step", "trajectory"], default="step")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contender, in turn")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--budget", type=int, default=8192, help="our --max_tokens_per_batch")
    parser.add_argument("--contenders", default="ours,trl,trl one by one,published")
    parser.add_argument("--folder", help="keep data and model here")
    parser.add_argument("--output", help="file for the numbers")
    parser.add_argument("--run", choices=list(RUN), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
