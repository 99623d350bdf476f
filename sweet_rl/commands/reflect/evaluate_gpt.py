"""A model without training plays a world of labels: it thinks, then acts.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sweet_rl.cli.parse import Options
from sweet_rl.cli.stage import recorded
from sweet_rl.flags import flag
from sweet_rl.flags.shared import Compatible, MaxFailed, Overwriting, Quiet, Tasks, WorldName
from sweet_rl.reflect_data.texts import MaxTurns, Output, TeacherFlags, teacher_stage
from sweet_rl.worlds import first_for, names, world_of


@dataclass(frozen=True, kw_only=True)
class EvaluateGptFlags(WorldName, Tasks, MaxTurns, Output, MaxFailed, Overwriting, Compatible, Quiet):
    """The flags of this stage."""

    random: bool = flag(False, "let chance play in place of a model: the floor.")
    react: bool = flag(True, "ask for thoughts before each action.")
    runs: int = flag(10, "episodes.", at_least=1)


@recorded("reflect evaluate_gpt", reads=("tasks",), prices=True, resumes=True)
@teacher_stage(
    defaults={"model": "gpt-3.5-turbo", "output": ".", "world": first_for("as_it_is")},
    helps={
        "world": "the world, by its name; also its published one.",
        "output": "folder of result.txt and result_episode.txt.",
        "tasks": "games: a list of the world, or a file; default those that the world is measured on.",
        "overwrite": "begin again.",
        "compat": "fixed, or published: a reply is searched for anything that might be a label, a reply without one becomes a random action, and an episode counts by the return that is published for its world.",
        "teacher": "embedded (the expert: the ceiling), or openai: a model behind an OpenAI-compatible server.",
        "concurrency": "episodes in flight.",
    },
    narrow={"world": {"aliases": ("scenario",)}},
    options=Options("world", lambda name: world_of(name).as_it_is, names),
)
def evaluate_gpt(flags: EvaluateGptFlags, teacher_flags: TeacherFlags, own: Any, /) -> None:
    """Let a model play a world whose agents choose labels without training.

    A model is named by --teacher openai --base_url URL --model NAME. Without these flags none is measured:
    the embedded player is (with --random: chance), and the result says so.

    Run i has seed i. The episodes are added to result_episode.txt, a line of figures to result.txt. The same
    command resumes where it stopped.
    """
    from sweet_rl.commands.reflect.gpt_runs import run

    run(flags, teacher_flags, own)
