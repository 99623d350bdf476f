"""Stages that make DangerousTaxi's training data: states of random games with what a teacher thinks of them, and texts of these.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sweet_rl.command_line.recording import recorded
from sweet_rl.command_line.stages import stage
from sweet_rl.flags import flag
from sweet_rl.flags.common import Compatible
from sweet_rl.sft_data.flags import Label, RecordingFlags, Rules, TeacherFlags, TextFlags, teacher_stage
from sweet_rl.worlds.dangerous_taxi import STAGES


@dataclass(frozen=True, kw_only=True)
class TaxiReflectionFlags(RecordingFlags, Rules, Compatible):
    """The flags of this stage."""

    head_start: bool | None = flag(
        None,
        "let the oracle drive a random part of the way first, unrecorded: the games of a random driver end too soon to show the rest of it. Default true, with --compat published false.",
    )
    split: Literal["train", "test", "any"] = flag("train", "begin in start states of train, test, or any.")


@recorded("reflect taxi_reflection", prices=True, resumes=True)
@teacher_stage(
    defaults={"output": "", "num_records": 2000, "max_turns": 20},
    helps={
        "output": "the file to write; default data/taxi/data_reflection.json (data_reflection_oracle.json where nothing is random, data.json without reflections).",
        "random_share": "how often the driver takes any action, 0 to 1; else the best one.",
        "max_turns": "steps of a game at most.",
        "with_prompt": "put the rules into every recorded state, as the published stage does. A model gets the rules anyway.",
        "seed": "decides about the games and the wording.",
        "overwrite": "begin again.",
        "compat": "fixed, or published: an action without effect does not end a game here, and a model reads that the game is over where the best action is to move south.",
    },
)
def taxi_reflection(flags: TaxiReflectionFlags, teacher_flags: TeacherFlags, /) -> None:
    """Play games of the taxi and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends with so many records. The same command resumes
    where it stopped, and the records depend on the seed alone.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.sft_data.reflections import RecordPlan
    from sweet_rl.sft_data.runs import record
    from sweet_rl.worlds.dangerous_taxi.tasks import start_states
    from sweet_rl.worlds.dangerous_taxi.teacher.lessons import play_taxi, taxi_request

    oracle = "_oracle" if flags.random_share == 0 else ""
    name = f"data_reflection{oracle}.json" if flags.reflections else "data.json"
    head_start = not flags.published if flags.head_start is None else flags.head_start
    own: dict[str, Any] = {"with_prompt": flags.with_prompt, "head_start": head_start, "compat": flags.compat}
    play = partial(
        play_taxi,
        starts=start_states("" if flags.split == "any" else flags.split),
        random_share=flags.random_share,
        max_turns=flags.max_turns,
        **own,
    )
    plan = RecordPlan(play, taxi_request(), flags.seed, flags.reflections)
    target = Path(flags.output or f"data/taxi/{name}")
    record(plan, teacher_flags, flags, target, own | {"split": flags.split})


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
    from sweet_rl.worlds.dangerous_taxi.teacher.lessons import taxi_texts

    texts = taxi_texts(
        read_list(Path(flags.task_file), STAGES),
        label=flags.label,
        keep_rules=flags.with_prompt,
        compat=flags.compat,
    )
    texts.save(flags)
