"""ALFWorld's records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible
from sweet_rl.sft_data.flags import Label, TextFlags


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

    from sweet_rl.sft_data.texts import read_list
    from sweet_rl.worlds.alfworld.stages import STAGES
    from sweet_rl.worlds.alfworld.teacher.lessons import household_texts

    texts = household_texts(
        read_list(Path(flags.task_file), STAGES),
        containing=flags.containing,
        label=flags.label,
        compat=flags.compat,
    )
    texts.save(flags)
