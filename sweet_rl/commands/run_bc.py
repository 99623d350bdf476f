"""Behaviour cloning, the first stage of ArCHer.

Published behaviour: docs/published/archer.md#behaviour-cloning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import flag
from sweet_rl.flags.models import AgentModel, Dataset, Device, DType, Iterations, MinReward, Skill
from sweet_rl.flags.shared import (
    GraderName,
    NumTasks,
    OutputDir,
    Overwriting,
    Quiet,
    Seeded,
    Tasks,
    WorldName,
)
from sweet_rl.worlds import first_for

TINY = "tiny"
"""Name of models that are made here, from the seed."""


@dataclass(frozen=True, kw_only=True)
class ShownFlags(
    WorldName, Dataset, MinReward, GraderName, Tasks, NumTasks, AgentModel, Skill, Seeded, Quiet
):
    """What is imitated."""

    games: int | None = flag(None, "games of the scripted agent for each task; default by world.", at_least=1)
    env_load_path: str | None = flag(
        None, "what a world is made from that needs it: a game file, a server's address, a folder."
    )

    def check_together(self) -> None:
        """Whether there are flags of a scripted agent beside a data set."""
        super().check_together()
        given = {
            "games": self.games is not None,
            "num_tasks": self.num_tasks is not None,
            "agent_model": self.agent_model != "auto",
            "skill": self.skill is not None,
            "env_load_path": self.env_load_path is not None,
        }
        for name in given if self.dataset else ():
            if given[name]:
                raise UsageError(
                    f"--{name} is of the scripted agent, and --dataset is imitated instead of it."
                )


@dataclass(frozen=True, kw_only=True)
class RecipeFlags(Iterations):
    """How it learns; none given: what suits the policy."""

    batch_size: int | None = flag(
        None,
        "turns over which a loss is a mean; default 8 as published, for a tiny policy 64.",
        at_least=1,
    )
    grad_accum_steps: int | None = flag(
        None,
        "such means that are added up for a step; default 4 as published, for a tiny policy 1.",
        at_least=1,
    )
    learning_rate: float | None = flag(
        None, "of Adam; default 1e-5 as published, for a tiny policy 2e-3.", above=0
    )
    max_grad_norm: float | None = flag(
        None,
        "gradients are clipped to it; default not at all as published, for a tiny policy 1.",
        above=0,
    )


@dataclass(frozen=True, kw_only=True)
class PupilFlags(RecipeFlags, OutputDir, Device, DType, Overwriting):
    """Who imitates."""

    policy_lm: str = flag(
        TINY,
        "the model that imitates: a folder, a hub name or smollm2; tiny: a GPT-2 made here, with a tokenizer learnt from the demonstrations.",
    )
    critic_lm: str | None = flag(
        None,
        "tiny makes a critic beside the policy; default: tiny for a tiny policy, else none (run_archer's critic_lm then says which).",
        choices=(TINY,),
    )
    max_tokens_per_batch: int = flag(
        4096,
        "tokens in one pass, padding included; decides about memory and speed only.",
        at_least=1,
        shown="all",
    )

    def check_together(self) -> None:
        """Whether there is a tiny policy for a tiny critic."""
        super().check_together()
        if self.critic_lm == TINY and self.policy_lm != TINY:
            raise UsageError("--critic_lm tiny is made beside a tiny policy only; name one to run_archer.")


@recorded("run_bc", reads=("dataset", "tasks", "policy_lm", "env_load_path"))
@stage(
    "output_dir",
    defaults={"world": first_for("archer"), "dataset": "", "agent_model": "auto"},
    helps={
        "output_dir": "folder for the policy.",
        "world": "the world: its name, also the published one, or module:WORLD; any that rewards turns, or whose dialogues are graded.",
        "dataset": ".jsonl files of trajectories to imitate, several with commas between them (of sweet-rl simulate_interactions or of sweet-rl run_archer); default: a scripted agent plays.",
        "grader": "where turns are not rewarded, what grades dialogues that have no reward: auto (hidden tests, or the wanted page), or a grader as in `evaluate`.",
        "min_reward": "imitate only games with at least this return; default all.",
        "tasks": "what the scripted agent plays: a list of the world or a file; default: what the published configuration plays.",
        "num_tasks": "the first so many; default 1000, or as many as make 5000 games.",
        "agent_model": "the scripted agent, one of the world's; default its first, where turns are rewarded.",
        "skill": "of an asker, how often it asks one of the best questions; default 1.",
        "iterations": "passes over the demonstrations; default 1 as published, for a tiny policy enough for 200 steps.",
        "seed": "of weights, games and order.",
        "overwrite": "throw away what output_dir holds.",
    },
    narrow={"world": {"aliases": ("env_name", "task_type")}},
    only={"skill": None, "device": None, "dtype": None},
)
def run_bc(shown: ShownFlags, pupil: PupilFlags, /) -> None:
    """Make the policy that online learning begins with: it imitates demonstrations.

    Without a data set a scripted agent plays first. The folder then holds policy/, for tiny models critic/, and
    the demonstrations; run_archer takes it as checkpoint_path. From nothing, without a download:

    sweet-rl run_bc outputs/bc
    and then the line of run_archer that it prints.
    """
    from sweet_rl.commands import cloning
    from sweet_rl.training.checkpoints import held

    with held(Path(pupil.output_dir)):
        cloning.run(shown, pupil)
