"""One training iteration of Reflect-RL beside the published arithmetic written plainly.

Four episodes (`--rows`) of the same games: a reflection and an action for every step, the update, and the
update on an episode from replay. The models are GPT-2 in shape (policy: a fresh adapter, r 64 on `c_attn`;
reflection model: fine-tuned here for a minute on the embedded teacher's texts, an adapter beside it). Games
follow a recording, so that both sides read the same states.

The plain side does what the published code does: `generate` on prompts padded on the left, through the
adapter, always 100 tokens of a reflection (nothing taught that model to end); one action from
the small head; updates in micro-batches of one step, the small head at every place. Dropout is off on both
sides, so that losses can be compared: they must agree to 1e-4, or the benchmark ends with an error.

Two ratios of a whole iteration: for equal work (both sides write 100 tokens, the same prompts of the policy),
and with default settings, where our reflection model ends its texts (which makes prompts shorter, too).

Run: python benchmarks/reflect_update.py [--world auto_explore] [--history] [--layers 12 --width 768]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from _measure import flags, heading, on_gpu

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER
from sweet_rl.types import Task

NEW_TOKENS = 100  # As published: tokens of a reflection

Walk = list[tuple[str, str]]  # States of a game, and what the teacher thinks of each


def prepare(flags: Any, folder: Path) -> tuple[Any, Sequence[str], list[Recorded]]:
    """Settings with a model that has learnt to reflect; the world's labels; the games."""
    from sweet_rl.chat.reflect_format import reflection_prompt
    from sweet_rl.online.reflect.play import open_playground, sample_texts
    from sweet_rl.online.reflect.settings import settings_of
    from sweet_rl.online.tiny_models import make_reflect_model

    shown = {"with_prompt": flags.history, "with_history": flags.history}
    settings = settings_of(
        env=flags.world,
        task_file="auto-explore:train" if flags.world == "auto_explore" else "taxi",
        use_8bit=False,
        device=flags.device,
        reflect=True,
        disable_dropout=True,
        kept_tokens=10**6,
        reflect_max_new_tokens=NEW_TOKENS,
        **({} if flags.world == "auto_explore" else shown),
    )
    with open_playground(settings) as world:
        game: Any = world.make_game()
        tasks = world.levels[0]
        lessons = [walk(game, tasks[-1 - n], n, flags.steps) for n in range(60)]
        head = game.head
        texts = [
            reflection_prompt(text, head, instruction=game.instruction) + said
            for lesson in lessons
            for text, said in lesson
        ]
        words = [*sample_texts(world), *(said for lesson in lessons for _, said in lesson)]
        model = make_reflect_model(
            folder / "model", seed=0, texts=words, hidden_size=flags.width, layers=flags.layers
        )
        tune(model, texts, flags.tuning, flags.device)
        found = (walk(game, task, n, flags.steps) for n, task in enumerate(tasks))
        walks = list(islice((one for one in found if len(one) == flags.steps), flags.rows))
        settings = replace(settings, model_name=str(model), reflect_model_name=str(model))
        return settings, world.labels, [Recorded(game.head, game.instruction, one) for one in walks]


def walk(game: Any, task: Any, seed: int, steps: int) -> Walk:
    """A game by somebody who looks around and ends nothing, with the embedded teacher's thoughts."""
    from sweet_rl.mini.repositories import Explorer
    from sweet_rl.mini.repositories import thought as explore_thought
    from sweet_rl.worlds.dangerous_taxi.game import thought as taxi_thought

    rng = random.Random(seed)
    game.reset(task, seed=seed)
    found: Walk = []
    for _ in range(steps):
        if hasattr(game, "best_actions"):
            said = taxi_thought(None, None, game.state, rng)
            label = str(next(iter(game.best_actions()), 0))
        else:
            explorer = Explorer(task.problem_description, game.targets, seed=seed)
            explorer.look(game.sandbox.cwd, game.sandbox.entries())
            said = explore_thought(explorer.search(game.sandbox.cwd), rng)
            label = rng.choice([label for label, did in game.offered.items() if not did.startswith("id ")])
        found.append((game.text, said))
        if game.step(label).over:
            break
    return found


def tune(folder: Path, texts: Sequence[str], updates: int, device: str = "cpu") -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sweet_rl.online.reflect.sft import encode

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder).to(device)
    examples = [encode(tokenizer, text, reflect=True, room=1024) for text in texts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 * (64 / model.config.n_embd) ** 0.5)
    rng = random.Random(0)
    for _ in range(updates):
        rows = rng.sample(examples, 4)
        width = max(len(row.prompt_ids) + len(row.target_ids) for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.int64)
        labels = torch.full_like(ids, -100)
        for place, (prompt, target, _) in enumerate(rows):
            ids[place, : len(prompt) + len(target)] = torch.tensor([*prompt, *target])
            labels[place, len(prompt) : len(prompt) + len(target)] = torch.tensor(target)
        optimizer.zero_grad()
        ids, labels = ids.to(device), labels.to(device)
        hidden = model.transformer(input_ids=ids).last_hidden_state[:, :-1]
        asked = labels[:, 1:] != -100
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden[asked]), labels[:, 1:][asked])
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)


class Recorded:
    """A game that goes the way of a recording, whatever is done."""

    success_threshold = 0.0
    labels = max_labels = ()

    def __init__(self, head: str, instruction: str, states: Walk) -> None:
        self.head, self.instruction, self.states = head, instruction, states
        self.task = Task("recorded", "", "", "", {}, {})
        self._at = 0

    @property
    def text(self) -> str:
        return self.states[min(self._at, len(self.states) - 1)][0]

    def reset(self, task: Any, *, seed: int) -> str:
        del task, seed
        self._at = 0
        return self.text

    def step(self, label: str) -> Any:
        from sweet_rl.text_game import GameStep

        del label
        self._at += 1
        return GameStep(self.text, -1.0, False, self._at == len(self.states), {})

    def close(self) -> None:
        """Nothing to free."""


PARTS = ("reflections", "actions", "update", "replay")


def main() -> None:
    given = flags(
        __doc__,
        rows=4,
        steps=6,
        world=("taxi", "auto_explore"),
        history=False,
        layers=4,
        width=256,
        tuning=120,
        repeats=2,
        threads=1,
        device="cpu",
    )
    print(heading())
    with tempfile.TemporaryDirectory() as folder:
        compare(given, Path(folder))


def compare(flags: Any, folder: Path) -> dict[str, dict[str, tuple[float, float]]]:
    import torch
    from transformers.utils import logging

    torch.set_num_threads(flags.threads)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)  # transformers about itself
    from sweet_rl.online.reflect.agent import Agent
    from sweet_rl.online.reflect.models import load_policy, load_reflector, save_agent

    settings, labels, games = prepare(flags, folder)
    agent = load_policy(settings, labels)
    save_agent(agent.model, agent.tokenizer, folder / "adapter")
    settings = replace(settings, reflect_load_dir=str(folder / "adapter"))  # its effect is none yet
    reflector = load_reflector(settings)
    assert reflector is not None
    endless = Agent(reflector.model, reflector.tokenizer, reflector.sampling, keeps_writing=True)
    plain = Plain(settings, agent)

    theirs, ours, ended = (Clock(flags.device) for _ in range(3))
    for _ in range(flags.repeats):
        short = our_iteration(agent, reflector, settings, games, ended)
        long = our_iteration(agent, endless, settings, games, ours)
        agree("100 tokens", plain.iteration(long, theirs), long)
    agree("texts that end", plain.update(short.played), short)

    lengths = [len(agent.encode(step.prompt)) for episode in long.played for step in episode.steps]
    teacher = fmean(len(agent.encode(said)) for game in games for _, said in game.states)
    written = fmean(len(agent.encode(said)) for said in short.reflections)
    print(
        f"{flags.world}{' with history' if flags.history else ''}: {flags.rows} episodes of {flags.steps} "
        f"steps, prompts of {min(lengths)} to {max(lengths)} tokens; {flags.layers} layers of {flags.width}, "
        f"{agent.config.vocab_size} tokens; threads: {flags.threads}\n"
        f"a reflection has {teacher:.0f} tokens (teacher), {written:.0f} (ours), {NEW_TOKENS} (published)\n"
        f"processor's seconds (by the clock)\n"
        f"{'':18}{'published':>16}{'ours, equal work':>18}{'ratio':>8}{'ours, default':>17}{'ratio':>8}"
    )
    for part in (*PARTS, "whole iteration"):
        (cpu, wall), (same, same_wall), (less, less_wall) = (
            clock.seconds(part, flags.repeats) for clock in (theirs, ours, ended)
        )
        print(
            f"{part:18}{cpu:7.2f} ({wall:6.2f}){same:9.2f} ({same_wall:6.2f}){cpu / same:7.2f}x"
            f"{less:8.2f} ({less_wall:6.2f}){cpu / less:7.2f}x"
        )
    clocks = {"published arithmetic": theirs, "ours, equal work": ours, "ours, default": ended}
    return {
        side: {part: clock.seconds(part, flags.repeats) for part in (*PARTS, "whole iteration")}
        for side, clock in clocks.items()
    }


# -- ours -------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self, device: str = "cpu") -> None:
        self._gpu = on_gpu(device)
        self._seconds: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._wait()
        processor, wall = time.process_time(), time.perf_counter()
        yield
        self._wait()
        self._seconds[name].append((time.process_time() - processor, time.perf_counter() - wall))

    def _wait(self) -> None:
        if self._gpu:
            import torch

            torch.cuda.synchronize()

    def seconds(self, part: str, repeats: int) -> tuple[float, float]:
        """Of a part, or of a whole iteration: of each thing that was done, its fastest repetition."""
        if part not in self._seconds:
            return sums([self.seconds(one, repeats) for one in PARTS])
        found = self._seconds[part]
        size = len(found) // repeats
        return sums([min(found[at::size]) for at in range(size)])


def sums(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(one for one, _ in pairs), sum(other for _, other in pairs)


@dataclass
class Iteration:
    played: list[Any]
    losses: tuple[float, ...]
    reflections: list[str]


class Watched:
    def __init__(self, agent: Any, reflector: Any, clock: Clock) -> None:
        self._agent, self._reflector, self._clock = agent, reflector, clock
        self.written: list[str] = []

    def choose(self, prompts: Sequence[str], seeds: Sequence[int]) -> Any:
        with self._clock.part("actions"):
            return self._agent.choose(prompts, seeds)

    def write(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        with self._clock.part("reflections"):
            texts: list[str] = self._reflector.write(prompts, seeds)
        self.written += texts
        return texts


def our_iteration(
    agent: Any, reflector: Any, settings: Any, games: Sequence[Recorded], clock: Clock
) -> Iteration:
    import torch

    from sweet_rl.online.reflect.play import play
    from sweet_rl.online.reflect.trainer import Trainer

    watched = Watched(agent, reflector, clock)
    made = iter(games)
    before = [parameter.detach().clone() for parameter in agent.trainable()]
    trainer = Trainer(agent, settings)
    trainer.keep_play()
    played = play(lambda: next(made), [game.task for game in games], range(len(games)), watched, watched)
    with clock.part("update"):
        fresh = trainer.train(played)
    with clock.part("replay"):
        again = trainer.train(played[:1])
    with torch.no_grad():
        for parameter, value in zip(agent.trainable(), before, strict=True):
            parameter.copy_(value)
    return Iteration(played, (fresh.loss, again.loss), watched.written)


# -- the published arithmetic, written plainly ------------------------------------------------------------


class Plain:
    """Both models as published: adapters beside the weights, padding on the left."""

    def __init__(self, settings: Any, agent: Any) -> None:
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        def load(*, trains: bool) -> Any:
            base = AutoModelForCausalLM.from_pretrained(settings.model_name)
            model = PeftModel.from_pretrained(base, settings.reflect_load_dir, is_trainable=trains)
            return model.eval().to(settings.device)

        self.policy, self.reflector = load(trains=True), load(trains=False)
        self._agent, self._settings = agent, settings
        self._pad = agent.tokenizer.pad_token_id
        self._adapter = [parameter for parameter in self.policy.parameters() if parameter.requires_grad]
        for module in self.policy.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        labels = torch.tensor([agent.encode(ACTION_MARKER + label)[-1] for label in agent.labels])
        self._head = self.policy.get_output_embeddings().weight[labels].detach().clone()

    def iteration(self, like: Iteration, clock: Clock) -> tuple[float, ...]:
        for states in zip(*(episode.steps for episode in like.played), strict=True):
            with clock.part("reflections"):
                self._reflect([step.prompt.rpartition(ANALYSE_MARKER)[0] + ANALYSE_MARKER for step in states])
            with clock.part("actions"):
                self._act([step.prompt for step in states])
        return self.update(like.played, clock)

    def update(self, played: Sequence[Any], clock: Clock | None = None) -> tuple[float, ...]:
        import torch

        clock = clock or Clock()
        before = [parameter.detach().clone() for parameter in self._adapter]
        optimizer = torch.optim.Adam(
            self._adapter, lr=self._settings.learning_rate, weight_decay=self._settings.weight_decay
        )
        with clock.part("update"):
            fresh = self._pass(optimizer, played)
        with clock.part("replay"):
            again = self._pass(optimizer, played[:1])
        with torch.no_grad():
            for parameter, value in zip(self._adapter, before, strict=True):
                parameter.copy_(value)
        return fresh, again

    def _padded(self, prompts: Sequence[str]) -> dict[str, Any]:
        import torch

        rows = [list(self._agent.encode(prompt)) for prompt in prompts]
        width = max(map(len, rows))
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in rows]
        ids = torch.tensor([[self._pad] * (width - len(ids)) + ids for ids in rows])
        device = self._settings.device
        return {"input_ids": ids.to(device), "attention_mask": torch.tensor(mask, device=device)}

    def _reflect(self, prompts: Sequence[str]) -> None:
        self.reflector.generate(
            **self._padded(prompts),
            do_sample=True,
            top_k=0,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            pad_token_id=self._pad,
        )

    def _logits(self, inputs: dict[str, Any]) -> Any:
        body = self.policy.get_base_model().transformer
        positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
        return body(**inputs, position_ids=positions).last_hidden_state @ self._head.T

    def _act(self, prompts: Sequence[str]) -> None:
        import torch

        with torch.no_grad():
            torch.multinomial(self._logits(self._padded(prompts))[:, -1].softmax(-1), 1)

    def _pass(self, optimizer: Any, played: Sequence[Any]) -> float:
        import torch

        from sweet_rl.online.reflect.trainer import q_values

        costs = [[step.cost for step in episode.steps] for episode in played]
        qs = [q for its in costs for q in q_values(its, [0.0] * len(its))]
        rows = list(zip([step for episode in played for step in episode.steps], qs, strict=True))
        optimizer.zero_grad()
        total = 0.0
        for step, q in rows:
            logps = self._logits(self._padded([step.prompt])).log_softmax(-1)
            loss = logps[0, -1, step.token_ids[0]] * q / len(rows)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self._adapter, self._settings.max_grad_norm)
        optimizer.step()
        return total


def agree(what: str, theirs: Sequence[float], ours: Iteration) -> None:
    for name, one, other in zip(("update", "replay"), theirs, ours.losses, strict=True):
        if abs(one - other) > max(1e-4 * abs(one), 1e-5):  # logits are no more exact than that
            sys.exit(f"With {what} the losses of the {name} differ: published {one:.7f}, ours {other:.7f}.")


if __name__ == "__main__":
    main()
