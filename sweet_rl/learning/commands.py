"""From a world to an agent that is better in it: a policy to begin with, and the methods that improve one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from sweet_rl import tracking
from sweet_rl.chat import EMBEDDED
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError
from sweet_rl.flags import REQUIRED, flag, group
from sweet_rl.flags.models import MaxTokens, Pretrain
from sweet_rl.flags.shared import OutputDir, Overwriting, Seeded, WorldName
from sweet_rl.types import Json


@group("The policy")
class PolicyFlags(WorldName, OutputDir, Pretrain, MaxTokens, Seeded, Overwriting):
    demonstrations: str = flag(
        "",
        "episodes to imitate: files of sweet-rl simulate_interactions, separated by commas; default: the world's scripted agents play some.",
    )
    agents: str = flag(
        "", "scripted agents to imitate, separated by commas; default: all that are not told the solution."
    )
    episodes: int = flag(1000, "episodes that each scripted agent plays.", at_least=1)
    steps: int = flag(600, "updates of 32 episodes each, when a model is trained from scratch.", at_least=1)


@group("How it learns")
class LearningFlags(WorldName, OutputDir, MaxTokens, Seeded, Overwriting):
    policy: str = flag(
        REQUIRED, "starting policy: a folder of sweet-rl make_policy, smollm2, or any transformers model."
    )
    method: Literal["sweet", "dpo", "rft", "archer", "filtered_bc"] = flag(
        "sweet",
        "sweet (SWEET-RL: a critic that sees the solution ranks turns), dpo (preferences between whole "
        "dialogues), rft (rejection fine-tuning: imitate the best quarter), archer (online, with an "
        "utterance-level critic), filtered_bc (online, imitate the best).",
    )
    minutes: float = flag(
        30,
        "minutes for everything except the final evaluation; with more time, more dialogues are played and more settings tried. "
        "Resumed with more minutes, a run tries more settings.",
        above=0,
    )


_OVERWRITE = (
    "go on in a folder that was begun with other settings: what they change is made again, and what was there goes to "
    "`replaced` inside."
)


def _begin(folder: Path, model: str, flags: PolicyFlags | LearningFlags, *names: str) -> Mapping[str, Json]:
    """Refuse a folder that was begun with another world or other values of these flags; else the settings of the earlier session."""
    from sweet_rl.pipelines.running import differences, record_at
    from sweet_rl.runs.facts import changed_input, place_of
    from sweet_rl.worlds import all_worlds, sources_of, world_of

    world, record = world_of(flags.world), record_at(place_of(folder, folder=True)) or {}
    if any(model in one.agents for one in all_worlds()):
        raise UsageError(
            f"{model!r} is also the name of a scripted agent, which would play instead: write ./{model}."
        )
    now = {name: getattr(flags, name) for name in ("world", *names)} | world.settings(world.options())
    now = json.loads(json.dumps(now, default=str))  # as a record has it
    then = {} if flags.overwrite else dict(record.get("settings") or {})
    differs = differences(record, then, now)
    differs += [why for flag in ("world", "policy") if then and (why := changed_input(record, flag))]
    if differs:
        raise UsageError(
            f"{str(folder)!r} was begun otherwise: {', '.join(differs)}. Old and new results would be mixed: name another folder, or pass "
            "--overwrite, which makes again what this changes."
        )
    for source in sources_of(world):
        tracking.reads("world", source)
    tracking.sets(world.settings(world.options()))
    return then


@recorded("make_policy")
@stage(
    "world",
    "output_dir",
    defaults={"pretrain": EMBEDDED, "max_tokens": 64},
    helps={
        "output_dir": "folder for the policy; what it was made from is beside it, in OUTPUT_DIR.made.",
        "pretrain": "model to train: embedded (a tiny model, trained from scratch on two cores), smollm2, a folder or a hub name.",
        "overwrite": _OVERWRITE,
    },
    only={"max_tokens": None},
    narrow={"world": {"aliases": ()}},
)
def make_policy(flags: PolicyFlags, /) -> None:
    """Make a starting policy for any world: it imitates the world's scripted agents, or a teacher.

    Takes four minutes on one core for a world of short sentences. The result is a folder that every stage
    accepts as a model (`--agent_model`, `--pretrain`, `policy_lm=`). The policy then plays the development
    tasks: it must finish its turns, not repeat itself, and do better than random turns. Run the same command
    again to resume.

    sweet-rl make_policy my_world:WORLD outputs/start
    """
    from sweet_rl.learning.policy import made_folder
    from sweet_rl.learning.policy import make_policy as make

    _begin(made_folder(Path(flags.output_dir)), flags.output_dir, flags, "seed")
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
        "output_dir": "folder of the run; running the same command again resumes it. OUTPUT_DIR/policy is "
        "the policy that does best on the development tasks.",
        "overwrite": _OVERWRITE,
    },
    narrow={"world": {"aliases": ()}},
)
def learn(flags: LearningFlags, /) -> None:
    """Improve a policy in a world, by one of five methods, with settings that suit the world and the time.

    At each step it checks the preconditions, and stops with the reason and what to try if one is not met: is
    there anything to learn, does the critic read the solution, are the pairs of turns correct, has the policy
    collapsed? Settings are tried on development tasks (the last fifth of the training tasks). The report
    compares the result with the starting policy on the test tasks.

    sweet-rl learn my_world:WORLD outputs/start outputs/sweet --method sweet --minutes 30
    """
    from sweet_rl.chat.formats import tell_of_search
    from sweet_rl.learning.chain import learn as improve
    from sweet_rl.players import is_no_model

    if is_no_model(flags.policy):
        raise UsageError(
            f"--policy: there is no folder {flags.policy!r} here; sweet-rl make_policy makes one."
        )
    tell_of_search(flags.policy, "--policy: no model")
    begun = _begin(Path(flags.output_dir), flags.policy, flags, "policy", "method", "max_tokens", "seed")
    tracking.reads("policy", flags.policy)
    first_minutes = float(begun.get("first_minutes", flags.minutes))
    tracking.sets({"first_minutes": first_minutes})
    improve(flags, first_minutes)
