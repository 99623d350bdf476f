"""One iteration of Reflect-RL beside the published arithmetic written plainly: play, then learn.

A GPT-2-shaped policy (adapter r 64 on `c_attn`, random weights) and a reflection model of the same shape read
the states of games that are played at random. Both sides answer the same prompts and make the
same update of the same steps; the two losses must agree.

The plain side does what the published code does: `generate` on prompts padded on the left, always 100 tokens
of a reflection and one of an action from the small head; for the update, micro-batches of
`per_device_train_batch_size` (1) steps, the small head at every place. Ours reads what states begin alike
with once, asks the head where a label is written only, and scores as many steps together as fit. How much
that gains is up to the world: a taxi's text with its rules and history repeats itself, AutoExplore's hardly
does. Random weights hardly ever end a reflection, so nothing is gained here by ending them.

Run: python benchmarks/reflect_update.py [--world taxi] [--steps 8] [--layers 4] [--width 256] [--threads 2]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from _machine import machine_line

EPISODES, NEW_TOKENS = 4, 100
"""As published: episodes of an iteration, tokens of a reflection."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=8, help="steps of an episode")
    parser.add_argument("--reflections", type=int, default=2, help="steps whose reflections are timed")
    parser.add_argument("--world", choices=["taxi", "auto_explore"], default="taxi")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    import torch

    torch.set_num_threads(flags.threads)
    print(machine_line())
    with tempfile.TemporaryDirectory() as folder:
        agent, reflector, settings, prompts = prepare(flags, Path(folder))
        width = [len(agent.encode(prompt)) for row in prompts for prompt in row]
        print(
            f"{EPISODES} episodes of {flags.steps} steps, prompts of {min(width)} to {max(width)} tokens; "
            f"{flags.layers} layers of {flags.width}; {flags.threads} threads"
        )
        print(f"{'':28}{'plain':>10}{'ours':>10}{'ratio':>8}   (seconds; processor's in brackets)")
        first = prompts[: flags.reflections]
        report(
            "reflections, per step",
            plain_writing(reflector, first),
            our_writing(reflector, first),
            len(first),
        )
        report("actions, all steps", plain_choosing(agent, prompts), our_choosing(agent, prompts))
        steps = [(prompt, n % len(agent.labels), 1.0 + n % 5) for n, prompt in enumerate(chain(*prompts))]
        losses: list[float] = []
        report("update", plain_update(agent, steps, losses), our_update(agent, settings, steps, losses))
        print(f"losses of the update: {losses[0]:.6f} and {losses[-1]:.6f}")


def prepare(flags: Any, folder: Path) -> tuple[Any, Any, Any, list[list[str]]]:
    """Both models, and the prompts of all games, step by step."""
    from sweet_rl.algorithms.reflect.models import load_policy, load_reflector
    from sweet_rl.algorithms.reflect.settings import ReflectSettings
    from sweet_rl.algorithms.reflect.worlds import open_world, sample_texts
    from sweet_rl.chat.reflect_format import policy_prompt
    from sweet_rl.embedded.reflect_models import make_reflect_model

    settings = ReflectSettings(
        env=flags.world,
        with_prompt=True,
        with_history=True,
        task_file="auto-explore:train",
        use_8bit=False,
        device="cpu",
        reflect=True,
        disable_dropout=True,
        reflect_max_new_tokens=NEW_TOKENS,
    )
    rng = random.Random(0)
    with open_world(settings) as world:
        model = str(
            make_reflect_model(
                folder, seed=0, texts=sample_texts(world), hidden_size=flags.width, layers=flags.layers
            )
        )
        settings = replace(settings, model_name=model, reflect_model_name=model)
        games = [world.make_game() for _ in range(EPISODES)]
        for number, game in enumerate(games):
            game.reset(world.levels[0][number], seed=number)
        prompts: list[list[str]] = []
        for _ in range(flags.steps):
            prompts.append([policy_prompt(game.text, None) for game in games])
            for game in games:
                known: Any = game
                if flags.world == "taxi":
                    safe = [str(known.best_actions()[0])] if known.best_actions() else ["0"]
                else:
                    safe = [label for label, did in known.offered.items() if not did.startswith("id ")]
                game.step(rng.choice(safe))
        return load_policy(settings, world.labels), load_reflector(settings), settings, prompts


def report(what: str, plain: Callable[[], None], ours: Callable[[], None], parts: int = 1) -> None:
    """Time both, and print a line."""
    found = []
    for work in (plain, ours):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        found.append(((time.perf_counter() - wall) / parts, (time.process_time() - processor) / parts))
    (plain_s, plain_cpu), (our_s, our_cpu) = found
    print(
        f"{what:28}{plain_s:10.2f}{our_s:10.2f}{plain_s / our_s:7.1f}x   "
        f"({plain_cpu:.2f}, {our_cpu:.2f}, {plain_cpu / our_cpu:.1f}x)",
        flush=True,
    )


def padded(agent: Any, prompts: list[str]) -> dict[str, Any]:
    """Prompts beside each other, padded on the left."""
    import torch

    rows = [list(agent.encode(prompt)) for prompt in prompts]
    width, pad = max(map(len, rows)), agent.tokenizer.pad_token_id
    return {
        "input_ids": torch.tensor([[pad] * (width - len(ids)) + ids for ids in rows]),
        "attention_mask": torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in rows]),
    }


def small_head(agent: Any) -> Any:
    """The published head: a matrix of the labels' rows in the place of the whole one."""
    import torch

    head = torch.nn.Linear(agent.config.hidden_size, len(agent.labels), bias=False)
    weight = agent.model.get_output_embeddings().weight
    head.weight.data = weight[agent._label_ids].detach().clone()  # noqa: SLF001 - the same rows
    return head.requires_grad_(requires_grad=False)


def plain_writing(reflector: Any, prompts: list[list[str]]) -> Callable[[], None]:
    options: dict[str, Any] = {"do_sample": True, "max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}
    pad = reflector.tokenizer.pad_token_id

    def work() -> None:
        for row in prompts:
            reflector.model.generate(**padded(reflector, row), pad_token_id=pad, **options)

    return work


def our_writing(reflector: Any, prompts: list[list[str]]) -> Callable[[], None]:
    def work() -> None:
        for row in prompts:
            reflector.write(row, range(len(row)))

    return work


def plain_choosing(agent: Any, prompts: list[list[str]]) -> Callable[[], None]:
    import torch

    head = small_head(agent)

    def work() -> None:
        for row in prompts:
            inputs = padded(agent, row)
            positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
            body = agent.model.get_base_model().transformer
            with torch.no_grad():
                hidden = body(**inputs, position_ids=positions, use_cache=True).last_hidden_state
                torch.multinomial(head(hidden)[:, -1].softmax(-1), 1)

    return work


def our_choosing(agent: Any, prompts: list[list[str]]) -> Callable[[], None]:
    def work() -> None:
        for row in prompts:
            agent.choose(row, range(len(row)))

    return work


def plain_update(agent: Any, steps: list[Any], losses: list[float]) -> Callable[[], None]:
    """Gradients of one update, step by step, as with the published micro-batch of one."""
    import torch

    head = small_head(agent)

    def work() -> None:
        total = 0.0
        for prompt, label, q in steps:
            inputs = padded(agent, [prompt])
            body = agent.model.get_base_model().transformer
            logits = head(body(**inputs).last_hidden_state)
            logps = logits.log_softmax(-1)
            loss = logps[0, -1, label] * q / len(steps)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(agent.trainable(), 0.3)
        agent.model.zero_grad()
        losses.append(total)

    return work


def our_update(agent: Any, settings: Any, steps: list[Any], losses: list[float]) -> Callable[[], None]:
    from sweet_rl.algorithms.reflect.play import Played, Step
    from sweet_rl.algorithms.reflect.trainer import Trainer

    trainer = Trainer(agent, settings)
    episodes = [
        Played("", 0, 0.0, (Step(prompt, agent.labels[label], (label,), 0.0, 0.0, q),))
        for prompt, label, q in steps
    ]
    return lambda: losses.append(trainer.train(episodes).loss or 0.0)


if __name__ == "__main__":
    main()
