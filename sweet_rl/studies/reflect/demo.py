"""Reflect-RL from nothing: a teacher, tiny models, two worlds, what reflections are good for, a page."""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("demo_reflect")
def demo_reflect(
    output_dir: str = "outputs/demo_reflect",
    *,
    seeds: int = 3,
    sft_updates: int | None = None,
    iterations: int | None = None,
    records: int | None = None,
    repositories: int | None = None,
    test_games: int | None = None,
    worlds: str = "taxi,auto_explore",
    jobs: int = 2,
    overwrite: bool = False,
) -> None:
    """Run Reflect-RL and what it is compared with from nothing: DangerousTaxi and AutoExplore, tiny models.

    Needs no GPU, no download and no key; takes minutes on two cores. A teacher that knows the way reflects on
    games. For every seed tiny Llamas learn from that and online: fine-tuning only, online learning only, both
    with reflections, without wrong ways in the texts, without a curriculum. Each command is printed as a
    person would type it. It ends with a table and a page: success against episodes, and which published
    orderings hold at this size. An interrupted demo goes on where it was.

    Args:
        output_dir: folder for everything that is made.
        seeds: models to begin with, and runs of every method.
        sft_updates: of every fine-tuning; default that of the study, as for the four numbers that follow.
        iterations: of every online run.
        records: states of the taxi that the teacher reflects on.
        repositories: to explore.
        test_games: of each of the taxi's levels, to measure every policy on.
        worlds: taxi, auto_explore, or both with a comma between.
        jobs: runs at once, each with one thread.
        overwrite: throw away what an earlier demo left in the folder.
    """
    import shutil
    import time
    from pathlib import Path

    from sweet_rl.studies.outcome import check_packages, finish
    from sweet_rl.studies.reflect.recipe import WORLDS, ReflectStudy, rounds
    from sweet_rl.studies.reflect.results import results
    from sweet_rl.studies.runner import run_rounds, seconds_of

    numbers = {
        "sft_updates": sft_updates,
        "iterations": iterations,
        "records": records,
        "repositories": repositories,
        "test_games": test_games,
    }
    given = {name: number for name, number in numbers.items() if number is not None}
    for name, number in {"seeds": seeds, "jobs": jobs, **given}.items():
        if number < 1:
            raise UsageError(f"--{name} must be at least 1, got {number}.")
    chosen = tuple(dict.fromkeys(worlds.replace(",", " ").split()))
    if not chosen or not set(chosen) <= set(WORLDS):
        raise UsageError(f"--worlds must be of {', '.join(WORLDS)}, got {worlds!r}.")
    check_packages()
    started = time.perf_counter()
    folder = Path(output_dir)
    if overwrite and folder.exists():
        shutil.rmtree(folder)
    study = ReflectStudy(folder, seeds, worlds=chosen, **given)
    tracking.writes(folder, folder=True, continues=True)
    run_rounds(rounds(study), folder, jobs=jobs)
    finish(folder, results(study, seconds_of(folder)))
    print(f"Done in {time.perf_counter() - started:.0f} s. Open {folder / 'report.html'} in a browser.")
