"""Games for the benchmark of Reflect-RL, and a model that has learnt how long a reflection is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

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
