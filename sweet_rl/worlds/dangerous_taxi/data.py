"""DangerousTaxi's training data: games of a mostly random driver, what a teacher thinks of their states, and texts of these.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from sweet_rl.chat.reflect_format import ACTION_MARKER, ANALYSE_MARKER, SftTexts, sft_texts, split_prompt
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Compatible
from sweet_rl.prompts import packaged_text
from sweet_rl.reflect_data.texts import (
    Label,
    Moment,
    RecordingFlags,
    Request,
    Rules,
    TeacherFlags,
    TextFlags,
    Texts,
    label_of,
    read_list,
    teacher_stage,
)
from sweet_rl.types import Compat
from sweet_rl.worlds.dangerous_taxi import STAGES
from sweet_rl.worlds.dangerous_taxi.game import (
    ACTION_NAMES,
    LABELS,
    TABLE,
    plan,
    prompt,
    start_states,
    thought,
)
from sweet_rl.worlds.text_games import ACTION_HEAD


@group("This stage")
class TaxiReflectionFlags(RecordingFlags, Rules, Compatible):
    split: Literal["train", "test", "any"] = flag("train", "start states: those of train, of test, or any.")


@recorded("reflect taxi_reflection", prices=True, resumes=True)
@teacher_stage(
    defaults={"output": "", "num_records": 2000, "max_turns": 20},
    helps={
        "output": "output file; default data/taxi/data_reflection.json (data_reflection_oracle.json with "
        "--random_share 0, data.json without reflections).",
        "random_share": "probability that the driver takes a random action, 0 to 1; otherwise it takes the best one.",
        "with_prompt": "put the rules into every recorded state, as the published stage does. The teacher gets the rules in any case.",
        "compat": "fixed, or published: an action without effect does not end the game in this stage, and "
        "where the best action is to move south, the model is told that the game is over.",
    },
)
def taxi_reflection(flags: TaxiReflectionFlags, teacher_flags: TeacherFlags, /) -> None:
    """Play games of the taxi and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends after --num_records. The same command resumes an
    interrupted run, and the records depend only on the seed.
    """
    from sweet_rl.reflect_data.jobs import record

    oracle = "_oracle" if flags.random_share == 0 else ""
    name = f"data_reflection{oracle}.json" if flags.reflections else "data.json"
    own: dict[str, Any] = {"with_prompt": flags.with_prompt, "compat": flags.compat}
    # the games of a random driver end too soon to show the rest of the way
    own["head_start"] = not flags.published
    starts = start_states("" if flags.split == "any" else flags.split)
    play = partial(
        play_taxi, starts=starts, random_share=flags.random_share, max_turns=flags.max_turns, **own
    )
    target = Path(flags.output or f"data/taxi/{name}")
    record(play, taxi_request(), teacher_flags, flags, target, own | {"split": flags.split})


@group("This stage")
class TaxiGenSftFlags(TextFlags, Label, Rules, Compatible):
    pass


@recorded("reflect taxi_gen_sft", reads=("task_file",))
@stage(
    "task_file",
    defaults={"output": "", "task_file": "data/taxi/data_reflection.json"},
    helps={
        "output": "folder for the texts; default the folder of --task_file.",
        "task_file": "records of reflect taxi_reflection.",
        "label": "action that the policy learns: taken (by the mostly random driver, as published), or best (the oracle's).",
        "with_prompt": "keep the rules in states that contain them, for games played with --with_prompt.",
        "compat": "fixed, or published (the published texts, byte for byte).",
    },
)
def taxi_gen_sft(flags: TaxiGenSftFlags, /) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records.

    The texts are exactly those shown in games and evaluation. The published ones (--compat published) are
    not: they lack the game instruction and the previous actions, and have different line breaks.
    """
    records = read_list(Path(flags.task_file), STAGES)
    texts = taxi_texts(records, label=flags.label, keep_rules=flags.with_prompt, compat=flags.compat)
    texts.save(flags)


def play_taxi(
    seed: int,
    starts: Sequence[int],
    *,
    random_share: float = 0.9,
    max_turns: int = 20,
    with_prompt: bool = False,
    head_start: bool = True,
    compat: Compat = "fixed",
) -> list[Moment]:
    """One game, step by step, until it ends."""
    draws = Random(seed)
    states, actions = [draws.choice(list(starts))], list[int]()
    if head_start:
        way = plan(states[0])
        for action in way[: draws.randrange(len(way))]:
            states.append(TABLE[states[-1]][action].state)
            actions.append(action)
        forgotten = draws.randrange(len(states))
        states, actions = states[forgotten:], actions[forgotten:]
    moments: list[Moment] = []
    while len(actions) < max_turns:
        state = states[-1]
        best = next(iter(plan(state)), None)
        any_action = draws.random() < random_share
        action = draws.randrange(len(LABELS)) if any_action or best is None else best
        before, last = (states[-2], actions[-1]) if actions else (None, None)
        hint = "The game is over."  # as published also where the best action is the first
        if best is not None and (best or compat == "fixed"):
            hint = f"The best next action is: {ACTION_NAMES[best]}."
        moments.append(
            Moment(
                prompt(states, actions, with_prompt=with_prompt),
                LABELS[action],
                None if best is None else LABELS[best],
                partial(thought, before, last, state),
                hint,
            )
        )
        next_state, _, delivered = TABLE[state][action]
        states.append(next_state)
        actions.append(action)
        if delivered or (next_state == state and compat == "fixed"):
            break
    return moments


def taxi_request() -> Request:
    """How a model is asked: the rules are in its system prompt, so that records need not repeat them."""
    system = f"{packaged_text('taxi_teacher_system')}\n\n{packaged_text('taxi_rules')}"
    return Request(system, packaged_text("taxi_teacher_request"), ACTION_HEAD)


_SPOILER_LINE: Final = re.compile(r"^(?:Note that .*optimal|Spoiler:).*\n?", re.MULTILINE)


def taxi_texts(
    records: Iterable[Mapping[str, Any]],
    *,
    label: str = "taken",
    keep_rules: bool = False,
    compat: Compat = "fixed",
) -> Texts:
    """Training texts of records: `sft`, `sft_reflection`, `sft_policy`."""
    texts = Texts({f"{name}.jsonl": [] for name in ("sft", "sft_reflection", "sft_policy")})
    for record in records:
        state, reflection = str(record.get("state") or ""), str(record.get("reflection") or "")
        wanted = label_of(record, label)
        begins = re.search("--- (?:Initial|Current) State ---", state)
        if begins is None:
            texts.skipped["record without a state"] += 1
        elif compat == "published":
            text = _SPOILER_LINE.sub("", state[begins.start() :]).strip()
            before, after = split_prompt(text, ACTION_HEAD)
            reflected = f"{before}\n{ANALYSE_MARKER}{reflection}"
            ends = f"{ACTION_MARKER}{wanted}"
            texts.add(SftTexts(f"{text}{ends}", reflected, f"{reflected}{after}{ends}"))
        else:
            rules, instruction = (packaged_text(f"taxi_{name}") for name in ("rules", "instruction"))
            state = _SPOILER_LINE.sub("", state if keep_rules else state.removeprefix(f"{rules}\n"))
            texts.add(sft_texts(state, ACTION_HEAD, reflection, wanted, instruction=instruction))
    return texts
