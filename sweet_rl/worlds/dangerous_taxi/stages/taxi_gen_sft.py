"""DangerousTaxi's records as training texts.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags.common import Compatible
from sweet_rl.sft_data.flags import Label, Rules, TextFlags


@dataclass(frozen=True, kw_only=True)
class TaxiGenSftFlags(TextFlags, Label, Rules, Compatible):
    """The flags of this stage."""


@recorded("reflect taxi_gen_sft", reads=("task_file",))
@stage(
    "task_file",
    defaults={"output": "", "task_file": "data/taxi/data_reflection.json"},
    helps={
        "output": "folder of the texts; default that of task_file.",
        "task_file": "records, as taxi_reflection writes them.",
        "label": "what a policy is trained to do: taken, the action that the mostly random driver took (published), or best, the oracle's.",
        "with_prompt": "leave the rules in states that have them, for games that are played with --with_prompt.",
        "overwrite": "replace what is there.",
        "compat": "fixed, or published (the texts, byte for byte).",
    },
)
def taxi_gen_sft(flags: TaxiGenSftFlags, /) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records.

    The texts are exactly what games and evaluation show. The published ones are not (--compat published): they lack the
    game instruction and the actions done before, and have other line breaks.
    """
    from pathlib import Path

    from sweet_rl.sft_data.texts import read_list
    from sweet_rl.worlds.dangerous_taxi.stages import STAGES
    from sweet_rl.worlds.dangerous_taxi.teacher.lessons import taxi_texts

    texts = taxi_texts(
        read_list(Path(flags.task_file), STAGES),
        label=flags.label,
        keep_rules=flags.with_prompt,
        compat=flags.compat,
    )
    texts.save(flags)
