"""Trajectories of AutoExplore to texts that models are trained on.

Published behaviour: docs/published/reflect_rl.md#data-of-autoexplore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sweet_rl.chat.reflect_format import SftTexts, sft_texts
from sweet_rl.errors import EpisodeError
from sweet_rl.sft_data.texts import Texts
from sweet_rl.types import Json
from sweet_rl.worlds.auto_explore import ACTION_HEAD
from sweet_rl.worlds.auto_explore.game import ExploreGame
from sweet_rl.worlds.auto_explore.teacher.lessons import task_of


def explore_texts(
    tasks: Iterable[Mapping[str, Json]],
    make_game: Callable[[int], ExploreGame],
    on_done: Callable[[], object] = lambda: None,
) -> Texts:
    """Replay every trajectory of every task, and write down each step; of a wrong way only the last step."""
    names = ("sft", "sft_reflection", "sft_policy", "sft_reflection_positive", "sft_policy_positive")
    texts = Texts({f"{name}.jsonl": [] for name in names})
    for task in tasks:
        trajectories = task.get("trajectories") or []
        if not trajectories:
            texts.skipped["task without trajectory"] += 1
        for trajectory in trajectories:
            steps = trajectory.get("trajectory") or []
            replayed = _replay(task, steps, make_game(len(steps) + 1))
            if isinstance(replayed, str):
                texts.skipped[replayed] += 1
                continue
            positive = not str(trajectory.get("info", "")).startswith("negative")
            for step in replayed if positive else replayed[-1:]:
                _add(texts, step, positive=positive)
        on_done()
    return texts


def _replay(
    task: Mapping[str, Json], steps: list[Mapping[str, Any]], game: ExploreGame
) -> list[SftTexts] | str:
    """The texts of all steps, or why there are none."""
    head = ACTION_HEAD
    replayed = []
    try:
        game.reset(task_of(task), seed=0)
        for step in steps:
            command = str(step["cmd"])
            label = next((label for label, offer in game.offered.items() if offer == command), None)
            if label is None:
                return "trajectory with a command that is not on offer"
            replayed.append(sft_texts(game.text, head, str(step.get("reflection") or ""), label))
            if game.step(label).over and len(replayed) < len(steps):
                return "trajectory that continues after its end"
    except EpisodeError as error:
        return f"task that cannot be played ({error.failure.kind})"
    finally:
        game.close()
    return replayed


def _add(texts: Texts, step: SftTexts, *, positive: bool) -> None:
    texts.add(step)
    if positive:
        texts.files["sft_reflection_positive.jsonl"].append(step.reflection)
        texts.files["sft_policy_positive.jsonl"].append(step.policy)
