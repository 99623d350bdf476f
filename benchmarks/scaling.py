"""What a training step costs as candidates, histories and pairs grow, beside the ideal: each token once.

The forward and backward pass of one turn's pairs, with prefix trees, each sequence by itself, and the ideal:
one plain text of as many tokens as the tree has, with as many places at the output head.

Run: python benchmarks/scaling.py [--points 6] [--plot docs/images/scaling.png] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measure import circumstances, heading, in_turn, medians
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.chat import Span
from sweet_rl.training.attention import attention_span
from sweet_rl.training.batches import Batch, Collator, Reader
from sweet_rl.training.data import DataRow, Said
from sweet_rl.training.encoding import Branch, Encoded, Side
from sweet_rl.training.forward import PairForward

SERIES: dict[str, list[dict[str, int]]] = {
    "candidates": [{"candidates": n, "history": 1200, "pairs": n // 2} for n in (2, 4, 8, 16, 32, 64)],
    "history": [{"candidates": 8, "history": n, "pairs": 4} for n in (256, 512, 1024, 2048, 4096, 8192)],
    "pairs": [{"candidates": 16, "history": 1200, "pairs": n} for n in (1, 2, 4, 8, 16, 32)],
}
RESPONSE = 24  # Tokens of a candidate
ENOUGH_S = 10.0  # What has run so long is not run again


def main() -> None:
    arguments = _arguments()
    found: dict[str, list[dict[str, float]]]
    if arguments.input:
        found = json.loads(Path(arguments.input).read_text())
        _plot({name: found[name] for name in SERIES}, Path(arguments.plot))
        return
    torch.manual_seed(0)
    model = make_model()
    found = {name: [] for name in SERIES}
    for name, series in SERIES.items():
        for point in series[: arguments.points]:
            found[name].append(_point(model, **point))
            print(name, found[name][-1], file=sys.stderr, flush=True)  # the largest take minutes
    print(heading())
    for name, rows in found.items():
        print(f"\n| {name} | tree s | each alone s | ideal s | tree / ideal | alone / tree |")
        print("|---" * 6 + "|")
        for row in rows:
            print(
                f"| {row[name]} | {row['tree']:.3f} | {row['alone']:.3f} | {row['ideal']:.3f} "
                f"| {row['tree'] / row['ideal']:.2f} | {row['alone'] / row['tree']:.1f} |"
            )
    if arguments.output:
        Path(arguments.output).write_text(json.dumps({**circumstances(), **found}, indent=1) + "\n")
    if arguments.plot:
        _plot(found, Path(arguments.plot))


def make_model() -> Any:
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=256,
        intermediate_size=680,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=16_384,
    )
    return LlamaForCausalLM(config)


def _point(model: Any, *, candidates: int, history: int, pairs: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    before = tuple(rng.integers(0, 32_000, history).tolist())
    texts = [tuple(rng.integers(0, 32_000, RESPONSE).tolist()) for _ in range(candidates)]
    sides = [
        Side((Branch((*before, *text), (Span(history, history + RESPONSE),), history),)) for text in texts
    ]
    row = DataRow(Said(), (Said(), Said()), "made", 1)
    encoded = [
        Encoded(i, (sides[i % candidates], sides[(i + 1 + i // candidates) % candidates]), row)
        for i in range(pairs)
    ]
    forward = PairForward(model)

    def step(span: float, together: bool) -> Callable[[], None]:
        collator = Collator("sum", Reader(0, span))
        groups = [encoded] if together else [[pair] for pair in encoded]
        batches = [collator([(pair, 1.0) for pair in group]) for group in groups]

        def run() -> None:
            for batch in batches:
                logps, _ = forward(model, batch)
                (logps.chosen_B - logps.rejected_B).sum().backward()
            model.zero_grad()

        return run

    used = {
        i for pair in range(pairs) for i in (pair % candidates, (pair + 1 + pair // candidates) % candidates)
    }
    tokens = history + len(used) * (RESPONSE - 1)
    ideal = _ideal(model, tokens, scored=len(used) * RESPONSE)
    runs = {"tree": step(attention_span(model), True), "alone": step(0, False), "ideal": ideal}
    times = medians(in_turn(runs, 3, enough_s=ENOUGH_S))
    return {"candidates": candidates, "history": history, "pairs": pairs, "tokens": tokens, **times}


def _ideal(model: Any, tokens: int, *, scored: int) -> Callable[[], None]:
    batch = Batch(
        ids_RT=torch.randint(0, 32_000, (1, tokens)),
        predictors_K=torch.arange(scored) % tokens,
        targets_K=torch.randint(0, 32_000, (scored,)),
        terms_M=torch.arange(scored),
        outputs_M=torch.arange(scored) % 3,
        weights_M=torch.ones(scored),
        reference_SB=torch.zeros(2, 1),
        scale_B=torch.ones(1),
        index_B=torch.zeros(1, dtype=torch.int64),
    )
    forward = PairForward(model)

    def run() -> None:
        logps, _ = forward(model, batch)
        (logps.chosen_B - logps.rejected_B).sum().backward()
        model.zero_grad()

    return run


def _plot(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4.2 * len(found), 3.6), layout="constrained")
    lines = {
        "alone": ("each sequence alone", "#b45f06"),
        "tree": ("prefix tree", "#1155cc"),
        "ideal": ("one text of as many tokens", "#777777"),
    }
    for axis, (name, rows) in zip(axes, found.items(), strict=True):
        for kind, (label, colour) in lines.items():
            style = "--" if kind == "ideal" else "o-"
            axis.loglog(
                [row[name] for row in rows], [row[kind] for row in rows], style, label=label, color=colour
            )
        axis.set_xticks([row[name] for row in rows], [f"{row[name]:.0f}" for row in rows])
        axis.minorticks_off()
        axis.set_xlabel(
            {
                "candidates": "candidates of a turn",
                "history": "tokens of history",
                "pairs": "pairs of a turn",
            }[name]
        )
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds of a step")
    axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=6, help="of each series, from the smallest")
    parser.add_argument("--plot", help=".png file for the curves")
    parser.add_argument("--input", help="plot these numbers; measure nothing")
    parser.add_argument("--output", help="file for the numbers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
