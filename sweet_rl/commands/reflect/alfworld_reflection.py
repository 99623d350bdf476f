"""ALFWorld's data: states of games by a mostly random player, with what a teacher thinks of them.

Published behaviour: docs/published/reflect_rl.md#data-of-dangeroustaxi-and-alfworld.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect alfworld_reflection", reads=("tasks",), prices=True)
@teacher_stage()
def alfworld_reflection(
    *,
    num_records: int = 1000,
    output: str = "data/alfworld/data_reflection.json",
    tasks: str | None = None,
    random_share: float = 0.7,
    reflections: bool = True,
    horizon: int = 15,
    flags: TeacherFlags,
    seed: int = 5,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Play household games and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends with so many records. The same command goes on
    where it was stopped, and the records depend on the seed alone.

    Args:
        num_records: states to record.
        output: the file to write.
        tasks: games: alfworld:train and the like (embedded), or alfworld-data:train (of $ALFWORLD_DATA);
            default the published family, tomatoes into microwaves, of the one or else of the other.
        random_share: how often the player takes any action, 0 to 1; else the planner's next.
        reflections: ask the teacher at all.
        horizon: steps of a game at most.
        flags: who is asked.
        teacher: embedded (knows the plan and has sentences of its own; needs no model), or openai: a model
            behind any OpenAI-compatible server.
        seed: decides about the games and the wording.
        overwrite: begin again.
        quiet: no progress bar.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.commands.reflect.records import RecordFlags, check_games, record
    from sweet_rl.envs.alfworld import Household, HouseholdGame
    from sweet_rl.records import task_from_row
    from sweet_rl.tasks.household import published_household_tasks
    from sweet_rl.teaching.household_lessons import household_request, play_household
    from sweet_rl.teaching.reflections import RecordPlan
    from sweet_rl.worlds import load_tasks

    check_games(num_records, random_share, horizon)
    games = (
        load_tasks(tasks, limit=10**6, seed=0)
        if tasks
        else [task_from_row(row) for row in published_household_tasks("train")]
    )
    settings = {
        "seed": seed,
        "random_share": random_share,
        "horizon": horizon,
        "tasks": tasks,
        "reflections": reflections,
    }
    engine = Household()
    try:
        play = partial(
            play_household,
            tasks=games,
            make_game=lambda: HouseholdGame(engine, horizon=horizon),
            random_share=random_share,
        )
        plan = RecordPlan(play, household_request(), seed, reflections)
        record(plan, flags, RecordFlags(Path(output), num_records, settings, overwrite, quiet))
    finally:
        engine.close()
