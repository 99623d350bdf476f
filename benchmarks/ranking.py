"""Scoring the candidates of a turn under a critic: prefix trees against one at a time, and against vLLM.

All sides give the natural log-probability of every token of every candidate after its context, and agree.

- ours: `CandidateScorer`, what `rank_best_of_n` runs: contexts and candidates as trees.
- one by one: a plain forward pass for each candidate, logits for its tokens only.
- vLLM: a real server asked for `prompt_logprobs` (`rank_best_of_n --engine vllm`), its start not counted.

Run: python benchmarks/ranking.py [--history 1200] [--candidates 16] [--vllm .venv-vllm/bin/python]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _measure import flags, heading, in_turn, save, show
from _step_pairs import lengthened, mini_turns, save_model, word_tokenizer

from sweet_rl.policies.weights import loaded_on
from sweet_rl.training.scoring import CandidateScorer

Ids = list[int]
Scores = list[list[list[float]]]


def main() -> None:
    arguments = flags(
        __doc__,
        history=1200,
        candidates=16,
        turns=8,
        dialogues=48,
        rounds=5,
        hidden=256,
        layers=4,
        vllm=None,
        folder=None,
        output=None,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(arguments.folder or name)
        folder.mkdir(parents=True, exist_ok=True)
        contexts, candidates = make_data(folder, arguments)
        sides: dict[str, Callable[[], Scores]] = {
            "ours": ours(folder, contexts, candidates),
            "one by one": one_by_one(folder, contexts, candidates),
        }
        expected = sides["one by one"]()  # also warms up
        compare(sides, expected)
        seconds = in_turn(sides, arguments.rounds)
        if arguments.vllm:  # not before: a server that waits keeps a core busy
            server = Server(arguments.vllm, folder / "model")
            try:
                others = {"vLLM": server.scores(contexts, candidates)}
                compare(others, expected)
                seconds |= in_turn(others, arguments.rounds)
            finally:
                server.close()
    medians = {side: statistics.median(times) for side, times in seconds.items()}
    print(heading())
    print(json.dumps(vars(arguments)))
    count = sum(map(len, candidates))
    rows = [
        [side, f"{took:.2f}", f"{1000 * took / count:.1f}", f"{took / medians['ours']:.1f}"]
        for side, took in medians.items()
    ]
    show(("side", "s for all turns", "ms a candidate", "ours is faster by"), rows)
    save(arguments.output, arguments=vars(arguments), seconds=seconds)


def compare(sides: dict[str, Callable[[], Scores]], expected: Scores) -> None:
    """Print by how much each side differs from a plain pass; which also warms it up."""
    for side, score in sides.items():
        difference = largest_difference(score(), expected)
        print(f"{side}: differs from a plain pass by at most {difference:.1e}")


def make_data(folder: Path, arguments: argparse.Namespace) -> tuple[list[Ids], list[list[Ids]]]:
    turns = mini_turns(folder, arguments.dialogues)
    tokenizer = word_tokenizer([turn["prompt"] + "".join(turn["candidates"]) for turn in turns])
    everything = list(dict.fromkeys(text for turn in turns for text in turn["candidates"]))
    rng = random.Random(0)
    chosen = list(lengthened(rng.sample(turns, arguments.turns), tokenizer, arguments.history))

    def ids(text: str) -> Ids:
        encoded: Ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return encoded

    contexts = [ids(turn["prompt"]) for turn in chosen]
    candidates = []
    for turn in chosen:
        others = rng.sample(everything, len(everything))
        texts = list(dict.fromkeys([*turn["candidates"], *others]))[: arguments.candidates]
        candidates.append([ids(text) for text in texts])
    save_model(folder / "model", tokenizer, hidden=arguments.hidden, layers=arguments.layers)
    return contexts, candidates


def ours(
    folder: Path,
    contexts: list[Ids],
    candidates: list[list[Ids]],
    *,
    device: str = "cpu",
    dtype: str = "float32",
) -> Callable[[], Scores]:
    scorer = CandidateScorer(folder / "model", device=device, dtype=dtype)
    return lambda: scorer.score(contexts, candidates)


def one_by_one(
    folder: Path,
    contexts: list[Ids],
    candidates: list[list[Ids]],
    *,
    device: str = "cpu",
    dtype: str = "float32",
) -> Callable[[], Scores]:
    model = loaded_on(str(folder / "model"), device=device, dtype=dtype)

    @torch.inference_mode()
    def score(context: Ids, candidate: Ids) -> list[float]:
        ids = torch.tensor([context + candidate], device=model.device)
        logits = model(ids, logits_to_keep=len(candidate) + 1).logits[0, :-1]
        chosen = logits.float().log_softmax(-1).gather(1, ids[0, len(context) :, None])
        values: list[float] = chosen[:, 0].tolist()
        return values

    return lambda: [
        [score(context, candidate) for candidate in row]
        for context, row in zip(contexts, candidates, strict=True)
    ]


def largest_difference(found: Scores, expected: Scores) -> float:
    return max(
        abs(one - other)
        for rows in zip(found, expected, strict=True)
        for both in zip(*rows, strict=True)
        for one, other in zip(*both, strict=True)
    )


class Server:
    def __init__(self, python: str, model: Path, *, dtype: str = "float32") -> None:
        from sweet_rl.openai_client import OpenAIClient, RetryPolicy
        from sweet_rl.policies.vllm import VLLMServer
        from sweet_rl.preferences.ranking import ServerScorer

        self._loop = asyncio.new_event_loop()
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # otherwise it takes most of the memory
        args = ["--dtype", dtype, "--max-model-len", "4096"]
        self._server = VLLMServer(str(model), python=python, args=args)
        started: Any = self._loop.run_until_complete(self._server.__aenter__())
        client = OpenAIClient([started.base_url], retry=RetryPolicy())
        self._scorer = ServerScorer(client, str(model))
        self._loop.run_until_complete(self._scorer.start())

    def scores(self, contexts: list[Ids], candidates: list[list[Ids]]) -> Callable[[], Scores]:
        return lambda: self._loop.run_until_complete(self._scorer.score(contexts, candidates))

    def close(self) -> None:
        self._loop.run_until_complete(self._scorer.close())
        self._loop.run_until_complete(self._server.__aexit__(None, None, None))


if __name__ == "__main__":
    main()
