"""Before a chain of stages: what it needs, looked at in seconds."""

from __future__ import annotations


def preflight(
    *,
    model: str,
    output_path: str,
    test_tasks: str,
    num_test_tasks: int = 1000,
    num_test_repeats: int = 1,
    offline: str = "",
    train_tasks: str = "",
    num_train_tasks: int = 1000,
    k: int = 3,
    data_fraction: float = 0.1,
    evaluate: str = "evaluate_code",
    method: str = "sweet",
    launcher: str = "python",
    simulate_flags: str = "",
    evaluate_flags: str = "",
    critic_flags: str = "",
    policy_flags: str = "",
    model_is_made: bool = False,
    dialogues_are_there: bool = False,
) -> None:
    """Look at what SWEET-RL's chain needs, before it begins: data, model, disk, GPUs, packages, servers.

    Takes seconds and changes nothing. A line for each thing: OK, WARN or WRONG, the last two with a repair.
    Ends with status 1 if something is wrong. `scripts/sweet_backend.sh` does it by itself; its flags here are
    the variables of a configuration. Memory and room on the disk are estimates.

    Args:
        model: to begin from: a folder or a hub name.
        output_path: the folder for all files.
        test_tasks: tasks to measure on.
        num_test_tasks: how many of them.
        num_test_repeats: of each.
        offline: trajectories to learn from; empty: they are simulated on train_tasks.
        train_tasks: tasks to simulate on.
        num_train_tasks: how many of them.
        k: repeats of each task in the dialogues to learn from.
        data_fraction: share of the dialogues that candidates are sampled for.
        evaluate: the stage that grades: evaluate_code, evaluate_html or evaluate_games.
        method: sweet, or rft: rejection fine-tuning.
        launcher: the words that begin a training.
        simulate_flags: of simulate_interactions, as a shell has them.
        evaluate_flags: of that stage.
        critic_flags: of the critic's training.
        policy_flags: of the policy's training.
        model_is_made: the chain makes the model itself, so that it need not be there.
        dialogues_are_there: the dialogues to learn from have been made already.
    """
    from pathlib import Path

    from sweet_rl.commands.preflight_checks import Chain, look
    from sweet_rl.errors import UsageError

    chain = Chain(
        model=model,
        output=Path(output_path),
        test_tasks=test_tasks,
        num_test=(num_test_tasks, num_test_repeats),
        offline=offline,
        train_tasks=train_tasks,
        num_train=(num_train_tasks, k),
        data_fraction=data_fraction,
        evaluate=evaluate,
        method=method,
        launcher=launcher,
        flags={
            "simulate": simulate_flags,
            "evaluate": evaluate_flags,
            "critic": critic_flags,
            "policy": policy_flags,
        },
        model_is_made=model_is_made,
        dialogues_are_there=dialogues_are_there,
    )
    wrong = 0
    for finding in look(chain):
        print(finding, flush=True)
        wrong += finding.level == "wrong"
    if wrong:
        raise UsageError(
            f"{wrong} of the things that the run needs {'is' if wrong == 1 else 'are'} wrong (see above); "
            "nothing was begun. PREFLIGHT=no in front of scripts/sweet_backend.sh begins all the same."
        )
