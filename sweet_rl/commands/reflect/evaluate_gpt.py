"""The taxi and the household played by a model as it is: it thinks, then acts.

Published behaviour: docs/published/reflect_rl.md#evaluation.
"""

from __future__ import annotations

from sweet_rl.commands.recording import recorded
from sweet_rl.commands.reflect.teacher_flags import TeacherFlags, teacher_stage


@recorded("reflect evaluate_gpt", reads=("tasks",), prices=True)
@teacher_stage(model="gpt-3.5-turbo")
def evaluate_gpt(
    *,
    scenario: str = "taxi",
    extra: str = "pickup",
    random: bool = False,
    horizon: int = 15,
    shuffle_action: bool = False,
    react: bool = True,
    runs: int = 10,
    output: str = ".",
    tasks: str | None = None,
    flags: TeacherFlags,
    overwrite: bool = False,
    strict: bool = False,
    max_failed: float = 0.02,
    quiet: bool = False,
) -> None:
    """Let a model play the taxi or the household without training.

    A model is named by --teacher openai --base_url URL --model NAME. Without these flags none is measured:
    the embedded player is (with --random: chance), and the result says so.

    Run i has seed i. The episodes are added to result_episode.txt, a line of figures to result.txt. The same
    command goes on where it was stopped.

    Args:
        scenario: taxi or alfworld.
        extra: for taxi: pickup, dropoff, full or none.
        random: let chance play in place of a model: the floor.
        horizon: steps of an episode at most.
        shuffle_action: for alfworld: labels mean other commands at each step.
        react: ask for thoughts before each action.
        runs: episodes.
        output: folder of result.txt and result_episode.txt.
        tasks: games: taxi:full:test and the like, alfworld:test and the like; default the test games of the
            scenario.
        flags: who is asked.
        teacher: embedded (knows the way: the ceiling), or openai: a model behind an OpenAI-compatible server.
        concurrency: episodes in flight.
        overwrite: begin again.
        strict: as published: a reply is searched for anything that might be a label, a reply without one
            becomes a random action, and an episode counts that earned more than 0 (dropoff: 20).
        max_failed: share of the episodes that may fail for want of a service; with more, the exit is 1.
        quiet: no progress bar.
    """
    from pathlib import Path

    from sweet_rl.commands.reflect.gpt_runs import GptFlags, run
    from sweet_rl.errors import UsageError
    from sweet_rl.tasks.games.taxi import CURRICULA

    if scenario not in {"taxi", "alfworld"}:
        raise UsageError(f"--scenario must be taxi or alfworld, got {scenario!r}.")
    if extra not in CURRICULA:
        raise UsageError(f"--extra must be {', '.join(CURRICULA)}, got {extra!r}.")
    if runs < 1 or horizon < 1:
        raise UsageError(f"--runs and --horizon must be at least 1, got {runs} and {horizon}.")
    games = GptFlags(scenario, extra, random, horizon, shuffle_action, react, runs, tasks, strict, max_failed)
    run(games, flags, Path(output), overwrite=overwrite, quiet=quiet)
