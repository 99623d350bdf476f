"""Reflect-RL in one file: two tiny models imitate demonstrations; then one, frozen, writes reflections and the other learns to drive a taxi.

    sweet-rl reflect taxi_reflection --num_records 300
    sweet-rl reflect taxi_gen_sft
    python examples/recipes/reflect.py data/taxi/sft_policy.jsonl data/taxi/sft_reflection.jsonl OUT

has the same losses and adapters as `sweet-rl reflect supervised_pretrain`, with and without `--reflect`, and `sweet-rl reflect rl_finetune`
with the settings below on the model in OUT/model.

Zhou et al. 2024, arXiv 2402.12621. For each state of a text game, a frozen model writes a reflection; the policy reads the state, the
reflection and the list of actions, and writes one label. Both begin by imitation. Then the policy learns online by REINFORCE on the
cost-to-go, from the latest episodes and from a replay buffer of successful ones.
"""

import random
import sys
from pathlib import Path

import torch

from sweet_rl.chat.reflect_format import cut_reflection, policy_prompt, reflection_prompt
from sweet_rl.online.reflect.agent import Agent
from sweet_rl.online.reflect.models import load_policy, load_reflector, save_agent
from sweet_rl.online.reflect.play import Schedule, open_playground
from sweet_rl.online.reflect.settings import settings_of
from sweet_rl.online.reflect.sft import Order, encode, read_texts
from sweet_rl.online.replay import Successes
from sweet_rl.online.tiny_models import make_reflect_model
from sweet_rl.types import derive_seed

SETTINGS = {
    "env": "taxi", "taxi_curriculum": True, "curriculum_index": 0, "max_turns": 6, "reflect_max_new_tokens": 20,
    "use_8bit": False, "disable_dropout": True, "lora_r": 16, "target_modules": "all-linear", "device": "cpu", "seed": 0,
}  # fmt: skip
UPDATES, TEXTS = 60, 8  # of imitation; texts of an update
ITERATIONS, EPISODES, REPLAYED, REMEMBERED = 4, 16, 4, 50
LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 3e-3, 0.001, 0.3
SEED = SETTINGS["seed"]


def step(agent: Agent, optimizer, loss: torch.Tensor) -> float:
    """One step down the gradient; only the adapter has one."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(agent.trainable(), MAX_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def imitate(agent: Agent, texts: list[str], *, reflect: bool) -> list[float]:
    """The mean negative log-likelihood of what stands behind the last marker: a label, or a reflection."""
    examples = [encode(agent.tokenizer, text, reflect=reflect, room=1024) for text in texts]
    order = Order([len(example.sequence) for example in examples], batch=TEXTS, seed=SEED)
    optimizer = torch.optim.AdamW(agent.trainable(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    losses = []
    for update in range(UPDATES):
        rows = [examples[row] for row in order.rows(update)]
        logps_S, _ = agent.score(rows)  # each summed over its target's tokens
        losses.append(step(agent, optimizer, -logps_S.sum() / sum(len(row.target_ids) for row in rows)))
    return losses


def play(games: list, tasks: list, seeds: list[int], policy: Agent, reflector: Agent) -> list:
    """Episodes side by side: of each its steps (what the policy read, what it chose, the cost), and whether it succeeded."""
    texts = [game.reset(task, seed=seed) for game, task, seed in zip(games, tasks, seeds, strict=True)]
    steps, succeeded, going = [[] for _ in games], [False for _ in games], list(range(len(games)))
    while going:
        shown = [(texts[n], games[n].head, games[n].instruction) for n in going]
        asked = [reflection_prompt(text, head, instruction=instruction) for text, head, instruction in shown]
        written = reflector.write(asked, [derive_seed(seeds[n], "reflect", len(steps[n])) for n in going])
        prompts = [
            policy_prompt(text, head, cut_reflection(reflection), instruction=instruction)
            for (text, head, instruction), reflection in zip(shown, written, strict=True)
        ]
        chosen = policy.choose(prompts, [derive_seed(seeds[n], "act", len(steps[n])) for n in going])
        for n, prompt, choice in zip(list(going), prompts, chosen, strict=True):
            moved = games[n].step(choice.text)
            steps[n].append((prompt, choice.token_ids, moved.cost))
            texts[n] = moved.text
            if moved.over:
                going.remove(n)
                cost = sum(cost for _, _, cost in steps[n])
                succeeded[n] = bool(moved.info.get("succeeded", cost < games[n].success_threshold))
    return list(zip(steps, succeeded, strict=True))


def learn(policy: Agent, optimizer, episodes: list) -> float:
    """REINFORCE: the log-probability of each choice, weighted by the costs from it on, which are to become less."""
    examples = [policy.example(prompt, ids) for steps in episodes for prompt, ids, _ in steps]
    q_S = torch.tensor(
        [sum(cost for _, _, cost in steps[at:]) for steps in episodes for at in range(len(steps))]
    )
    logps_S, _ = policy.score(examples)
    return step(policy, optimizer, (logps_S * q_S).mean())


def reinforce(policy: Agent, reflector: Agent, ground, say) -> list[float]:
    """Play, learn, remember; two losses an iteration, of new episodes and of remembered ones, where there are any."""
    optimizer = torch.optim.Adam(policy.trainable(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = Schedule([len(level) for level in ground.levels], ground.starts, batch=EPISODES, seed=SEED)
    memory, losses = Successes(maxlen=REMEMBERED), []
    for iteration in range(ITERATIONS):
        _, level, items = schedule.draw(iteration)
        seeds = [derive_seed(SEED, "episode", iteration, number) for number in range(len(items))]
        tasks = [ground.levels[level][item] for item in items]
        played = play([ground.make_game() for _ in tasks], tasks, seeds, policy, reflector)
        memory.extend(steps for steps, succeeded in played if succeeded)
        losses.append(learn(policy, optimizer, [steps for steps, _ in played]))
        if again := memory.sample(REPLAYED, random.Random(derive_seed(SEED, "replay", iteration))):
            losses.append(learn(policy, optimizer, again))
        successes = sum(succeeded for _, succeeded in played)
        say(f"iteration {iteration + 1}: {successes} of {len(played)} succeeded, losses {losses}")
    return losses


def train(policy_texts: str, reflection_texts: str, out: str, say=print) -> dict[str, list[float]]:
    """Imitate, then learn online; the losses of each stage."""
    files, losses = {"policy": policy_texts, "reflection": reflection_texts}, {}
    texts = {name: read_texts(path) for name, path in files.items()}
    model = str(
        make_reflect_model(Path(out) / "model", seed=SEED, texts=[*texts["policy"], *texts["reflection"]])
    )
    named = SETTINGS | {"model_name": model, "reflect_model_name": model}
    for name in texts:
        agent = load_policy(settings_of(**named, shrink_head=False), ())
        losses[name] = imitate(agent, texts[name], reflect=name == "reflection")
        save_agent(agent.model, agent.tokenizer, Path(out) / name)
        say(f"{name}: loss {losses[name][0]:.3f}, in the end {losses[name][-1]:.3f}")
    named |= {"load_dir": f"{out}/policy", "reflect": True, "reflect_load_dir": f"{out}/reflection"}
    settings = settings_of(**named, max_steps=ITERATIONS, per_device_eval_batch_size=EPISODES)
    with open_playground(settings) as ground:
        policy, reflector = load_policy(settings, ground.labels), load_reflector(settings)
        losses["online"] = reinforce(policy, reflector, ground, say)
    save_agent(policy.model, policy.tokenizer, Path(out) / "final")
    return losses


if __name__ == "__main__":
    train(*sys.argv[1:])
