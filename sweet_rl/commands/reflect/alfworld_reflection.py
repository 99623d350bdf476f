"""ALFWorld's data: states of games by a mostly random player, with what a teacher thinks of them."""

from __future__ import annotations


def alfworld_reflection(
    *,
    num_records: int = 1000,
    output: str = "data/alfworld/data_reflection.json",
    tasks: str | None = None,
    random_share: float = 0.7,
    reflections: bool = True,
    horizon: int = 15,
    teacher: str = "embedded",
    base_url: str | None = None,
    model: str = "gpt-4",
    api_key_var: str = "OPENAI_API_KEY",
    request_timeout_s: float = 120.0,
    request_attempts: int = 4,
    concurrency: int = 16,
    seed: int = 5,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Play household games and let a teacher reflect on every state (Reflect-RL spec §2.3).

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
        teacher: embedded (knows the plan and has sentences of its own; needs no model), or openai: a model
            behind any OpenAI-compatible server.
        base_url: for openai: the server, like https://host/v1; several, separated by commas, share the load.
        model: for openai: the server's name for the model.
        api_key_var: for openai: environment variable that holds the key.
        request_timeout_s: for openai: seconds that one request may take.
        request_attempts: for openai: how often a request is tried when it fails in a way that can pass.
        concurrency: for openai: requests in flight.
        seed: decides about the games and the wording.
        overwrite: begin again.
        quiet: no progress bar.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.commands.reflect.records import RecordFlags, check_games, record
    from sweet_rl.commands.reflect.teachers import TeacherFlags
    from sweet_rl.envs.alfworld import Household, HouseholdGame
    from sweet_rl.records import task_from_row
    from sweet_rl.tasks import load_tasks
    from sweet_rl.tasks.household import published_household_tasks
    from sweet_rl.teaching.household_lessons import household_request, play_household
    from sweet_rl.teaching.reflections import RecordPlan

    flags = TeacherFlags(
        teacher, base_url, model, api_key_var, request_timeout_s, request_attempts, concurrency
    )
    flags.check()
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
