"""What a training step costs as candidates, histories and pairs grow, beside the ideal: each token once.

The forward and backward pass of one turn's pairs, with prefix trees, each sequence by itself, and the ideal:
one plain text of as many tokens as the tree has, with as many places at the output head.

Run: python benchmarks/scaling.py [--points 6] [--plot docs/images/scaling.png] [--output FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _measure import flags, heading, in_turn, medians, plot, save, show
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.chat import Span
from sweet_rl.training.batches import Batch, Collator, Reader
from sweet_rl.training.data import DataRow, Said
from sweet_rl.training.encoding import Branch, Encoded, Side
from sweet_rl.training.forward import PreferenceObjective, attention_span
from sweet_rl.training.settings import LossSettings

SERIES: dict[str, list[dict[str, int]]] = {
    "candidates": [{"candidates": n, "history": 1200, "pairs": n // 2} for n in (2, 4, 8, 16, 32, 64)],
    "history": [{"candidates": 8, "history": n, "pairs": 4} for n in (256, 512, 1024, 2048, 4096, 8192)],
    "pairs": [{"candidates": 16, "history": 1200, "pairs": n} for n in (1, 2, 4, 8, 16, 32)],
}
RESPONSE = 24  # Tokens of a candidate
ENOUGH_S = 10.0  # What has run so long is not run again


def main() -> None:
    given = flags(__doc__, points=6, plot=None, output=None)
    torch.manual_seed(0)
    model = make_model()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SERIES}
    for name, series in SERIES.items():
        for point in series[: given.points]:
            found[name].append(_point(model, **point))
            print(name, found[name][-1], file=sys.stderr, flush=True)  # the largest take minutes
    print(heading())
    for name, rows in found.items():
        print()
        show(
            (name, "tree s", "each alone s", "ideal s", "tree / ideal", "alone / tree"),
            [
                [
                    row[name],
                    *(f"{row[kind]:.3f}" for kind in ("tree", "alone", "ideal")),
                    f"{row['tree'] / row['ideal']:.2f}",
                    f"{row['alone'] / row['tree']:.1f}",
                ]
                for row in rows
            ],
        )
    save(given.output, **found)
    lines = {
        "alone": "each sequence alone",
        "tree": "prefix tree",
        "ideal": "limit: one text of as many tokens",
    }
    panels = {
        ("seconds of a step", f"{name} of a turn"): [
            (label, [(row[name], row[kind]) for row in rows]) for kind, label in lines.items()
        ]
        for name, rows in found.items()
    }
    plot(panels, given.plot, log=True)


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
    objective = PreferenceObjective(model, LossSettings())

    def step(span: float, together: bool) -> Callable[[], None]:
        collator = Collator("sum", Reader(0, span))
        groups = [encoded] if together else [[pair] for pair in encoded]
        batches = [collator([(pair, 1.0) for pair in group]) for group in groups]

        def run() -> None:
            for batch in batches:
                logps, _ = objective.logps(model, batch)
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
    objective = PreferenceObjective(model, LossSettings())

    def run() -> None:
        logps, _ = objective.logps(model, batch)
        (logps.chosen_B - logps.rejected_B).sum().backward()
        model.zero_grad()

    return run


if __name__ == "__main__":
    main()
