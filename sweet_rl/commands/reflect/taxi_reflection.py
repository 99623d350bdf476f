"""DangerousTaxi's data: states of games by a mostly random driver, with what a teacher thinks of them.

Published behaviour: docs/published/reflect_rl.md#data-of-dangeroustaxi-and-alfworld.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect taxi_reflection", prices=True)
@teacher_stage()
def taxi_reflection(
    *,
    num_records: int = 2000,
    output: str | None = None,
    random_share: float = 0.9,
    reflections: bool = True,
    horizon: int = 20,
    with_prompt: bool = False,
    head_start: bool | None = None,
    split: str = "train",
    flags: TeacherFlags,
    seed: int = 0,
    overwrite: bool = False,
    strict: bool = False,
    quiet: bool = False,
) -> None:
    """Play games of the taxi and let a teacher reflect on every state.

    The published stage runs until it is stopped; this one ends with so many records. The same command goes on
    where it was stopped, and the records depend on the seed alone.

    Args:
        num_records: states to record.
        output: the file to write; default data/taxi/data_reflection.json (data_reflection_oracle.json where
            nothing is random, data.json without reflections).
        random_share: how often the driver takes any action, 0 to 1; else the best one.
        reflections: ask the teacher at all.
        horizon: steps of a game at most.
        with_prompt: put the rules into every recorded state, as the published stage does. A model gets the
            rules anyway.
        head_start: let the oracle drive a random part of the way first, unrecorded: the games of a random
            driver end too soon to show the rest of it. Default true, with --strict false.
        split: begin in start states of train, test, or any.
        flags: who is asked.
        seed: decides about the games and the wording.
        overwrite: begin again.
        strict: as published, an action without effect does not end a game here, and a model reads that the
            game is over where the best action is to move south.
        quiet: no progress bar.
    """
    from functools import partial
    from pathlib import Path

    from sweet_rl.commands.reflect.records import RecordFlags, check_games, record
    from sweet_rl.errors import UsageError
    from sweet_rl.tasks.games.taxi import start_states
    from sweet_rl.teaching.reflections import RecordPlan
    from sweet_rl.teaching.taxi_lessons import play_taxi, taxi_request

    check_games(num_records, random_share, horizon)
    if split not in {"train", "test", "any"}:
        raise UsageError(f"--split must be train, test or any, got {split!r}.")
    oracle = "_oracle" if random_share == 0 else ""
    name = f"data_reflection{oracle}.json" if reflections else "data.json"
    head_start = not strict if head_start is None else head_start
    settings = {
        "seed": seed,
        "random_share": random_share,
        "horizon": horizon,
        "with_prompt": with_prompt,
        "head_start": head_start,
        "split": split,
        "reflections": reflections,
        "strict": strict,
    }
    play = partial(
        play_taxi,
        starts=start_states("" if split == "any" else split),
        random_share=random_share,
        horizon=horizon,
        with_prompt=with_prompt,
        head_start=head_start,
        strict=strict,
    )
    plan = RecordPlan(play, taxi_request(), seed, reflections)
    target = Path(output or f"data/taxi/{name}")
    record(plan, flags, RecordFlags(target, num_records, settings, overwrite, quiet))
