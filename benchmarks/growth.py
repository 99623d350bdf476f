"""What work costs as it grows to 8 times its usual size, beside the limit: each distinct token read once.

- episodes: a critic step of ArCHer as its memory grows; a step draws as many games.
- turns: a critic step as episodes become longer; an episode read once (causal critic), each turn by itself.
- history: a training step of one turn's pairs behind a longer history; prefix tree, each text by itself.
- dialogues: ten-turn dialogues of an agent in this process, side by side; seconds for one of them.

The limit of a step is what the same model takes for plain texts of as many tokens as are distinct: for the
critic a forward and a backward pass, and the target's forward pass; for pairs a forward and a backward pass.
For dialogues it is one forward pass over every token that was said, which no sampling reaches: a token has to
be read before the next is drawn.

Run: python benchmarks/growth.py [--kinds turns history] [--plot docs/images/growth.png] [--output FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import archer_update
import sampling
import scaling
import torch
from _measure import flags, heading, in_turn, medians, plot, save, show
from transformers import GPT2Config, GPT2Model, LlamaForCausalLM

FACTORS = (1, 2, 4, 8)
USUAL = {"episodes": 5_000, "turns": 20, "history": 1024, "dialogues": 64}
"""Where each begins: the 100,000 turns that a run remembers by default, in games of twenty turns; such games;
twice the tokens that train_dpo reads by default; `--max_batch` of an agent in this process."""

NAMES = {
    "episodes": ("episodes in memory", "seconds of a critic step"),
    "turns": ("turns of an episode", "seconds of a critic step"),
    "history": ("tokens of history", "seconds of a step of pairs"),
    "dialogues": ("dialogues at once", "seconds for a dialogue"),
}
LINES = {"alone": "each text by itself", "ours": "sweet_rl", "limit": "limit: each distinct token once"}
GAMES = 4  # In a step of the critic

Row = dict[str, float]


def main() -> None:
    given = flags(__doc__, kinds=[*USUAL], points=len(FACTORS), threads=1, plot=None, output=None)
    torch.set_num_threads(given.threads)
    measures = {"episodes": _memory, "turns": _turns, "history": _history, "dialogues": _dialogues}
    found: dict[str, list[Row]] = {}
    for kind in given.kinds:
        found[kind] = []
        for point in (factor * USUAL[kind] for factor in FACTORS[: given.points]):
            found[kind].append({kind: point, **measures[kind](point)})
            print(kind, found[kind][-1], file=sys.stderr, flush=True)
    print(f"{heading()}\n{given.threads} threads")
    panels = {}
    for kind, rows in found.items():
        alone = "alone" in rows[0]
        heads = [NAMES[kind][0], "ours s", "limit s", "ours / limit", *["alone s", "alone / ours"] * alone]
        print()
        show(heads, [_cells(kind, row) for row in rows])
        panels[NAMES[kind][1], NAMES[kind][0]] = [
            (label, [(row[kind], row[name]) for row in rows])
            for name, label in LINES.items()
            if name in rows[0]
        ]
    save(given.output, **found)
    plot(panels, given.plot, log=True)


def _cells(kind: str, row: Row) -> list[str]:
    cells = [
        f"{row[kind]:.0f}",
        f"{row['ours']:.3f}",
        f"{row['limit']:.3f}",
        f"{row['ours'] / row['limit']:.2f}",
    ]
    return cells + ([f"{row['alone']:.3f}", f"{row['alone'] / row['ours']:.1f}"] if "alone" in row else [])


def _processor_s(work: Mapping[str, Callable[[], object]]) -> Row:
    return medians(in_turn(work, 3, warm=1, clock=time.process_time, enough_s=scaling.ENOUGH_S))


def _memory(episodes: int) -> Row:
    return _critic_step(turns=USUAL["turns"], episodes=episodes, alone=False)


def _turns(turns: int) -> Row:
    return _critic_step(turns=turns, episodes=USUAL["episodes"] // turns, alone=True)


def _critic_step(*, turns: int, episodes: int, alone: bool) -> Row:
    from sweet_rl.online.critic import DoubleCritic, copied, critic_step
    from sweet_rl.online.losses import StepSettings
    from sweet_rl.online.replay import ReplayBuffer
    from sweet_rl.training.batches import chains

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=1000, n_positions=4096, n_layer=4, n_head=4, n_embd=256)
    critic = DoubleCritic(GPT2Model(config).eval(), archer_update.make_tokenizer(), max_length=4096)
    target = copied(critic)
    memory = ReplayBuffer(turns * episodes)
    memory.extend(archer_update.transcripts(random.Random(0), episodes=episodes, turns=turns))
    draw = memory.drawing_games(_numpy_draws())
    rows = draw(GAMES * turns)
    optimizer = torch.optim.Adam(critic.parameters(), 1e-5)
    settings = StepSettings(batch_size=len(rows), max_tokens_per_batch=16_384, gamma=0.95, tau=0.1)

    def step(*, chained: bool) -> None:
        for one in (critic, target):
            one.encoder._chained = chained  # the peer reads every text by itself
        draw(GAMES * turns)  # takes its time; all sides learn from the same rows
        critic_step(critic, target, optimizer, rows, [[row.action] for row in reversed(rows)], settings)

    read = [critic.encoder._ids(text) for row in rows for text in (row.observation, row.next_observation)]
    tokens = sum(len(read[chain[-1]]) for chain in chains(read))
    work: dict[str, Callable[[], object]] = {"ours": lambda: step(chained=True)}
    if alone:
        work["alone"] = lambda: step(chained=False)
    work["limit"] = _plain(critic.encoder.model, tokens, passes=2)
    return _processor_s(work)


def _numpy_draws() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def _plain(model: Any, tokens: int, *, passes: int) -> Callable[[], object]:
    ids = torch.randint(0, 1000, (GAMES, tokens // GAMES))

    def run() -> None:
        model(input_ids=ids, use_cache=False).last_hidden_state.sum().backward()
        model.zero_grad()
        with torch.no_grad():
            for _ in range(passes - 1):
                model(input_ids=ids, use_cache=False)

    return run


def _history(history: int) -> Row:
    torch.manual_seed(0)
    found = scaling._point(scaling.make_model(), candidates=8, history=history, pairs=4)
    return {"ours": found["tree"], "alone": found["alone"], "limit": found["ideal"]}


def _dialogues(dialogues: int) -> Row:
    """Seconds for one of so many dialogues, and one pass over all that was said in one."""
    setting = sampling.Setting(dialogues)
    options = {"width": 256, "inner": 0, "layers": 6, "queries_per_key": 2, "vocabulary": 32_000}
    arguments = argparse.Namespace(**options, max_batch=dialogues, device="cpu", dtype="float32")
    with tempfile.TemporaryDirectory() as name:
        folder = sampling.save_model(Path(name), arguments, setting.reply)
        model = LlamaForCausalLM.from_pretrained(folder).eval()
        played = asyncio.run(sampling.play("kept", folder, setting, arguments))
    said = setting.rules + setting.turns * setting.human + played.tokens // dialogues
    ids = torch.randint(2, 1000, (1, said))

    @torch.no_grad()
    def read() -> None:
        model(input_ids=ids, use_cache=False)

    return {"ours": played.cpu_s / dialogues, **_processor_s({"limit": read})}


if __name__ == "__main__":
    main()
