"""Dialogues of an agent in this process: continuous batches that keep what was read, or batch after batch.

Many dialogues at once, all of the same number of turns, of a small Llama with random weights. Its tokens are
whole words, so that what it wrote reads back as the same tokens, as it nearly always does with a trained
model. The human answers at once. Replies end by chance, so their lengths differ. The sides take turns and
play the same dialogues; the same seeds must give the same tokens.

- batches: whatever waits becomes a batch, which is written to its end; a turn's prompt is read whole.
- continuous: a reply's place is taken by the next as soon as it ends; nothing is kept between turns.
- kept: the same, and a turn reads what is new in its dialogue. The default.
- vLLM: a real server, its start not counted, nor its processes in tokens per CPU second. Draws other tokens.

Run: python benchmarks/sampling.py [--dialogues 64] [--turns 10] [--vllm .venv-vllm/bin/python]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from _measure import flags, heading, show
from _step_pairs import SPECIAL, tokenizer_of_words
from transformers import LlamaConfig, LlamaForCausalLM

from sweet_rl.contracts import Policy
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
        intermediate_size=4 * arguments.width,
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

    @property
    def tokens(self) -> int:
        return sum(map(len, self.replies))


async def play(side: str, folder: Path, setting: Setting, arguments: argparse.Namespace) -> Played:
    policy = await agent_of(side, folder, setting, arguments)

    async def dialogue(number: int) -> list[tuple[int, ...]]:
        messages: tuple[Message, ...] = ()
        written = []
        for turn in range(setting.turns):
            said = " ".join(words_of(1 + number * 1000 + turn, setting.human))
            messages = (*messages, Message("user", said))
            completion = (await policy.act(Observation("task", messages, number))).completion
            messages = (*messages, Message("assistant", completion.text))
            written.append(completion.token_ids or ())
        return written

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    played = await asyncio.gather(*map(dialogue, range(setting.dialogues)))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    await policy.close()
    return Played(wall_s, cpu_s, [ids for written in played for ids in written])


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
    )
    torch.set_num_threads(arguments.threads)
    setting = Setting(**{name: getattr(arguments, name) for name in vars(Setting())})
    print(
        f"{heading()}\nwidth {arguments.width}, {arguments.layers} layers, vocabulary {arguments.vocabulary}, "
        f"{arguments.threads} threads, at most {arguments.max_batch} rows, median of {arguments.rounds}\n\n{setting}"
    )
    measure(setting, arguments)


if __name__ == "__main__":
    main()
