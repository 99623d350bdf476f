"""Stage 2 of the pipeline: answers to grades, grades to a table and to preference pairs.

Published behaviour: docs/published/sweet_rl.md#grading-code.
"""

from __future__ import annotations

from sweet_rl.command_line.recording import recorded
from sweet_rl.commands.belonging import belonging
from sweet_rl.errors import UsageError


@recorded("evaluate_code", reads=("saved_path",))
@belonging(lambda flags: {"fan_out": {flags["fan_out"]}})
def evaluate_code(
    saved_path: str,
    *,
    k: int = 1,
    preference_path: str | None = None,
    ground_truth_preference_path: str | None = None,
    grading: str = "fixed",
    reevaluate: bool = False,
    report_path: str | None = None,
    timeout_s: float = 1.0,
    memory_mb: int = 512,
    workers: int | None = None,
    unsafe_no_sandbox: bool = False,
    fan_out: str = "local",
    ray_address: str = "auto",
    ray_workers: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> None:
    """Grade Backend trajectories by their hidden tests; print the table; write preference pairs.

    Every answer runs in a sandbox: a process of its own without network, files or environment. Rows that have
    a reward are not graded again. Each graded row gets `reward` (the share of tests passed; null where the task
    cannot be graded), `grades` (all ways of grading) and `test_results`; the file is replaced at once or not at all.

    The table shows tests passed and success (all tests) with 95 % confidence intervals, in each way of
    grading, beside what the best constant answer would score. Lenient is fixed for whatever a person would
    take for the code; the difference is format. The same goes into a JSON report.

    Args:
        saved_path: trajectory file of simulate_interactions.py, or a published one.
        k: repeats of each task in the file (--best_of_n of the simulation).
        preference_path: write pairs for multi-turn DPO there: best against worse dialogues of a task.
        ground_truth_preference_path: write the same pairs there, each preceded by the hidden solution: the critic's data.
        grading: which grade becomes the reward: fixed (an answer sees its own helpers, imports and recursion) or published (compares with the paper's numbers).
        reevaluate: grade all rows again, also those that have a reward.
        report_path: JSON file for the numbers; default saved_path with .report.json in place of .jsonl.
        timeout_s: seconds of computing that one test may take.
        memory_mb: memory that one answer may take.
        workers: processes that grade, in each sandbox; default one for each core.
        unsafe_no_sandbox: run the answers without protection where the kernel offers too little of it.
        fan_out: local (this machine), or ray: a sandbox on each machine of a Ray cluster.
        ray_address: auto (the cluster that runs on this machine or that RAY_ADDRESS names), local (one of our own, for this run), or HOST:PORT of its head.
        ray_workers: sandboxes; default one on each machine.
        quiet: no progress bar.
        overwrite: replace files of pairs, and a report of another file, when they exist.
    """
    if grading not in {"fixed", "published"}:
        raise UsageError(f"--grading must be fixed or published, got {grading!r}.")
    if k < 1:
        raise UsageError(f"--k must be at least 1, got {k}.")
    if timeout_s <= 0 or memory_mb < 1 or (workers is not None and workers < 1):
        raise UsageError("--timeout_s, --memory_mb and --workers must be positive.")

    from sweet_rl.commands.evaluation import check_outputs

    pair_paths = {False: preference_path, True: ground_truth_preference_path}
    check_outputs(saved_path, pair_paths, report_path, overwrite=overwrite)
    from sweet_rl.commands import code_evaluation
    from sweet_rl.commands.fan_out import SandboxFlags, cluster_of, grader_of

    cluster = cluster_of(fan_out, ray_address, ray_workers)
    with grader_of(cluster, SandboxFlags(workers, timeout_s, memory_mb, unsafe_no_sandbox)) as grader:
        code_evaluation.run(
            saved_path,
            grader,
            k=k,
            grading=grading,
            reevaluate=reevaluate,
            pair_paths=pair_paths,
            report_path=report_path,
            quiet=quiet,
        )
