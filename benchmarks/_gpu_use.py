"""What the other benchmarks measure, at the shapes of GPUs: ranking, sampling, ArCHer, Reflect-RL."""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import archer_update
import ranking
import reflect_update
import sampling
from _measure import in_turn, medians


@contextmanager
def _model(arguments: argparse.Namespace, setting: sampling.Setting) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        sampling.save_model(Path(folder) / "model", arguments, setting.reply)
        yield Path(folder)


def rank(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    rng = random.Random(0)

    def words(count: int) -> list[int]:
        return [rng.randrange(6, arguments.vocabulary) for _ in range(count)]

    contexts = [words(arguments.history) for _ in range(arguments.turns)]
    candidates = [[words(arguments.response) for _ in range(arguments.candidates)] for _ in contexts]
    count = arguments.turns * arguments.candidates
    with _model(arguments, sampling.Setting()) as folder:
        place = {"device": arguments.device, "dtype": arguments.dtype}
        plain = ranking.one_by_one(folder, contexts, candidates, **place)
        sides = {"one at a time": plain}
        if not arguments.vllm:
            sides = {"trees": ranking.ours(folder, contexts, candidates, **place), **sides}
        expected = plain()
        rows = []
        server = (
            ranking.Server(arguments.vllm, folder / "model", dtype=arguments.dtype)
            if arguments.vllm
            else None
        )
        try:
            if server is not None:
                sides = {"vLLM": server.scores(contexts, candidates)}
            for side, score in sides.items():
                apart = ranking.largest_difference(score(), expected)
                seconds = medians(in_turn({side: score}, arguments.rounds))[side]
                tokens = count * (arguments.history + arguments.response)
                remark = f"{1000 * seconds / count:.2f} ms a candidate; at most {apart:.1e} from a plain pass"
                rows.append({"side": side, "s": seconds, "tokens_s": tokens / seconds, "remark": remark})
        finally:
            if server is not None:
                server.close()
    return rows


def sample(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    setting = sampling.Setting(arguments.dialogues, arguments.turns)
    rows = []
    with _model(arguments, setting) as folder:
        for side in [sampling.VLLM] if arguments.vllm else ["batches", "kept"]:
            played = asyncio.run(sampling.play(side, folder / "model", setting, arguments))
            rows.append({"side": side, "s": played.wall_s, "tokens_s": played.tokens / played.wall_s})
            rows[-1]["remark"] = f"{played.tokens:,} tokens were written"
    return rows


def flight(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """One point of the curve of `sampling.py --in_flight`."""
    setting = sampling.Setting(arguments.dialogues, arguments.turns)
    side = sampling.VLLM if arguments.vllm else "kept"
    with _model(arguments, setting) as folder:
        row = sampling.in_flight(side, folder / "model", setting, arguments)
    row["apart"] = row.pop("logprob_apart")  # the table of parity has a column for it
    told = [f"{row['tokens']:,} tokens"]
    if row["ms_a_step"] is not None:
        told.append(f"{row['ms_a_step']:.1f} ms a step")
    if row["checked"]:
        told.append(f"{100 * row['same']:.0f} % of {row['checked']} dialogues as in float32 one by one")
        told.append(f"log-probabilities within {row['apart']:.1e}")
    return [row | {"remark": ", ".join(told)}]


def archer(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    found = archer_update.measure(arguments)
    remark = f"a critic step of {arguments.rows} rows; a policy step: {found['actor_s']:.3f} s"
    return [found | {"s": found["critic_s"], "remark": remark}]


def reflect(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        found = reflect_update.compare(arguments, Path(folder))
    return [
        {
            "side": side,
            "s": parts["whole iteration"][1],
            "remark": f"a whole iteration, {arguments.rows} episodes",
        }
        | {"parts_s": {part: wall for part, (_, wall) in parts.items()}}
        for side, parts in found.items()
    ]
