"""Online learning from nothing: a teacher, tiny policies, ArCHer and its rivals, a page."""

from __future__ import annotations

from sweet_rl import tracking
from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("demo_archer")
def demo_archer(
    output_dir: str = "outputs/demo_archer",
    *,
    seeds: int = 3,
    iterations: int | None = None,
    teacher_games: int = 40,
    skill: float = 0.3,
    test_games: int = 20,
    jobs: int = 2,
    overwrite: bool = False,
) -> None:
    """Run ArCHer, Online CHAI and Online Filtered BC from nothing: Twenty Questions, ten words, tiny models.

    Needs no GPU, no download and no key; takes a few minutes on two cores. A scripted asker of middling skill
    plays against the embedded oracle; for every seed a tiny GPT-2 learns to imitate it, and each method goes
    on from there by its own games. Each command is printed as a person would type it. It ends with a table
    and a page: return against environment steps, and what is more than chance over seeds. An interrupted demo
    goes on where it was.

    Args:
        output_dir: folder for everything that is made.
        seeds: policies to begin with, and runs of every method.
        iterations: of every run; default that of configs/archer/demo_20q.yaml.
        teacher_games: of the scripted asker, for each word, to imitate.
        skill: of that asker: how often it asks one of the best questions, 0 to 1.
        test_games: for each word, to measure every policy on.
        jobs: runs at once, each with one thread.
        overwrite: throw away what an earlier demo left in the folder.
    """
    import shutil
    import time
    from pathlib import Path

    from sweet_rl.studies.archer.recipe import OnlineStudy, rounds
    from sweet_rl.studies.archer.results import results
    from sweet_rl.studies.outcome import check_packages, finish
    from sweet_rl.studies.runner import run_rounds, seconds_of

    if min(seeds, teacher_games, test_games, jobs) < 1 or (iterations is not None and iterations < 1):
        raise UsageError(
            "--seeds, --iterations, --teacher_games, --test_games and --jobs must be at least 1."
        )
    if not 0 <= skill <= 1:
        raise UsageError(f"--skill must be from 0 to 1, got {skill}.")
    check_packages()
    started = time.perf_counter()
    folder = Path(output_dir)
    if overwrite and folder.exists():
        shutil.rmtree(folder)
    study = OnlineStudy(folder, seeds, iterations, skill, teacher_games, test_games)
    tracking.writes(folder, folder=True, continues=True)
    run_rounds(rounds(study), folder, jobs=jobs)
    finish(folder, results(study, seconds_of(folder)))
    print(
        f"Done in {time.perf_counter() - started:.0f} s. Open {folder / 'report.html'} in a browser, or\n"
        f"read games with: sweet-rl visualize_dialogue_histories {folder / 'archer-0.greedy.jsonl'}"
    )
