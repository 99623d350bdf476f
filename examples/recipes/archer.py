"""ArCHer in one file: a policy plays Twenty Questions, a critic learns what each question is worth, and the policy learns from it.

    python examples/recipes/archer.py OUT

ends with the same weights as `sweet-rl run_archer --config-name archer_debug save_path=OUT`, on tiny models made from a seed.

Zhou et al. 2024, arXiv 2402.19446. An action is a whole utterance. Two critics of utterances learn off-policy by temporal
differences: Q_i(o, a) from r + gamma V_i'(o'), V_i(o) from Q_i'(o, a' ~ policy), where ' marks a target network. The policy
learns by REINFORCE over the tokens of fresh utterances, each weighted by its advantage min Q(o, a') - min V(o).
"""

import asyncio
import sys
from pathlib import Path

import numpy as np
import torch

from sweet_rl import load_tasks
from sweet_rl.online.critic import copied, soft_update
from sweet_rl.online.models import load_actor, load_archer_critic
from sweet_rl.online.policy import Player
from sweet_rl.online.replay import ReplayBuffer, transitions
from sweet_rl.online.settings import ArcherSettings
from sweet_rl.online.tiny_models import make_models
from sweet_rl.rollout import Episode, rollout
from sweet_rl.types import derive_seed
from sweet_rl.worlds import world_of

WORLD, TASKS = world_of("twenty_questions"), "twenty-questions:ten"
ITERATIONS, EPISODES, WARMUP, SEED = 3, 8, 1, 0
ROWS, MEAN_OF, CRITIC_STEPS, ACTOR_STEPS = 8, 4, 4, 1  # a step sums ROWS / MEAN_OF means
GAMMA, TAU, MAX_NORM, CRITIC_LR, LM_LR = 0.95, 0.1, 1.0, 1e-3, 1e-4


async def play(policy, tasks, iteration: int) -> list:
    """The transitions (observation, action, reward, next observation) of an iteration's episodes."""
    drawn = np.random.default_rng(derive_seed(SEED, "tasks", iteration)).integers(len(tasks), size=EPISODES)
    episodes = [
        Episode(tasks[task], iteration * EPISODES + n, derive_seed(SEED, "play", iteration, n)) for n, task in enumerate(drawn)
    ]  # fmt: skip
    played = {}

    async def keep(trajectory):
        played[trajectory.key] = transitions(trajectory, WORLD.transcript(), GAMMA)

    def write(asks):
        return policy.write([policy.request(ask.observation, ask.seed) for ask in asks])

    player = Player("policy", write, WORLD.transcript(), policy.prompt, SEED)
    user = WORLD.user.make()
    async with WORLD.open(WORLD.options(), user) as make_env:
        await rollout(episodes, make_env=make_env, policy=player, on_finished=keep, concurrency=EPISODES)
    await player.close()
    await user.close()
    return [turn for one in episodes for turn in played[one.task.task_id, one.sample_index]]


def sampled(policy, rows, update: int, phase: str) -> list:
    """What the policy would say now, after each row's observation: a ~ pi(. | o)."""
    seeds = [derive_seed(SEED, "update", update, phase, n) for n in range(len(rows))]
    return policy.sample([row.observation for row in rows], seeds, greedy=False)


def critic_step(critic, target, optimizer, rows, proposed) -> float:
    """Temporal differences on utterances; the target then moves a little towards the critic."""
    observations = [row.observation for row in rows]
    with torch.no_grad():
        goes_on_B = torch.tensor([float(row.bootstraps) for row in rows])
        reward_B = torch.tensor([row.reward for row in rows])
        next_v = target.v(target.encode([row.next_observation or " " for row in rows]))
        y1_B, y2_B = (reward_B + goes_on_B * GAMMA * v_B for v_B in next_v)
        of_proposed = target.read(observations, [utterance.text for utterance in proposed])
    values = critic.read(observations, [row.action for row in rows])
    wanted = (y1_B, y2_B, of_proposed.q1_B, of_proposed.q2_B)  # for Q1, Q2, V1, V2
    errors_B = sum((value_B - wanted_B) ** 2 for value_B, wanted_B in zip(values, wanted, strict=True))
    (errors_B.sum() / MEAN_OF).backward()
    torch.nn.utils.clip_grad_norm_(critic.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.zero_grad()
    soft_update(target, critic, TAU)
    return errors_B.mean().item()


def actor_step(policy, critic, optimizer, rows, said) -> float:
    """REINFORCE: an utterance's log-probability, weighted by how much better it is than what is usually said."""
    observations = [row.observation for row in rows]
    with torch.no_grad():
        values = critic.read(observations, [utterance.text for utterance in said])
        advantage_B = torch.minimum(values.q1_B, values.q2_B) - torch.minimum(values.v1_B, values.v2_B)
    losses_B = -policy.scores(observations, said).logps_B * advantage_B
    (losses_B.sum() / MEAN_OF).backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), MAX_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return losses_B.mean().item()


def train(out: str, say=print) -> list[float]:
    """Play and learn; returns the critic's loss and then the policy's, iteration by iteration."""
    lm, encoder = make_models(Path(out) / "models", seed=SEED)
    settings = ArcherSettings(policy_lm=str(lm), critic_lm=str(encoder), max_new_tokens=12, seed=SEED)
    policy = load_actor(settings, torch.device("cpu"))
    critic = load_archer_critic(settings, torch.device("cpu"))
    target, memory, tasks = copied(critic), ReplayBuffer(100_000), load_tasks(TASKS)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=CRITIC_LR)
    lm_optimizer = torch.optim.Adam(policy.parameters(), lr=LM_LR)
    losses = []
    for iteration in range(ITERATIONS):
        turns = asyncio.run(play(policy, tasks, iteration))
        memory.extend(turns)
        rng = np.random.default_rng(derive_seed(SEED, "draw", iteration))
        steps = [memory.sample(ROWS, rng) for _ in range(CRITIC_STEPS)]
        proposed = [sampled(policy, rows, iteration, f"critic-{n}") for n, rows in enumerate(steps)]
        errors = [
            critic_step(critic, target, critic_optimizer, rows, said) for rows, said in zip(steps, proposed, strict=True)
        ]  # fmt: skip
        losses.append(sum(errors) / len(errors))
        for n in range(ACTOR_STEPS if iteration >= WARMUP else 0):
            rows = memory.sample(ROWS, rng)
            said = sampled(policy, rows, iteration, f"actor-{n}")
            losses.append(actor_step(policy, critic, lm_optimizer, rows, said))
        say(f"iteration {iteration + 1}: {len(turns)} turns, losses {losses}")
    policy.model.save_pretrained(Path(out) / "final")
    policy.tokenizer.save_pretrained(Path(out) / "final")
    return losses


if __name__ == "__main__":
    train(*sys.argv[1:])
