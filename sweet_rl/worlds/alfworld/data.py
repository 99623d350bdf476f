"""ALFWorld's training data: states of games by a mostly random player with a teacher's thoughts, and texts of these.

Published behaviour: docs/published/reflect_rl.md#data-of-recorded-states, #deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sweet_rl.chat.reflect_format import sft_texts
from sweet_rl.cli.stage import recorded, stage
from sweet_rl.flags import flag, group
from sweet_rl.flags.shared import Compatible, Tasks
from sweet_rl.prompts import packaged_text
from sweet_rl.reflect_data.texts import (
    Label,
    Moment,
    RecordingFlags,
    Request,
    TeacherFlags,
    TextFlags,
    Texts,
    label_of,
    read_list,
    teacher_stage,
)
from sweet_rl.types import Compat, Task, derive_seed
from sweet_rl.worlds.alfworld import STAGES, WORLD, levels
from sweet_rl.worlds.alfworld.game import HouseholdGame
from sweet_rl.worlds.alfworld.players import look, thought
from sweet_rl.worlds.options import LevelRequest
from sweet_rl.worlds.text_games import ACTION_HEAD


@group("This stage")
class AlfworldReflectionFlags(Tasks, RecordingFlags):
    seek: bool = flag(
        False,
        "let player and embedded teacher search for objects they have not seen yet, place by place, as an "
        "agent must; otherwise they go straight to them (published).",
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
        "tasks": "games: alfworld:train and the like (embedded), or alfworld-data:train (in $ALFWORLD_DATA); "
        "default: the published family (tomatoes into microwaves) from $ALFWORLD_DATA if it is set, "
        "else embedded.",
        "random_share": "probability that the player takes a random action, 0 to 1; otherwise it takes the planner's next one.",
        "teacher": "embedded (a planner with template sentences; needs no model), or openai: a model behind any OpenAI-compatible server.",
    },
)
def alfworld_reflection(flags: AlfworldReflectionFlags, teacher_flags: TeacherFlags, /) -> None:
    """Play household games and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends after --num_records. The same command resumes an
    interrupted run, and the records depend only on the seed.
    """
    from sweet_rl.reflect_data.jobs import record
    from sweet_rl.worlds.alfworld.engine import Household

    (level,) = levels(WORLD.options(), LevelRequest(tasks=flags.tasks))
    request = Request(  # without a spoiler, as published
        packaged_text("alfworld_teacher_system"), packaged_text("alfworld_teacher_request"), ACTION_HEAD
    )
    with Household() as engine:
        play = partial(
            play_household,
            tasks=level.tasks,
            make_game=lambda: HouseholdGame(engine, max_turns=flags.max_turns),
            random_share=flags.random_share,
            seek=flags.seek,
        )
        own = {"tasks": flags.tasks} | ({"seek": True} if flags.seek else {})
        record(play, request, teacher_flags, flags, Path(flags.output), own)


@group("This stage")
class AlfworldGenSftFlags(TextFlags, Label, Compatible):
    containing: str = flag(
        "pick_and_place_simple-Tomato-None-Microwave",
        'use only records whose problem contains this; "" for all.',
    )


@recorded("reflect alfworld_gen_sft", reads=("task_file",))
@stage(
    "task_file",
    defaults={"output": "", "task_file": "data/alfworld/data_reflection.json"},
    helps={
        "output": "folder for the texts; default the folder of --task_file.",
        "task_file": "records of reflect alfworld_reflection.",
        "label": "action that the policy learns: taken (by the mostly random player, as published), or best (the planner's).",
        "compat": "fixed, or published: the second file is sft_reflectioner.jsonl.",
    },
)
def alfworld_gen_sft(flags: AlfworldGenSftFlags, /) -> None:
    """Write sft.jsonl, sft_reflection.jsonl and sft_policy.jsonl from records."""
    records = read_list(Path(flags.task_file), STAGES)
    texts = household_texts(records, containing=flags.containing, label=flags.label, compat=flags.compat)
    texts.save(flags)


def play_household(
    seed: int,
    tasks: Sequence[Task],
    make_game: Callable[[], HouseholdGame],
    *,
    random_share: float = 0.7,
    seek: bool = False,
) -> list[Moment]:
    """One game to its end. The planner is asked at every step, but for those of a seeker who does as planned."""
    draws = Random(seed)
    task = draws.choice(list(tasks))
    game = make_game()
    game.reset(task, seed=derive_seed(seed, "labels"))
    moments: list[Moment] = []
    left: int | None = None
    rest: Sequence[str] | None = None
    over = False
    try:
        while not over:
            plan = game.expert_plan() if rest is None else rest
            looks = look(plan, game.text) if seek else None
            best = game.expert_label(plan) if looks is None else looks.label
            any_action = draws.random() < random_share
            action = draws.choice(list(game.labels)) if any_action or best is None else best
            helped = None if left is None else len(plan) < left
            known = partial(thought, game.text, game.commands, plan, helped, looks=looks)
            moments.append(Moment(game.text, action, best, known, "", {"problem": task.ground_truth}))
            left = len(plan)
            rest = None
            if seek and action == best:
                rest = (plan[1:] if looks is None else looks.rest) or None
            over = game.step(action).over
    finally:
        game.close()
    return moments


def household_texts(
    records: Iterable[Mapping[str, Any]], *, containing: str, label: str = "taken", compat: Compat = "fixed"
) -> Texts:
    """Training texts of records; those of other problems and those without a reflection are passed over."""
    reflection_file = "sft_reflectioner.jsonl" if compat == "published" else "sft_reflection.jsonl"
    texts = Texts({name: [] for name in ("sft.jsonl", reflection_file, "sft_policy.jsonl")})
    for record in records:
        reflection = str(record.get("reflection") or "")
        state = str(record.get("state") or "")
        if containing not in str(record.get("problem", containing)):
            texts.skipped["record of another problem"] += 1
        elif not reflection.strip():
            texts.skipped["record without a reflection"] += 1
        elif label == "best" and record.get("best_action", "") is None:
            texts.skipped["record without a best action"] += 1
        else:
            state = state.strip() if compat == "published" else state
            made = sft_texts(state, ACTION_HEAD, reflection, label_of(record, label))
            texts.add(made, reflection_file=reflection_file)
    return texts
