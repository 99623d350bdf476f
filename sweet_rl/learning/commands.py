"""From a world to an agent that is better in it: a policy to begin with, and the methods that improve one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sweet_rl.chat import EMBEDDED
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import MaxTokens, Pretrain
from sweet_rl.flags.shared import OutputDir, Seeded, WorldName


@group("The policy")
class PolicyFlags(WorldName, OutputDir, Pretrain, MaxTokens, Seeded):
    demonstrations: str = flag(
        "",
        "episodes to imitate: files of sweet-rl simulate_interactions, with commas between them; default: the world's scripted "
        "agents show some.",
    )
    episodes: int = flag(1000, "episodes that each of them shows.", at_least=1)
    steps: int = flag(600, "updates of 32 episodes each, of a model made from nothing.", at_least=1)


@group("How it learns")
class LearningFlags(WorldName, OutputDir, MaxTokens, Seeded):
    policy: str = flag(
        REQUIRED,
        "the policy to begin with: a folder of sweet-rl make_policy, smollm2, any model of transformers.",
    )
    method: Literal["sweet", "dpo", "rft", "archer", "filtered_bc"] = flag(
        "sweet",
        "sweet (SWEET-RL: a critic that sees the solution ranks turns), dpo (preferences between whole dialogues), rft (rejection "
        "fine-tuning: imitate the better quarter), archer (online, a critic of utterances), filtered_bc (online, the best are imitated).",
    )
    minutes: float = flag(
        30,
        "for everything but the last measurement; more dialogues are played and more settings tried in more time.",
        above=0,
    )


@recorded("make_policy")
@stage(
    "world",
    "output_dir",
    defaults={"pretrain": EMBEDDED, "max_tokens": 64},
    helps={
        "output_dir": "folder for the policy; what it was made of lies in `made` inside.",
        "pretrain": "what is trained: embedded (a tiny model, made from nothing on two cores), smollm2, a folder or a hub name.",
    },
    only={"max_tokens": None},
    narrow={"world": {"aliases": ()}},
)
def make_policy(flags: PolicyFlags, /) -> None:
    """Make a policy to begin with in any world: it imitates the world's scripted agents, or a teacher.

    Four minutes on one core for a world of short sentences. What comes out is a folder that every stage takes as a model
    (`--agent_model`, `--pretrain`, `policy_lm=`). It then plays the development tasks, and has to take whole turns, not to repeat
    itself, and to be better than turns by chance. The same command resumes what was interrupted.

    sweet-rl make_policy my_world:WORLD outputs/start
    """
    from sweet_rl.learning.policy import make_policy as make

    make(flags)
    print(
        f"The policy is in {flags.output_dir}. Next: sweet-rl learn {flags.world} {flags.output_dir} FOLDER --max_tokens {flags.max_tokens}"
    )


@recorded("learn", resumes=True)
@stage(
    "world",
    "policy",
    "output_dir",
    defaults={"max_tokens": 64},
    only={"max_tokens": None},
    helps={
        "output_dir": "folder of the run; the same command resumes it. The policy that is best on development tasks is OUTPUT_DIR/policy."
    },
    narrow={"world": {"aliases": ()}},
)
def learn(flags: LearningFlags, /) -> None:
    """Improve a policy in a world, by one of five methods, with settings that suit the world and the time.

    Before time is spent it looks, and stops with the reason and what to try where something is not as it has to be: is there anything to
    learn, does the critic read the solution, are pairs of turns right, has the policy collapsed? Settings are tried on development tasks
    (the last fifth of the training tasks); the report is of test tasks, paired with the policy to begin with.

    sweet-rl learn my_world:WORLD outputs/start outputs/sweet --method sweet --minutes 30
    """
    from sweet_rl.learning.chain import Run
    from sweet_rl.learning.chain import learn as improve

    improve(
        Run(
            world=flags.world,
            start=flags.policy,
            folder=Path(flags.output_dir),
            method=flags.method,
            minutes=flags.minutes,
            max_tokens=flags.max_tokens,
            seed=flags.seed,
        )
    )
