"""Behaviour cloning before online learning: the first stage of ArCHer.

Published behaviour: docs/published/archer.md#behaviour-cloning.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("run_bc", reads=("dataset", "tasks", "policy_lm", "env_load_path"))
def run_bc(
    output_dir: str | None = None,
    *,
    env_name: str | None = None,
    dataset: str | None = None,
    min_reward: float | None = None,
    tasks: str | None = None,
    games: int | None = None,
    agent_model: str | None = None,
    skill: float | None = None,
    env_load_path: str | None = None,
    policy_lm: str = "tiny",
    critic_lm: str | None = None,
    iterations: int | None = None,
    batch_size: int | None = None,
    grad_accum_steps: int | None = None,
    learning_rate: float | None = None,
    max_grad_norm: float | None = None,
    max_tokens_per_batch: int = 4096,
    device: str = "auto",
    dtype: str = "auto",
    seed: int = 0,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Make the policy that online learning begins with: it imitates demonstrations.

    Without a data set a scripted agent plays first. The folder then holds policy/, for tiny models critic/, and
    the demonstrations; run_archer takes it as checkpoint_path. From nothing, without a download:

    run_bc.py outputs/bc
    and then the line of run_archer that it prints.

    Args:
        output_dir: folder for the policy.
        env_name: the world: its name, also the published one, or module:WORLD; any that rewards turns. Default: the first of the published ones.
        dataset: .jsonl files of trajectories to imitate, several with commas between them (of simulate_interactions.py or of run_archer.py); default: a scripted agent plays.
        min_reward: imitate only games with at least this return; default all.
        tasks: what the scripted agent plays: a list of the world or a file; default: what the published configuration plays.
        games: games of the scripted agent for each task; default by world.
        agent_model: the scripted agent, one of the world's; default its first.
        skill: of an asker, how often it asks one of the best questions; default 1.
        env_load_path: what a world is made from that needs it: a game file, a server's address, a folder.
        policy_lm: the model that imitates: a folder or a hub name; tiny: a GPT-2 made here, with a tokenizer learnt from the demonstrations.
        critic_lm: tiny makes a critic beside the policy; default: tiny for a tiny policy, else none (run_archer's critic_lm then says which).
        iterations: passes over the demonstrations; default 1 as published, for a tiny policy enough for 200 steps.
        batch_size: turns over which a loss is a mean; default 8 as published, for a tiny policy 64.
        grad_accum_steps: such means that are added up for a step; default 4 as published, for a tiny policy 1.
        learning_rate: of Adam; default 1e-5 as published, for a tiny policy 2e-3.
        max_grad_norm: gradients are clipped to it; default not at all as published, for a tiny policy 1.
        max_tokens_per_batch: tokens in one pass, padding included; decides about memory and speed only.
        device: auto, cpu, cuda.
        dtype: auto (bfloat16 on a GPU that has it), float32, bfloat16.
        seed: of weights, games and order.
        overwrite: throw away what output_dir holds.
        quiet: no progress bar.
    """
    from sweet_rl.commands import cloning
    from sweet_rl.commands.archer import TINY
    from sweet_rl.worlds import first_for

    if output_dir is None:
        raise UsageError("--output_dir, the folder for the policy, is needed.")
    made_here = policy_lm == TINY
    usual = cloning.TINY_RECIPE if made_here else cloning.PUBLISHED_RECIPE
    told = {
        "iterations": iterations,
        "batch_size": batch_size,
        "grad_accum_steps": grad_accum_steps,
        "learning_rate": learning_rate,
        "max_grad_norm": max_grad_norm,
    }
    cloning.run(
        cloning.Demonstrations(
            env_name or first_for("archer"),
            dataset,
            min_reward,
            tasks,
            games,
            agent_model,
            skill,
            env_load_path,
            seed,
            quiet,
        ),
        cloning.Pupil(
            policy_lm,
            TINY if critic_lm is None and made_here else critic_lm,
            {**usual, **{name: value for name, value in told.items() if value is not None}},
            max_tokens_per_batch,
            device,
            dtype,
        ),
        output_dir,
        overwrite=overwrite,
    )
