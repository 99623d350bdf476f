"""The work of `evaluate_games` after its flags are checked: returns to a table and to pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from sweet_rl.cli.progress import write_report
from sweet_rl.commands.evaluation import GradedFile, usable_in_pairs, write_pairs
from sweet_rl.errors import UsageError
from sweet_rl.evaluation.episodes import read_episodes
from sweet_rl.evaluation.report import measures_of
from sweet_rl.grading.report import failed_words, repeats_words
from sweet_rl.preferences.step_pairs import dialogue_hard_negatives
from sweet_rl.preferences.trajectory_pairs import margin_pairs, pair_rows
from sweet_rl.statistics import Estimate, mean_over_tasks, share_over_tasks
from sweet_rl.types import AgentTurn, StopReason, Trajectory

if TYPE_CHECKING:
    from sweet_rl.commands.evaluate_games import GameFlags


def run(flags: GameFlags) -> None:
    """Print the table, write the report and the pairs."""
    saved_path, margin = flags.saved_path, flags.margin
    file = GradedFile(saved_path, flags.k)
    k = file.k
    rewards = [None if one.failed else one.reward for one in file.trajectories]
    if all(reward is None for reward in rewards):
        raise UsageError(
            f"{saved_path!r} holds no rewards: its world does not reward turns, or every episode failed. "
            "Functions are graded by sweet-rl evaluate_code, pages by sweet-rl evaluate_html."
        )
    rewarded = _by_task(file, lambda trajectory: trajectory.reward)
    reward = next(one for one in measures_of([read_episodes(saved_path)]) if one.field == "reward")
    numbers = {
        "return": mean_over_tasks(rewarded, low=reward.low, high=reward.high),
        "return, best of k": mean_over_tasks(
            [[max(task)] for task in rewarded], low=reward.low, high=reward.high
        ),
        "ended by the world": share_over_tasks(_by_task(file, _ended)),
        "turns": mean_over_tasks(_by_task(file, _turns)),
    }
    if any(_won(trajectory) is not None for trajectory in file.trajectories):
        numbers["won"] = share_over_tasks(_by_task(file, _won))
    failed = sum(one.failed or (one.reward is None and one.error is not None) for one in file.trajectories)
    ungraded = rewards.count(None) - failed
    size = f"{len(rewards)} episodes, {len(file.groups)} tasks{repeats_words(k)}"
    print(f"{saved_path}: {size}{failed_words(failed)}\n")
    for name, interval in numbers.items():
        if (k is not None and k > 1) or name != "return, best of k":
            print(f"{name:<22}{_shown(interval)}")
    for count, what in ((failed, "episodes failed"), (ungraded, "episodes have no reward")):
        if count:
            print(f"{count:>6}  {what} and are left out")
    report = {
        "trajectories": len(rewards),
        "tasks": len(file.groups),
        "k": k,
        "failed": file.failed,
        "ungraded": ungraded,
    }
    write_report(
        saved_path, flags.report_path, report | {name: asdict(found) for name, found in numbers.items()}
    )
    usable = usable_in_pairs(file.trajectories)
    pairs = margin_pairs(rewards, file.groups, margin, usable)
    write_pairs(
        flags.pair_paths,
        pairs,
        lambda hidden: pair_rows(file.trajectories, pairs, with_ground_truth=hidden),
        why_none=f"no two episodes of a task differ by {margin:g}",
        skipped=usable.count(False) - file.failed,
        guards=dialogue_hard_negatives(file.trajectories, pairs, flags.hard_negatives),
    )


def _ended(trajectory: Trajectory) -> float | None:
    return None if trajectory.reward is None else float(trajectory.stop_reason is StopReason.ENDED)


def _won(trajectory: Trajectory) -> float | None:
    """Whether the goal was reached, where the world reports it."""
    game = trajectory.extra.get("game")
    won = game.get("won") if isinstance(game, Mapping) else None
    return None if trajectory.reward is None or not isinstance(won, bool) else float(won)


def _turns(trajectory: Trajectory) -> float | None:
    turns = sum(isinstance(entry, AgentTurn) for entry in trajectory.dialogue_history)
    return None if trajectory.reward is None else float(turns)


def _by_task(file: GradedFile, number: Callable[[Trajectory], float | None]) -> list[list[float]]:
    """The values of each task's repeats that have one; tasks without any are left out."""
    tasks = [
        [value for row in group if (value := number(file.trajectories[row])) is not None]
        for group in file.groups
    ]
    return [task for task in tasks if task]


def _shown(found: Estimate) -> str:
    return f"{found.mean:8.2f}" + ("" if found.low is None else f" [{found.low:.2f}, {found.high:.2f}]")
