"""Dialogues of an agent in this process: continuous batches that keep what was read, or batch after batch.

Many dialogues at once, all of the same number of turns, of a small Llama with random weights. Its tokens are
whole words, so that what it wrote reads back as the same tokens, as it nearly always does with a trained
model. The human answers at once. Replies end by chance, so their lengths differ. The sides take turns and
play the same dialogues; the same seeds must give the same tokens.

- batches: whatever waits becomes a batch, which is written to its end; a turn's prompt is read whole.
- continuous: a reply's place is taken by the next as soon as it ends; nothing is kept between turns.
- kept: the same, and a turn reads what is new in its dialogue. The default.
- vLLM: a real server, its start not counted, nor its processes in tokens per CPU second. Draws other tokens.

`--in_flight 32 1024` measures a curve instead: so many dialogues at once, all written together, from 32 doubled up
to 1,024. Some of them are written one by one in float32, too: how many come out the same to the last
token, and by how much log-probabilities differ until two part.

Run: python benchmarks/sampling.py [--dialogues 64] [--turns 10] [--vllm .venv-vllm/bin/python]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from _measure import flags, heading, save, show
from _step_pairs import SPECIAL, tokenizer_of_words
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.contracts import Policy
from sweet_rl.policies.engine import Engine
from sweet_rl.policies.transformers import TransformersPolicy
from sweet_rl.types import Message, Observation

SIDES = ("batches", "continuous", "kept")
VLLM = "vLLM"


@dataclass(frozen=True)
class Setting:
    dialogues: int = 64
    turns: int = 10
    rules: int = 200
    human: int = 60
    reply: int = 40


def save_model(folder: Path, arguments: argparse.Namespace, reply: int) -> Path:
    """A Llama whose replies have so many tokens on average: as many of its words end them."""
    words = arguments.vocabulary
    tokenizer_of_words(words).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=arguments.width,
        intermediate_size=arguments.inner or 4 * arguments.width,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.width // 64,
        num_key_value_heads=arguments.width // 64 // arguments.queries_per_key,
        max_position_embeddings=16384,
        bos_token_id=0,
        eos_token_id=1,
    )
    with torch.device(arguments.device):
        LlamaForCausalLM(config).to(getattr(torch, arguments.dtype)).save_pretrained(folder)
    ends = random.Random(0).sample(range(len(SPECIAL), words), words // reply)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, *ends]}))
    return folder


def policy_of(side: str, folder: Path, setting: Setting, arguments: argparse.Namespace) -> TransformersPolicy:
    return TransformersPolicy(
        folder,
        system_prompt=" ".join(words_of(0, setting.rules)),
        max_new_tokens=4 * setting.reply,
        max_batch=arguments.max_batch,
        max_dialogues=2 * setting.dialogues,
        cache_gib=8.0 if side == "kept" else 0.0,
        continuous=side != "batches",
        device=arguments.device,
        dtype=arguments.dtype,
    )


async def agent_of(side: str, folder: Path, setting: Setting, arguments: argparse.Namespace) -> Policy:
    if side != VLLM:
        return policy_of(side, folder, setting, arguments)
    from sweet_rl.policies.vllm import VLLMPolicy, VLLMServer

    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")  # otherwise it takes most of the memory
    options = ["--max-model-len", "16384", "--dtype", arguments.dtype]
    return await VLLMPolicy.start(
        VLLMServer(folder, python=arguments.vllm, args=options),
        system_prompt=" ".join(words_of(0, setting.rules)),
        max_tokens=4 * setting.reply,
    )


def words_of(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    return [f"w{draw.randrange(1000)}" for _ in range(count)]


@dataclass(frozen=True)
class Played:
    wall_s: float
    cpu_s: float
    replies: list[tuple[int, ...]]
    logprobs: list[tuple[float, ...]]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.replies))


async def play(side: str, folder: Path, setting: Setting, arguments: argparse.Namespace) -> Played:
    policy = await agent_of(side, folder, setting, arguments)

    async def dialogue(number: int) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        messages: tuple[Message, ...] = ()
        written = []
        for turn in range(setting.turns):
            said = " ".join(words_of(1 + number * 1000 + turn, setting.human))
            messages = (*messages, Message("user", said))
            completion = (await policy.act(Observation("task", messages, number))).completion
            messages = (*messages, Message("assistant", completion.text))
            written.append((completion.token_ids or (), completion.logprobs or ()))
        return written

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    played = await asyncio.gather(*map(dialogue, range(setting.dialogues)))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    await policy.close()
    replies, logprobs = zip(*(turn for written in played for turn in written), strict=True)
    return Played(wall_s, cpu_s, list(replies), list(logprobs))


def in_flight(side: str, folder: Path, setting: Setting, arguments: argparse.Namespace) -> dict[str, Any]:
    """Dialogues that are all written at once, and the first of them in float32 one by one."""
    steps: list[float] = []
    step = Engine.step

    def timed(engine: Engine) -> Any:
        began = time.perf_counter()
        found = step(engine)
        steps.append(time.perf_counter() - began)
        return found

    at_once = argparse.Namespace(**{**vars(arguments), "max_batch": setting.dialogues})
    Engine.step = timed  # type: ignore[method-assign]
    try:
        played = asyncio.run(play(side, folder, setting, at_once))
    finally:
        Engine.step = step  # type: ignore[method-assign]
    found: dict[str, Any] = {"in_flight": setting.dialogues, "s": played.wall_s, "tokens": played.tokens}
    found |= {"tokens_s": played.tokens / played.wall_s, "ms_a_step": None}
    if steps:  # vLLM's are its own
        found["ms_a_step"] = 1000 * statistics.median(steps)
    if side == VLLM:  # it draws other tokens
        return found | {"checked": 0, "same": None, "logprob_apart": None}
    checked = min(arguments.checked, setting.dialogues)
    alone = argparse.Namespace(**{**vars(arguments), "max_batch": 1, "dtype": "float32"})
    exact = asyncio.run(play("kept", folder, replace(setting, dialogues=checked), alone))
    same, apart = 0, 0.0
    for first in range(0, checked * setting.turns, setting.turns):
        turns = slice(first, first + setting.turns)
        pairs = [
            list(zip(sum(one.replies[turns], ()), sum(one.logprobs[turns], ()), strict=True))
            for one in (played, exact)
        ]
        same += played.replies[turns] == exact.replies[turns]
        for (token, logprob), (other, expected) in zip(*pairs, strict=False):
            if token != other:
                break
            apart = max(apart, abs(logprob - expected))
    return found | {"checked": checked, "same": same / checked, "logprob_apart": apart}


def curve(setting: Setting, arguments: argparse.Namespace) -> None:
    """Rows as they come, to the screen and to `--output`."""
    (count, most), rows = arguments.in_flight, list[dict[str, Any]]()
    sides = ["kept", *([VLLM] if arguments.vllm else [])]

    def measured() -> Iterator[list[str]]:
        with tempfile.TemporaryDirectory() as name:
            folder = save_model(Path(name), arguments, setting.reply)
            points = itertools.takewhile(lambda n: n <= most, (count * 2**n for n in itertools.count()))
            for point, side in itertools.product(points, sides):
                row = in_flight(side, folder, replace(setting, dialogues=point), arguments)
                rows.append({"side": side} | row)
                save(arguments.output, setting=vars(setting), curve=rows)
                ms, same, apart = (row[key] for key in ("ms_a_step", "same", "logprob_apart"))
                shown = [f"{point}", side, f"{row['tokens_s']:,.0f}", "" if ms is None else f"{ms:.1f}"]
                shown.append("" if same is None else f"{100 * same:.0f} % of {row['checked']}")
                yield [*shown, "" if apart is None else f"{apart:.1e}"]

    heads = ("dialogues at once", "side", "tokens/s", "ms a step", "the same in float32 one by one")
    show((*heads, "log-probabilities differ by"), measured())


def measure(setting: Setting, arguments: argparse.Namespace) -> None:
    sides = [*arguments.sides, *([VLLM] if arguments.vllm else [])]
    played: dict[str, list[Played]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        folder = save_model(Path(name), arguments, setting.reply)
        for _ in range(arguments.rounds):
            for side in sides:
                played[side].append(asyncio.run(play(side, folder, setting, arguments)))
    first, rows = sides[0], []
    for side in sides:
        both = list(zip(played[first], played[side], strict=True))
        ratios = [one.wall_s / other.wall_s for one, other in both]
        cpu = [one.cpu_s / other.cpu_s for one, other in both]
        one, other = both[-1][0].replies, both[-1][1].replies
        rates = [statistics.median(one.tokens / one.wall_s for one in played[side])]
        rates += [statistics.median(one.tokens / one.cpu_s for one in played[side])]
        shown = [f"{each:.2f}" for each in (statistics.median(ratios), min(ratios), max(ratios))]
        same = f"{sum(map(tuple.__eq__, one, other))} of {len(one)}"
        rows.append(
            [side, f"{rates[0]:.0f}", *shown, f"{rates[1]:.0f}", f"{statistics.median(cpu):.2f}", same]
        )
    show(("side", "tokens/s", "ratio", "least", "most", "tokens/CPU s", "ratio", "same replies"), rows)


def main() -> None:
    arguments = flags(
        __doc__,
        **vars(Setting()),
        width=256,
        layers=6,
        queries_per_key=2,
        vocabulary=32_000,
        max_batch=64,
        device="cpu",
        dtype="float32",
        rounds=3,
        threads=torch.get_num_threads(),
        sides=list(SIDES),
        vllm=None,
        inner=0,
        in_flight=[0, 0],
        checked=4,
        output=None,
    )
    torch.set_num_threads(arguments.threads)
    setting = Setting(**{name: getattr(arguments, name) for name in vars(Setting())})
    print(
        f"{heading()}\nwidth {arguments.width}, {arguments.layers} layers, vocabulary {arguments.vocabulary}, "
        f"{arguments.threads} threads, at most {arguments.max_batch} rows, median of {arguments.rounds}\n\n{setting}"
    )
    (curve if arguments.in_flight[0] else measure)(setting, arguments)


if __name__ == "__main__":
    main()
