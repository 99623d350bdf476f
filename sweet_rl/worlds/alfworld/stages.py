"""Stages that make ALFWorld's training data: states of games by a mostly random player with a teacher's thoughts, and texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible, Tasks
from sweet_rl.reflect_data.texts import Label, RecordingFlags, TeacherFlags, TextFlags, teacher_stage
from sweet_rl.worlds.alfworld import STAGES


@dataclass(frozen=True, kw_only=True)
class AlfworldReflectionFlags(Tasks, RecordingFlags):
    """The flags of this stage."""

    seek: bool = flag(
        False,
        "player and embedded teacher look for what they have not seen yet, place by place, as an agent has to; else they go straight to it (published).",
    )


@recorded("reflect alfworld_reflection", reads=("tasks",), prices=True, resumes=True)
@teacher_stage(
    defaults={
        "num_records": 1000,
        "output": "data/alfworld/data_reflection.json",
        "random_share": 0.7,
        "seed": 5,
    },
    helps={
        "tasks": "games: alfworld:train and the like (embedded), or alfworld-data:train (of $ALFWORLD_DATA); default the published family, tomatoes into microwaves, of the one or else of the other.",
        "random_share": "how often the player takes any action, 0 to 1; else the planner's next.",
        "max_turns": "steps of a game at most.",
        "seed": "decides about the games and the wording.",
        "overwrite": "begin again.",
        "teacher": "embedded (a planner with sentences of its own; needs no model), or openai: a model behind any OpenAI-compatible server.",
    },
)
def alfworld_reflection(flags: AlfworldReflectionFlags, teacher_flags: TeacherFlags, /) -> None:
    """Play household games and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends with so many records. The same command resumes
    where it stopped, and the records depend on the seed alone.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.reflect_data.jobs import record
    from sweet_rl.worlds.alfworld import WORLD
    from sweet_rl.worlds.alfworld.game import HouseholdGame
    from sweet_rl.worlds.alfworld.household import Household
    from sweet_rl.worlds.alfworld.teacher.lessons import household_request, play_household
    from sweet_rl.worlds.options import LevelRequest

    (level,) = WORLD.levels(WORLD.options(), LevelRequest(tasks=flags.tasks))
    engine = Household()
    try:
        play = partial(
            play_household,
            tasks=level.tasks,
            make_game=lambda: HouseholdGame(engine, max_turns=flags.max_turns),
            random_share=flags.random_share,
            seek=flags.seek,
        )
        record(
            play,
            household_request(),
            teacher_flags,
            flags,
            Path(flags.output),
            {"tasks": flags.tasks} | ({"seek": True} if flags.seek else {}),
        )
    finally:
        engine.close()


@dataclass(frozen=True, kw_only=True)
class AlfworldGenSftFlags(TextFlags, Label, Compatible):
    """The flags of this stage."""

    containing: str = flag(
        "pick_and_place_simple-Tomato-None-Microwave", 'what a record\'s problem must contain; "" for all.'
    )


@recorded("reflect alfworld_gen_sft", reads=("task_file",))
@stage(
    "task_file",
    defaults={"output": "", "task_file": "data/alfworld/data_reflection.json"},
    helps={
        "output": "folder of the texts; default that of task_file.",
        "task_file": "records, as alfworld_reflection writes them.",
        "label": "what a policy is trained to do: taken, the action that the mostly random player took (published), or best, the planner's.",
        "overwrite": "replace what is there.",
        "compat": "fixed, or published: the second file is sft_reflectioner.jsonl.",
    },
)
def alfworld_gen_sft(flags: AlfworldGenSftFlags, /) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records."""
    from pathlib import Path

    from sweet_rl.reflect_data.texts import read_list
    from sweet_rl.worlds.alfworld.teacher.lessons import household_texts

    texts = household_texts(
        read_list(Path(flags.task_file), STAGES),
        containing=flags.containing,
        label=flags.label,
        compat=flags.compat,
    )
    texts.save(flags)
