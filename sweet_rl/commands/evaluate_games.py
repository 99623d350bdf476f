"""Stage 2 for worlds that reward turns: nothing to grade, but a table and preference pairs."""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.errors import UsageError


@recorded("evaluate_games", reads=("saved_path",))
def evaluate_games(
    saved_path: str,
    *,
    k: int = 1,
    margin: float = 1.0,
    preference_path: str | None = None,
    ground_truth_preference_path: str | None = None,
    report_path: str | None = None,
    overwrite: bool = False,
) -> None:
    """Report trajectories of worlds that reward turns; write preference pairs.

    Question games, adventures and the shop give rewards as they are played, so there is nothing to grade. The
    table shows the return, the share of episodes that the world itself brought to an end (a solved game, a
    purchase), the turns, and where worlds report it the share that was won, with 95 % confidence intervals over tasks. Of any two episodes of a task whose
    returns differ by the margin, the better one is preferred; the pairs train critics and policies as those
    of evaluate_code.py do.

    Args:
        saved_path: trajectory file of simulate_interactions.py with a game as its --task_type.
        k: repeats of each task in the file (--best_of_n of the simulation).
        margin: by how much the returns of a pair differ at least.
        preference_path: write pairs for multi-turn DPO there.
        ground_truth_preference_path: write the same pairs there, each preceded by the hidden answer: the critic's data.
        report_path: JSON file for the numbers; default saved_path with .report.json in place of .jsonl.
        overwrite: replace files of pairs, and a report of another file, when they exist.
    """
    if k < 1:
        raise UsageError(f"--k must be at least 1, got {k}.")
    if margin <= 0:
        raise UsageError(f"--margin must be above 0, got {margin}.")

    from sweet_rl.commands import game_evaluation
    from sweet_rl.commands.evaluation import check_outputs

    pair_paths = {False: preference_path, True: ground_truth_preference_path}
    check_outputs(saved_path, pair_paths, report_path, overwrite=overwrite)
    game_evaluation.run(
        saved_path,
        k=k,
        margin=margin,
        pair_paths=pair_paths,
        report_path=report_path,
    )
