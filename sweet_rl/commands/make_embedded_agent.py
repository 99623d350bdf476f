"""Makes the embedded agent from nothing, with any seed."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name

from sweet_rl import tracking
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.errors import UsageError, missing_package
from sweet_rl.flags.shared import OutputDir, Overwriting, Quiet, Seeded, WorldName
from sweet_rl.worlds import first_for

PRETRAINING_TEXTS = {
    "code": "sweet_rl.mini.backend.pretraining:TEXTS",
    "twenty_questions": "sweet_rl.mini.pretraining:QUESTION_GAME",
}
"""What an agent reads before it plays a world, by the world's name."""


@dataclass(frozen=True, kw_only=True)
class AgentMakingFlags(OutputDir, WorldName, Seeded, Overwriting, Quiet):
    """The agent."""


@recorded("make_embedded_agent")
@stage(
    "output_dir",
    defaults={"world": first_for("dialogue")},
    helps={
        "output_dir": "folder for the model and its tokenizer.",
        "world": "whose agent it is: a world's name, module:ATTRIBUTE, or one of its lists of tasks; of those that have something to read.",
        "seed": "another seed gives other weights, taught by other dialogues.",
        "overwrite": "write into a folder that holds a model already.",
    },
    narrow={"world": {"aliases": ()}},
)
def make_embedded_agent(flags: AgentMakingFlags, /) -> None:
    """Train an embedded agent from nothing: a tiny Llama that can play a small world.

    What it reads is the world's (docs/mini.md has the packaged one's): ten minutes on one core for the mini
    benchmark, whose agent of seed 0 is the packaged one; a minute or two for a game of questions. An agent of
    the mini benchmark has to pass gates; their figures stand in its README.md and figures.json.
    """
    from pathlib import Path

    from sweet_rl.worlds.registry import world_with

    world = world_with(flags.world)
    if world.name not in PRETRAINING_TEXTS:
        raise UsageError(f"{world.name} has nothing that a tiny model could read before it plays.")
    folder = Path(flags.output_dir)
    if (folder / "config.json").exists() and not flags.overwrite:
        raise UsageError(
            f"{flags.output_dir!r} holds a model already; pass --overwrite or choose another folder."
        )
    try:
        from sweet_rl.mini.embedded_agent import make_agent
    except ImportError as error:
        raise missing_package("torch", "transformers", needed_for="an agent made from nothing") from error

    tracking.writes(folder, folder=True)
    texts = resolve_name(PRETRAINING_TEXTS[world.name])
    for figure in make_agent(folder, texts, seed=flags.seed, quiet=flags.quiet):
        print(figure)
    print(f"The agent is in {folder}")
